"""A stand-in for a policy: it answers sums, wrongly as often as it is told, and counts its calls.

Only for tests that need an exact, instant policy; real models are run in tests/engines and
tests/flows.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from curate.engines.api import (
    Completion,
    EngineIdentity,
    OnBatch,
    Request,
    Sampling,
    sample_uniforms,
)


class ScriptedEngine:
    """Answers ``a + b`` right with probability ``1 - a / 10`` (a < 10).

    Args:
        log: file that gets one line per generated completion, written through to the disk.
        batch: requests a batch.
        revision: part of the identity.
    """

    def __init__(self, log: Path | None = None, batch: int = 4, revision: str = "1") -> None:
        self.log, self.batch = log, batch
        self.identity = EngineIdentity("scripted", "scripted", revision, "plain", "none")
        self.generated = 0

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_batch: OnBatch | None = None
    ) -> list[list[Completion]]:
        answers = []
        for start in range(0, len(requests), self.batch):
            batch = [self._answer(r, sampling) for r in requests[start : start + self.batch]]
            answers += batch
            if on_batch:
                on_batch(list(range(start, start + len(batch))), batch)
        return answers

    def _answer(self, request: Request, sampling: Sampling) -> list[Completion]:
        found = re.search(r"(\d+) \+ (\d+)", request.messages[-1].content)
        assert found
        a, b = map(int, found.groups())
        made = []
        for sample in range(request.first_sample, request.first_sample + request.n):
            draw = float(sample_uniforms(sampling.seed, request.key, sample, 1)[0])
            value = a + b if draw >= (a % 10) / 10 else a + b + 1
            made.append(Completion(sample, f"The answer is {value}.", "stop", 5, 6, -1.0, 0.001))
            self.generated += 1
            if self.log:
                with self.log.open("a") as file:
                    file.write(f"{request.key} {sample}\n")
                    file.flush()
                    os.fsync(file.fileno())
        return made

    def close(self) -> None:
        pass
