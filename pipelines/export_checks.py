"""The checks of an export: each yields what fails it, with file and row."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import polars as pl

from curate.pipelines.errors import UsageError
from curate.pipelines.lineage import roots
from curate.pipelines.pool import verifier_arguments
from curate.pipelines.trainer_view import Row, Seen, TrainerView
from curate.pipelines.wrong_answers import wrong_answer

#: File, relative to the trainer's folder, and row in it, from 1.
Place: TypeAlias = tuple[str, int]
#: A reward, None where the hook says that the verifier could not judge, or why it refused the row.
Score: TypeAlias = float | str | None

#: Ways to give an answer; a gold that is not taken bare may be taken boxed or in a sentence.
_RENDERINGS = ("{}", "\\boxed{{{}}}", "The answer is {}")
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that fails a check.

    Args:
        file: relative to the trainer's folder.
        row: in the file, from 1; None when it is about the file as a whole.
        detail: one readable line.
    """

    file: str
    row: int | None
    detail: str

    def __str__(self) -> str:
        return f"{self.file}{f':{self.row}' if self.row else ''}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Check:
    """One check and what fails it.

    Args:
        name: fixed, with the file kind where it was made on one.
        ok: nothing failed.
        detail: one readable line: the first failure and how many more there are.
        failures: all of them.
    """

    name: str
    ok: bool
    detail: str
    failures: tuple[Failure, ...]


@dataclass
class Part:
    """Loaded rows of one split in order, or of one of its stages; three lists of one length.

    Args:
        seen: what each row says.
        rows: the rows as loaded.
        places: where each is.
    """

    seen: list[Seen] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[Seen, Place]]:
        return zip(self.seen, self.places, strict=True)


def check(name: str, failures: Iterable[Failure]) -> Check:
    """Gather what fails a check."""
    found = tuple(failures)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Check(name, not found, f"{found[0]}{more}" if found else "ok", found)


def order(part: Part) -> Iterator[Failure]:
    """Ranks rise from row to row, and stages never fall."""
    before: Seen | None = None
    for row, place in part:
        if before is not None and row.rank <= before.rank:
            yield Failure(*place, f"rank {row.rank} comes after rank {before.rank}")
        if before is not None and row.stage < before.stage:
            yield Failure(*place, f"stage {row.stage} comes after stage {before.stage}")
        before = row


def stages(ordered: Part, staged: Mapping[str, Part]) -> Iterator[Failure]:
    """Stage files hold their stage's rows, and together exactly the ordered file's, in order.

    Args:
        ordered: one split.
        staged: label, such as ``stage-00`` → its rows.
    """
    rows = [(label, row, place) for label in sorted(staged) for row, place in staged[label]]
    for label, row, place in rows:
        if f"stage-{row.stage:02d}" != label:
            yield Failure(*place, f"a row of stage {row.stage}")
    yield from _unmatched(ordered, [(row, place) for _, row, place in rows])
    if len(rows) == len(ordered.seen):
        for (_, row, place), twin in zip(rows, ordered.seen, strict=True):
            if row != twin:
                yield Failure(*place, f"differs from the ordered file's row of rank {twin.rank}")


def _unmatched(ordered: Part, staged: Sequence[tuple[Seen, Place]]) -> Iterator[Failure]:
    """Prompts that are not exactly once in the stage files, or only there."""
    found = Counter(row.prompt_id for row, _ in staged)
    known = {row.prompt_id for row in ordered.seen}
    for row, place in ordered:
        if row.prompt_id not in found:
            yield Failure(*place, f"is in no stage file (stage {row.stage})")
    for row, place in staged:
        if row.prompt_id not in known:
            yield Failure(*place, "is not in the ordered file")
        elif found[row.prompt_id] > 1:
            yield Failure(*place, "is in the stage files more than once")


def lineage(train: Part, held_out: Part, pool: pl.DataFrame | None) -> Iterator[Failure]:
    """No prompt is there twice, and none in validation shares an ancestor with one in train.

    Args:
        train: training rows.
        held_out: validation rows.
        pool: the build's pool, which knows the ancestors; without it only ids are compared.
    """
    families = {} if pool is None else dict(zip(pool["id"], roots(pool), strict=True))
    first: dict[str, Place] = {}
    trained: dict[str, Place] = {}
    for part in (train, held_out):
        for row, place in part:
            if row.prompt_id in first:
                file, number = first[row.prompt_id]
                yield Failure(*place, f"prompt {row.prompt_id} is also {file}:{number}")
                continue
            first[row.prompt_id] = place
            family = families.get(row.prompt_id, row.prompt_id)
            if part is train:
                trained.setdefault(family, place)
            elif family in trained:
                file, number = trained[family]
                yield Failure(*place, f"shares an ancestor with {file}:{number}")


