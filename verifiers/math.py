"""Mathematical answers: exact numbers first, algebra only for what is left."""

import re

from curate.verifiers.extract import find, plain
from curate.verifiers.numbers import NUMBER, decimal, ungroup
from curate.verifiers.verdict import Options, Verdict

_LAST = re.compile(NUMBER)


def check(gold: str, options: Options) -> str | None:
    return None


def judge(gold: str, response: str, options: Options) -> Verdict | None:
    found = find(response, options)
    if not found.text:
        return Verdict("incorrect", found.reason)
    want = decimal(ungroup(plain(gold)))
    text = found.answers[0].text if found.answers else found.text
    numbers = _LAST.findall(text)
    if want is None:
        return None
    given = decimal(ungroup(numbers[-1])) if numbers else None
    if given is None:
        return Verdict("incorrect", "no_answer")
    equal = want == given
    return Verdict(
        "correct" if equal else "incorrect", "equal" if equal else "not_equal", str(given)
    )
