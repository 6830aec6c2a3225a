"""A million rows through read, check, exact dedup, order and shard: seconds and peak memory.

The rows are generated: worked two-step word problems of a few hundred characters, every tenth a
copy of an earlier question in other case and spacing, every fiftieth without a usable gold. No
model is called. Nothing is compared: the figures are a limit this machine keeps.

Run: python benchmarks/million_rows.py [--rows 1000000]
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

RECIPE = """
name: bulk
steps:
  - qa
  - check
  - dedup
  - order: {by: random}
  - shard
"""
THINGS = "apples marbles coins stamps pencils shells tickets cards beads stickers".split()
PLACES = "a school fair,the market,a bus trip,the library,a farm,the harbour".split(",")


def row(index: int, draw: random.Random) -> dict[str, str]:
    """One problem; its numbers make it distinct."""
    first, each, days = draw.randint(2, 10**6), draw.randint(2, 999), draw.randint(2, 60)
    thing, place = draw.choice(THINGS), draw.choice(PLACES)
    question = (
        f"For {place}, a class begins with {first} {thing}. On every one of the next {days} days "
        f"it adds {each} more, and none are lost on the way. How many {thing} does the class "
        f"hold after day {days}, when problem {index} is read out?"
    )
    total = first + each * days
    worked = (
        f"In {days} days it adds {days} * {each} = <<{days}*{each}={days * each}>>{days * each} "
        f"{thing}. With those it had, that is {first} + {days * each} = {total}.\n#### {total}"
    )
    return {"question": question, "answer": worked if index % 50 else ""}


def write(path: Path, rows: int) -> None:
    """The source file."""
    draw = random.Random(0)
    with path.open("w") as file:
        earlier: dict[str, str] = {}
        for index in range(rows):
            made = row(index, draw)
            if index % 10 == 9 and earlier:
                made = {**earlier, "question": "  " + earlier["question"].upper()}
            elif made["answer"]:
                earlier = made
            file.write(json.dumps(made) + "\n")


def main() -> None:
    """Build in a process of its own and read its peak memory from the kernel."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "rows.jsonl", rows)
        (folder / "bulk.yaml").write_text(RECIPE)
        size = (folder / "rows.jsonl").stat().st_size
        code = (
            "import resource, sys; from curate.cli import main\n"
            "try: main()\n"
            "except SystemExit as end: code = end.code\n"
            "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)\n"
            "sys.exit(code)"
        )
        command = [sys.executable, "-c", code, "build", "--source", folder / "rows.jsonl",
                   "--recipe", folder / "bulk.yaml", "--out", folder / "out"]  # fmt: skip
        started = perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = perf_counter() - started
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        peak = float(done.stdout.rsplit("peak", 1)[1])
        manifest = json.loads((folder / "out" / "manifest.json").read_text())
        print(f"{rows:,} rows, {size / 2**20:.0f} MiB of JSONL: {seconds:.1f} s")
        print(f"peak memory {peak:.2f} GiB, verifier processes apart")
        for step in manifest["steps"]:
            print(f"  {step['name']:8} {step['seconds']:7.1f} s  {step['rows_out']:>9,} rows on, "
                  f"{step['rejected']:,} rejected")  # fmt: skip


if __name__ == "__main__":
    main()
