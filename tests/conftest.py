"""What tests in several folders share."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from curate.pipelines.ledger import Ledger
from curate.pipelines.pool import Pool
from curate.pipelines.step import Context

# Timing varies on shared cores, and a suite that gates must not flip on unchanged code.
settings.register_profile("curate", deadline=None, derandomize=True)
settings.load_profile("curate")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real data that is not part of the repository; without it the test is skipped."""
    folder = Path(os.environ.get("CURATE_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no shared data at {folder} (set CURATE_SHARED)")
    return folder


@pytest.fixture
def make_pool() -> Callable[..., Pool]:
    """A pool of ``n`` sums, with any columns given."""

    def make(n: int = 10, **columns: object) -> Pool:
        base: dict[str, object] = {
            "question": [f"{i} + {i + 1}" for i in range(n)],
            "answer": [str(2 * i + 1) for i in range(n)],
            "kind": ["math"] * n,
            "source": ["made"] * n,
            "source_id": [f"made:{i + 1}" for i in range(n)],
        }
        return Pool.from_columns({**base, **columns})

    return make


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., Context]:
    """A context with its own ledger and artifact folder."""

    def make(**fields: object) -> Context:
        artifact = tmp_path / "artifact"
        artifact.mkdir(exist_ok=True)
        base = {"seed": 0, "ledger": Ledger(tmp_path / "rollouts"), "artifact": artifact}
        return Context(**{**base, **fields})

    return make
