"""A real Prefect server on loopback, and the command line as a person runs it."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ODD_STEPS = Path(__file__).with_name("odd_steps.py")
Json = dict[str, Any]
Run = subprocess.CompletedProcess[str]
QUIET = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}


class Server:
    """A running server.

    Args:
        api: its address.
        home: the folder with its database.
    """

    def __init__(self, api: str, home: Path) -> None:
        self.api, self.home = api, home

    def post(self, path: str, body: Json) -> Any:
        request = urllib.request.Request(
            f"{self.api}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def run(self, name: str) -> Json:
        """The flow run of this name."""
        (run,) = self.post("flow_runs/filter", {"flow_runs": {"name": {"any_": [name]}}})
        return dict(run)

    def states(self, run: Json) -> dict[str, Json]:
        """Task run → its state. A server stores task runs a little after it is told of them."""
        body = {"flow_runs": {"id": {"any_": [run["id"]]}}}
        for _ in range(100):
            tasks = self.post("task_runs/filter", body)
            states = {task["name"]: task["state"] or {"type": "PENDING"} for task in tasks}
            if not {"PENDING", "RUNNING"} & {state["type"] for state in states.values()}:
                break
            time.sleep(0.1)
        return states

    def artifacts(self, run: Json) -> dict[str, Json]:
        """Key → artifact."""
        body = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}}
        return {found["key"]: found for found in self.post("artifacts/filter", body)}

    def logs(self, run: Json) -> list[tuple[int, str]]:
        """Level and message, the oldest first."""
        body = {"logs": {"flow_run_id": {"any_": [run["id"]]}}, "sort": "TIMESTAMP_ASC"}
        return [(log["level"], log["message"]) for log in self.post("logs/filter", body)]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            env=plain_environment() | QUIET | {"PREFECT_HOME": str(home)}, stdout=log, stderr=log,
        )  # fmt: skip
    api = f"http://127.0.0.1:{port}/api"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{api}/health", timeout=2)
                break
            except OSError:
                if process.poll() is not None:
                    pytest.fail((home / "log").read_text()[-2000:])
                time.sleep(0.5)
        else:
            pytest.fail("the server does not answer")
        yield Server(api, home)
    finally:
        process.terminate()
        process.wait(30)


def plain_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("PREFECT")}


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Start ``curate build`` on six sums; ``api`` is the server to tell of it."""
    source = tmp_path / "rows.jsonl"
    rows = (f'{{"question": "{i} + 2", "answer": "{i + 2}"}}\n' for i in range(6))
    source.write_text("".join(rows))

    def popen(out: str, *words: str, api: str | None = None, **more: str) -> Any:
        environment = plain_environment() | {"PREFECT_HOME": str(tmp_path / "home")} | more
        if api:
            environment["PREFECT_API_URL"] = api
        command = [sys.executable, str(ODD_STEPS), "build", "--source", str(source)]
        command += ["--out", str(tmp_path / out), "--cache", str(tmp_path / "cache.sqlite")]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*command, *words], env=environment, text=True, stdout=pipe, stderr=pipe
        )

    return popen


@pytest.fixture
def curate(start: Callable[..., "subprocess.Popen[str]"]) -> Callable[..., Run]:
    """``start`` to its end."""

    def run(*words: str, **more: str) -> Run:
        process = start(*words, **more)
        out, errors = process.communicate(timeout=120)
        return Run(process.args, process.returncode, out, errors)

    return run
