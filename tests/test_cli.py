"""The command line as a person or a script meets it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from curate.cli import app

COMMANDS = (
    "build", "inspect", "report", "reverify", "measure", "verify-export", "doctor", "recipes",
    "recipes show",
)  # fmt: skip


@pytest.fixture
def curate(tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("CURATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def curate(*words: object, stdin: str | bytes | None = None):
        return CliRunner().invoke(app, [str(word) for word in words], input=stdin)

    return curate


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """A small finished build of the sample source with the real tiny policy."""
    folder = tmp_path_factory.mktemp("built")
    run = subprocess.run(
        [sys.executable, "-m", "curate", "build",
         "--source", str(root / "examples/arithmetic.jsonl"), "--limit", "60",
         "--rollouts", "4", "--out", str(folder / "b"),
         "--cache", str(folder / "cache.sqlite"), "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return folder / "b"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_and_output_for_machines(curate, command) -> None:
    result = curate(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"Example: curate {command.split()[0]}" in result.stdout
    assert "--json" in result.stdout


def test_every_command_is_looked_at_here(curate) -> None:
    listed = re.findall(r"^  ([a-z-]+)  ", curate("--help").stdout.split("Commands:")[1], re.M)
    assert set(listed) == {command.split()[0] for command in COMMANDS}


def test_no_command_is_bad_usage(curate) -> None:
    assert curate().exit_code == 2


def test_a_build_ends_with_its_figures_and_its_files(curate, built, root) -> None:
    out = built.parent / "again"
    cache = built.parent / "cache.sqlite"
    result = curate("build", "--source", root / "examples/arithmetic.jsonl", "--limit", 60,
                    "--rollouts", 4, "--out", out, "--cache", cache)  # fmt: skip
    assert result.exit_code == 0, result.output
    for words in ("frontier share before → after", "rollouts", "tokens", "rejected because"):
        assert words in result.stdout
    for name in ("shards", "README.md", "report.html", "rejected.parquet"):
        assert str(out / name) in result.stdout
        assert (out / name).exists()


def test_the_manifest_adds_up(built) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    assert manifest["status"] == "complete"
    rows = manifest["steps"][0]["rows_in"]
    for step in manifest["steps"]:
        assert step["rows_in"] == rows
        assert step["rows_in"] + step["made"] == step["rows_out"] + step["rejected"]
        rows = step["rows_out"]
    rejected = pl.read_parquet(built / "rejected.parquet")
    assert len(rejected) == manifest["summary"]["rejected"]
    assert manifest["summary"]["rows_in"] == 60 == rows + len(rejected)
    counts = dict(rejected["reason"].value_counts().iter_rows())
    assert counts == manifest["summary"]["rejected_by_reason"]
    summary = manifest["summary"]
    assert summary["after"]["frontier_share"] > summary["before"]["frontier_share"] > 0


def test_inspect_shows_a_record_whole_with_its_rollouts(curate, built) -> None:
    shard = pl.read_parquet(built / "shards/trl/train/ordered-part-00000.parquet")
    key = shard["prompt_id"][0]
    result = curate("inspect", built, "--id", key[:10], "--json")
    assert result.exit_code == 0, result.output
    (record,) = json.loads(result.stdout)
    assert record["id"] == key
    assert len(record["rollouts"]) == 4
    assert {r["verdict"] for r in record["rollouts"]} <= {"correct", "incorrect", "error"}
    shown = curate("inspect", built, "--id", key[:10]).stdout
    assert record["question"].splitlines()[0] in shown


def test_inspect_samples_and_shows_rejects(curate, built) -> None:
    sample = curate("inspect", built, "--sample", 3, "--json")
    assert len(json.loads(sample.stdout)) == 3
    assert sample.stdout == curate("inspect", built, "--sample", 3, "--json").stdout
    rejected = curate("inspect", built, "--rejected", "--json")
    found = json.loads(rejected.stdout)
    assert len(found) == json.loads((built / "manifest.json").read_text())["summary"]["rejected"]
    assert all(row["reason"] and row["source_id"] for row in found)


def test_inspect_of_an_unknown_id_is_bad_usage(curate, built) -> None:
    result = curate("inspect", built, "--id", "zzz")
    assert result.exit_code == 2
    assert "zzz" in result.stderr


def test_the_card_has_front_matter_and_the_funnel(built) -> None:
    import yaml

    card = (built / "README.md").read_text()
    front = yaml.safe_load(re.match(r"---\n(.*?)\n---\n", card, re.S).group(1))
    assert front["size_categories"]
    configs = {c["config_name"]: c for c in front["configs"]}
    for config in configs.values():
        for part in config["data_files"]:
            assert list(built.glob(part["path"])), part
    for step in json.loads((built / "manifest.json").read_text())["steps"]:
        assert f"| {step['name']} | {step['rows_in']} |" in card


def test_the_report_escapes_what_sources_say(curate, tmp_path) -> None:
    row = {"question": "<script>alert(1)</script> 1 + 1", "answer": "2"}
    (tmp_path / "x.jsonl").write_text(json.dumps(row))
    build = ("build", "--source", "x.jsonl", "--recipe", "qa", "--rollouts", 1, "--out", "b")
    result = curate(*build)
    assert result.exit_code == 0, result.output
    assert "<script>alert" not in (tmp_path / "b/report.html").read_text()


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["--source", "nope.jsonl"], 2, "nope.jsonl"),
        (["--source", "x.jsonl", "--recipe", "nope"], 2, "unknown recipe 'nope'"),
        (["--source", "x.jsonl", "--question", "questoin"], 2, "question"),
        (["--source", "x.jsonl", "--set", "measure.rolouts=1"], 2, "measure.rolouts"),
        (["--source", "x.jsonl", "--set", "compose.x=1"], 2, "no such step"),
        (["--source", "x.jsonl", "--policy", "./nothing-here"], None, "nothing-here"),
        (["--source", "x.jsonl", "--kind", "maths"], 2, "math"),
        (["--source", "x.jsonl", "--rollouts", "0"], 2, "rollouts"),
        ([], 2, "source"),
    ],
)
def test_bad_input_gets_one_clear_line_and_the_right_code(
    curate, tmp_path, words, code, message
) -> None:
    (tmp_path / "x.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n')
    result = curate("build", *words, "--out", tmp_path / "b")
    assert result.exit_code != 0
    if code:
        assert result.exit_code == code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_standard_input_is_a_source(curate, tmp_path) -> None:
    rows = "".join(f'{{"question": "{i} + 1", "answer": "{i + 1}"}}\n' for i in range(4))
    build = ("build", "--source", "-", "--recipe", "qa", "--rollouts", 1, "--out", "b")
    result = curate(*build, stdin=rows)
    assert result.exit_code == 0, result.output
    manifest = json.loads((tmp_path / "b/manifest.json").read_text())
    assert manifest["summary"]["rows_out"] == 4


def test_preflight_tells_all_that_is_wrong_and_writes_nothing(curate, tmp_path) -> None:
    (tmp_path / "x.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n')
    before = sorted(tmp_path.rglob("*"))
    good = curate("build", "--source", "x.jsonl", "--preflight")
    assert good.exit_code == 0, good.output
    wrong = ("--source", "x.jsonl", "--source", "nope.jsonl", "--policy", "./nothing-here")
    bad = curate("build", *wrong, "--preflight", "--json")
    assert bad.exit_code == 2
    failed = [f for f in json.loads(bad.stdout) if f["state"] == "failed"]
    assert len(failed) == 2
    assert "nope.jsonl" in failed[0]["detail"]
    assert "nothing-here" in failed[1]["detail"]
    assert sorted(tmp_path.rglob("*")) == before


def test_recipes_are_listed_and_printed(curate) -> None:
    names = json.loads(curate("recipes", "--json").stdout)
    assert set(names) >= {"qa", "frontier"}
    assert curate("recipes", "show", "frontier").stdout.startswith("name: frontier")
    assert json.loads(curate("recipes", "show", "qa", "--json").stdout)["name"] == "qa"
    assert curate("recipes", "show", "x").exit_code == 2


def test_doctor_says_what_would_be_used(curate) -> None:
    result = curate("doctor", "--json")
    found = {finding["name"]: finding for finding in json.loads(result.stdout)}
    assert result.exit_code == 0, result.output
    assert found["device"]["state"] == "ok"
    assert found["policy tiny"]["state"] == "ok"


def test_doctor_fails_on_what_is_missing(curate) -> None:
    result = curate("doctor", "--policy", "./nothing-here")
    assert result.exit_code == 1
    assert "missing" in result.stdout


def test_a_folder_that_is_no_build_is_named(curate, tmp_path) -> None:
    for command in ("inspect", "report"):
        result = curate(command, tmp_path)
        assert result.exit_code == 2
        assert "not a build directory" in result.stderr


def test_inspect_shows_escape_sequences_instead_of_sending_them(curate, tmp_path) -> None:
    source = tmp_path / "rows.jsonl"
    text = "What is \x1b[2J\x1b]0;owned\x07\x9b31m 1 + 1?"
    source.write_text(json.dumps({"question": text, "answer": "2"}) + "\n")
    curate("build", "--source", source, "--recipe", "qa", "--out", tmp_path / "b", "--rollouts", 1)
    shown = curate("inspect", tmp_path / "b", "--rejected").stdout
    assert "owned" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert "\\x9b31m" in shown


def test_a_build_that_rejects_everything_says_what_did(curate, tmp_path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps({"question": "What is 1 + 1?", "answer": "2"}) + "\n")
    settings = ("--set", "select.min_q=1.0", "--set", "select.seen_mixed=false")
    result = curate(
        "build", "--source", source, "--out", tmp_path / "b", "--rollouts", 2, *settings
    )
    assert result.exit_code == 0
    assert "no prompt is left: select rejected 1" in result.stdout
