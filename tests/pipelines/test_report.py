"""report.html as its reader meets it: the figures and the escaping."""

import base64
import hashlib
import re
from html import unescape
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_build import HOSTILE, Reader, make_build

from curate.pipelines.files import write_parquet
from curate.pipelines.ledger import Ledger
from curate.pipelines.pool import ROLLOUT_SCHEMA, conform
from curate.pipelines.report import write_report
from curate.pipelines.report_figures import facts, funnel, histogram, stages, ticks
from curate.pipelines.report_records import LIMITS, spread, text_limit


def read(folder: Path, manifest) -> Reader:
    return Reader(write_report(folder, manifest).read_text())


def test_the_funnel_and_the_histogram_hold_the_manifests_numbers(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    page = read(folder, manifest)
    expected = [["select", "42", "0", "2", "40", "1.2", "too_odd 2"]]
    assert [[cell.strip() for cell in row] for row in page.cells["funnel-table"][1:]] == expected
    counts = [int(row[1]) for row in page.cells["rates-table"][1:]]
    assert counts == manifest["summary"]["before"]["p_hat_histogram"]
    assert [row[1] for row in page.cells["stages-table"][1:]] == ["14", "13", "13"]
    assert [row[2:5] for row in page.cells["cost-table"][1:]] == [["160", "40", "120"]]
    by_policy = {row[0]: row[1:5] for row in page.cells["policies-table"][1:]}
    assert by_policy == {p: ["42", "168", "50.0 %", "100.0 %"] for p in ("first", "second")}


def test_hostile_text_makes_no_element_and_no_attribute(tmp_path) -> None:
    folder, manifest = make_build(tmp_path / "hostile", texts=HOSTILE)
    plain_folder, plain = make_build(tmp_path / "plain")
    hostile, harmless = read(folder, manifest), read(plain_folder, plain)

    def names(page: Reader) -> set[tuple[str, str]]:
        return {(tag, name) for tag, attrs in page.tags for name in ("", *attrs)}

    assert names(hostile) <= names(harmless) | {("i", ""), ("i", "class")}
    assert [t for t, _ in hostile.tags].count("script") == 1
    assert "49" not in {word.strip() for word in hostile.words}
    for text in HOSTILE[:-1]:
        assert text in hostile.text
    assert "line\\u2028separator \\x1b[31m \\x01 \\u202egnp.exe" in hostile.text


def test_nothing_is_loaded_and_only_its_own_style_and_script_may_run(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    page = write_report(folder, manifest).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    allowed = unescape(policy[1])
    assert "default-src 'none'" in allowed and "unsafe" not in allowed
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in allowed
    links = [value for _, attrs in Reader(page).tags for name, value in attrs.items()
             if name in {"href", "src", "action"}]  # fmt: skip
    assert all(value and value.startswith(("#", "data:")) for value in links)


@pytest.mark.parametrize("n, measured", [(0, True), (0, False), (1, False), (5, False)])
def test_builds_without_prompts_or_measurements_have_a_page(tmp_path, n, measured) -> None:
    folder, manifest = make_build(tmp_path, n=n, measured=measured)
    page = read(folder, manifest)
    assert len([row for row in page.cells.get("records", []) if len(row) > 2]) == (
        n + 1 if n else 0
    )
    assert page.cells["funnel-table"][1][1] == str(n + 2)


def test_sources_show_licence_weight_and_rows(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    manifest["sources"] = [
        {"name": "gsm", "uri": "hf:a/b", "digest": "e" * 64, "revision": "abc", "license": "MIT",
         "weight": 0.7, "rows": 12},
    ]  # fmt: skip
    row = [cell.strip() for cell in read(folder, manifest).cells["sources-table"][1]]
    assert row == ["gsmhf:a/b", "abc", "e" * 16, "MIT", "0.7", "12", "–"]


def test_a_policy_is_judged_by_its_verdicts_and_needs_two_for_a_frontier(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    ids = Ledger(folder / "rollouts").scan().select("prompt_id").unique().collect()["prompt_id"]
    once = Ledger(folder / "rollouts").scan().filter(policy="first", sample=1).collect()
    broken = once.with_columns(verdict=pl.lit("error"), sample=pl.lit(2, pl.Int32))
    drawn = pl.concat([once, broken]).with_columns(
        policy=pl.lit("elsewhere"), temperature=pl.lit(None, pl.Float64)
    )
    Ledger(folder / "rollouts").append(conform(drawn, ROLLOUT_SCHEMA))
    found = {row[0]: row[1:] for row in read(folder, manifest).cells["policies-table"][1:]}
    n = str(len(ids))
    assert found["elsewhere"][:5] == [n, str(2 * len(ids)), "100.0 %", "–", n]
    assert found["first"][2:5] == ["50.0 %", "100.0 %", "0"]
    assert found["elsewhere"][7] == "–"


def test_copies_and_leaks_are_shown_and_their_absence_is_not(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    assert "Copies and leaks" not in read(folder, manifest).text
    manifest["steps"][0] |= {"name": "dedup", "metrics": {"near": {"pairs_checked": 4}}}
    page = read(folder, manifest)
    assert "near.pairs_checked" in page.text
    assert "Prompts were compared with no benchmark." in page.text


def test_benchmarks_and_their_matches_are_shown_unharmed(tmp_path) -> None:
    folder, manifest = make_build(tmp_path)
    step = manifest["steps"][0]
    settings = {"ngram": 11, "short_ngram": 6, "min_overlap": 0.3, "similarity": 0.75,
                "action": "flag"}  # fmt: skip
    bench = {"digest": "e" * 64, "rows": 30, "unusable": 2, "matched": 1, "ngram": 1}
    step |= {"name": "decontaminate", "settings": settings,
             "metrics": {"matched": 1, "benchmarks": {HOSTILE[0]: bench}}}  # fmt: skip
    matched = pl.DataFrame(
        {"id": ["a"], "source_id": [HOSTILE[1]], "benchmark": [HOSTILE[0]], "benchmark_row": [7],
         "rule": ["ngram"], "overlap": [0.5], "similarity": [None], "matched": [HOSTILE[2]]},
        schema_overrides={"similarity": pl.Float64},
    )  # fmt: skip
    write_parquet(matched, folder / "steps" / step["artifact"] / "contamination.parquet")
    page = read(folder, manifest)
    assert [cell.strip() for cell in page.cells["benchmarks-table"][1]] == [
        HOSTILE[0], "e" * 16, "30", "2", "1", "0", "1", "0", "0",
    ]  # fmt: skip
    assert [cell.strip() for cell in page.cells["matches-table"][1]] == [
        HOSTILE[1], HOSTILE[0], "7", "ngram", "50.0 %", "–", HOSTILE[2],
    ]  # fmt: skip
    assert "1 of 42 prompts matched and were kept" in page.text
    assert "more than 30 % of the benchmark question's" in page.text


def test_a_page_of_long_texts_stays_small_and_says_what_was_cut(tmp_path) -> None:
    folder, manifest = make_build(tmp_path, n=220, texts=("<&" * 2500,))
    path = write_report(folder, manifest)
    assert path.stat().st_size < 3_000_000
    page = Reader(path.read_text())
    assert "more characters" in page.text
    shown = re.search(r"(\d+) of 220 prompts, spread over stages", page.text)
    assert shown and int(shown[1]) == len([t for t, a in page.tags if "data-rate" in a]) >= 50


def test_the_same_build_gives_the_same_bytes(tmp_path) -> None:
    folder, manifest = make_build(tmp_path, n=220)
    assert (
        write_report(folder, manifest).read_bytes() == write_report(folder, manifest).read_bytes()
    )


def test_a_sample_reaches_every_stage_and_tenth(make_pool) -> None:
    n = 1000
    frame = make_pool(
        n, p_hat=[0.05 if i else 0.95 for i in range(n)], stage=[int(i == 7) for i in range(n)]
    ).frame
    chosen = spread(frame, 10, seed=0)
    assert len(chosen) == 10
    assert chosen["p_hat"].max() == 0.95 and chosen["stage"].max() == 1
    assert spread(frame, 2000, seed=0).equals(frame)


@given(st.integers(0, 10**12))
def test_ticks_cover_the_top_in_few_round_steps(top) -> None:
    found = ticks(top)
    assert found[0] == 0 and found[-1] >= top and 2 <= len(found) <= 6
    assert len({b - a for a, b in pairwise(found)}) == 1


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=8))
def test_bars_never_leave_the_figure(pairs) -> None:
    steps = [
        {"name": "s", "rows_in": kept + lost, "made": 0, "rejected": lost, "rows_out": kept}
        for kept, lost in pairs
    ]
    for bar in funnel(steps):
        assert 0 <= bar["kept"] + bar["lost"] <= 100.02
        assert 0 <= bar["lost_share"] <= 1


@given(st.lists(st.text(max_size=50), max_size=20), st.integers(1, 500))
def test_a_text_limit_is_the_largest_that_fits(texts, budget) -> None:
    records = [{"text": text * 20} for text in texts]
    limit = text_limit(records, budget)
    if sum(len(record["text"]) for record in records) * 6 <= budget:
        assert limit == LIMITS[0]
    assert limit in LIMITS


def test_strips_count_every_prompt_and_histograms_need_one(make_pool) -> None:
    frame = make_pool(4, p_hat=[0.0, 0.5, 1.0, None], stage=[0, 0, 0, 1]).frame
    first, second = stages(frame)
    assert sum(cell["n"] for cell in first["strip"]) == 3 and second["strip"] == []
    assert histogram({"before": None}) is None
    assert facts([]) == [("", "none")]
