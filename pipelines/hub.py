"""``hf:owner/name[@revision][:config][:split]``: datasets in Hugging Face format, streamed.

A hub dataset is pinned to the commit it had when the source was opened, a local folder
(``hf:./folder``) to the digest of its files; either is part of the source's digest and of the
manifest. Rows are streamed, so nothing but what is read is downloaded.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from curate.pipelines.errors import SourceError, UsageError
from curate.pipelines.readers import RawRow

PREFIX = "hf:"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BLOCK = 1 << 20


@dataclass(frozen=True)
class HubSource:
    """Rows of one split of a dataset.

    Args:
        uri: as given.
        name: ``owner/name``, or the folder's name.
        path: what ``datasets.load_dataset`` is given.
        config: configuration (subset), or None for the only one.
        split: split.
        revision: commit of a hub dataset, or 16 hex digits over a folder's files.
        license: what its card states, or None.
        limit: at most this many rows, or None.
    """

    uri: str
    name: str
    path: str
    config: str | None
    split: str
    revision: str
    license: str | None = None
    limit: int | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of name, revision, configuration and split, 64 hex digits."""
        local = Path(self.path).is_dir()
        told = ["" if local else self.name, self.revision, self.config or "", self.split]
        return hashlib.sha256("\x1f".join(told).encode()).hexdigest()

    @property
    def files(self) -> tuple[str, ...]:
        """What is read, for counting: one split."""
        return (self.split,)

    def rows(self) -> Iterator[tuple[str, RawRow]]:
        """``config/split`` and row, in the dataset's order.

        Raises:
            SourceError: the dataset cannot be read, or holds no row.
        """
        label = "/".join(part for part in (self.config, self.split) if part)
        number = 0
        try:
            for number, record in enumerate(islice(self._stream(), self.limit), start=1):
                yield label, RawRow(number, dict(record))
        except GeneratorExit:
            raise
        except Exception as error:  # whatever the dataset's reader meets
            raise SourceError(f"{self.uri}: row {number + 1}: {_line(error)}") from error
        if not number:
            raise SourceError(f"{self.uri}: holds no rows")

    def _stream(self) -> Iterator[dict[str, Any]]:
        from datasets import load_dataset

        local = Path(self.path).is_dir()
        stream: Iterator[dict[str, Any]] = iter(
            load_dataset(
                self.path,
                self.config,
                split=self.split,
                streaming=True,
                revision=None if local else self.revision,
            )
        )
        return stream


def open_hub(uri: str, *, limit: int | None = None) -> HubSource:
    """Find a dataset, its configuration and split, and pin its revision.

    Args:
        uri: ``hf:owner/name[@revision][:config][:split]`` or ``hf:./folder[:config][:split]``. One
            word after the name is a configuration if the dataset has one of this name, else a
            split. Without a split, the only one is taken, else ``train``.
        limit: read at most this many rows.

    Raises:
        UsageError: the package ``datasets`` is not installed, or the URI makes no sense.
        SourceError: the dataset, its configuration or split is not there or cannot be reached.
    """
    if find_spec("datasets") is None:
        raise UsageError(f"{uri}: needs datasets: pip install 'curate-rlvr[hf]'")
    name, revision, words = _parts(uri)
    local = name.startswith((".", "/", "~"))
    path = str(Path(name).expanduser()) if local else name
    if local and not Path(path).is_dir():
        raise SourceError(f"{uri}: no such folder")
    if local and revision:
        raise UsageError(f"{uri}: a folder has no revisions")
    pinned, licence = _folder(Path(path)) if local else _pin(uri, name, revision)
    with without_progress_bars():
        config, split = _choose(uri, path, None if local else pinned, words)
    title = Path(path).resolve().name if local else name
    return HubSource(uri, title, path, config, split, pinned, licence, limit)


def _parts(uri: str) -> tuple[str, str | None, list[str]]:
    name, *words = uri.removeprefix(PREFIX).split(":")
    if not name or len(words) > 2 or not all(words):
        raise UsageError(f"{uri}: expected hf:owner/name[@revision][:config][:split]")
    if name.startswith((".", "/", "~")):
        return name, None, words
    name, at, revision = name.partition("@")
    if at and not revision:
        raise UsageError(f"{uri}: nothing after @")
    return name, revision or None, words


def _choose(uri: str, path: str, revision: str | None, words: list[str]) -> tuple[str | None, str]:
    """Configuration and split that ``words`` mean."""
    from datasets import get_dataset_config_names, get_dataset_split_names

    try:
        configs = get_dataset_config_names(path, revision=revision)
    except Exception as error:
        raise SourceError(f"{uri}: cannot be opened: {_line(error)}") from error
    config, split = words if len(words) == 2 else (None, None)
    if len(words) == 1:
        config, split = (words[0], None) if words[0] in configs else (None, words[0])
    if config is not None and config not in configs:
        raise SourceError(f"{uri}: no configuration {config!r}; it has {', '.join(configs)}")
    if config is None and len(configs) > 1:
        if "default" not in configs:
            raise SourceError(f"{uri}: name a configuration; it has {', '.join(configs)}")
        config = "default"
    try:
        splits = get_dataset_split_names(path, config or configs[0], revision=revision)
    except Exception as error:
        raise SourceError(f"{uri}: cannot be opened: {_line(error)}") from error
    if split is None:
        split = splits[0] if len(splits) == 1 else "train"
    if split not in splits:
        raise SourceError(f"{uri}: no split {split!r}; it has {', '.join(splits)}")
    return config, split


def _pin(uri: str, name: str, revision: str | None) -> tuple[str, str | None]:
    """Commit and licence of a hub dataset."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    try:
        info = HfApi().dataset_info(name, revision=revision)
    except HFValidationError as error:
        raise UsageError(f"{uri}: {name!r} is no dataset id") from error
    except Exception as error:  # the HTTP library differs between the hub client's versions
        if revision and _COMMIT.fullmatch(revision):
            return revision, None  # pinned already; what is cached can still be read
        raise SourceError(f"{uri}: not found on the hub: {_line(error)}") from error
    return str(info.sha), _licence(getattr(info.card_data, "license", None))


def _folder(path: Path) -> tuple[str, str | None]:
    """Content digest of a folder's files, and the licence its card states."""
    digest = hashlib.sha256()
    try:
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            name = file.relative_to(path)
            if any(part.startswith(".") for part in name.parts):
                continue
            digest.update(f"{name.as_posix()}\x1f{file.stat().st_size}\x1f".encode())
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    digest.update(block)
        card = path / "README.md"
        text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()[:16], _stated(text)


def _stated(card: str) -> str | None:
    """``license`` in a card's YAML front matter."""
    front = re.match(r"---\r?\n(.*?)\r?\n---", card, re.DOTALL)
    if not front:
        return None
    try:
        matter = yaml.safe_load(front[1])
    except yaml.YAMLError:
        return None
    return _licence(matter.get("license")) if isinstance(matter, dict) else None


def _licence(value: object) -> str | None:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or None
    return str(value) if value else None


def _line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """The ``datasets`` library's progress bars off, for as long as it lasts."""
    import datasets

    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
