"""Values of expressions, within bounds: exact rationals where possible, else many digits.

Nothing here can run away: powers, factorials and sums beyond a size are never computed, and an
expression that holds one is only equal to one that is written the same way.
"""

import hashlib
import threading
from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial, floor, gcd, isqrt, lcm
from typing import Any

from curate.verifiers.nodes import Node, canonical, symbols

MAX_BITS = 60_000
MAX_TERMS = 1_000
MAX_FACTORIAL = 3_000
#: Magnitudes beyond 2**MAX_LOG2 are not evaluated.
MAX_LOG2 = 1_000_000


class TooBig(ValueError):
    """A value beyond what is computed; the expression is compared as written."""


class Undefined(ValueError):
    """No finite value here."""


#: Work one comparison may cost, in steps of about ten microseconds.
BUDGET = 60_000

_work = threading.local()


def begin() -> None:
    """Grant the comparisons of one verdict their budget."""
    _work.left = BUDGET


def _spend(steps: int) -> None:
    """Count work instead of time, so that a verdict does not depend on the machine."""
    _work.left = left = getattr(_work, "left", BUDGET) - steps
    if left < 0:
        raise TooBig


# --- exact ----------------------------------------------------------------------------------


def exact(node: Node, values: dict[str, Fraction] | None = None) -> Fraction | None:
    """The rational value, or None when it is irrational, symbolic or too large to say.

    Args:
        node: an expression; of anything else there is no value.
        values: values of symbols.
    """
    tag = node[0]
    if tag == "num":
        number: Fraction = node[1]
        return number
    _spend(1)
    if tag == "sym":
        return values.get(node[1]) if values else None
    if tag == "pow":
        return _exact_power(exact(node[1], values), exact(node[2], values))
    if tag in ("sum", "prod"):
        return _exact_series(node, values)
    if tag in ("add", "mul"):
        parts = _exact_parts(node[1:], values)
        return None if parts is None else _exact_total(tag, parts)
    if tag == "call":
        parts = _exact_parts(node[2:], values)
        return None if parts is None else _exact_call(node[1], parts)
    return None


def _exact_parts(
    nodes: tuple[Node, ...], values: dict[str, Fraction] | None
) -> list[Fraction] | None:
    parts = []
    for node in nodes:
        value = exact(node, values)
        if value is None:
            return None
        parts.append(value)
    return parts


def _exact_total(tag: str, parts: list[Fraction]) -> Fraction | None:
    total = Fraction(tag == "mul")
    for value in parts:
        total = total + value if tag == "add" else total * value
        bits = _bits(total)
        if bits > MAX_BITS:
            return None
        _spend(bits >> 8)
    return total


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _exact_power(base: Fraction | None, exponent: Fraction | None) -> Fraction | None:
    if base is None or exponent is None:
        return None
    if exponent.denominator == 1:
        n = exponent.numerator
        if base == 0:
            return None if n < 0 else Fraction(n == 0)
        if abs(base) == 1:
            return base if n % 2 else Fraction(1)
        bits = abs(n) * _bits(base)
        if bits > MAX_BITS:
            return None
        _spend(bits >> 8)
        return base**n
    index = exponent.denominator
    if index > 64 or (base < 0 and index % 2 == 0):
        return None
    top, bottom = _root(abs(base.numerator), index), _root(base.denominator, index)
    if top is None or bottom is None:
        return None
    return _exact_power(Fraction(-top if base < 0 else top, bottom), Fraction(exponent.numerator))


