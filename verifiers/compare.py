"""Decide whether two parsed answers mean the same: expressions, relations, sets and lists."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from curate.verifiers.evaluate import exact
from curate.verifiers.nodes import Node, canonical, is_scalar, symbols
from curate.verifiers.realsets import equal_sets
from curate.verifiers.relations import is_label, same_relations
from curate.verifiers.scalars import context, scalar_equal

Equal: TypeAlias = Callable[[Node, Node], bool]

#: Longer lists are equal only when written alike.
MAX_ITEMS = 60


def same(gold: Node, given: Node, *, strict: bool = False) -> bool:
    """True when ``given`` is the answer ``gold``.

    Args:
        gold: parsed reference.
        given: parsed answer.
        strict: a rounded decimal is not an exact value.
    """
    gold, given = _shaped(gold), _shaped(given)
    if gold == given or canonical(gold) == canonical(given):
        return True
    if is_scalar(gold) and is_scalar(given):
        return scalar_equal(gold, given, strict=strict) or equal_sets(gold, given, context())

    def equal(one: Node, other: Node) -> bool:
        return same(one, other, strict=strict)

    if "rel" in (gold[0], given[0]):
        return same_relations(gold, given, equal)
    if equal_sets(gold, given, context()):
        return True
    return _same_structures(gold, given, equal)


def _shaped(node: Node) -> Node:
    """Rewrite ±, ``x ∈ S`` and one-element lists to what they stand for."""
    if is_scalar(node):
        return ("list", _both_signs(node)) if _has_sign(node) else node
    if node[0] == "list" and any(is_scalar(item) and _has_sign(item) for item in node[1]):
        items = (_both_signs(item) if is_scalar(item) else (item,) for item in node[1])
        return ("list", tuple(one for pair in items for one in pair))
    if node[0] == "rel":
        if node[1] == ("in",):
            return _shaped(node[2][1])
        last = node[2][-1]
        if node[1] == ("=",) and is_scalar(last) and _has_sign(last):
            return ("list", _both_signs(last))
        if "~" in node[1]:
            return ("rel", tuple("=" if one == "~" else one for one in node[1]), node[2])
    return node


def _has_sign(node: Node) -> bool:
    return bool(symbols(node) & {"pm", "mp"})


def _both_signs(node: Node) -> tuple[Node, ...]:
    if not _has_sign(node):
        return (node,)
    plus = {"pm": Fraction(1), "mp": Fraction(-1)}
    return tuple(
        _replace(node, {name: sign * value for name, value in plus.items()}) for sign in (1, -1)
    )


def _replace(node: Node, values: dict[str, Fraction]) -> Node:
    if node[0] == "sym":
        return ("num", values[node[1]]) if node[1] in values else node
    return tuple(
        _replace(part, values) if isinstance(part, tuple) and part and isinstance(part[0], str)
        else part
        for part in node
    )  # fmt: skip


# --- sets and lists -------------------------------------------------------------------------


def _same_structures(gold: Node, given: Node, equal: Equal) -> bool:
    kinds = (gold[0], given[0])
    if kinds == ("tuple", "tuple"):
        return _same_brackets(gold, given) and _ordered(gold[3], given[3], equal)
    if kinds == ("matrix", "matrix"):
        return len(gold[1]) == len(given[1]) and all(
            _ordered(one, other, equal) for one, other in zip(gold[1], given[1], strict=True)
        )
    if "matrix" in kinds and "tuple" in kinds:
        matrix, table = (gold, given) if kinds[0] == "matrix" else (given, gold)
        rows = tuple(("tuple", "[", "]", row) for row in matrix[1])
        return _ordered(rows, table[3], equal)
    if kinds == ("ratio", "ratio"):
        return _same_ratio(gold[1], given[1], equal)
    if kinds == ("union", "union") or kinds == ("cap", "cap"):
        return _matched(_parts(gold), _parts(given), equal)
    if "ratio" in kinds:
        ratio, other = (gold, given) if kinds[0] == "ratio" else (given, gold)
        if len(ratio[1]) != 2 or not is_scalar(other) or not all(map(is_scalar, ratio[1])):
            return False
        return equal(("mul", ratio[1][0], ("pow", ratio[1][1], ("num", Fraction(-1)))), other)
    return _same_lists(gold, given, equal)


def _same_brackets(gold: Node, given: Node) -> bool:
    """Brackets tell open from closed ends of a pair; of a longer tuple they tell nothing."""
    square = [(node[1] == "[", node[2] == "]") for node in (gold, given)]
    return square[0] == square[1] or len(gold[3]) != 2


def _parts(node: Node) -> tuple[Node, ...]:
    if node[0] in ("union", "cap"):
        return tuple(one for part in node[1:] for one in _parts(part))
    return (node,)


def _same_ratio(gold: tuple[Node, ...], given: tuple[Node, ...], equal: Equal) -> bool:
    if len(gold) != len(given):
        return False
    if all(map(equal, gold, given)):
        return True
    values = [[exact(item) for item in items] for items in (gold, given)]
    if any(value is None or value == 0 for items in values for value in items):
        return False
    factors = {b / a for a, b in zip(*values, strict=True)}
    return len(factors) == 1


def _items(node: Node) -> tuple[Node, ...] | None:
    if node[0] in ("list", "set"):
        items: tuple[Node, ...] = node[1]
        return items
    if node[0] == "tuple":
        items = node[3]
        return items
    return (node,) if is_scalar(node) else None


def _same_lists(gold: Node, given: Node, equal: Equal) -> bool:
    wanted, found = _items(gold), _items(given)
    if wanted is None or found is None:
        return False
    gold_labels, given_labels = _labels(wanted), _labels(found)
    if gold_labels and given_labels:
        return _matched(wanted, found, equal)
    values = tuple(item[2][-1] for item in found) if given_labels else found
    if gold_labels or (given_labels and len(given_labels) > 1):
        targets = tuple(item[2][-1] for item in wanted) if gold_labels else wanted
        if gold_labels and len(gold_labels) == 1 and len(wanted) > 1:
            return _matched(targets, values, equal)  # x = 1 or x = 2
        return _ordered(targets, values, equal)
    if "tuple" in (gold[0], given[0]):
        if "set" in (gold[0], given[0]) or is_scalar(gold) or is_scalar(given):
            return False
        return _ordered(wanted, values, equal)
    if "set" in (gold[0], given[0]):
        return all(any(equal(w, f) for f in values) for w in wanted) and all(
            any(equal(w, f) for w in wanted) for f in values
        )
    return _matched(wanted, values, equal)


def _labels(items: tuple[Node, ...]) -> set[str]:
    """Labels of a list in which every item is ``label = value``, else none."""
    if not items or not all(
        item[0] == "rel" and set(item[1]) == {"="} and is_label(item[2][0]) for item in items
    ):
        return set()
    return {canonical(item[2][0]) for item in items}


def _ordered(wanted: Sequence[Node], found: Sequence[Node], equal: Equal) -> bool:
    return len(wanted) == len(found) and all(map(equal, wanted, found))


def _matched(wanted: Sequence[Node], found: Sequence[Node], equal: Equal) -> bool:
    """Equal as multisets."""
    if len(wanted) != len(found) or len(wanted) > MAX_ITEMS:
        return False
    rest = list(found)
    for one in wanted:
        place = next((index for index, other in enumerate(rest) if equal(one, other)), None)
        if place is None:
            return False
        del rest[place]
    return True
