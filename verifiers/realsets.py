"""Sets of real numbers: intervals, points, inequalities and their combinations in one form."""

from typing import Any, TypeAlias

from curate.verifiers.evaluate import TooBig, Undefined, numeric
from curate.verifiers.nodes import Node, is_scalar, symbols

#: Disjoint, sorted pieces (low, low closed, high, high closed); a point is a closed piece.
Pieces: TypeAlias = list[tuple[Any, bool, Any, bool]]

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def real_set(node: Node, context: Any) -> Pieces | None:
    """The pieces of a node, or None when it is no set of reals with known ends.

    Args:
        node: what to read.
        context: mpmath context.
    """
    try:
        return _read(node, context)
    except (TooBig, Undefined):
        return None


def _read(node: Node, context: Any) -> Pieces | None:  # noqa: C901 (one rule a kind of node)
    tag = node[0]
    if tag == "sym":
        if node[1] == "reals":
            return [(context.ninf, False, context.inf, False)]
        return [] if node[1] == "empty" else None
    if tag == "set":
        return _points(node[1], context)
    if tag == "tuple":
        return _interval(node, context)
    if tag == "rel":
        return _relation(node, context)
    if tag == "all" or (tag == "list" and node[1] and all(_excludes(item) for item in node[1])):
        pieces: Pieces | None = [(context.ninf, False, context.inf, False)]
        if len(symbols(node)) != 1:
            return None
        for item in node[1]:
            pieces = _meet(pieces, _read(item, context))
        return pieces
    if tag in ("union", "cap", "minus"):
        left, right = (_read(part, context) for part in node[1:])
        if left is None or right is None:
            return None
        if tag == "union":
            return _merge(left + right, context)
        return _meet(left, right if tag == "cap" else _complement(right, context))
    return None


def _excludes(item: Node) -> bool:
    return bool(item[0] == "rel" and item[1] == ("!=",))


def _value(node: Node, context: Any) -> Any:
    if node == ("sym", "inf"):
        return context.inf
    if node == ("mul", ("num", -1), ("sym", "inf")):
        return context.ninf
    if not is_scalar(node) or symbols(node):
        raise Undefined
    value = numeric(node, {}, context)
    if abs(context.im(value)) > context.mpf(10) ** -40:
        raise Undefined
    return context.re(value)


def _points(items: tuple[Node, ...], context: Any) -> Pieces:
    values = [_value(item, context) for item in items]
    return _merge([(value, True, value, True) for value in values], context)


def _interval(node: Node, context: Any) -> Pieces | None:
    _, opening, closing, items = node
    if len(items) != 2 or opening == "<<":
        return None
    low, high = (_value(item, context) for item in items)
    if low > high or (low == high and (opening, closing) != ("[", "]")):
        return None
    return [(low, opening == "[", high, closing == "]")]


def _relation(node: Node, context: Any) -> Pieces | None:
    _, operators, terms = node
    if operators == ("in",):
        return _read(terms[1], context)
    names = symbols(node)
    if len(names) != 1 or not set(operators) <= _FLIPPED.keys():
        return None
    name = next(iter(names))
    pieces: Pieces | None = [(context.ninf, False, context.inf, False)]
    for left, operator, right in zip(terms, operators, terms[1:], strict=False):
        pieces = _meet(pieces, _half_line(left, operator, right, name, context))
    return pieces


def _half_line(left: Node, operator: str, right: Node, name: str, context: Any) -> Pieces | None:
    """Solve a relation that is linear in its one symbol."""
    if ("sym", "inf") in (left, right) or not (is_scalar(left) and is_scalar(right)):
        return None

    def at(point: int) -> Any:
        from fractions import Fraction

        values = {name: Fraction(point)}
        return numeric(left, values, context) - numeric(right, values, context)

    zero, slope = at(0), at(1) - at(0)
    tiny = context.mpf(10) ** -40 * (1 + abs(zero) + abs(slope))
    if abs(slope) <= tiny or any(
        abs(at(point) - (zero + slope * point)) > tiny * abs(point) for point in (2, -3, 7)
    ):
        return None
    if context.im(zero) != 0 or context.im(slope) != 0:
        return None
    bound = -zero / slope
    if slope < 0:
        operator = _FLIPPED[operator]
    low, high = context.ninf, context.inf
    return {
        "<": [(low, False, bound, False)],
        "<=": [(low, False, bound, True)],
        ">": [(bound, False, high, False)],
        ">=": [(bound, True, high, False)],
        "=": [(bound, True, bound, True)],
        "!=": [(low, False, bound, False), (bound, False, high, False)],
    }[operator]


def _close(a: Any, b: Any) -> bool:
    if a == b:
        return True
    finite = abs(a) < abs(a) + 1 and abs(b) < abs(b) + 1
    return bool(finite and abs(a - b) <= abs(a) * 1e-30)


def _merge(pieces: Pieces, context: Any) -> Pieces:
    merged: Pieces = []
    for piece in sorted(pieces, key=lambda piece: (piece[0], not piece[1])):
        if merged:
            low, low_closed, high, high_closed = merged[-1]
            touch = _close(piece[0], high) and (piece[1] or high_closed)
            if touch or (piece[0] < high and not _close(piece[0], high)):
                if _close(piece[2], high):
                    merged[-1] = (low, low_closed, high, high_closed or piece[3])
                elif piece[2] > high:
                    merged[-1] = (low, low_closed, piece[2], piece[3])
                continue
        merged.append(piece)
    return merged


def _meet(one: Pieces | None, other: Pieces | None) -> Pieces | None:
    if one is None or other is None:
        return None
    found: Pieces = []
    for a in one:
        for b in other:
            low, low_closed = (a[0], a[1] and b[1]) if _close(a[0], b[0]) else max(a[:2], b[:2])
            high, high_closed = (a[2], a[3] and b[3]) if _close(a[2], b[2]) else min(a[2:], b[2:])
            if low < high and not _close(low, high):
                found.append((low, low_closed, high, high_closed))
            elif _close(low, high) and low_closed and high_closed:
                found.append((low, True, high, True))
    return sorted(found, key=lambda piece: piece[0])


def _complement(pieces: Pieces, context: Any) -> Pieces:
    rest: Pieces = []
    low, closed = context.ninf, False
    for piece in pieces:
        if low < piece[0] or (closed and not piece[1] and low == piece[0]):
            rest.append((low, closed, piece[0], not piece[1]))
        low, closed = piece[2], not piece[3]
    if low < context.inf:
        rest.append((low, closed, context.inf, False))
    return rest


def same_set(one: Pieces, other: Pieces) -> bool:
    """True when two lists of pieces are the same set."""
    return len(one) == len(other) and all(
        _close(a[0], b[0]) and _close(a[2], b[2]) and (a[1], a[3]) == (b[1], b[3])
        for a, b in zip(one, other, strict=True)
    )


_SET_LIKE = frozenset("union cap minus rel all set tuple sym list".split())


def equal_sets(one: Node, other: Node, context: Any) -> bool:
    """True when two nodes, written as sets in any way, hold the same reals."""
    if one[0] not in _SET_LIKE or other[0] not in _SET_LIKE or one[0] == other[0] == "sym":
        return False
    if one[0] == other[0] == "tuple":
        return False  # compared item by item, with their brackets
    pieces = real_set(one, context)
    if pieces is None:
        return False
    others = real_set(other, context)
    return others is not None and same_set(pieces, others)
