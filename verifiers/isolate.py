"""Worker processes that can be killed: rows go in and verdicts come out as lines of JSON.

Signals do not interrupt a stuck big-integer power and do not work off the main thread, so a limit
that holds needs a process of its own. A worker reads one job a line and answers in order; the
parent gives each row its time from the previous answer, and kills the worker when it runs out.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from selectors import EVENT_READ, DefaultSelector
from time import monotonic

from curate.verifiers.verdict import Verdict

#: Address space of a worker in bytes.
MEMORY = 2 << 30

#: Seconds a worker may take to load what it needs, which no row pays for.
LOADING_S = 60.0

#: Rows sent ahead of their answers: enough to hide the pipe, few enough to fit into it.
_AHEAD = 16

_AHEAD_BYTES = 32_000


class _Stuck(Exception):
    """The worker did not answer in time (reason ``timeout``) or is gone (``worker_died``)."""


class Worker:
    """One process and its pipes; used by one thread at a time."""

    def __init__(self) -> None:
        paths = [path for path in sys.path if path]
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "curate.verifiers.worker", str(MEMORY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout.fileno()
        self._selector = DefaultSelector()
        self._selector.register(self._out, EVENT_READ)
        self._buffer = b""
        self._fresh = True

    def send(self, jobs: Sequence[str]) -> None:
        """Write jobs, a line each."""
        try:
            self._in.write("".join(job + "\n" for job in jobs).encode())
            self._in.flush()
        except OSError as error:
            raise _Stuck("worker_died") from error

    def receive(self, max_s: float) -> Verdict:
        """The next answer.

        Raises:
            _Stuck: none came within ``max_s`` seconds, loading apart.
        """
        deadline = monotonic() + (LOADING_S if self._fresh else max_s)
        while True:
            line = self._line(deadline)
            if line == b"loading":
                deadline = monotonic() + LOADING_S
            elif line == b"ready":
                deadline, self._fresh = monotonic() + max_s, False
            else:
                return Verdict(*json.loads(line))

    def kill(self) -> None:
        """End the process and free its pipes."""
        self._selector.close()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # a job that was never read is still in the buffer
                    continue

    def _line(self, deadline: float) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if not self._selector.select(max(0.0, deadline - monotonic())):
                raise _Stuck("timeout")
            piece = os.read(self._out, 1 << 16)
            if not piece:
                raise _Stuck("worker_died")
            self._buffer += piece
        line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        return line


_idle: list[Worker] = []
_lock = threading.Lock()


def run(
    jobs: Sequence[str],
    *,
    workers: int,
    max_s: float,
    done: Callable[[int], object] | None = None,
) -> list[Verdict]:
    """Judge jobs in worker processes.

    Args:
        jobs: ``[kind, gold, response, options]`` as JSON text, one a job.
        workers: processes; they stay alive for the next call.
        max_s: wall-clock limit of a job in seconds; its own ``max_s`` option may lower it.
        done: called with a job's index when its verdict is there, never by two threads at once.

    Returns:
        One verdict a job, in order.
    """
    verdicts: list[Verdict | None] = [None] * len(jobs)
    waiting = deque(range(len(jobs)))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def settle(index: int, verdict: Verdict) -> None:
        verdicts[index] = verdict
        if done is not None:
            with lock:
                done(index)

    def work() -> None:
        try:
            _serve(jobs, waiting, max_s, settle)
        except BaseException as error:  # handed to the caller's thread below
            failures.append(error)
            waiting.clear()

    n = max(1, min(workers, -(-len(jobs) // _AHEAD)))
    if n == 1:
        work()
    else:
        threads = [threading.Thread(target=work, daemon=True) for _ in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return [verdict for verdict in verdicts if verdict is not None]


def _serve(  # noqa: C901 (one loop whose state belongs together)
    jobs: Sequence[str],
    waiting: deque[int],
    max_s: float,
    settle: Callable[[int, Verdict], None],
) -> None:
    """Feed one worker until no job waits, replacing it whenever it had to be killed."""
    worker: Worker | None = None
    sent: deque[int] = deque()
    n_bytes = 0
    try:
        while True:
            batch = []
            while len(sent) < _AHEAD:
                try:
                    index = waiting.popleft()
                except IndexError:
                    break
                # A write that fills the pipe of a stuck worker would block without a limit.
                if sent and n_bytes + len(jobs[index]) > _AHEAD_BYTES:
                    waiting.appendleft(index)
                    break
                batch.append(index)
                sent.append(index)
                n_bytes += len(jobs[index])
            if not sent:
                break
            if worker is None:
                worker = _borrow()
            try:
                worker.send([jobs[index] for index in batch])
                verdict = worker.receive(_limit(jobs[sent[0]], max_s))
            except _Stuck as error:
                worker.kill()
                worker = None
                verdict = Verdict("error", str(error))
                waiting.extendleft(reversed(list(sent)[1:]))
                index = sent[0]
                sent.clear()
                n_bytes = 0
            else:
                index = sent.popleft()
                n_bytes -= len(jobs[index])
            settle(index, verdict)
    except BaseException:
        # Answers still on their way would be taken for those of the next caller.
        if worker is not None:
            worker.kill()
        raise
    if worker is not None:
        with _lock:
            _idle.append(worker)


def _limit(job: str, max_s: float) -> float:
    if '"max_s"' not in job:
        return max_s
    own = json.loads(job)[3].get("max_s", max_s)
    return min(max_s, float(own))


def _borrow() -> Worker:
    with _lock:
        while _idle:
            worker = _idle.pop()
            # After a fork the pipes belong to the parent.
            if worker.owner == os.getpid() and worker._process.poll() is None:
                return worker
    return Worker()


@atexit.register
def close() -> None:
    """End the idle workers."""
    with _lock:
        for worker in _idle:
            if worker.owner == os.getpid():
                worker.kill()
        _idle.clear()
