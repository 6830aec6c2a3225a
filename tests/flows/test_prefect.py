"""The same build under a real Prefect server, and with none."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = ("--recipe", "qa", "--rollouts", "2", "--json")


def shards(folder: Path) -> dict[str, bytes]:
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in (folder / "shards").rglob("*")
        if path.is_file()
    }
    assert found
    return found


def figures(artifact: dict[str, Any]) -> dict[str, Any]:
    return {row["figure"]: row["value"] for row in json.loads(artifact["data"])}


def recipe(folder: Path, *steps: object, name: str = "odd") -> list[str]:
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"name": name, "description": "For a test.", "steps": steps}))
    return ["--recipe", str(path)]


@pytest.mark.server
def test_a_build_shows_its_tasks_figures_and_progress_and_makes_the_same_shards(
    server: Any, curate: Callable[..., Any], tmp_path: Path
) -> None:
    plain = curate("plain", *ARGUMENTS)
    served = curate("served", *ARGUMENTS, api=server.api, OPENAI_API_KEY="sk-canary-8c1f")
    assert (plain.returncode, served.returncode) == (0, 0), plain.stderr + served.stderr
    expected, manifest = json.loads(plain.stdout), json.loads(served.stdout)
    assert [s["digest"] for s in manifest["steps"]] == [s["digest"] for s in expected["steps"]]
    assert shards(tmp_path / "plain") == shards(tmp_path / "served")

    run = server.run("qa-served")
    assert run["state"]["type"] == "COMPLETED"
    assert set(run["tags"]) == {"recipe:qa", "policy:tiny"}
    asked = run["parameters"]["spec"]
    assert (asked["recipe"], asked["out"]) == ("qa", str(tmp_path / "served"))
    steps = {step["name"]: step for step in expected["steps"]}
    states = server.states(run)
    assert {name: state["type"] for name, state in states.items()} == dict.fromkeys(
        steps, "COMPLETED"
    )

    artifacts = server.artifacts(run)
    assert set(artifacts) == {"curate-build", *(f"curate-build-{name}" for name in steps)}
    measured = artifacts["curate-build-measure"]
    assert measured["type"] == "table"
    assert measured["task_run_id"] == states["measure"]["state_details"]["task_run_id"]
    shown = figures(measured)
    assert shown["rows in"] == shown["rows out"] + shown["rejected"] == 6
    assert shown["frontier_share"] == round(steps["measure"]["metrics"]["frontier_share"], 6)
    assert shown["rollouts"] == 12
    summary = artifacts["curate-build"]["data"]
    for told in (
        "6 prompts from 6 rows of rows.jsonl",
        f"| tokens | {expected['summary']['tokens']:,} |",
        f"| revision | {expected['policy']['revision']} |",
        str(tmp_path / "served" / "report.html"),
        str(tmp_path / "served" / "README.md"),
        str(tmp_path / "served" / "shards"),
    ):
        assert told in summary, summary

    logs = [message for level, message in server.logs(run) if level == 20]
    for name in steps:
        assert [line for line in logs if line.startswith(f"{name}: starts on ")], logs
        assert [line for line in logs if re.match(rf"{name}: \d+ in \+ 0 made = ", line)], logs
    assert [line for line in logs if "12 of 12 rollouts" in line], logs
    assert served.stderr.count("12 of 12 rollouts") == 1
    assert "INFO" not in served.stderr

    stored = b"".join(path.read_bytes() for path in server.home.rglob("*") if path.is_file())
    assert run["id"].encode() in stored or run["id"].replace("-", "").encode() in stored
    assert b"sk-canary-8c1f" not in stored


@pytest.mark.server
def test_a_failed_step_shows_where_why_and_how_to_go_on(
    server: Any, curate: Callable[..., Any], tmp_path: Path
) -> None:
    done = curate("refused", *recipe(tmp_path, "qa", "refusing"), api=server.api)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: ") or "\nerror: " in done.stderr
    assert "Traceback" not in done.stderr
    told = "refusing: extra.jsonl:3: field 'answer' holds no text (line 3)"
    run = server.run("odd-refused")
    states = server.states(run)
    assert (run["state"]["type"], run["state"]["message"]) == ("FAILED", told)
    assert states["qa"]["type"] == "COMPLETED"
    assert (states["refusing"]["type"], states["refusing"]["message"]) == ("FAILED", told)
    assert (40, told) in server.logs(run)
    text = server.artifacts(run)["curate-build-failure"]["data"]
    assert "Stopped at refusing" in text
    assert "field 'answer' holds no text" in text
    assert str(tmp_path / "refused") in text
    assert "run the same command again" in text
    manifest = json.loads((tmp_path / "refused" / "manifest.json").read_text())
    assert manifest["status"] == f"failed at {told}"


@pytest.mark.server
def test_what_fails_before_the_first_step_shows_too(
    server: Any, curate: Callable[..., Any], tmp_path: Path
) -> None:
    done = curate("unread", "--recipe", "qa", "--source", str(tmp_path / "no"), api=server.api)
    assert done.returncode == 2
    run = server.run("qa-unread")
    assert run["state"]["type"] == "FAILED"
    assert str(tmp_path / "no") in run["state"]["message"]
    assert server.states(run) == {}
    assert "Stopped at opening" in server.artifacts(run)["curate-build-failure"]["data"]


@pytest.mark.server
def test_a_bug_shows_with_its_type(server: Any, curate: Callable[..., Any], tmp_path: Path) -> None:
    done = curate("bug", *recipe(tmp_path, "qa", "buggy"), api=server.api)
    assert done.returncode == 1
    assert "ZeroDivisionError: a bug" in done.stderr
    run = server.run("odd-bug")
    for state in (run["state"], server.states(run)["buggy"]):
        assert state["type"] == "FAILED"
        assert "ZeroDivisionError: a bug" in state["message"]
    assert "ZeroDivisionError: a bug" in server.artifacts(run)["curate-build-failure"]["data"]
    assert [text for level, text in server.logs(run) if "Traceback" in text and level == 40]
    manifest = json.loads((tmp_path / "bug" / "manifest.json").read_text())
    assert manifest["status"] == "failed at buggy: ZeroDivisionError: a bug"


@pytest.mark.server
def test_text_from_outside_is_escaped_and_figures_are_valid_json(
    server: Any, curate: Callable[..., Any], tmp_path: Path
) -> None:
    done = curate("o|ut `x` {y}", *recipe(tmp_path, "qa", "Odd_step 1"), api=server.api)
    assert done.returncode == 0, done.stderr
    run = server.run("odd-o|ut `x` {y}")
    artifacts = server.artifacts(run)
    shown = figures(artifacts["curate-build-odd-step-1"])
    assert [name for name, value in shown.items() if value == 5 and name.startswith("rejected: a")]
    assert (shown["most"], shown["nothing"], shown["n"], shown["rejected"]) == ("–", "–", 3, 5)
    for text in (*shown, artifacts["curate-build"]["data"]):
        assert not re.search(r"(?<!\\)(<|`|\*\*|\]\()", text), text
    assert set(run["tags"]) == {"recipe:odd"} | {t for t in run["tags"] if t.startswith("policy:")}


@pytest.mark.server
@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", -15)])
def test_a_build_that_is_stopped_is_not_left_running(
    server: Any, start: Callable[..., Any], tmp_path: Path, signal: str, code: int
) -> None:
    import signal as signals

    out, at_work = f"stopped-{signal}", tmp_path / "at-work"
    waiting = {"waiting": {"started": str(at_work), "go_on": str(tmp_path / "never")}}
    process = start(out, *recipe(tmp_path, "qa", waiting), api=server.api)
    wait_for(at_work, process)
    process.send_signal(getattr(signals, signal))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    run = server.run(f"odd-{out}")
    assert run["state"]["type"] == "CRASHED"
    assert server.states(run)["waiting"]["type"] == "CRASHED"
    manifest = json.loads((tmp_path / out / "manifest.json").read_text())
    assert manifest["status"] == "failed at waiting: interrupted"


@pytest.mark.server
@pytest.mark.parametrize("state", ["CANCELLING", "CANCELLED"])
def test_a_run_cancelled_on_the_server_stops(
    server: Any, start: Callable[..., Any], tmp_path: Path, state: str
) -> None:
    out, at_work, go_on = f"gone-{state}", tmp_path / "at-work", tmp_path / "go-on"
    waiting = {"waiting": {"started": str(at_work), "go_on": str(go_on)}}
    process = start(out, *recipe(tmp_path, "qa", waiting, "check"), api=server.api)
    wait_for(at_work, process)
    run = server.run(f"odd-{out}")
    answer = server.post(f"flow_runs/{run['id']}/set_state", {"state": {"type": state}})
    assert answer["status"] == "ACCEPT"
    go_on.touch()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "error: cancelled on the Prefect server" in errors
    run = server.run(f"odd-{out}")
    assert run["state"]["type"] == "CANCELLED"
    states = server.states(run)
    assert (states["waiting"]["type"], states["check"]["type"]) == ("COMPLETED", "CANCELLED")


def wait_for(path: Path, process: Any) -> None:
    while not path.exists():
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(process.stderr.read())


@pytest.mark.server
def test_an_address_that_is_no_prefect_api_is_told_in_one_line(
    server: Any, curate: Callable[..., Any], tmp_path: Path
) -> None:
    for api in ("http://127.0.0.1:9/api", "http://me:hidden@127.0.0.1:9/api", "nonsense",
                server.api.removesuffix("/api")):  # fmt: skip
        done = curate("nothing", "--recipe", "qa", api=api)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: PREFECT_API_URL="), line
        assert "hidden" not in line
        assert not (tmp_path / "nothing").exists()


def test_without_an_api_prefect_is_never_imported(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"question": "1 + 2", "answer": "3"}\n')
    code = (
        "import sys; from typer.testing import CliRunner; from curate.cli import app; "
        f"r = CliRunner().invoke(app, ['build', '--source', {str(source)!r}, '--recipe', 'qa', "
        f"'--out', {str(tmp_path / 'b')!r}, '--rollouts', '1', "
        f"'--cache', {str(tmp_path / 'c.sqlite')!r}]); "
        "print(r.exit_code, 'prefect' in sys.modules)"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT")}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert run.stdout.strip() == "0 False", run.stdout + run.stderr
