"""Small real models: made here, untrained, in a second."""

from pathlib import Path

import pytest
import torch

from curate.engines.models import ModelRef, resolve_model
from curate.engines.train_tiny import network, tokenizer
from curate.engines.transformers_engine import TransformersEngine


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> ModelRef:
    """An untrained Llama with a real tokenizer and chat template: its answers are long and odd."""
    folder = tmp_path_factory.mktemp("random")
    torch.manual_seed(1)
    tokens = tokenizer()
    network(len(tokens)).save_pretrained(folder)
    tokens.save_pretrained(folder)
    return resolve_model(str(folder))


@pytest.fixture
def engine(random_model: ModelRef) -> TransformersEngine:
    return TransformersEngine(random_model, "cpu", 8)


@pytest.fixture
def broken(tmp_path: Path, random_model: ModelRef) -> Path:
    """A model folder whose weights are no weights."""
    folder = tmp_path / "broken"
    folder.mkdir()
    for file in random_model.folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "model.safetensors").write_bytes(b"not a model")
    return folder
