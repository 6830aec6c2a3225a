"""What is shown of a build on a Prefect server, without one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.flows.artifacts import (
    artifact_key,
    build_markdown,
    failure_markdown,
    step_line,
    step_table,
)
from curate.flows.labels import run_name, run_tags, shown, without_login
from curate.pipelines.spec import BuildSpec

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
METRICS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)


def record(**fields: Any) -> dict[str, Any]:
    base = {"name": "check", "rows_in": 1000, "made": 2, "rows_out": 995, "rejected": 7}
    more = {"rejected_by_reason": {"no_gold": 7}, "seconds": 1.25, "reused": False, "metrics": {}}
    return {**base, **more, **fields}


@pytest.fixture
def manifest() -> dict[str, Any]:
    figures = {"prompts": 995, "frontier_prompts": 100, "frontier_share": 0.1005}
    rates = {"mean_p_hat": 0.25, "mean_q_hat": None, "p_hat_histogram": [900, 95]}
    return {
        "summary": {
            "rows_in": 1000, "rows_out": 995, "seconds": 1.25, "rollouts": 2000, "tokens": 12345,
            "rollouts_per_frontier_prompt": 20.0,
            "before": {**figures, **rates},
            "after": {**figures, **rates, "p_hat_histogram": []},
        },
        "steps": [record(), record(name="dedup", reused=True)],
        "sources": [{"name": "a|b.jsonl"}, {"name": "c.jsonl"}],
        "recipe": {"name": "mine"},
        "seed": 7,
        "policy": {"name": "tiny", "revision": "07a69d"},
    }  # fmt: skip


@given(
    metrics=st.dictionaries(st.text(max_size=9), METRICS, max_size=4),
    reasons=st.integers(0, 80).map(lambda n: {f"reason_{i}|": i + 1 for i in range(n)}),
)
def test_a_table_is_valid_json_of_one_line_figures(
    metrics: dict[str, Any], reasons: dict[str, int]
) -> None:
    rejected = sum(reasons.values())
    rows = step_table(
        record(rejected_by_reason=reasons, rejected=rejected, metrics=metrics, reused=True)
    )
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    for row in rows:
        assert set(row) == {"figure", "value"}
        assert not isinstance(row["value"], bool) and row["value"] is not None
        assert len(str(row["figure"]).splitlines()) <= 1
    told = [row["value"] for row in rows if str(row["figure"]).startswith("rejected: ")]
    assert sum(value for value in told if isinstance(value, int)) == rejected
    assert len(told) <= 51


def test_a_table_tells_every_figure_of_a_step() -> None:
    rows = step_table(record(metrics={"verdicts": {"correct": 3}, "share": 0.25}))
    assert {row["figure"]: row["value"] for row in rows} == {
        "rows in": 1000, "made": 2, "rows out": 995, "rejected": 7, "rejected: no_gold": 7,
        "seconds": 1.25, "reused": "no", "verdicts.correct": 3, "share": 0.25,
    }  # fmt: skip


def test_a_build_is_told_whole(manifest: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    text = build_markdown(manifest, tmp_path)
    for line in (
        r"995 prompts from 1,000 rows of a\|b.jsonl, c.jsonl, recipe mine, seed 7.",
        "| check | 1,000 | 2 | 995 | 7 | 1.2 | no_gold 7 |",
        "| dedup | 1,000 | 2 | 995 | 7 | reused | no_gold 7 |",
        "| frontier share | 0.101 | 0.101 |",
        "| mean chance of a mixed group | – | – |",
        "| pass rate 0.0 – 0.5 | 900 | 0 |",
        "| rollouts per frontier prompt | 20.0 |",
        "| tokens | 12,345 |",
        "| revision | 07a69d |",
    ):
        assert line in text.splitlines(), text
    assert "report.html" in text
    assert "README.md" not in text


def test_a_build_that_measures_nothing_or_keeps_nothing_is_told_too(
    manifest: dict[str, Any], tmp_path: Path
) -> None:
    manifest["summary"] = {"rows_in": 7, "rows_out": 0, "seconds": 0.1}
    manifest["policy"] = None
    text = build_markdown(manifest, tmp_path)
    assert "**No prompt is left: check rejected 7.**" in text
    assert "Pass rate" not in text
    assert "Policy" not in text


def test_a_failure_tells_where_why_and_what_is_kept(tmp_path: Path) -> None:
    text = failure_markdown("measure", "rows<b>\n:3: `no`", ["qa", "check"], tmp_path / "a|b")
    assert "# Stopped at measure" in text
    assert r"rows\<b\> \:3: \`no\`" in text
    assert "(qa, check)" in text
    assert r"a\|b" in text
    assert "No step had finished" in failure_markdown("opening", "x", [], tmp_path)


@given(st.lists(st.text(), min_size=1))
def test_a_key_is_one_that_prefect_takes(parts: list[str]) -> None:
    assert re.fullmatch(r"curate(-[a-z0-9]+)*", artifact_key("curate", *parts))


def test_a_step_in_one_line() -> None:
    line = step_line(record(reused=True))
    assert line == "check: 1,000 in + 2 made = 995 kept + 7 rejected (no_gold 7), reused"


def test_labels_and_parameters_hold_no_login(tmp_path: Path) -> None:
    policy = "http://me:secret@host:8000/v1#m"
    spec = BuildSpec(
        source="rows.jsonl", out=tmp_path / "a{b}\n", recipe="x/y.yaml", policy=policy,
        settings={"measure": {"stop": ["https://u:secret@h/"]}},
    )  # fmt: skip
    assert run_name(spec) == "y-a{b} "
    assert run_tags(spec) == ["recipe:y", "policy:http://host:8000/v1#m"]
    text = json.dumps(shown(spec))
    assert "secret" not in text
    assert "http://host:8000/v1#m" in text
    assert without_login("http://me:secret@host:port/v1") == "(no address)"
