"""The same build under a real Prefect server, and with none."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest


def post(url: str, body: dict) -> list[dict]:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    prefect = [sys.executable, "-m", "prefect", "server", "start"]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [*prefect, "--host", "127.0.0.1", "--port", str(port)],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}/api"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2)
                break
            except OSError:
                time.sleep(0.5)
        else:
            pytest.fail((home / "log").read_text()[-2000:])
        yield url
    finally:
        server.terminate()
        server.wait(20)


def curate(folder: Path, out: str, **environment: str) -> dict:
    source = folder / "rows.jsonl"
    rows = (f'{{"question": "{i} + 2", "answer": "{i + 2}"}}\n' for i in range(6))
    source.write_text("".join(rows))
    run = subprocess.run(
        [sys.executable, "-m", "curate", "build", "--source", str(source), "--recipe", "qa",
         "--rollouts", "2", "--out", str(folder / out), "--json",
         "--cache", str(folder / "cache.sqlite")],
        env={k: v for k, v in os.environ.items() if not k.startswith("PREFECT")} | environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def shards(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "shards" in path.parts and "steps" not in path.parts
    }


@pytest.mark.server
def test_runs_and_tasks_show_up_on_the_server_and_the_shards_are_the_same(
    api: str, tmp_path: Path
) -> None:
    plain = curate(tmp_path, "plain")
    home = {"PREFECT_HOME": str(tmp_path / "home")}
    served = curate(tmp_path, "served", PREFECT_API_URL=api, **home)
    assert [s["digest"] for s in served["steps"]] == [s["digest"] for s in plain["steps"]]
    assert shards(tmp_path / "plain" / "shards") == shards(tmp_path / "served" / "shards")
    assert shards(tmp_path / "plain" / "shards")
    (run,) = post(f"{api}/flow_runs/filter", {"flows": {"name": {"any_": ["curate-build"]}}})
    assert run["state"]["type"] == "COMPLETED"
    assert run["parameters"]["spec"]["recipe"] == "qa"
    tasks = post(f"{api}/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    assert {task["name"] for task in tasks} == {step["name"] for step in plain["steps"]}


@pytest.mark.server
def test_a_failed_build_fails_its_flow_run(api: str, tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"question": "1 + 2", "answer": "3"}\n')
    run = subprocess.run(
        [sys.executable, "-m", "curate", "build", "--source", str(source), "--recipe", "qa",
         "--out", str(tmp_path / "b"), "--question", "prompt"],
        env=os.environ | {"PREFECT_API_URL": api, "PREFECT_HOME": str(tmp_path / "home")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 2, run.stderr
    assert "error: " in run.stderr
    assert "Traceback" not in run.stderr


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