def _root(value: int, index: int) -> int | None:
    """The exact integer root, or None."""
    if value < 2:
        return value
    if value.bit_length() > 4096:
        return None
    if index == 2:
        root = isqrt(value)
    else:
        root = 1 << -(-value.bit_length() // index)
        while True:  # Newton's iteration from above
            closer = ((index - 1) * root + value // root ** (index - 1)) // index
            if closer >= root:
                break
            root = closer
    return root if root**index == value else None


def _exact_call(name: str, parts: list[Fraction]) -> Fraction | None:
    first = parts[0]
    if name == "abs":
        return abs(first)
    if name in ("floor", "ceil"):
        return Fraction(floor(first) if name == "floor" else -floor(-first))
    if name == "sgn":
        return Fraction((first > 0) - (first < 0))
    whole = all(part.denominator == 1 for part in parts)
    if name == "factorial" and whole and 0 <= first <= MAX_FACTORIAL:
        _spend(first.numerator)
        return Fraction(factorial(first.numerator))
    if name == "binom" and len(parts) == 2 and whole and 0 <= first <= MAX_FACTORIAL:
        return Fraction(comb(first.numerator, parts[1].numerator)) if parts[1] >= 0 else Fraction(0)
    if name in ("gcd", "lcm") and whole and all(_bits(part) < 4096 for part in parts):
        return Fraction((gcd if name == "gcd" else lcm)(*(part.numerator for part in parts)))
    if name == "mod" and parts[1] != 0:
        return first % parts[1]
    if name in ("min", "max") and len(parts) > 1:
        return (min if name == "min" else max)(parts)
    return None


def _exact_series(node: Node, values: dict[str, Fraction] | None) -> Fraction | None:
    tag, variable, low, high, body = node
    start, stop = exact(low, values), exact(high, values)
    if start is None or stop is None or start.denominator != 1 or stop.denominator != 1:
        return None
    if stop - start > MAX_TERMS:
        return None
    total = Fraction(tag == "prod")
    for index in range(start.numerator, stop.numerator + 1):
        term = exact(body, {**(values or {}), variable: Fraction(index)})
        if term is None:
            return None
        total = total + term if tag == "sum" else total * term
        bits = _bits(total)
        if bits > MAX_BITS:
            return None
        _spend(bits >> 8)
    return total


# --- many digits ----------------------------------------------------------------------------


def numeric(node: Node, values: dict[str, Fraction], context: Any) -> Any:
    """Complex value with the digits of an mpmath context.

    Args:
        node: an expression.
        values: values of symbols; others get one drawn from their name.
        context: mpmath context, which holds the precision.

    Raises:
        TooBig: a part is beyond what is computed.
        Undefined: no finite value.
    """
    found = exact(node, values)
    if found is not None:
        return _number(found, context)
    _spend(4)
    tag = node[0]
    if tag == "sym":
        return _symbol(node[1], context)
    if tag in ("add", "mul"):
        total = context.mpf(0 if tag == "add" else 1)
        for part in node[1:]:
            value = numeric(part, values, context)
            total = total + value if tag == "add" else total * value
        return _finite(total, context)
    if tag == "pow":
        return _power(node, values, context)
    if tag == "call":
        parts = [numeric(part, values, context) for part in node[2:]]
        return _finite(_call(node[1], parts, node, context), context)
    if tag in ("sum", "prod"):
        return _series(node, values, context)
    raise Undefined


def _number(value: Fraction, context: Any) -> Any:
    return context.mpf(value.numerator) / value.denominator


def _finite(value: Any, context: Any) -> Any:
    if not context.isfinite(value):
        raise Undefined
    if abs(context.mag(value) if value else 0) > MAX_LOG2:
        raise TooBig
    return value


def _symbol(name: str, context: Any) -> Any:
    if name == "pi":
        return +context.pi
    if name == "const_e":
        return +context.e
    if name == "const_i":
        return context.mpc(0, 1)
    if name == "degree":
        return context.pi / 180
    if name in ("inf", "pm", "mp", "empty", "reals", "integers", "naturals", "rationals"):
        raise Undefined
    return _drawn(name, context)


def _drawn(key: str, context: Any) -> Any:
    """A value that depends on nothing but the key: for what has none of its own."""
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return context.mpf(1) + context.mpf(int.from_bytes(digest, "big")) / 2**63


def _power(node: Node, values: dict[str, Fraction], context: Any) -> Any:
    base, exponent = (numeric(part, values, context) for part in node[1:])
    if base == 0:
        if context.re(exponent) <= 0:
            raise Undefined
        return context.mpf(0)
    if abs(exponent) * abs(context.log(base)) > MAX_LOG2:
        raise TooBig
    ratio = exact(node[2], values)
    real = context.im(base) == 0
    if ratio is not None and ratio.denominator % 2 and real and context.re(base) < 0:
        # The real root of a negative number, as in school.
        root = abs(base) ** (context.mpf(ratio.numerator) / ratio.denominator)
        return -root if ratio.numerator % 2 else root
    return _finite(base**exponent, context)


def _series(node: Node, values: dict[str, Fraction], context: Any) -> Any:
    tag, variable, low, high, body = node
    start, stop = exact(low, values), exact(high, values)
    if start is None or stop is None or start.denominator != 1 or stop.denominator != 1:
        if symbols(low) | symbols(high) or "inf" in canonical(node):
            raise TooBig
        raise Undefined
    if stop - start > MAX_TERMS:
        raise TooBig
    total = context.mpf(tag == "prod")
    for index in range(start.numerator, stop.numerator + 1):
        value = numeric(body, {**values, variable: Fraction(index)}, context)
        total = total + value if tag == "sum" else total * value
    return _finite(total, context)


_INVERSE = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot",
            "arcsec": "asec", "arccsc": "acsc", "arsinh": "asinh", "arcosh": "acosh",
            "artanh": "atanh"}  # fmt: skip


def _inverse(name: str) -> Callable[[Any, Any], Any]:
    return lambda context, x: getattr(context, name)(x)


def _circular(name: str) -> Callable[[Any, Any], Any]:
    def call(context: Any, x: Any) -> Any:
        if abs(x) > 1e6:
            raise TooBig
        return context.expj(x) if name == "cis" else getattr(context, name)(x)

    return call


_CIRCULAR = frozenset("sin cos tan cot sec csc sinh cosh tanh coth cis".split())
#: Functions of one argument whose value mpmath or plain arithmetic gives.
_OF_ONE: dict[str, Callable[[Any, Any], Any]] = {
    "ln": lambda context, x: context.log(x),
    "log": lambda context, x: context.log(x),
    "log10": lambda context, x: context.log10(x),
    "abs": lambda context, x: abs(x),
    "Re": lambda context, x: context.re(x),
    "Im": lambda context, x: context.im(x),
    **{name: _inverse(known) for name, known in _INVERSE.items()},
    **{name: _circular(name) for name in _CIRCULAR},
}


def _call(name: str, parts: list[Any], node: Node, context: Any) -> Any:
    try:
        if name in _OF_ONE and (len(parts) == 1 or name not in _CIRCULAR | _INVERSE.keys()):
            return _OF_ONE[name](context, parts[0])
        value = _call_of_reals(name, parts, context)
    except (ZeroDivisionError, TypeError, OverflowError) as error:
        raise Undefined from error
    return _drawn(canonical(node), context) if value is None else value


def _call_of_reals(name: str, parts: list[Any], context: Any) -> Any:
    """Value of a function that is stepwise, of whole numbers or of several; None for no such."""
    first = parts[0]
    if name == "logb":
        return context.log(parts[1]) / context.log(first)
    if name in ("factorial", "binom"):
        if any(abs(part) > 1000 for part in parts):
            raise TooBig
        return context.gamma(first + 1) if name == "factorial" else context.binomial(*parts)
    if name in ("floor", "ceil") and context.im(first) == 0:
        return context.floor(first) if name == "floor" else context.ceil(first)
    if name in ("min", "max") and all(context.im(part) == 0 for part in parts):
        return (min if name == "min" else max)(parts)
    return None
