"""Which column of a row is taken for what, told by trying.

Every column's text is exchanged for a mark and the row is drafted anew: where the mark comes out is
what the column is for. So this cannot fall behind the rules by which columns are recognised.
"""

from typing import Any

from curate.curators.rows import Columns, Draft, Record, draft

#: A text that no row holds and that is read as it is: no number, no LaTeX, no final-answer mark.
_MARK = "curate column mark"
#: The names of turns and options, without which a chat or an option list is none.
_KEPT = frozenset({"role", "from", "label", "key"})
_ROLES = (
    "question", "system", "answer", "kind", "choices", "domain", "topic", "language", "license",
    "source", "solutions",
)  # fmt: skip


def taken(record: Record, columns: Columns) -> dict[str, str]:
    """Role → the columns taken for it, in the order of ``Draft``'s fields.

    Args:
        record: a row that makes a prompt.
        columns: as for ``draft``.

    >>> taken({"problem": "1 + 1?", "answer": 2, "id": 7}, Columns(None, None, None, None, None))
    {'question': 'problem', 'answer': 'answer'}
    """
    found: dict[str, list[str]] = {}
    for name, value in record.items():
        roles = _roles(record, {name: _mark(value)}, {name: None}, columns)
        within: dict[str, list[str]] = {}
        # Options hang together: one of them alone says nothing.
        if isinstance(value, dict) and "choices" not in roles:
            for inner, deep in value.items():
                marked = {name: {**value, inner: _mark(deep)}}
                for role in _roles(record, marked, {name: {**value, inner: None}}, columns):
                    within.setdefault(role, []).append(f"{name}.{inner}")
        for role in roles:
            found.setdefault(role, []).extend(within.get(role, [name]))
    return {role: " + ".join(found[role]) for role in _ROLES if role in found}


def _mark(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: v if k in _KEPT else _mark(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_mark(item) for item in value]
    return None if value is None else _MARK


def _roles(record: Record, marked: Record, without: Record, columns: Columns) -> list[str]:
    """What a column is for: where its mark comes out, else what a row lacks without it."""
    made = draft({**record, **marked}, columns)
    if isinstance(made, Draft):
        found = [role for role in _ROLES if _MARK in str(getattr(made, role))]
        # Options are listed under the question too.
        return ["choices"] if "choices" in found else found
    made = draft({**record, **without}, columns)
    if isinstance(made, Draft):
        return ["answer"] if made.choices else ["choices"]
    return [{"missing_question": "question", "unknown_kind": "kind"}.get(made.reason, "answer")]
