"""From the name of a kind to its verdict: what ``api`` and the worker processes share."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

from curate.pipelines.errors import UsageError
from curate.verifiers.verdict import Options, Verdict, read_options

Judge: TypeAlias = Callable[[str, str, Options], Verdict | None]
Check: TypeAlias = Callable[[str, Options], str | None]

#: Each module has ``judge(gold, response, options)``, None when only algebra can tell, and
#: ``check(gold, options)``, the reason why a gold cannot be used or None.
KINDS = {
    name: f"curate.verifiers.{name}"
    for name in ("math", "choice", "quantity", "text", "boolean", "items", "structured")
}

#: A response this long is cut to its end, where the answer is.
MAX_CHARS = 200_000


def _module(kind: str) -> tuple[Judge, Check]:
    if kind not in KINDS:
        raise UsageError(f"unknown verifier kind {kind!r}; use one of {', '.join(sorted(KINDS))}")
    module = import_module(KINDS[kind])
    return module.judge, module.check


def check(kind: str, gold: str, options: Mapping[str, object]) -> str | None:
    """Reason why a gold cannot be used, or None."""
    if not gold.strip():
        _module(kind)
        return "empty_gold"
    return _module(kind)[1](gold, read_options(options))


def judge(kind: str, gold: str, response: str, options: Mapping[str, object]) -> Verdict | None:
    """Verdict by bounded means, or None when only the computer algebra system can tell.

    Raises:
        UsageError: the kind or an option is unknown.
    """
    contract = read_options(options)
    judged, checked = _module(kind)
    problem = "empty_gold" if not gold.strip() else checked(gold, contract)
    if problem is not None:
        return Verdict("error", problem)
    if not response.strip():
        return Verdict("incorrect", "empty_response")
    return judged(gold, response[-MAX_CHARS:], contract)
