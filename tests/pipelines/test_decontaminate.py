"""Decontaminate: which prompts a benchmark holds, by which rule, and what is told of it."""

import json

import polars as pl
import pytest
from pydantic import ValidationError

from curate.pipelines.benchmarks import open_benchmark
from curate.pipelines.decontaminate import Decontaminate
from curate.pipelines.errors import ConfigError

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
    found = result.metrics["benchmarks"]["bench.jsonl"]
    assert found.pop("digest") == open_benchmark(str(bench)).digest
    assert found == {"rows": 3, "unusable": 0, "matched": 1, "exact": 1}
    assert result.metrics["matched"] == 1


def test_a_benchmark_without_answers_still_counts(make_pool, context, tmp_path) -> None:
    path = tmp_path / "bare.jsonl"
    path.write_text(json.dumps({"question": LONG}) + "\n")
    assert len(run(make_pool, context, path, [LONG]).kept) == 0


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("nowhere.json", r"benchmark nowhere\.json: no such file"),
        ("-", "standard input"),
        ("pyproject.toml", "unknown format"),
    ],
)
def test_what_is_no_benchmark_is_told_before_any_work(monkeypatch, root, uri, told) -> None:
    monkeypatch.chdir(root)
    with pytest.raises(ValidationError, match=told):
        Decontaminate(against=(uri,))


def test_a_benchmark_that_is_gone_when_the_step_comes_is_told(bench) -> None:
    step = Decontaminate(against=(str(bench),))
    bench.unlink()
    with pytest.raises(ConfigError, match=r"decontaminate\.against: .*bench\.jsonl: no such file"):
        step.inputs()


def test_one_benchmark_needs_no_list_and_none_is_read_twice(bench) -> None:
    assert Decontaminate(against=str(bench)) == Decontaminate(against=[str(bench), str(bench)])


def test_no_benchmark_lets_everything_pass_and_writes_no_report(make_pool, context) -> None:
    ctx, pool = context(), make_pool(3)
    result = Decontaminate().run(pool, ctx)
    assert result.kept == pool
    assert result.metrics == {"benchmarks": {}, "matched": 0}
    assert list(ctx.artifact.iterdir()) == []


def test_files_of_one_name_are_told_apart(make_pool, context, bench, tmp_path) -> None:
    other = tmp_path / "other" / "bench.jsonl"
    other.parent.mkdir()
    other.write_text(json.dumps({"question": "Name the capital of Peru."}) + "\nno JSON\n")
    step = Decontaminate(against=(str(bench), str(other)))
    result = step.run(make_pool(1, question=["Name the capital of Peru."]), context())
    found = result.metrics["benchmarks"]
    assert {name: (f["rows"], f["unusable"], f.get("matched", 0)) for name, f in found.items()} == {
        str(bench): (3, 0, 0), str(other): (1, 1, 1),
    }  # fmt: skip
    assert result.rejected["detail"][0].startswith(f"{other}:1 by exact (the same text): ")


def test_a_dataset_is_a_benchmark_too(make_pool, context, bench, monkeypatch, tmp_path) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "set"
    folder.mkdir()
    bench.rename(folder / "train.jsonl")
    step = Decontaminate(against=f"hf:{folder}")
    assert set(step.inputs()) == {f"hf:{folder}"}
    result = step.run(make_pool(2, question=["else", LONG]), context())
    assert result.rejected["detail"][0].startswith("set/train:1 by exact ")


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
