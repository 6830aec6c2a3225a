"""Answer clusters: which of a prompt's extracted answers mean the same, and how spread they are.

Two answers share a cluster when the prompt's own verifier calls them equal in both argument
orders (verification is not symmetric). Rollouts without an extractable answer form one cluster.
"""

from collections import defaultdict
from itertools import combinations

import polars as pl

from curate.pipelines.pool import verifier_arguments
from curate.selectors.stats import entropy
from curate.verifiers.api import Row, verify_many

#: Pairs are quadratic in distinct answers; beyond this many the rarest stay on their own.
MAX_DISTINCT = 24


def answer_entropies(judged: pl.DataFrame, prompts: pl.DataFrame, workers: int) -> pl.DataFrame:
    """Entropy in nats of each prompt's answer clusters.

    Args:
        judged: rollouts with ``prompt_id`` and ``answer``.
        prompts: rows with ``id``, ``kind``, ``verifier_options``, ``choices``.
        workers: verifier processes.

    Returns:
        Columns ``prompt_id``, ``answer_entropy``.
    """
    tallies = (
        judged.group_by("prompt_id", "answer").len().sort("prompt_id", "len", "answer",
        descending=[False, True, False])
    )  # fmt: skip
    sizes: dict[str, list[tuple[str | None, int]]] = defaultdict(list)
    for prompt, answer, count in tallies.iter_rows():
        sizes[prompt].append((answer, count))
    merged = _equivalences(sizes, prompts, workers)
    rows = [
        (prompt, entropy(_cluster_sizes(tally, merged.get(prompt, []))))
        for prompt, tally in sizes.items()
    ]
    schema = {"prompt_id": pl.String(), "answer_entropy": pl.Float64()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _equivalences(
    sizes: dict[str, list[tuple[str | None, int]]], prompts: pl.DataFrame, workers: int
) -> dict[str, list[tuple[str, str]]]:
    """Pairs of distinct answers that the verifier calls equal both ways, by prompt."""
    judges = {
        key: (kind, verifier_arguments(options, choices))
        for key, kind, options, choices in prompts.select(
            "id", "kind", "verifier_options", "choices"
        ).iter_rows()
    }
    places: list[tuple[str, str, str]] = []
    rows: list[Row] = []
    for prompt, tally in sizes.items():
        kind, options = judges[prompt]
        texts = [answer for answer, _ in tally if answer][:MAX_DISTINCT]
        for one, other in combinations(texts, 2):
            places.append((prompt, one, other))
            rows += [Row(kind, one, other, options), Row(kind, other, one, options)]
    verdicts = verify_many(rows, workers=workers)
    equal: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for (prompt, one, other), there, back in zip(
        places, verdicts[::2], verdicts[1::2], strict=True
    ):
        if there.value == back.value == "correct":
            equal[prompt].append((one, other))
    return equal


def _cluster_sizes(tally: list[tuple[str | None, int]], equal: list[tuple[str, str]]) -> list[int]:
    root = {answer: answer for answer, _ in tally}

    def find(answer: str | None) -> str | None:
        while root[answer] != answer:
            answer = root[answer]
        return answer

    for one, other in equal:
        root[find(one)] = find(other)
    totals: dict[str | None, int] = defaultdict(int)
    for answer, count in tally:
        totals[find(answer)] += count
    return list(totals.values())
