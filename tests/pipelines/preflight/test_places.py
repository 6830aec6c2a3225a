"""Preflight of where a build writes: real locks, disks, folders and caches."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from preflighting import failures

from curate.pipelines.findings import exit_code


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Small file systems of their own; where none may be mounted the test is skipped."""
    folders: list[Path] = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"disk-{len(folders)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("no mount command: a full and a read-only disk are not tried")
        if done.returncode:
            pytest.skip(f"may not mount: a full and a read-only disk are not tried: {done.stderr}")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_build_that_goes_on_tells_its_rollouts(look, built, tmp_path) -> None:
    shutil.copytree(built.out, tmp_path / "b")
    same = {"source": built.source, "settings": built.settings}
    found = look(**same)
    assert "8 rollouts are in its ledger" in found["output"].detail
    assert found["cost"].detail.endswith("8 rollouts, 64 tokens; the ledger holds 8")
    stored = look(**same, replay=True)
    assert stored["policy"].detail == "stored rollouts of tiny, no model"
    assert stored["cost"].detail == "nothing is generated"
    next((tmp_path / "b/rollouts").glob("*.parquet")).write_bytes(b"PAR1 cut short")
    assert look(**same)["output"].state == "failed"


def test_stored_rollouts_must_be_there(look) -> None:
    assert "not a build directory" in look(replay=True)["policy"].detail


def test_a_folder_of_something_else_or_a_file_is_no_output(look, tmp_path) -> None:
    (tmp_path / "b").mkdir()
    assert look()["output"].detail.endswith("is empty")
    (tmp_path / "b/mine.txt").write_text("x")
    found = look()["output"]
    assert (found.state, found.exit_code) == ("failed", 2)
    assert "mine.txt" in found.detail
    assert "is a file" in look(out=tmp_path / "b/mine.txt")["output"].detail
    assert "is no folder" in look(out=tmp_path / "b/mine.txt/x")["output"].detail


def test_a_build_under_way_is_told(look, tmp_path) -> None:
    (tmp_path / "b").mkdir()
    lock = FileLock(tmp_path / "b/.lock")
    with lock:
        found = look()["output"]
        assert (found.state, found.exit_code) == ("failed", 1)
        assert "another build is writing here" in found.detail
    assert look()["output"].state == "ok"
    with lock:  # and looking has not kept it
        pass


def test_a_cache_that_is_something_else(look, tmp_path, rows) -> None:
    found = look(cache=Path(rows(name="c.jsonl")))["cache"]
    assert (found.state, found.exit_code) == ("failed", 1)
    assert "is no database" in found.detail
    (tmp_path / "empty").touch()
    assert look(cache=tmp_path / "empty")["cache"].state == "ok"
    assert look(cache=None)["cache"].state == "ok"


def test_a_read_only_disk(look, mounted) -> None:
    disk = mounted("size=64m,ro")
    found = look(out=disk / "b", cache=disk / "c.sqlite")
    assert failures(found) >= {"output", "cache"}
    assert found["output"].exit_code == 2
    assert f"no right to write in {disk}" in found["output"].detail


def test_a_folder_one_may_not_write_in(look, tmp_path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (tmp_path / "shut").mkdir(mode=0o555)
    found = look(out=tmp_path / "shut/b", cache=tmp_path / "shut/c.sqlite")
    assert failures(found) == {"output", "cache"}


def test_a_full_disk(look, mounted, tmp_path) -> None:
    disk = mounted("size=1m")
    found = look(out=disk / "b")
    assert found["disk of output"].state == "failed"
    assert found["disk of output"].exit_code == exit_code(found.values()) == 1
    assert found["disk of cache"].state == "ok"
    assert look(cache=disk / "c")["disk of cache"].state == "failed"


def test_a_disk_with_less_room_than_the_estimate(look, monkeypatch) -> None:
    """How much is free is made up here; a truly full disk is tried above."""
    usage = shutil.disk_usage("/")
    for mib, per_prompt, state in (
        (31, 1, "failed"), (33, 1, "ok"), (33, 4096, "warning"), (20_000, 4096, "ok"),
    ):  # fmt: skip
        monkeypatch.setattr(
            "curate.pipelines.preflight_disk.shutil.disk_usage",
            lambda _, mib=mib: usage._replace(free=mib << 20),
        )
        found = look(settings={"measure": {"rollouts": {"per_prompt": per_prompt}}})["disk"]
        assert found.state == state, found
        assert " free; estimated need " in found.detail
