"""Preflight of sources: do they open, which columns are taken, what does a sample become.

The first rows of each source go through the recipe's own curator and the ``check`` step, in memory.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import polars as pl

from curate.curators.qa import QuestionAnswer
from curate.curators.rows import Columns, Draft, draft
from curate.pipelines.check import Check
from curate.pipelines.columns import taken
from curate.pipelines.errors import CurateError, SourceError
from curate.pipelines.findings import Finding, State, refusal
from curate.pipelines.hub import PREFIX
from curate.pipelines.ledger import Ledger
from curate.pipelines.mixture import Mixture, Part, SourceSpec, open_mixture
from curate.pipelines.pool import Pool
from curate.pipelines.readers import read
from curate.pipelines.recipe import Recipe
from curate.pipelines.row_counts import MOST_BYTES, WHOLE, RowCount, count_rows, total
from curate.pipelines.sources import STDIN, Source
from curate.pipelines.step import Context, Step
from curate.verifiers.api import kinds

#: Rows of each source that are tried: those in which ``qa`` looks for columns, so that what is said
#: of columns here is what a build says.
SAMPLE = 1000
#: Files of a source whose first row is read.
_FILES = 100
#: Characters of a reject's detail that are shown.
_SHOWN = 100


@dataclass
class SourceReport:
    """What is known of all sources together.

    Args:
        findings: one or two a source.
        count: rows that would be read.
        row_bytes: mean size of a sampled prompt in memory, bytes.
    """

    findings: list[Finding] = field(default_factory=list)
    count: RowCount = field(default_factory=lambda: RowCount(None))
    row_bytes: int = 1000


@dataclass(frozen=True)
class _Tried:
    """What a sample became."""

    finding: Finding
    kept: pl.DataFrame | None = None


def source_report(
    specs: Sequence[SourceSpec], limit: int | None, recipe: Recipe | None, seed: int, workers: int
) -> SourceReport:
    """Look at every source.

    Args:
        specs: what would be read.
        limit: most rows of each.
        recipe: whose curator to try on a sample; None for none.
        seed: the build's.
        workers: verifier processes.
    """
    with _hub_notes_elsewhere(any(spec.uri.startswith(PREFIX) for spec in specs)):
        return _report(specs, limit, recipe, seed, workers)


def _report(
    specs: Sequence[SourceSpec], limit: int | None, recipe: Recipe | None, seed: int, workers: int
) -> SourceReport:
    parts, findings = _open(specs, limit)
    report = SourceReport(findings)
    counts = [RowCount(None)] * len(findings)
    sizes: list[int] = []
    for part in parts:
        try:
            counts.append(count_rows(part.source))
            report.findings.append(_opened(part, counts[-1], recipe))
        except CurateError as error:
            report.findings.append(refusal(f"source {part.name}", error))
            continue
        if recipe is None:
            continue
        tried = _try(part, recipe, seed, workers)
        report.findings.append(tried.finding)
        if tried.kept is not None and len(tried.kept):
            sizes.append(round(tried.kept.estimated_size() / len(tried.kept)))
    report.count = total(counts)
    report.row_bytes = max(sizes, default=report.row_bytes)
    return report


@contextmanager
def _hub_notes_elsewhere(needed: bool) -> Iterator[None]:
    """Let the ``datasets`` library leave its lock files in a folder that is removed again."""
    if not needed or find_spec("datasets") is None:
        yield
        return
    import datasets

    usual = datasets.config.HF_DATASETS_CACHE
    with tempfile.TemporaryDirectory(prefix="curate-preflight-") as folder:
        datasets.config.HF_DATASETS_CACHE = Path(folder)
        try:
            yield
        finally:
            datasets.config.HF_DATASETS_CACHE = usual


def _open(specs: Sequence[SourceSpec], limit: int | None) -> tuple[list[Part], list[Finding]]:
    """Sources that can be opened, and a finding for each that cannot."""
    try:
        return list(open_mixture(specs, limit).parts), []
    except CurateError as error:
        together = refusal("sources", error)
    parts: list[Part] = []
    findings: list[Finding] = []
    for spec in specs if len(specs) > 1 else ():
        if spec.uri == STDIN:  # gone with the first try
            continue
        try:
            parts += open_mixture([spec.model_copy(update={"weight": None})], limit).parts
        except CurateError as error:
            findings.append(refusal(f"source {spec.name or spec.uri}", error))
    return parts, findings or [together]


def _opened(part: Part, count: RowCount, recipe: Recipe | None) -> Finding:
    """Format, number of rows and columns of a source.

    Raises:
        SourceError: a file cannot be read at all, or none holds a row.
    """
    source = part.source
    told = [part.spec.uri]
    if isinstance(source, Source):
        told.append(_formats(source))
        _touch(source)
    else:
        told.append(f"revision {source.revision[:12]}")
    told.append(str(count))
    step = recipe.steps[0] if recipe else None
    if isinstance(step, QuestionAnswer):
        told.append(_columns_text(part, step))
    return Finding(f"source {part.name}", "ok", "; ".join(text for text in told if text))


def _formats(source: Source) -> str:
    found = ", ".join(sorted({file.kind for file in source.files}))
    return found if len(source.files) == 1 else f"{len(source.files)} files, {found}"


def _touch(source: Source) -> None:
    """Read the first row of each file, so that a broken one far down is known before work.

    Raises:
        SourceError: a file cannot be read at all.
    """
    if source.limit is not None:  # rows further down may never be read
        return
    for file in source.files[1:_FILES]:
        if file.kind not in WHOLE or file.path.stat().st_size <= MOST_BYTES:
            next(read(file.path, file.kind), None)


def _columns_text(part: Part, step: QuestionAnswer) -> str:
    """Which column of the first usable row is taken for what."""
    spec = part.spec
    kind = spec.kind or step.kind
    verifier = kind if kind in kinds() else None
    columns = Columns(
        spec.question or step.question,
        spec.answer or step.answer,
        verifier,
        None if verifier else kind,
        spec.system or step.system,
    )
    for _, row in islice(part.source.rows(), SAMPLE):
        if row.problem is None and isinstance(draft(row.record, columns), Draft):
            found = taken(row.record, columns)
            if verifier:
                found["kind"] = f"{verifier} (set)"
            if columns.system and "system" not in found:
                found["system"] = "as set"
            return "columns: " + ", ".join(f"{role} ← {name}" for role, name in found.items())
    return ""


def _try(part: Part, recipe: Recipe, seed: int, workers: int) -> _Tried:
    """Run the first rows of a source through curator and check."""
    name = f"sample {part.name}"
    most = min(part.source.limit or SAMPLE, SAMPLE)
    sampled = replace(
        part,
        spec=part.spec.model_copy(update={"weight": None}),
        source=replace(part.source, limit=most),
    )
    own = next((step for step in recipe.steps if step.name == Check.name), None)
    check: Step = own or Check()
    with tempfile.TemporaryDirectory(prefix="curate-preflight-") as folder:
        scratch = Path(folder)
        context = Context(
            seed=seed,
            ledger=Ledger(scratch / "rollouts"),
            artifact=scratch,
            workers=workers,
            source=Mixture((sampled,)),
        )
        try:
            made = recipe.steps[0].run(Pool.empty(), context)
            checked = check.run(made.kept, context)
        except CurateError as error:
            return _Tried(refusal(name, error))
        except OSError as error:  # verifier processes that do not start
            return _Tried(Finding(name, "failed", f"cannot be tried: {error}", exit_code=1))
    kept, rejected = checked.kept.frame, pl.concat([made.rejected, checked.rejected])
    n_read = len(kept) + len(rejected)
    told = f"{len(kept):,} of the first {n_read:,} rows would be kept"
    if len(kept):
        told += f" ({_counts(kept['kind'])})"
    if len(rejected):
        told += f"; {len(rejected):,} rejected: {reasons(rejected)}"
    if own is None:
        told += "; the recipe has no check step, so a build keeps prompts with unusable golds"
    if not len(kept):
        return _Tried(Finding(name, "failed", told, SourceError.exit_code))
    state: State = "ok" if own is not None and not len(rejected) else "warning"
    return _Tried(Finding(name, state, told), kept)


def _counts(values: pl.Series) -> str:
    found = values.value_counts().sort("count", values.name, descending=[True, False])
    return ", ".join(f"{name} {count:,}" for name, count in found.iter_rows())


def reasons(rejected: pl.DataFrame) -> str:
    """Number of ``REJECT_SCHEMA`` rows by reason, each with its first row as example."""
    groups = rejected.group_by("reason", maintain_order=True).agg(
        pl.len().alias("n"), pl.col("source_id", "field", "detail").first()
    )
    told = []
    for reason, n, place, column, detail in groups.sort("n", descending=True).iter_rows():
        where = f"{place} {column}" if column else str(place)
        shown = f": {detail[:_SHOWN]}" if detail else ""
        told.append(f"{reason} {n:,} (first {where}{shown})")
    return "; ".join(told)
