"""From ``--policy`` to an engine: built-in names, folders, hub ids, servers."""

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from curate.engines.api import Engine
from curate.engines.cache import CachedEngine
from curate.engines.server import ServerRef, is_server, resolve_server
from curate.pipelines.errors import EngineError, UsageError

BUILT_IN = ("tiny", "smollm2")
EngineName: TypeAlias = Literal["transformers", "vllm", "openai"]

#: Completions at once when none is given: what 2 cores, and a GPU, are full with. vLLM queues what
#: it has no room for, so its batches are larger than that: the end of a batch leaves it half empty.
_BATCH = {
    ("transformers", "cpu"): 64,
    ("transformers", "cuda"): 256,
    ("vllm", "cpu"): 256,
    ("vllm", "cuda"): 4096,
}
#: Requests to a server at once, and how many such rounds are one batch: at a batch's end requests
#: run out and the server idles, and as every answer is committed by itself a long batch risks none.
CONCURRENCY = 32
_ROUNDS = 128
MODEL_FILES = ("*.json", "*.jinja", "*.safetensors", "*.txt", "*.model")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model that is there, on this disk.

    Args:
        name: as given: built-in name, folder or hub id.
        folder: its files.
        revision: 16 hex digits over the files' names and contents.
        template: 12 hex digits of the chat template, or ``plain`` when it has none.
    """

    name: str
    folder: Path
    revision: str
    template: str


def resolve_model(
    spec: str, revision: str | None = None, api_key: str | None = None
) -> ModelRef | ServerRef:
    """Find a model, without loading it.

    Args:
        spec: ``tiny``, ``smollm2``, a folder in Hugging Face format, a hub id, or an
            OpenAI-compatible server: ``http://HOST:PORT/v1``, with ``#MODEL`` if it serves several.
        revision: branch, tag or commit of a hub id; for a server, what to record as revision.
        api_key: the server's.

    Raises:
        UsageError: the spec or the revision makes no sense.
        EngineError: the model is not there or not whole, or the server does not answer.
    """
    if is_server(spec):
        return resolve_server(spec, revision, api_key)
    return resolve_local(spec, revision)


def resolve_local(spec: str, revision: str | None = None) -> ModelRef:
    """``resolve_model`` for a model whose files are, or come, on this disk."""
    if "://" in spec:
        raise UsageError(f"policy {spec!r}: an address must begin with http:// or https://")
    local = spec in BUILT_IN or Path(spec).is_dir() or spec.startswith((".", "/", "~"))
    if local and revision is not None:
        raise UsageError(f"--revision is for hub ids; {spec!r} is on this disk")
    if spec == "tiny":
        folder = Path(str(files("curate.engines") / "tiny"))
    elif spec == "smollm2":
        from curate.engines.smollm2 import converted

        folder = converted()
    elif local:
        folder = Path(spec).expanduser()
    else:
        folder = _download(spec, revision)
    _check(spec, folder)
    return ModelRef(spec, folder, _digest(folder), _template(folder))


def engine_name(text: str) -> EngineName:
    """The engine a user names.

    Raises:
        UsageError: there is none of that name.

    >>> engine_name("vllm")
    'vllm'
    """
    for name in get_args(EngineName):
        if text == name:
            return cast(EngineName, name)
    raise UsageError(f"--engine {text!r}: give {', '.join(get_args(EngineName))}")


def open_engine(
    model: ModelRef | ServerRef,
    *,
    cache: Path | None,
    engine: EngineName | None = None,
    device: str | None = None,
    batch_size: int | None = None,
    api_key: str | None = None,
    concurrency: int | None = None,
) -> CachedEngine:
    """An engine for the model, behind the completion cache; weights load on the first miss.

    Args:
        model: what to run.
        cache: the completion cache's file, or None for memory only.
        engine: what to run it with; when None, ``openai`` for a server, ``vllm`` on CUDA where it
            is installed, else ``transformers``.
        device: ``cpu`` or ``cuda``; chosen when None.
        batch_size: most completions in one batch; chosen by engine and device when None.
        api_key: the server's.
        concurrency: most requests to a server at once; 32 when None.

    Raises:
        UsageError: engine, device and model do not go together.
        EngineError: the engine is not installed.
    """
    if isinstance(model, ServerRef):
        if engine not in {None, "openai"} or device is not None:
            raise UsageError(f"policy {model.name}: a server takes engine openai and no device")
        from curate.engines.openai_engine import OpenAIEngine

        at_once = concurrency or CONCURRENCY
        made: Engine = OpenAIEngine(model, at_once, api_key)
        return CachedEngine(made, cache, batch_size or at_once * _ROUNDS)
    if engine == "openai":
        raise UsageError(f"policy {model.name!r}: engine openai takes a server's address")
    from curate.engines.transformers_engine import TransformersEngine, choose_device

    where = choose_device(device)
    chosen = engine or ("vllm" if where == "cuda" and find_spec("vllm") else "transformers")
    size = batch_size or _BATCH[chosen, where]
    if chosen == "vllm":
        from curate.engines.vllm_engine import VllmEngine, check_installed

        check_installed()
        made = VllmEngine(model, where)
    else:
        made = TransformersEngine(model, where, size)
    return CachedEngine(made, cache, size)


def _download(spec: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(spec, revision=revision, allow_patterns=list(MODEL_FILES)))
    except HFValidationError as error:
        raise UsageError(
            f"policy {spec!r}: no such folder, no hub id, and not one of {', '.join(BUILT_IN)}"
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise EngineError(
            f"policy {spec!r}: not on this disk and could not be fetched from the hub: {reason}"
        ) from error


def _check(spec: str, folder: Path) -> None:
    if not folder.is_dir():
        raise EngineError(f"policy {spec!r}: {folder}: no such folder")
    for name in ("config.json", "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise EngineError(f"policy {spec!r}: {folder} has no {name}")
    if not list(folder.glob("*.safetensors")):
        raise EngineError(f"policy {spec!r}: {folder} has no *.safetensors weights")


def _digest(folder: Path) -> str:
    """Content digest: a fine-tuned copy under an old name must not meet the old one's rollouts."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in MODEL_FILES for path in folder.glob(pattern)}):
        digest.update(f"{path.name}\x1f{path.stat().st_size}\x1f".encode())
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()[:16]


def _template(folder: Path) -> str:
    file = folder / "chat_template.jinja"
    if file.is_file():
        text = file.read_text(encoding="utf-8")
    else:
        try:
            config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EngineError(f"{folder}/tokenizer_config.json: cannot be read: {error}") from error
        text = config.get("chat_template") or ""
    if not text:
        return "plain"
    return hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()[:12]
