"""Rollouts made elsewhere: read, matched to prompts, judged here, measured beside a policy."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import ScriptedEngine
from typer.testing import CliRunner

from curate.cli import app
from curate.pipelines.errors import ConfigError, SourceError
from curate.pipelines.import_rows import told_rollouts
from curate.pipelines.imports import read_imports
from curate.pipelines.measure import Measure
from curate.pipelines.readers import Problem

LONG = [
    {"question": f"{i} +  {i + 1}", "policy": name, "response": f"The answer is {2 * i + 1 + off}."}
    for i in range(6)
    for name, off in (("good", 0), ("bad", 1))
]

WHOLE = {"question": "1 + 1", "policy": "m", "response": "2"}


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def sums(path: Path, n: int) -> str:
    return write(path, [{"question": f"{i} + {i + 1}", "answer": 2 * i + 1} for i in range(n)])


def curate(*words: object) -> dict:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_both_shapes_tell_the_same(tmp_path: Path) -> None:
    wide = [
        {
            "question": LONG[2 * i]["question"],
            "ground_truth": "nobody asks",
            **{row["policy"]: {"solution": row["response"]} for row in LONG[2 * i : 2 * i + 2]},
        }
        for i in range(6)
    ]
    told = [
        read_imports([write(tmp_path / name, rows)]).draws.drop("source_id")
        for name, rows in (("long.jsonl", LONG), ("wide.jsonl", wide))
    ]
    assert told[0].equals(told[1])
    assert read_imports([str(tmp_path / "wide.jsonl")]).policies == ["good", "bad"]


def test_every_response_of_a_list_is_a_rollout_and_numbered(make_pool, tmp_path: Path) -> None:
    row = {"prompt": [{"role": "user", "content": "0 + 1"}], "model": "m", "tokens": 9,
           "responses": ["2", {"text": "3"}, "2"], "temperature": 0.6}  # fmt: skip
    imports = read_imports([write(tmp_path / "r.jsonl", [row, {**row, "responses": "4"}])])
    draws = imports.replay("m").stored(make_pool(2).frame, 1, {})
    assert draws["response"].to_list() == ["2", "3", "2", "4"]
    assert draws["sample"].to_list() == [0, 1, 2, 3]
    # Nine tokens are one response's or all three's: nobody can tell.
    assert draws["tokens"].to_list() == [None, None, None, 9]
    assert imports.draws["temperature"].to_list() == [0.6] * 4


def test_equal_responses_are_two_rollouts_whatever_number_they_bear(
    make_pool, context, tmp_path: Path
) -> None:
    # Two files of one sampling script, each counting from 0 again.
    rows = [{"question": "0 + 1", "policy": "m", "sample": 0, "response": r} for r in "112"]
    imports = read_imports([write(tmp_path / "r.jsonl", rows)])
    assert imports.unusable.is_empty()
    ctx = context(engine=imports.replay("m"), imports=imports)
    frame = Measure().run(make_pool(1), ctx).kept.frame
    assert (frame["attempts"][0], frame["successes"][0]) == (3, 2)


def test_rollouts_told_by_id_and_by_text_are_one_prompts(
    make_pool, context, tmp_path: Path
) -> None:
    pool = make_pool(2)
    rows = [
        {"prompt_id": pool.frame["id"][0], "policy": "m", "response": "1"},
        {"question": " 0 +  1", "policy": "m", "response": "1"},
        {"question": "0 + 1", "prompt_id": pool.frame["id"][0], "policy": "m", "response": "4"},
    ]
    imports = read_imports([write(tmp_path / "r.jsonl", rows)])
    ctx = context(engine=imports.replay("m"), imports=imports)
    result = Measure().run(pool, ctx)
    assert result.kept.frame["attempts"].to_list() == [3, 0]
    assert result.kept.frame["successes"].to_list() == [2, 0]
    assert result.metrics["imported"]["used"] == 3


@pytest.mark.parametrize(
    "row, reason, field",
    [
        ({"policy": "m", "response": "2"}, "missing_question", None),
        ({"question": "1 + 1", "response": "2"}, "no_policy", None),
        ({"question": "1 + 1", "policy": 3, "response": "2"}, "no_policy", "policy"),
        ({"question": "1 + 1", "policy": "m"}, "missing_response", None),
        ({"question": "1 + 1", "policy": "m", "response": 2}, "missing_response", "response"),
        ({"question": ["1 + 1"], "policy": "m", "response": "2"}, "bad_type", "question"),
        ({**WHOLE, "temperature": "hot"}, "bad_type", "temperature"),
        ({**WHOLE, "tokens": 1.5}, "bad_type", "tokens"),
        ({**WHOLE, "tokens": -5}, "bad_type", "tokens"),
        ({**WHOLE, "sample": 2**40}, "bad_type", "sample"),
        ({**WHOLE, "sample": -1}, "bad_type", "sample"),
        ({**WHOLE, "policy": "m\x1b[2J"}, "no_policy", "policy"),
        ({"question": "1 + 1", "policy": "m", "responses": []}, "missing_response", "responses"),
        ({**WHOLE, "response": "\ud800"}, "bad_encoding", "response"),
        # A text beside a question is any text; only inside a response it is what was said.
        ({"question": "1 + 1", "metadata": {"text": "abc"}}, "no_policy", None),
    ],
)
def test_a_row_that_is_no_rollout_says_why(row: dict, reason: str, field: str | None) -> None:
    found = told_rollouts(row)
    assert isinstance(found, Problem)
    assert (found.reason, found.field) == (reason, field)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
columns = st.sampled_from(
    ["question", "prompt", "prompt_id", "messages", "policy", "model", "response", "responses",
     "solution", "sample", "seed", "tokens", "temperature", "finish_reason", "gpt"]
)  # fmt: skip


@given(st.dictionaries(columns, json_values, max_size=8))
def test_any_row_is_rollouts_or_a_problem(record: dict) -> None:
    found = told_rollouts(record)
    if isinstance(found, Problem):
        assert found.reason
        assert found.detail
    else:
        assert all(isinstance(told.response, str) and told.policy for told in found)
        pl.DataFrame(found, orient="row", infer_schema_length=None)


def test_rollouts_measure_a_pool_and_what_fits_nothing_is_kept_apart(
    make_pool, context, tmp_path: Path
) -> None:
    rows = [*LONG, {"question": "what?", "policy": "bad", "response": "no"}, {"question": "1 + 2"}]
    imports = read_imports([write(tmp_path / "r.jsonl", rows)])
    ctx = context(engine=imports.replay("good"), others=(imports.replay("bad"),), imports=imports)
    result = Measure().run(make_pool(8), ctx)
    assert result.kept.frame["attempts"].to_list() == [1] * 6 + [0] * 2
    assert result.kept.frame["successes"].to_list() == [1] * 6 + [0] * 2
    policies = result.metrics["policies"]
    assert {name: figures["pass_rate"] for name, figures in policies.items()} == {
        "good": 1.0,
        "bad": 0.0,
    }
    # One rollout a prompt cannot show both outcomes, so there is no share to tell.
    assert policies["bad"]["frontier_share"] is None
    assert result.metrics["imported"] == {
        "read": 14, "used": 12, "unused": {"no_policy": 1, "no_prompt": 1}
    }  # fmt: skip
    unused = pl.read_parquet(ctx.artifact / "unused_rollouts.parquet").sort("source_id")
    assert unused["source_id"].to_list() == ["r.jsonl:13", "r.jsonl:14"]
    assert json.loads(unused["record"][0])["response"] == "no"
    stored = ctx.ledger.scan().collect()
    assert set(stored["policy"]) == {"good", "bad"}
    assert stored["temperature"].null_count() == len(stored) == 12


def test_all_imported_rollouts_of_a_prompt_count_whatever_the_recipe_says(
    make_pool, context, tmp_path: Path
) -> None:
    row = {"question": "0 + 1", "policy": "m", "responses": ["1"] * 20 + ["2"] * 10}
    imports = read_imports([write(tmp_path / "r.jsonl", [row])])
    ctx = context(engine=imports.replay("m"), imports=imports)
    frame = Measure(rollouts={"per_prompt": 4}).run(make_pool(1), ctx).kept.frame
    assert (frame["attempts"][0], frame["successes"][0]) == (30, 20)


def test_imported_policies_stand_beside_a_model(make_pool, context, tmp_path: Path) -> None:
    imports = read_imports([write(tmp_path / "r.jsonl", LONG)])
    others = tuple(imports.replay(name) for name in imports.policies)
    ctx = context(engine=ScriptedEngine(), others=others, imports=imports)
    result = Measure(rollouts={"per_prompt": 3}).run(make_pool(6), ctx)
    assert set(result.metrics["policies"]) == {"scripted", "good", "bad"}
    assert result.kept.frame["attempts"].to_list() == [3] * 6
    table = pl.read_parquet(ctx.artifact / "pass_rates.parquet")
    assert dict(table.group_by("policy").len().iter_rows()) == {
        "scripted": 6, "good": 6, "bad": 6
    }  # fmt: skip


def test_rollouts_of_other_prompts_measure_nothing(make_pool, context, tmp_path: Path) -> None:
    row = {"question": "what?", "policy": "m", "response": "1"}
    imports = read_imports([write(tmp_path / "r.jsonl", [row])])
    with pytest.raises(ConfigError, match="no rollout of m is for a prompt of this pool"):
        Measure().run(make_pool(2), context(engine=imports.replay("m"), imports=imports))


def test_one_policy_is_sampled_in_one_way(tmp_path: Path) -> None:
    row = {"question": "1 + 1", "policy": "m", "response": "2"}
    path = write(tmp_path / "r.jsonl", [{**row, "temperature": t} for t in (0.6, 1.0)])
    with pytest.raises(SourceError, match=r"temperature 0.6 \(r.jsonl:1\) and 1.0 \(r"):
        read_imports([path])
    path = write(tmp_path / "r.jsonl", [{**row, "revision": t} for t in ("a", "b")])
    with pytest.raises(SourceError, match=r"revision a \(r.jsonl:1\) and b"):
        read_imports([path])
    seeds = write(tmp_path / "s.jsonl", [{**row, "seed": s} for s in (1, 2)])
    assert read_imports([seeds]).replay("m").settings["seed"] is None


def test_a_changed_file_is_another_revision(tmp_path: Path) -> None:
    def revision(rows: list[dict]) -> str:
        imports = read_imports([write(tmp_path / "r.jsonl", rows)])
        return imports.replay("good").identity.revision

    assert revision(LONG) == revision(LONG)
    assert revision(LONG) != revision([{**LONG[0], "response": "other"}, *LONG[1:]])
    # What they were drawn with and what they cost is kept with them, so it counts too.
    for change in ({"temperature": 0.5}, {"tokens": 3}, {"finish_reason": "length"}):
        assert revision([{**r, **change} for r in LONG]) != revision(LONG)


def test_a_ledger_is_a_file_of_rollouts_too(tmp_path: Path) -> None:
    source = sums(tmp_path / "x.jsonl", 5)
    build = ("build", "--source", source, "--recipe", "qa", "--cache", tmp_path / "c.sqlite")
    made = curate(*build, "--rollouts", 3, "--out", tmp_path / "a")
    rollouts = tmp_path / "a" / "rollouts"
    # Judged once more: the same rollouts, told twice.
    pl.read_parquet(rollouts).write_parquet(rollouts / "part-00001-again.parquet")
    again = curate(*build, "--import-rollouts", rollouts, "--out", tmp_path / "b")
    figures = [
        next(step["metrics"] for step in build["steps"] if step["name"] == "measure")
        for build in (made, again)
    ]
    assert figures[1]["generated"] == 0
    assert figures[1]["imported"] == {"read": 30, "used": 15, "unused": {"duplicate": 15}}
    assert [f["verdicts"] for f in figures] == [figures[0]["verdicts"]] * 2
    assert again["policy"]["name"] == "tiny"
    assert again["policy"]["settings"]["temperature"] == 1.0


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """A build measured by imported rollouts of ``good``, with ``bad`` beside it."""
    curate(
        "build", "--source", sums(tmp_path / "x.jsonl", 6), "--recipe", "qa", "--policy", "good",
        "--import-rollouts", write(tmp_path / "r.jsonl", LONG), "--out", tmp_path / "b",
    )  # fmt: skip
    return tmp_path / "b"


def test_imported_rollouts_are_judged_again_from_the_ledger(imported: Path) -> None:
    (imported.parent / "r.jsonl").unlink()
    source = imported.parent / "x.jsonl"
    # The gold of 0 + 1 is corrected to what `bad` answers.
    source.write_text(source.read_text().replace('"0 + 1", "answer": 1', '"0 + 1", "answer": 2'))
    figures = curate("reverify", imported)
    assert (figures["generated"], figures["without_rollouts"]) == (0, 0)
    # Another gold is another prompt, which takes over its rollouts and tells what became of them.
    assert figures["changed_verdicts"] == {"correct → incorrect": 1, "incorrect → correct": 1}
    manifest = curate("inspect", imported)
    (measured,) = [step for step in manifest["steps"] if step["name"] == "measure"]
    assert measured["metrics"]["policies"]["good"]["pass_rate"] == pytest.approx(5 / 6)
    assert measured["metrics"]["policies"]["bad"]["pass_rate"] == pytest.approx(1 / 6)


def test_there_is_no_model_to_draw_more_from(imported: Path) -> None:
    done = CliRunner().invoke(app, ["measure", str(imported), "--more", "2"])
    assert done.exit_code == 2
    assert "were imported" in done.stderr


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "rollouts of 2 policies (good, bad): name the one to measure with --policy"),
        (("--recipe", "none.yaml"), "measures nothing: --import-rollouts has no use"),
        (("--import-rollouts", "nope.jsonl"), "nope.jsonl: no such file"),
        (("--import-rollouts", "x.jsonl"), "x.jsonl:1: no_policy"),
    ],
)
def test_what_cannot_be_meant_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "x.jsonl", [{"question": "0 + 1", "answer": 1}])
    write(tmp_path / "r.jsonl", LONG)
    (tmp_path / "none.yaml").write_text("name: none\nsteps: [qa]\n")
    build = ["build", "--source", "x.jsonl", "--import-rollouts", "r.jsonl", "--out", "b"]
    done = CliRunner().invoke(app, [*build, *words])
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert not (tmp_path / "b").exists()


def test_the_published_gsm8k_solutions_are_four_policies(shared: Path, tmp_path: Path) -> None:
    file = shared / "data/gsm8k/model_solutions.jsonl.gz"
    manifest = curate(
        "build", "--source", shared / "data/gsm8k/test.jsonl", "--import-rollouts", file,
        "--policy", "175b_verification", "--recipe", "qa", "--out", tmp_path / "b",
    )  # fmt: skip
    with gzip.open(file, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    published = {
        name: sum(row[name]["is_correct"] for row in rows) / len(rows)
        for name, value in rows[0].items()
        if isinstance(value, dict)
    }
    (measured,) = [step for step in manifest["steps"] if step["name"] == "measure"]
    found = {name: f["pass_rate"] for name, f in measured["metrics"]["policies"].items()}
    assert found == pytest.approx(published)
    assert measured["metrics"]["generated"] == 0
