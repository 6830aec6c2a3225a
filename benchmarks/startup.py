"""`curate --help` against a bare interpreter, alternating, medians, as a ratio in one run.

Run: python benchmarks/startup.py
"""

import statistics
import subprocess
import sys
from time import perf_counter

ROUNDS = 15


def timed(command: list[str]) -> float:
    started = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - started


def main() -> None:
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "curate --help": [sys.executable, "-m", "curate", "--help"],
        "curate build --help": [sys.executable, "-m", "curate", "build", "--help"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            seconds[name].append(timed(command))
    bare = statistics.median(seconds["python -c pass"])
    for name, values in seconds.items():
        middle = statistics.median(values)
        print(f"{name:22} {middle * 1000:7.1f} ms  {middle / bare:5.1f}x")


if __name__ == "__main__":
    main()
