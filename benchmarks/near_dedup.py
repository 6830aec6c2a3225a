"""Near-duplicates among generated prompts: curate, datasketch and semhash on the same rows.

Of the rows, 10 % are copies of an earlier one with other case, punctuation, white space, one word
swapped or a polite phrase added, and 5 % are traps: an earlier row with one number changed. Each
tool runs in a process of its own, on texts already in memory; figures are seconds of the tool's own
work, peak memory of its process, the share of copies it removed, and traps it removed (each is a
prompt lost). semhash gets an encoder that needs no hub, hashed character 4-grams in 256 dimensions
by random signs, which is cheaper than its default model: its speed here is a best case.

Run: python benchmarks/near_dedup.py [--rows 100000]; above 200,000 rows only curate runs.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
import polars as pl

NAMES = "Tom Ann Bob Eve Sam Kim Max Zoe Ivan Ruth Omar Lena".split()
THINGS = "apples pears coins cards shells books lamps ropes kites drums stamps marbles".split()
PLACES = "market,harbour,school fair,library,farm,museum,station,garden".split(",")
SWAPS = {"market": "bazaar", "buys": "gets", "begins": "starts", "Find": "State", "hold": "own",
         "worth": "value", "line": "graph", "shop": "store", "costs": "is"}  # fmt: skip
PHRASES = ("Please: {}", "{} Thank you!", "Kindly answer. {}", "{} Please explain.")


def problem(draw: random.Random) -> str:
    """One of four kinds of short prompt."""
    n = [draw.randint(2, 9999) for _ in range(4)]
    name, other, thing = draw.choice(NAMES), draw.choice(NAMES), draw.choice(THINGS)
    return draw.choice((
        f"{name} begins with {n[0]} {thing} and buys {n[1]} at the {draw.choice(PLACES)}. After "
        f"giving {n[2]} of them to {other}, how many {thing} does {name} hold?",
        f"Find the value of x on the line through the origin where ${n[0]}x + {n[1]} = {n[2]}$.",
        f"A shop in the {draw.choice(PLACES)} sells {thing} in boxes of {n[0]}. A box costs {n[1]} "
        f"cents. What are {n[2]} boxes worth?",
        f"Find the remainder when ${n[0]}^{{{n[1] % 97 + 2}}} + {n[2]}$ is divided by {n[3]}.",
    ))  # fmt: skip


def disguise(text: str, draw: random.Random) -> str:
    """A near copy."""
    way = draw.randrange(5)
    if way == 0:
        return text.upper() + "!"
    if way == 1:
        return text.replace(".", " ;").replace("?", " ??").replace(",", " ,")
    if way == 2:
        return text.replace(" ", "  ").replace("?", " ?\n").replace(".", " .\n")
    words = [word for word in SWAPS if word in text]
    if way == 3 and words:
        word = draw.choice(words)
        return text.replace(word, SWAPS[word], 1)
    return draw.choice(PHRASES).format(text)


def trap(text: str, draw: random.Random) -> str:
    """The same words, one number changed."""
    places = [place for place, letter in enumerate(text) if letter.isdigit()]
    place = draw.choice(places)
    return text[:place] + str((int(text[place]) + draw.randint(1, 9)) % 10) + text[place + 1 :]


def rows(n: int) -> tuple[list[str], list[str]]:
    """Texts and what each is: fresh, copy or trap."""
    draw = random.Random(0)
    fresh: list[str] = []
    known: set[str] = set()
    texts, kinds = [], []
    for index in range(n):
        kind = {0: "copy", 10: "copy", 5: "trap"}.get(index % 20, "fresh") if fresh else "fresh"
        if kind == "fresh":
            text = problem(draw)
            fresh.append(text)
        else:
            text = (disguise if kind == "copy" else trap)(draw.choice(fresh), draw)
        if kind == "trap" and text in known:
            kind = "fresh"
        known.add(text)
        texts.append(text)
        kinds.append(kind)
    return texts, kinds


def curate(texts: list[str]) -> set[int]:
    """Rows removed, by the step as a recipe runs it (one gold for all, so golds decide nothing)."""
    import tempfile
    from pathlib import Path

    from curate.pipelines.dedup import Dedup
    from curate.pipelines.ledger import Ledger
    from curate.pipelines.pool import Pool
    from curate.pipelines.step import Context

    n = len(texts)
    pool = Pool.from_columns(
        pl.DataFrame({"question": texts, "answer": ["1"] * n, "kind": ["math"] * n,
                      "source_id": [str(index) for index in range(n)]})
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        started = perf_counter()
        gone = Dedup().run(pool, Context(seed=0, ledger=Ledger(here), artifact=here)).rejected
        print(f"step {perf_counter() - started:.1f} s", file=sys.stderr)
    return {int(row) for row in gone["source_id"]}


def datasketch(texts: list[str]) -> set[int]:
    """Rows removed: those that meet an earlier kept row in the index."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=0.7, num_perm=64)
    gone = set()
    for row, text in enumerate(texts):
        plain = " ".join(text.lower().split())
        grams = {plain[place : place + 4].encode() for place in range(max(len(plain) - 3, 1))}
        sketch = MinHash(num_perm=64)
        sketch.update_batch(list(grams))
        if index.query(sketch):
            gone.add(row)
        else:
            index.insert(row, sketch)
    return gone


