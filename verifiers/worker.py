"""The process at the other end of ``isolate``: one job a line in, one verdict a line out."""

import json
import resource
import sys

from curate.verifiers.judge import judge
from curate.verifiers.verdict import Verdict, read_options


def main() -> None:
    """Serve standard input until it ends."""
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    answers = sys.stdout.buffer
    # Nothing a library prints may be taken for an answer.
    sys.stdout = sys.stderr

    def tell(line: str) -> None:
        answers.write(line.encode() + b"\n")
        answers.flush()

    tell("ready")
    for line in sys.stdin.buffer:
        kind, gold, response, options = json.loads(line)
        try:
            verdict = judge(kind, gold, response, options)
            if verdict is None:
                if "curate.verifiers.algebra" not in sys.modules:
                    tell("loading")
                    import curate.verifiers.algebra

                    curate.verifiers.algebra.load()
                    tell("ready")
                from curate.verifiers.algebra import decide

                verdict = decide(kind, gold, response, read_options(options))
        except MemoryError:
            verdict = Verdict("error", "memory")
        except RecursionError:
            verdict = Verdict("error", "too_deep")
        except Exception as error:  # whatever a parser trips over costs only this row
            verdict = Verdict("error", f"failed_{type(error).__name__}")
        tell(json.dumps([verdict.value, verdict.reason, verdict.extracted]))


if __name__ == "__main__":
    main()
