"""Case files: tables of gold, response and expected verdict that measure a verifier."""

import json
from dataclasses import dataclass
from pathlib import Path

from curate.pipelines.errors import SourceError
from curate.verifiers.api import Row, Value

#: Names of kinds in case files that differ from ours.
KINDS = {
    "mcq": "choice",
    "numeric_unit": "quantity",
    "list": "items",
    "bool": "boolean",
    "json": "structured",
    "extraction": "math",
}
_EXPECTED: dict[object, Value] = {True: "correct", False: "incorrect", "error": "error"}


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a case file.

    Args:
        id: its name.
        group: the file's own word for its kind.
        row: what is judged.
        expected: the right verdict.
    """

    id: str
    group: str
    row: Row
    expected: Value


def load_cases(path: Path) -> list[Case]:
    """Read a case file (one JSON object a line).

    Raises:
        SourceError: a line is not a case; the message names file and line.
    """
    cases = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                raw = json.loads(line)
                options = dict(raw.get("opts") or {})
                options.pop("no_exec", None)  # a remark to the reader: nothing is ever executed
                kind = str(options.pop("verifier", raw["kind"]))
                row = Row(KINDS.get(kind, kind), raw["gold"], raw["response"], options)
                cases.append(Case(raw["id"], raw["kind"], row, _EXPECTED[raw["expected"]]))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise SourceError(f"{path}:{number}: not a verifier case: {error!r}") from error
    return cases
