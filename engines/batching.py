"""Batches that depend on the requests alone: not on what is cached, not on the machine's load."""

from collections.abc import Sequence

from curate.engines.api import Request


def plan(requests: Sequence[Request], batch_size: int) -> list[list[int]]:
    """Group requests of similar length, longest first, so that padding and memory peaks are small.

    Args:
        requests: what is asked.
        batch_size: most completions in one batch; a request that wants more is a batch by itself.

    Returns:
        Indices into ``requests``; every one of them once.
    """

    def length(index: int) -> int:
        return sum(len(message.content) for message in requests[index].messages)

    order = sorted(range(len(requests)), key=lambda i: (-length(i), requests[i].key, i))
    batches: list[list[int]] = []
    room = 0
    for index in order:
        if requests[index].n > room or not batches:
            batches.append([])
            room = batch_size
        batches[-1].append(index)
        room -= requests[index].n
    return batches
