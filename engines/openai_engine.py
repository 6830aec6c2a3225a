"""The ``openai`` engine: any server that speaks the OpenAI chat-completions protocol.

One HTTP request for every (prompt, sample), each with its own seed, so many at a time as the server
is to bear. Each answer is told to ``on_batch``, and so committed, the moment it is whole: a run
that is killed repeats only what was in flight.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from curate.engines.api import (
    Completion,
    EngineIdentity,
    OnBatch,
    Request,
    Sampling,
    sample_seed,
    sample_uniforms,
)
from curate.engines.openai_wire import (
    Refusal,
    Unusable,
    droppable,
    payload,
    read_completion,
    read_refusal,
    retry_after,
)
from curate.engines.server import (
    CONNECT_TIMEOUT_S,
    ServerRef,
    client_settings,
    key_refused,
    listed,
    served_models,
    snippet,
)
from curate.pipelines.errors import EngineError, PromptTooLong

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Once something has failed for good, answers on their way are waited for this long: they are paid.
_GRACE_S = 5.0
_BUSY = frozenset({408, 425, 429})
#: 403 too: some models "may not be asked for" log-probabilities.
_REFUSED = frozenset({400, 403, 413, 422})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server is waited for.

    Args:
        timeout_s: for one whole answer, queueing at the server included.
        attempts: how often one completion is asked for before the run fails.
        backoff_s: the k-th wait is drawn from 0 … backoff_s · 2^k.
        longest_wait_s: no wait is longer, whatever ``Retry-After`` says.
    """

    timeout_s: float = 600.0
    attempts: int = 8
    backoff_s: float = 0.5
    longest_wait_s: float = 60.0


class OpenAIEngine:
    """Generates with a model behind a server.

    Args:
        server: where, and which model.
        concurrency: most requests at once.
        api_key: sent as bearer token; never logged, cached or shown.
        patience: timeouts and retries.
    """

    def __init__(
        self,
        server: ServerRef,
        concurrency: int = 32,
        api_key: str | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.server, self.concurrency, self.api_key = server, concurrency, api_key
        self.patience = patience or Patience()
        # What this server was found to refuse, for as long as the engine lives.
        self.dropped: set[str] = set()
        self.limit_name = "max_tokens"

    @property
    def identity(self) -> EngineIdentity:
        """What the server told when it was resolved; template and precision are its own."""
        return EngineIdentity(
            backend="openai",
            model=self.server.name,
            revision=self.server.revision,
            template="server",
            dtype="server",
        )

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_batch: OnBatch | None = None,
    ) -> list[list[Completion]]:
        """Answer every request; see ``Engine.generate``.

        Raises:
            EngineError: the server refuses, or does not answer after all attempts.
            PromptTooLong: prompts it says do not fit; all others were generated and told.
            UsageError: the server cannot hold answers to the form asked for.
        """
        context = self.server.context
        if context is not None and sampling.max_tokens >= context:
            raise self._no_room(sampling, context)
        return _run(_Asking(self, requests, sampling, on_batch).all())

    def close(self) -> None:
        """Nothing is held between calls."""

    def body(self, request: Request, sample: int, sampling: Sampling) -> dict[str, Any]:
        """The request's body, without what the server was found to refuse."""
        seed = sample_seed(sampling.seed, request.key, sample)
        body = payload(self.server, request.messages, sampling, seed)
        body = {name: value for name, value in body.items() if name not in self.dropped}
        body[self.limit_name] = body.pop("max_tokens")
        return body

    def adapt(self, body: dict[str, Any], refusal: Refusal) -> bool:
        """Change what is sent, once for all requests; False when nothing can be changed."""
        if "max_tokens" in body and "max_completion_tokens" in refusal.message:
            self.limit_name = "max_completion_tokens"
            return True
        name = refusal.blames(droppable(body))
        if name is None:
            return False
        if name not in self.dropped:
            self.dropped.add(name)
            log.warning("%s refuses %s; it is left out from now on", self.server.name, name)
        return True

    def _no_room(self, sampling: Sampling, context: int) -> EngineError:
        return EngineError(
            f"{self.server.name}: max_tokens {sampling.max_tokens} does not fit its context of "
            f"{context} tokens; lower max_tokens"
        )

    def fatal(self, reply: "httpx.Response") -> EngineError:
        """The error for a reply that no repetition will change."""
        if reply.status_code in {401, 403}:
            return EngineError(key_refused(self.server.url, reply, self.api_key))
        said = f"HTTP {reply.status_code}: {snippet(reply.text, self.api_key)}"
        if reply.status_code == 404:
            try:
                served = [card["id"] for card in served_models(self.server.url, self.api_key)]
                said += f"; it serves {listed(served)}"
            except EngineError:
                said += "; does the address end in /v1?"
        return EngineError(f"{self.server.name}: the server refuses the request: {said}")

    def too_long(self, refusal: Refusal, sampling: Sampling) -> int:
        """The most prompt tokens that fit, 0 when the server does not tell.

        Raises:
            EngineError: not even an empty prompt would fit.
        """
        context = self.server.context or refusal.context
        if context is None:
            return 0
        if sampling.max_tokens >= context:
            raise self._no_room(sampling, context)
        return context - sampling.max_tokens


