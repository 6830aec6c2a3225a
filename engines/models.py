"""From ``--policy`` to an engine: built-in names, folders, hub ids."""

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from curate.engines.cache import CachedEngine
from curate.pipelines.errors import EngineError, UsageError

BUILT_IN = ("tiny", "smollm2")

#: Completions at once when none is given: what 2 cores, and a GPU, are full with.
_BATCH = {"cpu": 64, "cuda": 256}
_FILES = ("*.json", "*.jinja", "*.safetensors", "*.txt", "*.model")
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


def resolve_model(spec: str, revision: str | None = None) -> ModelRef:
    """Find a model, without loading it.

    Args:
        spec: ``tiny``, ``smollm2``, a folder in Hugging Face format, or a hub id.
        revision: branch, tag or commit of a hub id.

    Raises:
        UsageError: the spec or the revision makes no sense.
        EngineError: the model is not there or not whole.
    """
    if "://" in spec:
        raise UsageError(
            f"policy {spec!r}: servers are not supported; give a folder, a hub id, or one of "
            + ", ".join(BUILT_IN)
        )
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


def open_engine(
    model: ModelRef,
    *,
    cache: Path | None,
    device: str | None = None,
    batch_size: int | None = None,
) -> CachedEngine:
    """An engine for the model, behind the completion cache; weights load on the first miss.

    Args:
        model: what to run.
        cache: the completion cache's file, or None for memory only.
        device: ``cpu`` or ``cuda``; chosen when None.
        batch_size: most completions at once; chosen by device when None.
    """
    from curate.engines.transformers_engine import TransformersEngine, choose_device

    where = choose_device(device)
    size = batch_size or _BATCH[where]
    return CachedEngine(TransformersEngine(model, where, size), cache, size)


def _download(spec: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(spec, revision=revision, allow_patterns=list(_FILES)))
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
    for path in sorted({path for pattern in _FILES for path in folder.glob(pattern)}):
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
