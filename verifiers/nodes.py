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
