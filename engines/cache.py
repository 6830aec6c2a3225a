"""The completion cache: every model call is paid for once, whatever happens to the build.

One SQLite file, shared by all builds of a user. A completion's key holds the engine's identity, the
messages, the sampling settings and its sample index, not the prompt's id: a corrected gold or a new
verifier costs no new call. What the engine tells is committed before it is told on: a killed run
repeats at most the batch in flight of an engine that works in batches, and of one that tells every
answer only the requests not yet answered. Batches are planned over all requests, cached or not, so
those after a kill are the ones an uninterrupted run would have made.
"""

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeAlias

from curate.engines.api import (
    Completion,
    Engine,
    EngineIdentity,
    Message,
    OnBatch,
    Request,
    Sampling,
)
from curate.engines.batching import plan
from curate.pipelines.errors import EngineError, PromptTooLong

#: SQLite's oldest limit on variables in one statement is 999.
_CHUNK = 900
_WAIT_S = 60.0


@dataclass(slots=True)
class _Pending:
    """A request under its content key, and where its answer goes."""

    request: Request
    places: list[int]


#: Completions, and of which request.
_Made: TypeAlias = Sequence[tuple[_Pending, Sequence[Completion]]]


@dataclass(frozen=True, slots=True)
class _Telling:
    """Tells the caller, by its own places, what is there."""

    requests: Sequence[Request]
    on_batch: OnBatch | None

    def tell(self, made: _Made) -> None:
        """Each completion goes to every request with these messages that asked for its sample."""
        if self.on_batch is None:
            return
        told: list[tuple[int, list[Completion]]] = []
        for item, some in made:
            for place in item.places:
                first, n = self.requests[place].first_sample, self.requests[place].n
                mine = [c for c in some if first <= c.sample < first + n]
                if mine:
                    told.append((place, mine))
        if told:
            self.on_batch([place for place, _ in told], [mine for _, mine in told])


