"""The build directory: artifacts exist whole or not at all; strangers are left alone."""

import subprocess
import sys
import textwrap

import pytest

from curate.pipelines.errors import ConfigError, CurateError, PoolError
from curate.pipelines.session import check_conservation
from curate.pipelines.step import StepResult
from curate.pipelines.store import Store, digest_of, read_manifest


def commit(store: Store, pool, digest: str = "d" * 64):
    record = {"digest": digest, "rows_out": len(pool), "name": "qa"}
    with store.scratch(1, "qa", digest) as scratch:
        (scratch / "shards" / "trl").mkdir(parents=True)
        (scratch / "shards" / "trl" / "a.jsonl").write_text("{}\n")
        return store.commit(scratch, store.artifact(1, "qa", digest), StepResult(kept=pool), record)


def test_a_committed_artifact_is_found_and_read_back(tmp_path, make_pool) -> None:
    store = Store(tmp_path / "build")
    pool = make_pool(4)
    assert store.find(1, "qa", "d" * 64) is None
    ref = commit(store, pool)
    assert store.find(1, "qa", "d" * 64) == ref
    assert ref.load().frame.equals(pool.frame)
    assert ref.rejected().is_empty()
    assert ref.record()["rows_out"] == 4


def test_an_artifact_of_another_digest_with_the_same_start_is_not_taken(
    tmp_path, make_pool
) -> None:
    store = Store(tmp_path / "build")
    commit(store, make_pool(1), "d" * 64)
    assert store.find(1, "qa", "d" * 12 + "e" * 52) is None


def test_publish_lays_the_last_steps_shards_where_people_look(tmp_path, make_pool) -> None:
    store = Store(tmp_path / "build")
    ref = commit(store, make_pool(2))
    (tmp_path / "build" / "shards").mkdir()
    (tmp_path / "build" / "shards" / "stale.jsonl").write_text("old")
    store.publish([ref])
    assert (tmp_path / "build/shards/trl/a.jsonl").read_text() == "{}\n"
    assert not (tmp_path / "build/shards/stale.jsonl").exists()
    assert (tmp_path / "build/rejected.parquet").exists()


def test_a_folder_with_other_peoples_files_is_refused_untouched(tmp_path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"not empty and not a build \(found 'thesis.tex'\)"):
        Store(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_named(tmp_path) -> None:
    (tmp_path / "build").write_text("")
    with pytest.raises(ConfigError, match=r"build directory .*build: cannot be used"):
        Store(tmp_path / "build")


def test_a_second_build_of_one_folder_fails_at_once_and_says_why(tmp_path) -> None:
    store = Store(tmp_path / "build")
    code = textwrap.dedent(
        f"""
        from pathlib import Path
        from curate.pipelines.store import Store
        with Store(Path({str(tmp_path / "build")!r})).lock():
            pass
        """
    )
    with store.lock():
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert run.returncode == 1
        assert "another build is writing here" in run.stderr
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_scratch_of_a_killed_build_is_cleared_by_the_next(tmp_path) -> None:
    left = tmp_path / "build" / "steps" / ".tmp-1-01-qa-aaaaaaaaaaaa"
    left.mkdir(parents=True)
    with Store(tmp_path / "build").lock():
        assert not left.exists()


def test_scratch_of_a_failed_step_goes_at_once(tmp_path) -> None:
    store = Store(tmp_path / "build")
    with pytest.raises(RuntimeError), store.scratch(1, "qa", "a" * 64) as scratch:
        (scratch / "half").write_text("x")
        raise RuntimeError
    assert not list((tmp_path / "build/steps").iterdir())


def test_the_manifest_of_no_build_or_a_broken_one_is_an_error_that_names_it(tmp_path) -> None:
    with pytest.raises(ConfigError, match="not a build directory"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(PoolError, match=r"manifest\.json: cannot be read"):
        read_manifest(tmp_path)


def test_digests_ignore_key_order_and_nothing_else() -> None:
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": [1, 2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})
    assert digest_of([1, 2]) != digest_of([2, 1])


def test_a_step_that_loses_a_row_fails_the_build(make_pool) -> None:
    check_conservation("s", 3, StepResult(kept=make_pool(3)))
    check_conservation("s", 3, StepResult(kept=make_pool(5), made=2))
    with pytest.raises(PoolError, match=r"s: 3 rows in \+ 0 made ≠ 2 kept \+ 0 rejected"):
        check_conservation("s", 3, StepResult(kept=make_pool(2)))


def test_a_full_disk_is_a_clear_error(tmp_path, make_pool, monkeypatch) -> None:
    from curate.pipelines import files

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.Path, "write_bytes", full)
    with pytest.raises(CurateError, match=r"x\.json: cannot be written: No space left"):
        files.write_json(tmp_path / "x.json", {})
    assert not list(tmp_path.iterdir())
