"""What every verifier takes and gives: the three-valued verdict and the options it may read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from curate.pipelines.errors import UsageError

Value: TypeAlias = Literal["correct", "incorrect", "error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier found.

    Args:
        value: ``correct``, ``incorrect``, or ``error``: the gold cannot be used, or the time or
            memory limit was hit. An ``error`` is never a reward.
        reason: machine-readable slug.
        extracted: the answer that was judged, normalised, or None when none was found.
    """

    value: Value
    reason: str
    extracted: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that may be agreed about one question's answer; unset fields mean the default.

    Args:
        options: choice: option texts by letter.
        multi: choice: the gold is a set of letters ("A,C").
        ordered: items: order counts (default True).
        multiset: items: unordered, but repeats count (default: unordered repeats count too; set
            False to compare as sets).
        rel_tol: accepted relative error of a number.
        abs_tol: accepted absolute error of a number.
        delta: quantity: a temperature is a difference, so 18 K = 18 °C.
        case_sensitive: text and items: case counts (default False; single letters always fold).
        aliases: text: further accepted answers.
        unit_optional: quantity: a bare number is read in the gold's unit.
        question_unit: quantity: unit in which a bare number, gold's or answer's, is read.
        decimal_comma: numbers are written 1.234,5.
        is_year: quantity: the number is a calendar year: exact, without separators or units.
        labels: boolean: the closed set of accepted labels, instead of yes/no.
        strict: the answer must stand alone: nothing may be repaired or left over.
        exact: math: a rounded decimal is not an exact value.
        type: text: how to read the answer (``time`` or ``date``).
        require_closed_think: a response without a closed reasoning block has no answer.
        truncated: the response hit its token limit: only an explicit, closed answer counts.
        max_s: wall-clock limit in seconds.
    """

    options: Mapping[str, str] | Sequence[str] | None = None
    multi: bool = False
    ordered: bool | None = None
    multiset: bool | None = None
    rel_tol: float | None = None
    abs_tol: float | None = None
    delta: bool = False
    case_sensitive: bool | None = None
    aliases: Sequence[str] = ()
    unit_optional: bool = False
    question_unit: str | None = None
    decimal_comma: bool = False
    is_year: bool = False
    labels: Sequence[str] | None = None
    strict: bool = False
    exact: bool = False
    type: str | None = None
    require_closed_think: bool = False
    truncated: bool = False
    max_s: float = 5.0


_NAMES = frozenset(field.name for field in fields(Options))


def read_options(options: Mapping[str, object]) -> Options:
    """Options from keyword arguments.

    Raises:
        UsageError: an option is unknown; the message lists those there are.
    """
    if not options:
        return _DEFAULT
    unknown = [name for name in options if name not in _NAMES]
    if unknown:
        raise UsageError(
            f"unknown verifier option {unknown[0]!r}; use one of {', '.join(sorted(_NAMES))}"
        )
    return Options(**options)  # type: ignore[arg-type]


_DEFAULT = Options()
