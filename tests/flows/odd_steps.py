"""The command line with steps that misbehave, for recipes of tests.

Run as ``python odd_steps.py ARGUMENTS OF CURATE``.
"""

import sys
import time
from pathlib import Path

from curate.pipelines.errors import SourceError
from curate.pipelines.pool import Pool, rejects
from curate.pipelines.step import STEPS, Context, Step, StepResult

HOSTILE = "a|b`c <img src=x onerror=alert(1)> [l](http://evil)\n\n# **head**\\"


class Refusing(Step):
    """Cannot read a row."""

    name = "refusing"

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        raise SourceError("extra.jsonl:3: field 'answer' holds no text\n(line 3)")


class Buggy(Step):
    """Has a bug."""

    name = "buggy"

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        raise ZeroDivisionError("a bug")


class Odd(Step):
    """Rejects all but the first row, for a reason that looks like markup; odd metrics."""

    name = "Odd_step 1"

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        away = rejects(pool.frame[1:], self.name, HOSTILE, "why", field="question")
        figures = {HOSTILE: float("nan"), "most": float("inf"), "nothing": None, "n": 3}
        return StepResult(Pool(pool.frame[:1]), away, metrics=figures)


class Waiting(Step):
    """Says that it is at work and goes on once it is told to."""

    name = "waiting"
    started: str
    go_on: str

    def run(self, pool: Pool, ctx: Context) -> StepResult:
        Path(self.started).touch()
        for _ in range(1200):
            if Path(self.go_on).exists():
                break
            time.sleep(0.05)
        return StepResult(pool)


if __name__ == "__main__":
    sys.modules["odd_steps"] = sys.modules["__main__"]
    STEPS |= {step.name: f"odd_steps:{step.__name__}" for step in (Refusing, Buggy, Odd, Waiting)}
    from curate.cli import main

    main()
