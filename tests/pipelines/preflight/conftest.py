"""Small sources, models and builds to look at before a build."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from curate.flows.build import build
from curate.pipelines.findings import Finding
from curate.pipelines.preflight import preflight
from curate.pipelines.spec import BuildSpec


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., str]:
    """A JSONL source of the given rows, or of ``n`` sums."""

    def rows(*records: object, n: int = 4, name: str = "sums.jsonl") -> str:
        made = records or [{"question": f"{i} + 1?", "answer": str(i + 1)} for i in range(n)]
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in made))
        return str(path)

    return rows


@pytest.fixture
def look(tmp_path: Path, rows: Callable[..., str]) -> Callable[..., dict[str, Finding]]:
    """Preflight of a small build that would run, with whatever is given otherwise."""

    def look(api_key: str | None = None, **fields: object) -> dict[str, Finding]:
        usual = {"out": tmp_path / "b", "cache": tmp_path / "c/completions.sqlite"}
        if "source" not in fields:
            usual["source"] = rows()
        found = preflight(BuildSpec(**{**usual, **fields}), api_key)
        names = [finding.name for finding in found]
        assert len(set(names)) == len(names)
        return {finding.name: finding for finding in found}

    return look


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuildSpec:
    """The request of a small build that has run."""
    folder = tmp_path_factory.mktemp("built")
    sums = ({"question": f"{i} + 1?", "answer": str(i + 1)} for i in range(4))
    (folder / "sums.jsonl").write_text("".join(json.dumps(record) + "\n" for record in sums))
    settings = {"measure": {"rollouts": {"per_prompt": 2}, "max_tokens": 8}}
    spec = BuildSpec(source=str(folder / "sums.jsonl"), out=folder / "b", settings=settings,
                     cache=folder / "c.sqlite")  # fmt: skip
    build(spec)
    return spec


@pytest.fixture
def model(root: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model's folder."""
    return Path(shutil.copytree(root / "engines/tiny", tmp_path / "model"))
