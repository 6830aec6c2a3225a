"""The built wheel holds everything the command needs, under one import name."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout: the source tree to build from is unknown")
    tree = tmp_path_factory.mktemp("tree")
    for name in listed.stdout.splitlines():
        source, target = root / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.exists():
            target.write_bytes(source.read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    run = subprocess.run([*build, str(tree)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return next(out.glob("*.whl"))


def test_every_module_and_data_file_is_in_the_wheel(wheel: Path, root: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"curate"}
    for link in (path for path in (root / "curate").iterdir() if path.is_symlink()):
        for path in link.rglob("*"):
            if path.suffix in {".py", ".yaml", ".jinja", ".safetensors", ".json"}:
                assert str(path.relative_to(root)) in names, path
    assert "curate/py.typed" in names


def test_the_wheel_runs_from_elsewhere(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import sys; sys.path.insert(0, 'site'); import curate; "
        "assert curate.__file__.startswith(sys.path[0]) or 'site' in curate.__file__; "
        "sys.argv = ['curate', 'recipes', 'show', 'frontier']; "
        "from curate.cli import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("name: frontier")


@pytest.mark.slow
def test_the_wheel_installs_into_a_clean_venv_and_builds(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "v")], check=True)
    python = tmp_path / "v/bin/python"
    for what in ("torch==2.13.0", str(wheel)):
        subprocess.run([str(python), "-m", "pip", "install", "-q", what], check=True)
    (tmp_path / "rows.jsonl").write_text('{"question": "2 + 3", "answer": "5"}\n')
    run = subprocess.run(
        [str(tmp_path / "v/bin/curate"), "build", "--source", "rows.jsonl", "--recipe", "qa"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert list((tmp_path / "builds/rows-qa/shards").rglob("*.parquet"))
