"""Numbers with units (numbers only, so far)."""

from curate.verifiers.math import check, judge

__all__ = ["check", "judge"]