def prompts(part: Part, pool: pl.DataFrame, view: TrainerView) -> Iterator[Failure]:
    """Every row says what the build's pool says under its id."""
    columns = ("id", "system", "question", "answer", "kind", "verifier_options", "choices",
               "rank", "stage")  # fmt: skip
    known = {row[0]: row[1:] for row in pool.select(columns).iter_rows()}
    for row, place in part:
        if row.prompt_id not in known:
            yield Failure(*place, f"prompt {row.prompt_id} is not in the build's pool")
            continue
        system, question, answer, kind, options, choices, rank, stage = known[row.prompt_id]
        pairs = {
            "prompt": (row.prompt, view.expected_prompt(system, question)),
            "gold": (row.gold, answer),
            "kind": (row.kind, kind),
            "verifier options": (dict(row.args), verifier_arguments(options, choices)),
            "rank": (row.rank, rank),
            "stage": (row.stage, stage),
        }
        for name, (found, wanted) in pairs.items():
            if found != wanted:
                shown = f"{_short(found)} is not the pool's {_short(wanted)}"
                yield Failure(*place, f"{name} {shown}")


def same_copies(one: Part, other: Part) -> Iterator[Failure]:
    """Two kinds of files hold the same rows."""
    if len(one.seen) != len(other.seen):
        file = (other.places or one.places)[0][0]
        detail = f"{len(other.seen)} rows, {len(one.seen)} in the other kind of file"
        yield Failure(file, None, detail)
        return
    for twin, (row, place) in zip(one.seen, other, strict=True):
        if row != twin:
            yield Failure(*place, "differs from the same row in the other kind of file")


def rewards(view: TrainerView, part: Part) -> list[Check]:
    """Through the trainer's reward function, each gold earns 1 and a wrong answer 0.

    A gold is tried bare, then boxed, then in a sentence; the wrong answer in the form it took.
    """
    seen, rows, places = part.seen, part.rows, part.places
    scores: list[Score] = [None] * len(rows)
    forms = [_RENDERINGS[0]] * len(rows)
    for form in _RENDERINGS:
        open_ = [place for place, score in enumerate(scores) if score != 1.0]
        tried = _scores(view, [rows[i] for i in open_], [form.format(seen[i].gold) for i in open_])
        for i, score in zip(open_, tried, strict=True):
            # What the bare gold earned is what is told, unless another form earns more.
            if form == _RENDERINGS[0] or score == 1.0:
                scores[i], forms[i] = score, form
    earned = [i for i, score in enumerate(scores) if score == 1.0]
    wrongs = [wrong_answer(seen[i].kind, seen[i].gold, seen[i].args) for i in earned]
    answered = [forms[i].format(wrong) for i, wrong in zip(earned, wrongs, strict=True)]
    lost = _scores(view, [rows[i] for i in earned], answered)
    return [
        check(
            "gold earns 1",
            (
                Failure(*places[i], f"{row.kind} gold {_short(row.gold)} earns {_told(score)}")
                for i, (row, score) in enumerate(zip(seen, scores, strict=True))
                if score != 1.0
            ),
        ),
        check(
            "wrong answer earns 0",
            (
                Failure(
                    *places[i],
                    f"{seen[i].kind} answer {_short(wrong)} earns {_told(score)} "
                    f"where the gold is {_short(seen[i].gold)}",
                )
                for i, wrong, score in zip(earned, wrongs, lost, strict=True)
                if score != 0.0
            ),
        ),
    ]


def _scores(view: TrainerView, rows: Sequence[Row], responses: Sequence[str]) -> list[Score]:
    """Rewards in batches; where the hook refuses a row, what it says instead."""
    found: list[Score] = []
    for start in range(0, len(rows), _BATCH):
        found += _batch(view, rows[start : start + _BATCH], responses[start : start + _BATCH])
    return found


def _batch(view: TrainerView, rows: Sequence[Row], responses: Sequence[str]) -> list[Score]:
    try:
        return list(view.reward(rows, responses))
    except (UsageError, KeyError, TypeError, ValueError) as error:
        if len(rows) == 1:
            return [f"an error: {type(error).__name__} {error}"]
    middle = len(rows) // 2
    return [
        *_batch(view, rows[:middle], responses[:middle]),
        *_batch(view, rows[middle:], responses[middle:]),
    ]


def _told(score: Score) -> str:
    if score is None:
        return "no reward: the verifier cannot use the gold, or hit a limit"
    return score if isinstance(score, str) else f"{score:g}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
