"""Full and read-only disks, for real: a tiny file system is mounted where that is allowed."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from curate.cli import app


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of so many KiB; skips where nobody may."""
    mounted = list[Path]()

    def mount(kib: int) -> Path:
        folder = tmp_path / f"disk-{kib}"
        folder.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
        try:
            done = subprocess.run(words, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("no mount command")
        if done.returncode:
            pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


@pytest.fixture
def curate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    source = tmp_path / "x.jsonl"
    rows = ({"question": f"What is {i} + {i % 7}?", "answer": i + i % 7} for i in range(120))
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(*words: object):
        return CliRunner().invoke(app, [str(word) for word in words])

    run.build = ("build", "--source", source, "--rollouts", 2, "--recipe", "qa")
    run.cache = ("--cache", tmp_path / "cache.sqlite")
    return run


@pytest.mark.parametrize("kib", [4, 120, 400])
def test_a_full_disk_is_one_clear_line_and_the_build_goes_on_elsewhere(curate, disk, kib) -> None:
    out = disk(kib) / "b"
    full = curate(*curate.build, *curate.cache, "--out", out)
    assert full.exit_code == 1, full.output
    last = full.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert "No space left on device" in last
    assert "Traceback" not in full.output
    # What is there is whole.
    assert not list(out.rglob(".tmp-*"))
    for part in out.rglob("*.parquet"):
        pl.read_parquet(part)
    if (out / "manifest.json").exists():
        json.loads((out / "manifest.json").read_bytes())


def test_a_build_stopped_by_a_full_disk_goes_on_once_there_is_room(curate, disk) -> None:
    folder = disk(200)
    words = (*curate.build, *curate.cache, "--out", folder / "b", "--json")
    assert curate(*words).exit_code == 1
    subprocess.run(["mount", "-o", "remount,size=20m", str(folder)], check=True)
    done = curate(*words)
    assert done.exit_code == 0, done.output
    steps = {step["name"]: step for step in json.loads(done.stdout)["steps"]}
    assert steps["qa"]["reused"]
    assert steps["measure"]["metrics"]["rollouts"] == 240


def test_a_full_cache_disk_names_the_cache(curate, disk, tmp_path) -> None:
    cache = disk(40) / "c.sqlite"
    full = curate(*curate.build, "--out", tmp_path / "b", "--cache", cache)
    assert full.exit_code == 1
    assert f"error: completion cache {cache}" in full.stderr


@pytest.mark.parametrize("place", ["--out", "--cache"])
def test_a_read_only_disk_is_one_clear_line(curate, disk, tmp_path, place) -> None:
    folder = disk(400)
    read_only(folder)
    where = {"--out": tmp_path / "b", "--cache": tmp_path / "c.sqlite", place: folder / "x"}
    done = curate(*curate.build, *(word for pair in where.items() for word in pair))
    assert done.exit_code in {1, 2}
    assert str(folder) in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "b").exists()


def test_a_read_only_build_can_be_looked_at_and_nothing_else(curate, disk) -> None:
    folder = disk(8000)
    assert curate(*curate.build, *curate.cache, "--out", folder / "b").exit_code == 0
    read_only(folder)
    for words in (("inspect",), ("inspect", "--sample", 1)):
        looked = curate(words[0], folder / "b", *words[1:])
        assert looked.exit_code == 0, looked.output
    for words in (("reverify",), ("measure", "--more", 1), ("report",)):
        refused = curate(words[0], folder / "b", *words[1:])
        assert refused.exit_code in {1, 2}
        assert os.strerror(30) in refused.stderr
        assert "Traceback" not in refused.output
