"""The one public door to verification: gold and response in, a three-valued verdict out.

``verify`` judges one response, ``verify_many`` a batch in worker processes, ``check_gold`` tells
whether a gold can be used at all. Text is never executed; whatever needs a computer algebra
system runs in a killable process with time and memory limits.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from curate.verifiers import isolate
from curate.verifiers.judge import KINDS, check, judge
from curate.verifiers.verdict import Value, Verdict, read_options
from curate.verifiers.version import verifier_version

__all__ = [
    "VERIFIER_VERSION",
    "Row",
    "Value",
    "Verdict",
    "check_gold",
    "check_golds",
    "equivalent",
    "kinds",
    "verify",
    "verify_many",
]

#: Changes whenever a verdict may change.
VERIFIER_VERSION = verifier_version()

#: Below this many rows, starting processes costs more than it saves.
_SMALL = 256


@dataclass(frozen=True, slots=True)
class Row:
    """One response to judge.

    Args:
        kind: one of ``kinds()``.
        gold: the reference answer.
        response: the whole text of a model, or a bare answer.
        options: keyword options of ``verify``.
    """

    kind: str
    gold: str
    response: str
    options: Mapping[str, object] = field(default_factory=dict)


def kinds() -> list[str]:
    """Names of the verifiers, sorted."""
    return sorted(KINDS)


def verify(kind: str, gold: str, response: str, **options: object) -> Verdict:
    """Judge one response.

    Args:
        kind: one of ``kinds()``.
        gold: the reference answer.
        response: the whole text of a model, or a bare answer.
        options: see ``curate.verifiers.verdict.Options``.

    Raises:
        UsageError: the kind or an option is unknown.
    """
    found = judge(kind, gold, response, options)
    if found is not None:
        return found
    limit = read_options(options).max_s
    return isolate.run([_job(Row(kind, gold, response, options))], workers=1, max_s=limit)[0]


def verify_many(
    rows: Iterable[Row],
    *,
    workers: int = 2,
    progress: Callable[[int], object] | None = None,
    max_s: float = 5.0,
) -> list[Verdict]:
    """Judge many responses in isolated processes.

    Args:
        rows: what to judge; identical rows are judged once.
        workers: processes.
        progress: called with the number of rows done since the last call.
        max_s: wall-clock limit of a row in seconds; a row's own ``max_s`` option may lower it.

    Returns:
        One verdict a row, in order. A row that hits its limit is an ``error`` with reason
        ``timeout``, one that kills its worker an ``error`` with reason ``worker_died``; neither
        costs another row anything.

    Raises:
        UsageError: a kind or an option is unknown; checked before any row is judged.
    """
    places: dict[str, int] = {}
    order: list[int] = []
    jobs: list[str] = []
    repeats: list[int] = []
    for row in rows:
        job = _job(row)
        place = places.setdefault(job, len(jobs))
        if place == len(jobs):
            _check_usage(row)
            jobs.append(job)
            repeats.append(0)
        repeats[place] += 1
        order.append(place)
    del places

    def done(place: int) -> None:
        if progress is not None:
            progress(repeats[place])

    verdicts: list[Verdict | None] = [None] * len(jobs)
    if len(jobs) <= _SMALL:
        for place, job in enumerate(jobs):
            kind, gold, response, options = json.loads(job)
            verdicts[place] = judge(kind, gold, response, options)
            if verdicts[place] is not None:
                done(place)
    rest = [place for place, verdict in enumerate(verdicts) if verdict is None]
    found = isolate.run(
        [jobs[place] for place in rest],
        workers=workers,
        max_s=max_s,
        done=lambda index: done(rest[index]),
    )
    for place, answer in zip(rest, found, strict=True):
        verdicts[place] = answer
    return [verdict for place in order if (verdict := verdicts[place]) is not None]


def check_gold(kind: str, gold: str, **options: object) -> Verdict:
    """Tell whether a gold can be used.

    Returns:
        ``correct`` when it is well formed and verifies against itself, bare, boxed and in a
        sentence; ``error`` with the reason otherwise.
    """
    return check_golds([(kind, gold, options)], workers=1)[0]


def check_golds(
    rows: Sequence[tuple[str, str, Mapping[str, object]]], *, workers: int = 2
) -> list[Verdict]:
    """``check_gold`` over (kind, gold, options) triples, in worker processes, order kept."""
    found = [
        None if (problem := check(kind, gold, options)) is None else Verdict("error", problem)
        for kind, gold, options in rows
    ]
    extracted: dict[int, str | None] = {}
    # Bare, most golds verify at once; only the rest are tried boxed and in a sentence.
    for rendering in ("{}", "\\boxed{{{}}}", "The answer is {}"):
        open_ = [place for place, verdict in enumerate(found) if verdict is None]
        tried = (
            Row(kind, gold, rendering.format(gold), options)
            for kind, gold, options in (rows[place] for place in open_)
        )
        for place, verdict in zip(open_, verify_many(tried, workers=workers), strict=True):
            extracted.setdefault(place, verdict.extracted)
            if verdict.value == "correct":
                found[place] = Verdict("correct", "usable", extracted[place])
            elif verdict.value == "error" and rendering == "{}":
                found[place] = verdict
    return [
        verdict or Verdict("error", "gold_rejects_itself", extracted[place])
        for place, verdict in enumerate(found)
    ]


def equivalent(kind: str, a: str, b: str, **options: object) -> bool:
    """True when each answer verifies as the other's gold (verification is not symmetric)."""
    return all(
        verify(kind, gold, response, **options).value == "correct"
        for gold, response in ((a, b), (b, a))
    )


def _job(row: Row) -> str:
    return json.dumps([row.kind, row.gold, row.response, dict(row.options)], sort_keys=True)


def _check_usage(row: Row) -> None:
    read_options(row.options)
    if row.kind not in KINDS:
        judge(row.kind, "", "", {})