class Hashed:
    """An encoder for semhash: character 4-grams to 256 signed buckets."""

    def encode(self, inputs: Sequence[str], **_: object) -> np.ndarray:
        """Texts to float32 [n, 256]."""
        out = np.zeros((len(inputs), 256), np.float32)
        for row, text in enumerate(inputs):
            data = np.frombuffer(text.lower().ljust(4).encode(), np.uint8).astype(np.uint32)
            grams = data[:-3] + 257 * data[1:-2] + 66049 * data[2:-1] + 16974593 * data[3:]
            mixed = (grams * np.uint32(2654435761)) >> np.uint32(16)
            np.add.at(out[row], mixed & 255, np.where(mixed & 256, 1.0, -1.0))
        return out


def semhash(texts: list[str]) -> set[int]:
    """Rows removed at semhash's default threshold."""
    from semhash import SemHash

    records = [{"text": text, "row": str(row)} for row, text in enumerate(texts)]
    found = SemHash.from_records(records, columns=["text"], model=Hashed()).self_deduplicate()
    kept = {int(record["row"]) for record in found.selected}
    return set(range(len(texts))) - kept


TOOLS: dict[str, Callable[[list[str]], set[int]]] = {
    "curate": curate, "datasketch": datasketch, "semhash": semhash,
}  # fmt: skip


def measure(tool: str, n: int) -> None:
    """Run one tool here and print its figures as JSON."""
    texts, kinds = rows(n)
    started = perf_counter()
    gone = TOOLS[tool](texts)
    seconds = perf_counter() - started
    copies = [row for row, kind in enumerate(kinds) if kind == "copy"]
    traps = [row for row, kind in enumerate(kinds) if kind == "trap"]
    print(json.dumps({
        "seconds": seconds,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "found": sum(row in gone for row in copies) / len(copies),
        "traps": sum(row in gone for row in traps), "of": len(traps),
        "fresh": sum(kinds[row] == "fresh" for row in gone),
    }))  # fmt: skip


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tool", choices=TOOLS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.tool:
        measure(asked.tool, asked.rows)
        return
    tools = list(TOOLS) if asked.rows <= 200_000 else ["curate"]
    print(f"{asked.rows:,} rows; semhash with an offline encoder of hashed 4-grams")
    base = 0.0
    for tool in tools:
        command = [sys.executable, __file__, "--tool", tool, "--rows", str(asked.rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{tool}: {done.stderr.strip().splitlines()[-1]}")
            continue
        got = json.loads(done.stdout)
        base = base or got["seconds"]
        print(
            f"{tool:10} {got['seconds']:7.1f} s ({got['seconds'] / base:5.1f}x) "
            f"{got['gib']:5.2f} GiB"
            f"  copies found {got['found']:.2%}  traps merged {got['traps']:,} of {got['of']:,}"
            f"  fresh rows merged {got['fresh']:,}"
        )


if __name__ == "__main__":
    main()
