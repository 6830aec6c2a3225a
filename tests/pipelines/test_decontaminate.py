"""Decontaminate: which prompts a benchmark holds, by which rule, and what is told of it."""

import json

import polars as pl
import pytest
from pydantic import ValidationError

from curate.pipelines.decontaminate import Decontaminate

LONG = ("A gardener plants 48 tulips in 6 equal rows along the southern wall and waters each row "
        "with 3 litres every evening. How many tulips stand in one row?")  # fmt: skip
MEDIUM = "Which river runs through the old town of Prague?"
SHORT = "Compute 17 * 23."


@pytest.fixture
def bench(tmp_path):
    path = tmp_path / "bench.jsonl"
    rows = [(LONG, "8"), (MEDIUM, "Vltava"), (SHORT, "391")]
    path.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in rows))
    return path


def run(make_pool, context, bench, questions, answers=None, **settings):
    pool = make_pool(len(questions), question=questions,
                     answer=answers or ["none"] * len(questions))  # fmt: skip
    return Decontaminate(against=(str(bench),), **settings).run(pool, context())


@pytest.mark.parametrize(
    ("question", "answer", "row", "rule"),
    [
        (LONG, "8", 1, "exact"),
        ("  " + LONG.upper(), "9", 1, "exact"),
        ("Solve this and show your work with care. " + LONG, "9", 1, "ngram"),
        (MEDIUM.replace("Which", "Name which"), "x", 2, "short_ngram"),
        (SHORT.replace("17 * 23", "17*23"), "x", 3, "exact"),
        (LONG.replace("plants", "sows").replace("wall", "fence").replace("waters", "feeds")
         .replace("every", "each").replace("stand", "are"), "8", 1, "near_question"),
    ],
)  # fmt: skip
def test_a_leak_is_rejected_with_row_and_rule(
    make_pool, context, bench, question, answer, row, rule
) -> None:
    result = run(make_pool, context, bench, ["What is a prime?", question], ["x", answer])
    assert list(result.kept.frame["source_id"]) == ["made:1"]
    (gone,) = result.rejected.to_dicts()
    assert gone["reason"] == "contaminated"
    assert gone["detail"].startswith(f"bench.jsonl:{row} by {rule} ")
    (note,) = json.loads(json.loads(gone["record"])["metadata"])["contamination"]
    assert (note["benchmark"], note["benchmark_row"], note["rule"]) == ("bench.jsonl", row, rule)


@pytest.mark.parametrize(
    "question",
    [
        SHORT.replace("23", "29"),
        "Which river runs through the old town of Basel, and how long is it from there to the sea?",
        "How many tulips stand in one row?",
        "A gardener waters roses.",
    ],
)
def test_what_only_sounds_alike_stays(make_pool, context, bench, question) -> None:
    assert len(run(make_pool, context, bench, [question]).kept) == 1


def test_a_flag_keeps_the_prompt_and_its_other_metadata(make_pool, context, bench) -> None:
    ctx = context()
    pool = make_pool(2, question=[LONG, "else"], metadata=['{"level": 3}', "{}"])
    result = Decontaminate(against=(str(bench),), action="flag").run(pool, ctx)
    assert result.rejected.is_empty()
    first, second = map(json.loads, result.kept.frame["metadata"])
    assert first["level"] == 3
    assert first["contamination"][0]["rule"] == "exact"
    assert second == {}
    report = pl.read_parquet(ctx.artifact / "contamination.parquet")
    assert report.select("source_id", "benchmark", "benchmark_row", "rule", "action").rows() == [
        ("made:1", "bench.jsonl", 1, "exact", "flag")
    ]
    assert result.metrics == {
        "benchmarks": {"bench.jsonl": {"rows": 3, "exact": 1}}, "matched": 1,
    }  # fmt: skip


def test_a_benchmark_without_answers_still_counts(make_pool, context, tmp_path) -> None:
    path = tmp_path / "bare.jsonl"
    path.write_text(json.dumps({"question": LONG}) + "\n")
    assert len(run(make_pool, context, path, [LONG]).kept) == 0


def test_a_missing_benchmark_is_named_before_any_work() -> None:
    with pytest.raises(ValidationError, match=r"nowhere\.json"):
        Decontaminate(against=("nowhere.json",))


def test_inputs_change_with_the_content_of_the_benchmark(bench) -> None:
    step = Decontaminate(against=(str(bench),))
    before = step.inputs()
    bench.write_text(bench.read_text().replace("48", "49"))
    assert set(step.inputs()) == set(before)
    assert step.inputs() != before


def test_an_empty_pool_passes(make_pool, context, bench) -> None:
    assert len(run(make_pool, context, bench, []).kept) == 0


def test_planted_leaks_in_real_rows(make_pool, context, shared) -> None:
    path = shared / "data" / "math" / "math500.json"
    leaked = [row["problem"] for row in json.loads(path.read_text())[:20]]
    clean = [
        f"Tell how many of the {n} ships in port {n + 1} sail under no flag." for n in range(50)
    ]
    result = run(make_pool, context, path, clean + ["Now: " + text for text in leaked])
    assert len(result.kept) == 50