class CachedEngine:
    """An engine that remembers.

    Args:
        inner: what generates.
        path: the cache file, made if it is not there; None keeps completions in memory only.
        batch_size: most completions in one batch.

    Attributes:
        generated: completions made by the model.
        hits: completions taken from the cache.

    Raises:
        EngineError: the file is not a completion cache or cannot be written.
    """

    def __init__(self, inner: Engine, path: Path | None, batch_size: int) -> None:
        self.inner, self.path, self.batch_size = inner, path, batch_size
        self.generated = self.hits = 0
        self._db = self._open()

    @property
    def identity(self) -> EngineIdentity:
        """The inner engine's."""
        return self.inner.identity

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_batch: OnBatch | None = None,
    ) -> list[list[Completion]]:
        """Answer from the cache where possible; see ``Engine.generate``.

        Requests with the same messages share their completions. What is there of a batch is told
        when the batch begins, what is made as soon as it is committed.
        """
        answers: list[list[Completion]] = [[] for _ in requests]
        pending = self._distinct(requests, sampling)
        for batch in plan([p.request for p in pending], self.batch_size):
            chosen = [pending[index] for index in batch]
            found = self._lookup(chosen)
            telling = _Telling(requests, on_batch)
            telling.tell([(p, list(found[p.request.key].values())) for p in chosen])
            self._fill([p for p in chosen if len(found[p.request.key]) < p.request.n],
                       found, sampling, telling)  # fmt: skip
            for item in chosen:
                samples = found[item.request.key]
                for place in item.places:
                    first, n = requests[place].first_sample, requests[place].n
                    answers[place] = [samples[i] for i in range(first, first + n)]
        return answers

    def close(self) -> None:
        """Close file and model."""
        self._db.close()
        self.inner.close()

    def _distinct(self, requests: Sequence[Request], sampling: Sampling) -> list[_Pending]:
        # A setting that is not made stays out of the key, so keys outlive new settings.
        made = {name: value for name, value in asdict(sampling).items() if value is not None}
        base = json.dumps([self.identity.key, made], sort_keys=True)
        pending: dict[str, _Pending] = {}
        for place, request in enumerate(requests):
            key = _key(base, request.messages)
            held = pending.get(key)
            if held is None:
                pending[key] = _Pending(replace(request, key=key), [place])
                continue
            held.places.append(place)
            first = min(held.request.first_sample, request.first_sample)
            end = max(held.request.first_sample + held.request.n, request.first_sample + request.n)
            held.request = replace(held.request, first_sample=first, n=end - first)
        return list(pending.values())

    def _lookup(self, chosen: list[_Pending]) -> dict[str, dict[int, Completion]]:
        wanted = [
            f"{p.request.key}:{sample}"
            for p in chosen
            for sample in range(p.request.first_sample, p.request.first_sample + p.request.n)
        ]
        found: dict[str, dict[int, Completion]] = {p.request.key: {} for p in chosen}
        for start in range(0, len(wanted), _CHUNK):
            keys = wanted[start : start + _CHUNK]
            marks = ",".join("?" * len(keys))
            query = f"SELECT key, completion FROM completions WHERE key IN ({marks})"
            for key, text in self._execute(query, keys):
                completion = Completion(**json.loads(text))
                found[key.partition(":")[0]][completion.sample] = completion
                self.hits += 1
        return found

    def _fill(
        self,
        missing: list[_Pending],
        found: dict[str, dict[int, Completion]],
        sampling: Sampling,
        telling: _Telling,
    ) -> None:
        asked = [
            (item, part)
            for item in missing
            for part in _gaps(item.request, found[item.request.key])
        ]
        if not asked:
            return

        def keep(indices: list[int], batch: list[list[Completion]]) -> None:
            made = [(asked[i][0], some) for i, some in zip(indices, batch, strict=True)]
            self._commit(made)
            for item, some in made:
                found[item.request.key].update({c.sample: c for c in some})
            telling.tell(made)

        try:
            self.inner.generate([part for _, part in asked], sampling, keep)
        except PromptTooLong as error:
            long = set(error.keys)
            places = [i for m in missing if m.request.key in long for i in m.places]
            raise PromptTooLong([telling.requests[i].key for i in places], error.limit) from None

    def _commit(self, made: _Made) -> None:
        rows = [
            (f"{item.request.key}:{c.sample}", json.dumps(asdict(c), ensure_ascii=False))
            for item, some in made
            for c in some
        ]
        self.generated += len(rows)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            # Another process may have answered meanwhile; its answer is as good, the first stays.
            self._db.executemany("INSERT OR IGNORE INTO completions VALUES (?, ?)", rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise self._unusable(error) from error

    def _open(self) -> sqlite3.Connection:
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(
                self.path or ":memory:", timeout=_WAIT_S, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute(
                "CREATE TABLE IF NOT EXISTS completions (key TEXT PRIMARY KEY, completion TEXT)"
                " WITHOUT ROWID"
            )
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error
        return db

    def _execute(self, query: str, values: Sequence[str] = ()) -> list[tuple[str, str]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> EngineError:
        return EngineError(
            f"completion cache {self.path}: {error}; give another file with --cache, "
            "or move this one away to start anew"
        )


def _key(base: str, messages: tuple[Message, ...]) -> str:
    text = json.dumps([[m.role, m.content] for m in messages], ensure_ascii=False)
    return hashlib.sha256(f"{base}\x1f{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _gaps(request: Request, there: dict[int, Completion]) -> list[Request]:
    """The runs of samples that are not there, each as one request."""
    gaps: list[Request] = []
    for sample in range(request.first_sample, request.first_sample + request.n):
        if sample in there:
            continue
        if gaps and gaps[-1].first_sample + gaps[-1].n == sample:
            gaps[-1] = replace(gaps[-1], n=gaps[-1].n + 1)
        else:
            gaps.append(replace(request, first_sample=sample, n=1))
    return gaps
