"""What a parsed answer is made of.

Nodes are plain tuples, the tag first:

- scalars: ``("num", Fraction)``, ``("sym", name)``, ``("add", …)``, ``("mul", …)``,
  ``("pow", base, exponent)``, ``("call", name, …)``, ``("sum"|"prod", variable, low, high, body)``
- structures: ``("tuple", opening, closing, items)``, ``("set", items)``, ``("list", items)``,
  ``("rel", operators, terms)``, ``("union"|"cap"|"minus", left, right)``,
  ``("matrix", rows)``, ``("ratio", items)``, ``("all", parts)`` for inequalities joined by "and"
"""

from fractions import Fraction
from typing import Any, TypeAlias

Node: TypeAlias = tuple[Any, ...]

SCALARS = frozenset({"num", "sym", "add", "mul", "pow", "call", "sum", "prod"})
MINUS_ONE: Node = ("num", Fraction(-1))
ONE: Node = ("num", Fraction(1))


def is_scalar(node: Node) -> bool:
    """True for expressions, false for structures."""
    return node[0] in SCALARS


def negate(node: Node) -> Node:
    """-node, literal numbers negated in place."""
    return ("num", -node[1]) if node[0] == "num" else ("mul", MINUS_ONE, node)


def divide(top: Node, bottom: Node) -> Node:
    """Top / bottom."""
    return ("mul", top, ("pow", bottom, MINUS_ONE))


def proper(node: Node) -> Fraction | None:
    """Value of a literal proper fraction n/d, else None."""
    if node[0] != "mul" or len(node) != 3 or node[1][0] != "num" or node[2][0] != "pow":
        return None
    top, bottom = node[1][1], node[2][1]
    if bottom[0] != "num" or node[2][2] != MINUS_ONE or not 0 < top < bottom[1]:
        return None
    if not top.denominator == bottom[1].denominator == 1:
        return None
    value: Fraction = top / bottom[1]
    return value


def canonical(node: Node) -> str:
    """A text that two nodes share when they differ only in the order of sums and products."""
    tag = node[0]
    if tag == "num":
        return _shown(node[1])
    if tag == "sym":
        return str(node[1])
    if tag in ("add", "mul"):
        parts = sorted(canonical(part) for part in _flat(node, tag))
        return f"{tag}({','.join(parts)})"
    if tag in ("sum", "prod"):
        return f"{tag}({node[1]};{canonical(node[2])};{canonical(node[3])};{canonical(node[4])})"
    if tag == "rel":
        return f"rel({' '.join(node[1])};{','.join(map(canonical, node[2]))})"
    if tag == "tuple":
        return f"tuple{node[1]}{','.join(map(canonical, node[3]))}{node[2]}"
    if tag in ("set", "list"):
        return f"{tag}({','.join(sorted(map(canonical, node[1])))})"
    if tag in ("ratio", "all"):
        return f"{tag}({','.join(map(canonical, node[1]))})"
    if tag == "matrix":
        return f"matrix({';'.join(','.join(map(canonical, row)) for row in node[1])})"
    rest = (part if isinstance(part, str) else canonical(part) for part in node[1:])
    return f"{tag}({','.join(rest)})"


def _shown(value: Fraction) -> str:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > 13_000:
        return f"#{hash(value)}"
    return str(value)


def _flat(node: Node, tag: str) -> list[Node]:
    parts: list[Node] = []
    for part in node[1:]:
        parts += _flat(part, tag) if part[0] == tag else [part]
    return parts


def symbols(node: Node) -> frozenset[str]:
    """Free symbols of a node; named constants are none."""
    if node[0] == "sym":
        return frozenset() if node[1] in _CONSTANTS else frozenset({node[1]})
    found: frozenset[str] = frozenset()
    for part in node[1:]:
        if isinstance(part, tuple):
            found |= symbols(part) if part and isinstance(part[0], str) else _inside(part)
    return found - {node[1]} if node[0] in ("sum", "prod") else found


def _inside(parts: tuple[Any, ...]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for part in parts:
        if isinstance(part, tuple):
            found |= symbols(part) if part and isinstance(part[0], str) else _inside(part)
    return found


_CONSTANTS = frozenset({"pi", "const_e", "const_i", "inf", "degree"})
