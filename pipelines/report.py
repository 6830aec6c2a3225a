"""report.html: one self-contained page about a build. Everything from data is escaped.

The page loads nothing: style and script are inline and the only ones its content security policy
allows, by their hashes. Records are HTML text that Jinja escaped; the script only hides, sorts and
counts what is there, so the page reads without it too.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from curate.pipelines import report_figures as figures
from curate.pipelines.files import write_bytes
from curate.pipelines.leaks import leaks as found_leaks
from curate.pipelines.leaks import matches
from curate.pipelines.report_records import policies, reject_groups, sample, text_limit
from curate.pipelines.show import last_pool, share
from curate.pipelines.step import Metric

Row = dict[str, Any]

#: Records shown: the most for which the page is no larger than ``MAX_BYTES``.
SAMPLE_SIZES = (200, 100, 50, 20)
MAX_BYTES = 3_000_000

#: Characters that would hide or reorder what a record really holds; shown as their escapes.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: Steps whose metrics tell about copies; what decontamination found has tables of its own.
_COPIES = re.compile(r"dedup|duplicate|overlap|leak")


def write_report(build: Path, manifest: dict[str, Metric]) -> Path:
    """Write ``report.html`` and return its path.

    Args:
        build: build directory; it may have stopped after any step.
        manifest: its manifest.

    Raises:
        ConfigError: no step has finished yet.
        PoolError: an artifact cannot be read.
        CurateError: the page cannot be written.
    """
    path = build / "report.html"
    for n in SAMPLE_SIZES:
        page = _page(build, cast(Row, manifest), n).encode()
        if len(page) <= MAX_BYTES:
            break
    write_bytes(path, page)
    return path


def _page(build: Path, manifest: Row, n: int) -> str:
    seed, steps = manifest.get("seed", 0), manifest["steps"]
    frame = last_pool(build)
    records = sample(build, frame, n, seed)
    rejects = reject_groups(build, steps, seed)
    leaks = [{**leak, "matches": matches(build, leak)} for leak in found_leaks(manifest)]
    summary = manifest["summary"]
    return _environment().get_template("report.html.jinja").render(
        title=build.resolve().name,
        status=manifest.get("status", "unknown"),
        recipe=manifest.get("recipe") or {},
        policy=manifest.get("policy") or {},
        versions=[(name, manifest.get(name)) for name in ("curate", "python", "verifiers", "seed")],
        summary=summary,
        before=summary.get("before") or {},
        after=summary.get("after") or {},
        sources=_sources(manifest),
        steps=steps,
        funnel=figures.funnel(steps),
        histogram=figures.histogram(summary),
        stages=figures.stages(frame),
        composition=figures.composition(frame),
        policies=policies(build),
        measures=_measures(steps),
        seconds=sum(step["seconds"] for step in steps),
        overlap=[step for step in steps if _COPIES.search(step["name"]) and step["metrics"]],
        leaks=leaks,
        rejects=rejects,
        records=records,
        n_records=len(frame),
        options={name: _options(records, name) for name in ("stage", "kind", "domain")},
        limit=text_limit([*records, *rejects, *leaks]),
    )  # fmt: skip


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("curate.data_cards", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "csp": _csp, "share": share, "number": _number, "percent": _percent, "facts": figures.facts,
    }  # fmt: skip
    return environment


def _visible(value: object) -> object:
    """Text with unseen characters spelled out; anything else, markup too, as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return "" if value is None else value
    return _UNSEEN.sub(
        lambda match: f"\\x{ord(match[0]):02x}" if match[0] < "\xff" else f"\\u{ord(match[0]):04x}",
        value,
    )


def _csp(text: str) -> str:
    """The source expression that allows exactly this inline style or script."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _sources(manifest: Row) -> list[Row]:
    """What was read: the manifest's sources, with the rows that the curator counted in each."""
    listed = manifest.get("sources") or [manifest.get("source") or {}]
    counted: Row = {}
    for step in manifest["steps"]:
        found = step["metrics"].get("sources")
        counted |= found if isinstance(found, dict) else {}
    names = ("name", "uri", "revision", "digest", "license", "weight", "rows", "prompts")
    rows = []
    for source in listed:
        counts = counted.get(source.get("name")) or {}
        rows.append(
            {
                **{name: source.get(name) for name in names},
                "rows": source.get("rows", counts.get("read")),
                "prompts": source.get("prompts", counts.get("prompts")),
            }
        )
    return rows


def _measures(steps: Sequence[Row]) -> list[Row]:
    """What every measuring step spent; rollouts it did not generate came from cache or ledger."""
    rows = []
    for step in steps:
        metrics: Mapping[str, Any] = step["metrics"]
        rollouts = metrics.get("rollouts")
        if not isinstance(rollouts, int):
            continue
        made = metrics.get("generated")
        rows.append(
            {
                "name": step["name"],
                "rollouts": rollouts,
                "generated": made,
                "cached": None if made is None else max(0, rollouts - made),
                "seconds": metrics.get("seconds_generating", step["seconds"]),
                **{
                    name: metrics.get(name)
                    for name in ("policy", "tokens", "truncated", "frontier_prompts")
                },
            }
        )
    return rows


def _options(records: Sequence[Row], name: str) -> list[object]:
    """The values a filter offers."""
    return sorted({row[name] for row in records if row[name] is not None})
