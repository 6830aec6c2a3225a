"""A build killed hard at any point and run again equals one that was never killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

DRIVER = Path(__file__).with_name("resume_driver.py")
N_PROMPTS = 40
PER_PROMPT = 4
BATCH = 8


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "rows.jsonl"
    rows = [{"question": f"{i} + {i + 1}", "answer": str(2 * i + 1)} for i in range(N_PROMPTS)]
    rows += [rows[3], {"question": "", "answer": "1"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(source: Path, folder: Path, kill_at: int | None = None) -> subprocess.CompletedProcess:
    words = [source, folder / "build", folder / "cache.sqlite", folder / "log"]
    command = [sys.executable, DRIVER, *words, *([kill_at] if kill_at else [])]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def outputs(folder: Path) -> dict[str, bytes]:
    build = folder / "build"
    shards = {
        str(path.relative_to(build)): path.read_bytes() for path in (build / "shards").rglob("*.*")
    }
    assert shards
    return shards | {"rejected": (build / "rejected.parquet").read_bytes()}


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("whole")
    done = run(source, folder)
    assert done.returncode == 0, done.stderr
    n_calls = len((folder / "log").read_text().splitlines())
    assert n_calls == N_PROMPTS * PER_PROMPT
    return folder, int(done.stdout)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97, 0.99])
def test_killed_and_run_again(
    source: Path, whole: tuple[Path, int], tmp_path: Path, share: float
) -> None:
    folder, n_events = whole
    killed = run(source, tmp_path, kill_at=max(1, int(share * n_events)))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run(source, tmp_path)
    assert again.returncode == 0, again.stderr
    assert outputs(tmp_path) == outputs(folder)
    calls = (tmp_path / "log").read_text().splitlines()
    assert len(set(calls)) == N_PROMPTS * PER_PROMPT
    assert len(calls) - len(set(calls)) <= BATCH
    rollouts = pl.read_parquet(tmp_path / "build/rollouts/*.parquet")
    assert len(rollouts) == N_PROMPTS * PER_PROMPT
    assert not list((tmp_path / "build").rglob(".tmp-*"))


def test_a_rerun_of_a_finished_build_calls_no_model_and_changes_no_byte(
    source: Path, whole: tuple[Path, int], tmp_path: Path
) -> None:
    folder, _ = whole
    before, calls = outputs(folder), (folder / "log").read_text()
    assert run(source, folder).returncode == 0
    assert outputs(folder) == before
    assert (folder / "log").read_text() == calls


def test_another_build_of_the_same_prompts_shares_the_completions(
    source: Path, whole: tuple[Path, int], tmp_path: Path
) -> None:
    folder, _ = whole
    calls = (folder / "log").read_text()
    words = [source, tmp_path / "build", folder / "cache.sqlite", folder / "log"]
    done = subprocess.run([sys.executable, str(DRIVER), *map(str, words)], capture_output=True)
    assert done.returncode == 0
    assert (folder / "log").read_text() == calls
    assert outputs(tmp_path) == outputs(folder)
