"""The data card: README.md of a build, made from the manifest and the final pool alone."""

from pathlib import Path
from typing import Any, cast

import polars as pl
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from curate.pipelines.files import write_bytes
from curate.pipelines.leaks import leaks
from curate.pipelines.show import last_pool, share
from curate.pipelines.step import Metric
from curate.pipelines.summary import step_record

Row = dict[str, Any]

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def write_card(build: Path, manifest: dict[str, Metric]) -> Path:
    """Write ``README.md`` and return its path."""
    frame = last_pool(build)
    measured, sharded = step_record(manifest, "measure"), step_record(manifest, "shard")
    environment = Environment(
        loader=PackageLoader("curate.data_cards", ""),
        autoescape=False,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("card.md.jinja").render(
        front_matter=_front_matter(build, frame, sharded),
        title=_plain(build.resolve().name),
        prompts=len(frame),
        m=manifest,
        s={"before": None, "after": None, **cast("Row", manifest["summary"])},
        sources=[_about(each) for each in cast("list[Row]", manifest["sources"])],
        licenses=_counts(frame["license"], "not stated"),
        kinds=_counts(frame["kind"], ""),
        leaks=[_leak(each) for each in leaks(manifest)],
        measure=measured,
        policies=_policies(measured),
        order=step_record(manifest, "order"),
        shard=sharded,
        share=share,
        recipe_yaml=yaml.safe_dump(manifest["recipe"], sort_keys=False, allow_unicode=True),
    )
    path = build / "README.md"
    write_bytes(path, text.encode())
    return path


def _front_matter(build: Path, frame: pl.DataFrame, sharded: Row | None) -> str:
    languages = sorted(frame["language"].drop_nulls().unique()) or ["en"]
    size = next((label for limit, label in _SIZES if len(frame) < limit), "n>1M")
    licenses = sorted(frame["license"].drop_nulls().unique())
    known = len(licenses) == 1 and not frame["license"].null_count()
    formats = sharded["settings"]["formats"] if sharded else []
    configs = [
        {
            "config_name": name,
            **({"default": True} if name == formats[0] else {}),
            "data_files": [
                {"split": split, "path": f"shards/{name}/{split}/ordered-part-*.{kind}"}
                for split in ("train", "validation")
                for kind in _kinds(build / "shards" / name / split)
            ],
        }
        for name in formats
    ]
    return yaml.safe_dump(
        {
            "pretty_name": build.resolve().name,
            "language": languages,
            # Only a licence that every row states may be claimed for the whole.
            "license": licenses[0] if known else "unknown",
            "task_categories": ["text-generation"],
            "size_categories": [size],
            "tags": ["rlvr", "grpo", "reasoning", "curriculum"],
            "configs": configs,
        },
        sort_keys=False,
        allow_unicode=True,
    )


def _kinds(folder: Path) -> list[str]:
    """The file type to load a split from, as a list of one, or of none when it has no files."""
    return [k for k in ("parquet", "jsonl") if any(folder.glob(f"ordered-part-*.{k}"))][:1]


def _about(source: Row) -> dict[str, str]:
    """One source in words; a folder's path says more about a machine than about the data."""
    uri = str(source["uri"])
    shown = (
        uri if uri.startswith("hf:") and not uri.startswith(("hf:.", "hf:/")) else source["name"]
    )
    told = [f"SHA-256 `{str(source['digest'])[:16]}…`"]
    if source["revision"]:
        told.append(f"revision `{_plain(str(source['revision']))}`")
    if source["license"]:
        told.append(f"licence {_plain(str(source['license']))}")
    if source["weight"]:
        told.append(f"weight {source['weight']:g}")
    return {"name": _plain(str(shown)), "told": ", ".join(told)}


def _leak(leak: Row) -> Row:
    """A decontamination in words that are safe in Markdown."""
    named = [{**each, "name": _plain(each["name"])} for each in leak["benchmarks"]]
    return {**leak, "benchmarks": named}


def _policies(measured: Row | None) -> list[tuple[str, Row]]:
    """Figures of every policy of a measurement, where it compared several."""
    found = (measured or {"metrics": {}})["metrics"].get("policies") or {}
    return [(_plain(name), figures) for name, figures in found.items()]


def _counts(column: pl.Series, null: str) -> list[tuple[str, int]]:
    table = column.fill_null(null).value_counts(sort=True)
    return [(_plain(name), n) for name, n in table.iter_rows()]


def _plain(text: str) -> str:
    """One line without Markdown's or HTML's special characters."""
    return "".join(c for c in " ".join(text.split()) if c not in "`|<>[]*\\")[:200]