class _Asking:
    """One ``generate``: the jobs, who works on them, and what came of them."""

    def __init__(
        self,
        engine: OpenAIEngine,
        requests: Sequence[Request],
        sampling: Sampling,
        on_batch: OnBatch | None,
    ) -> None:
        self.engine, self.requests, self.sampling = engine, requests, sampling
        self.on_batch = on_batch
        self.jobs = deque(
            (index, request.first_sample + i)
            for index, request in enumerate(requests)
            for i in range(request.n)
        )
        self.answers: list[list[Completion]] = [[] for _ in requests]
        self.too_long: dict[int, int] = {}
        self.stop = asyncio.Event()
        self.told_at = perf_counter()

    async def all(self) -> list[list[Completion]]:
        """Work the jobs off."""
        import httpx

        size = self.engine.concurrency
        settings = client_settings(self.engine.server.url, self.engine.api_key)
        async with httpx.AsyncClient(
            # The time for the whole answer is kept in _post: a trickle of bytes resets these.
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=size, max_keepalive_connections=size),
            **settings,
        ) as client:
            workers = {asyncio.create_task(self._work(client)) for _ in self.jobs_at_once()}
            try:
                await self._until_done(workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        if self.too_long:
            keys = [self.requests[index].key for index in sorted(self.too_long)]
            raise PromptTooLong(keys, min(self.too_long.values()))
        return [sorted(made, key=lambda completion: completion.sample) for made in self.answers]

    def jobs_at_once(self) -> range:
        """One worker for each."""
        return range(min(self.engine.concurrency, len(self.jobs)))

    async def _until_done(self, workers: set["asyncio.Task[None]"]) -> None:
        if not workers:
            return
        done, pending = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        failed = [error for task in done if (error := task.exception())]
        if failed:
            self.stop.set()
            if pending:
                await asyncio.wait(pending, timeout=_GRACE_S)
            raise failed[0]

    async def _work(self, client: "httpx.AsyncClient") -> None:
        while self.jobs and not self.stop.is_set():
            index, sample = self.jobs.popleft()
            if index in self.too_long:
                continue
            completion = await self._ask(client, index, sample)
            if completion is None:
                continue
            now = perf_counter()
            completion = replace(completion, seconds=now - self.told_at)
            self.told_at = now
            self.answers[index].append(completion)
            if self.on_batch:
                self.on_batch([index], [[completion]])

    async def _ask(self, client: "httpx.AsyncClient", index: int, sample: int) -> Completion | None:
        """One completion; None when its prompt is too long, or another request failed for good."""
        patience, request = self.engine.patience, self.requests[index]
        failure, least = "", 0.0
        for attempt in range(patience.attempts):
            if attempt and await self._stopped_waiting(request, sample, attempt, least):
                return None
            least = 0.0
            try:
                reply = await self._send(client, request, sample)
            except Unusable as error:
                failure = str(error)
                continue
            if reply.status_code == 200:
                try:
                    return read_completion(reply.text, sample, self.sampling.max_tokens)
                except Unusable as error:
                    failure = f"{error}: {snippet(reply.text, self.engine.api_key)}"
                    continue
            refusal = read_refusal(reply.text)
            if reply.status_code in _REFUSED and refusal.too_long:
                self.too_long[index] = self.engine.too_long(refusal, self.sampling)
                return None
            if not _passing(reply.status_code, refusal):
                raise self.engine.fatal(reply)
            least = retry_after(reply.headers.get("Retry-After"))
            failure = f"HTTP {reply.status_code}: {snippet(reply.text, self.engine.api_key)}"
        raise EngineError(
            f"{self.engine.server.name}: no answer after {patience.attempts} tries, at last: "
            f"{failure}"
        )

    async def _send(
        self, client: "httpx.AsyncClient", request: Request, sample: int
    ) -> "httpx.Response":
        """Post until the server takes the parameters; what it refuses is refused once for all."""
        while True:
            body = self.engine.body(request, sample, self.sampling)
            reply = await self._post(client, body)
            if reply.status_code not in _REFUSED:
                return reply
            refusal = read_refusal(reply.text)
            if refusal.too_long or not self.engine.adapt(body, refusal):
                return reply

    async def _post(self, client: "httpx.AsyncClient", body: dict[str, Any]) -> "httpx.Response":
        import httpx

        seconds = self.engine.patience.timeout_s
        try:
            async with asyncio.timeout(seconds):
                return await client.post(f"{self.engine.server.url}/chat/completions", json=body)
        except TimeoutError:
            raise Unusable(f"no answer in {seconds:g} s") from None
        except httpx.RequestError as error:
            raise Unusable(f"{type(error).__name__}: {error}") from None

    async def _stopped_waiting(
        self, request: Request, sample: int, attempt: int, least: float
    ) -> bool:
        """Wait before another attempt: at least what the server asks, and a jitter on top."""
        patience = self.engine.patience
        draw = sample_uniforms(self.sampling.seed, f"{request.key}\x1fretry {attempt}", sample, 1)
        jitter = float(draw[0]) * min(patience.longest_wait_s, patience.backoff_s * 2**attempt)
        try:
            async with asyncio.timeout(min(least, patience.longest_wait_s) + jitter):
                await self.stop.wait()
        except TimeoutError:
            return False
        return True


def _passing(status: int, refusal: Refusal) -> bool:
    """Whether the same request may be answered later."""
    return (status in _BUSY or status >= 500) and refusal.code != "insufficient_quota"


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run it here, or in a thread where this one already runs an event loop (a notebook's does)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []

    async def cancellable() -> T:
        task = asyncio.ensure_future(work)
        started.append((asyncio.get_running_loop(), task))
        return await task

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, cancellable())
        try:
            return future.result()
        except KeyboardInterrupt:
            for loop, task in started:
                loop.call_soon_threadsafe(task.cancel)
            raise
