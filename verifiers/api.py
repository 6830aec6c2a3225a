"""The one public door to verification: gold and response in, a three-valued verdict out."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

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
