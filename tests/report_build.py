"""Build directories for report.html's tests, hostile ones too, and a reader of the page."""

import json
from html.parser import HTMLParser
from pathlib import Path

import polars as pl

from curate.pipelines.files import write_json, write_parquet
from curate.pipelines.ledger import Ledger
from curate.pipelines.pool import ROLLOUT_SCHEMA, Pool, conform, rejects

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    '"><img src=x onerror="window.hacked = 3">',
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.hacked=4",
    "' onmouseover='window.hacked=5",
    "</pre></td></table><iframe srcdoc='<script>parent.hacked=6</script>'>",
    "<!-- <style>*{display:none}</style>",
    "line\u2028separator \x1b[31m \x01 \u202egnp.exe",
)


def make_build(folder: Path, n: int = 40, texts: tuple[str, ...] = (), measured: bool = True):
    """A build directory of ``n`` prompts kept and two rejected; ``texts`` get in wherever they can.

    Returns:
        The folder and its manifest.
    """

    def text(i: int, plain: str) -> str:
        return f"{plain} {texts[i % len(texts)]}" if texts else plain

    columns: dict[str, object] = {
        "question": [text(i, f"What is {i} + {i}?") for i in range(n)],
        "answer": [text(i, f"{2 * i}") for i in range(n)],
        "kind": ["math" if i % 3 else "choice" for i in range(n)],
        "domain": [text(0, "sums") if i % 2 else text(2, "doubles") for i in range(n)],
        "choices": [[text(i, "one"), "two"] for i in range(n)],
        "source": [text(0, "made") for _ in range(n)],
        "source_id": [text(i, f"made:{i}") for i in range(n)],
        "license": [text(1, "MIT") for _ in range(n)],
        "solutions": [[{"strategy": text(i, "add"), "text": text(i, "sum")}] for i in range(n)],
        "parents": [[text(i, "parent")] for i in range(n)],
        "metadata": [json.dumps({"note": text(i, "x")}) for i in range(n)],
    }
    if measured:
        rates = [(i + 1) / (n + 1) for i in range(n)]
        columns |= {
            "attempts": [4] * n, "successes": [2] * n, "errors": [0] * n, "truncated": [0] * n,
            "p_hat": rates, "q_hat": rates, "p_low": rates, "p_high": rates,
            "stage": [3 * i // n for i in range(n)], "rank": list(range(n)),
        }  # fmt: skip
    typed = pl.DataFrame(columns, strict=False) if n else pl.DataFrame(schema=list(columns))
    pool = Pool.from_columns(typed) if n else Pool.empty()
    lost = Pool.from_columns(
        {"question": [text(0, "a"), text(1, "b")], "answer": ["1", "2"], "kind": ["math"] * 2}
    )
    rejected = rejects(lost.frame, "select", text(2, "too_odd"), text(3, "for a reason"), "answer")
    step = folder / "steps/01-select-0"
    write_parquet(pool.frame, step / "part-00000.parquet")
    write_parquet(rejected, step / "rejected.parquet")
    if measured:
        add_rollouts(folder, [*pool.frame["id"], *lost.frame["id"]], text)
    bins = [0] * 10
    for rate in pool.frame["p_hat"].drop_nulls():
        bins[min(9, int(rate * 10))] += 1
    figures = {
        "prompts": n, "frontier_prompts": n, "frontier_share": 1.0 if n else None,
        "mean_p_hat": 0.5, "mean_q_hat": 0.5, "p_hat_histogram": bins if n else [],
    }  # fmt: skip
    reason = text(2, "too_odd")
    manifest = {
        "curate": "0", "python": "3", "verifiers": "1", "seed": 0, "limit": None,
        "status": "complete",
        "source": {"uri": text(4, "made.jsonl"), "digest": "d" * 64},
        "policy": {"name": text(0, "p"), "revision": text(1, "r"), "template": "t",
                   "backend": "b", "dtype": "float32"} if measured else None,
        "recipe": {"name": text(2, "mine"), "description": text(3, "words"), "steps": []},
        "steps": [{
            "name": "select", "version": 1, "settings": {}, "digest": "0", "input": None,
            "artifact": step.name, "rows_in": n + 2, "made": 0, "rows_out": n, "rejected": 2,
            "rejected_by_reason": {reason: 2}, "seconds": 1.25, "reused": False,
            "metrics": {"rollouts": 4 * n, "generated": n, "tokens": 99, "note": text(5, "m")},
        }],
        "summary": {
            "rows_in": n + 2, "rows_out": n, "rejected": 2, "rejected_by_reason": {reason: 2},
            "seconds": 1.5,
            **({"before": figures, "after": figures, "rollouts": 4 * n, "tokens": 99,
                "rollouts_per_frontier_prompt": 4.0 if n else None} if measured else {}),
        },
    }  # fmt: skip
    write_json(folder / "manifest.json", manifest)
    return folder, manifest


def add_rollouts(folder: Path, ids, text) -> None:
    """Four rollouts of each of two policies for every prompt, half of them right."""
    rows = [
        {
            "prompt_id": key, "sample": sample, "policy": text(7, policy), "revision": text(0, "r"),
            "template": "t", "strategy": "direct", "seed": 0, "temperature": 1.0, "top_p": 1.0,
            "max_tokens": 64, "response": text(i + sample, f"thinking {sample}"),
            "answer": text(i, "4"), "verdict": "correct" if sample % 2 else "incorrect",
            "reason": text(i, "equal"), "verifier_version": "1", "prompt_tokens": 5, "tokens": 7,
            "finish_reason": text(sample, "stop"), "seconds": 0.1,
        }
        for i, key in enumerate(ids)
        for policy in ("first", "second")
        for sample in range(4)
    ]  # fmt: skip
    Ledger(folder / "rollouts").append(conform(pl.DataFrame(rows), ROLLOUT_SCHEMA))


class Reader(HTMLParser):
    """Tags with their attributes, and the cells of every table by its id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: dict[str, list[list[str]]] = {}
        self.table = ""
        self.words: list[str] = []
        self.feed(page)
        self.text = "".join(self.words)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.table = dict(attrs).get("id") or ""
        elif tag == "tr":
            self.cells.setdefault(self.table, []).append([])
        elif tag in {"td", "th"} and self.cells.get(self.table):
            self.cells[self.table][-1].append("")

    def handle_endtag(self, tag) -> None:
        if tag == "table":
            self.table = ""

    def handle_data(self, data) -> None:
        self.words.append(data)
        rows = self.cells.get(self.table) if self.table else None
        if rows and rows[-1]:
            rows[-1][-1] += data
