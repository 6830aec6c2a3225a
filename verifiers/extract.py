"""Find the final answer in a model's text, before any kind looks at it.

Reasoning blocks go first. What is left is searched for explicit answers (boxes, answer tags,
``####``, "the answer is"); the last one in the text is meant, unless what follows takes it back.
Every scan is linear in the text.
"""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from curate.verifiers.verdict import Options

Source: TypeAlias = Literal["box", "tag", "hash", "marker"]

#: Announcements looked at, from the end.
MAX_ANSWERS = 100

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_FOLD = (
    str.maketrans(
        {
            **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f\u202a\u202c"),
            **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
            "\u2212": "-",
            "\u2018": "'",
            "\u2019": "'",
            "\u201c": '"',
            "\u201d": '"',
            "\r": "\n",
        }
    )
    | _WIDE
)

_CONTROL = re.compile(r"<\|[A-Za-z_]{1,40}\|>|</s>|<eos>|<end_of_turn>")
_THINK = re.compile(
    r"<(/?)(?:think|thinking|thought|reasoning|scratchpad)>|"
    r"<\|(begin|end)_of_thought\|>|\[(/?)THINK\]|◁(/?)think▷",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An explicit answer.

    Args:
        text: what was given as the answer, not yet interpreted.
        source: how it was announced.
        start: offset of the announcement in the visible text.
        end: offset just after the answer.
    """

    text: str
    source: Source
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a response says.

    Args:
        text: the visible text, reasoning dropped; empty when there is none.
        answers: explicit answers, the last one first.
        reason: why there is no answer when ``text`` is empty.
        taken_back: the last explicit answer is withdrawn; ``rest`` holds what replaces it.
        rest: text after the last explicit answer.
    """

    text: str
    answers: tuple[Answer, ...]
    reason: str = "no_answer"
    taken_back: bool = False
    rest: str = ""


def clean(text: str) -> str:
    """Fold full-width and typographic variants, drop invisible characters and control tokens."""
    if text.isascii():
        return _CONTROL.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _CONTROL.sub(" ", text.replace("\r\n", "\n").translate(_FOLD))


def visible(text: str) -> tuple[str, bool]:
    """Text outside reasoning blocks, and whether a block was closed.

    A closing tag without an opening one ends reasoning that a chat template began; an opening
    tag that is never closed hides all that follows.
    """
    kept: list[str] = []
    place, inside, closed = 0, False, False
    for tag in _THINK.finditer(text):
        closing = "/" in (tag[1], tag[3], tag[4]) or (tag[2] or "").lower() == "end"
        if closing:
            if not inside:
                kept = []
            inside, closed = False, True
        elif not inside:
            kept.append(text[place : tag.start()])
            inside = True
        place = tag.end()
    if not inside:
        kept.append(text[place:])
    return " ".join(kept).strip(), closed


def find(response: str, options: Options) -> Found:
    """Visible text and explicit answers of a response."""
    hidden = _THINK.search(response) is not None
    text, closed = visible(response) if hidden else (response, False)
    text = clean(text).strip()
    if options.require_closed_think and not closed:
        return Found("", (), "reasoning_not_closed")
    if not text:
        return Found("", (), "unfinished_reasoning" if hidden and not closed else "no_answer")
    answers = sorted(
        [*_boxes(text, options), *_tags(text, options), *_hashes(text), *_markers(text)],
        key=lambda answer: (answer.end, -answer.start),
        reverse=True,
    )[:MAX_ANSWERS]
    if not answers:
        return Found("", (), "truncated") if options.truncated else Found(text, ())
    answers = _unnested(answers)
    rest = text[answers[0].end :]
    taken_back = _takes_back(rest)
    if options.truncated and (taken_back or _may_go_on(answers[0], text, response)):
        return Found("", (), "truncated")
    return Found(text, tuple(answers), taken_back=taken_back, rest=rest)


def _may_go_on(answer: Answer, text: str, response: str) -> bool:
    """True for an answer on the line where the text was cut, unless a sentence ends before that.

    "The answer is 12" may have been about to say 120, and "The answer is 12." 12.5.
    """
    if answer.source in ("box", "tag"):
        return not answer.text.strip()
    last_line = answer.end == len(text) and not response.rstrip(" \t").endswith("\n")
    return last_line and len(sentences(answer.text)) < 2


def _unnested(answers: list[Answer]) -> list[Answer]:
    r"""Drop announcements that hold a more explicit one ("Answer: \boxed{B}" is one answer)."""
    kept: list[Answer] = []
    for answer in answers:
        holds = any(answer.start <= one.start and one.end <= answer.end for one in kept)
        held = any(one.start <= answer.start and answer.end <= one.end for one in kept)
        if held and answer.source in ("box", "tag") and kept[-1].source not in ("box", "tag"):
            kept[-1] = answer
        elif not holds and not held:
            kept.append(answer)
    return kept


# --- boxes ----------------------------------------------------------------------------------

_BRACES = re.compile(r"\\(?:boxed|fbox|framebox)\s*\{|\\[\\{}]|[{}]")
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s*([^\s{}$\\.,;]+)")

#: Between two boxes that together are one answer: "\boxed{1} sheet and \boxed{2} bins".
_JOINED = re.compile(
    r"[\s$.)\\]{0,4}(?:[A-Za-z]+\s+){0,2}(?:\\text\{)?\s*(?:,|;|and|or|&|und|et|y|和)(?![a-z])"
    r"\s*\}?[\s$(\\]{0,4}(?:[A-Za-z]\w*\s*=\s*)?[\s$]{0,3}"
)


def _boxes(text: str, options: Options) -> list[Answer]:
    if "box" not in text:
        return []
    spans, cut = _box_spans(text)
    answers = _outermost(
        [Answer(text[inside : end - 1], "box", start, end) for start, end, inside in spans]
    )
    answers = [answer for answer in answers if answer.text.strip()]
    answers += [Answer(m[1], "box", m.start(), m.end()) for m in _BARE_BOX.finditer(text)]
    if cut is not None:
        start, inside = cut
        whole = not (options.strict or options.truncated) and text[inside:].count("box") == 0
        content = text[inside:].split("\n", 1)[0].rstrip(" $.") if whole else ""
        # A cut box is an announcement all the same: it must not give way to an earlier one.
        answers.append(Answer(content, "box", start, len(text)))
    return _join(text, _outermost(answers))


def _box_spans(text: str) -> tuple[list[tuple[int, int, int]], tuple[int, int] | None]:
    """Closed boxes (start, end, start of the content), and the first one that is never closed."""
    spans: list[tuple[int, int, int]] = []
    stack: list[tuple[int, int]] = []
    for match in _BRACES.finditer(text):
        found = match[0]
        if found == "{":
            stack.append((-1, 0))
        elif found == "}":
            start, inside = stack.pop() if stack else (-1, 0)
            if start >= 0:
                spans.append((start, match.end(), inside))
        elif found[-1] == "{" and len(found) > 2:
            stack.append((match.start(), match.end()))
    return spans, next((one for one in stack if one[0] >= 0), None)


def _outermost(answers: list[Answer]) -> list[Answer]:
    """Answers in the order of the text, without those that lie inside another."""
    answers = sorted(answers, key=lambda answer: (answer.start, -answer.end))
    outer: list[Answer] = []
    for answer in answers:
        if not outer or answer.start >= outer[-1].end:
            outer.append(answer)
    return outer


def _join(text: str, boxes: list[Answer]) -> list[Answer]:
    """Make one answer of neighbouring boxes that a comma or "and" connects."""
    joined: list[Answer] = []
    for box in boxes:
        if joined and (last := joined[-1]).text.strip() != box.text.strip():
            between = text[last.end : box.start]
            if len(between) <= 40 and _JOINED.fullmatch(between):
                both = f"{last.text.strip()}, {box.text.strip()}"
                joined[-1] = Answer(both, "box", last.start, box.end)
                continue
        joined.append(box)
    return joined


# --- tags, hashes, markers ------------------------------------------------------------------

_TAG = re.compile(r"<(/?)(?:answer|final_answer|final)>|\[(/?)ANSWER\]", re.IGNORECASE)
_HASH = re.compile(r"^[ \t]*#{4}[ \t]*([^\n#]+)", re.MULTILINE)

_NOT_OURS = re.compile(
    r"(?:gold|reference|expected|ground[- ]truth|true|given|provided|official|sample|example|"
    r"student's|user's|wrong|incorrect|previous|earlier|old|initial|first|no)\s*$",
    re.IGNORECASE,
)
_MARKER = re.compile(
    r"(?:\b(?:final|correct|right|best|overall|my|the|our)\s+){0,3}"
    r"\b(?:answers?|ans|solution|result|choice|pick|final)\b"
    r"(?:\s+(?:to|of|for)\s+(?:this|the)\s+(?:question|problem|exercise))?"
    r"[*_\s\"']{0,4}"
    r"(?:[:=]|->|→|(?:is|are|was|would be|should be|must be|will be|equals|becomes)\b(?!n't)\s*:?)"
    r"|\b(?:la\s+)?(?:réponse|respuesta|risposta|resposta)(?:\s+(?:finale?|final|correcta|correcte))?"
    r"\s*(?::|est\b|es\b|è|é)"
    r"|\b(?:die\s+)?(?:richtige\s+)?(?:antwort|lösung)\s*(?::|ist\b|lautet\b)\s*:?"
    r"|(?:最终)?(?:答案|答え|정답|결과)\s*(?::|是|为|為|は|은|는)\s*:?|\bответ\s*[:—-]"
    r"|^\W{0,6}(?:the\s+)?(?:final\s+)?(?:answer|ans)\b[ \t*_]*(?=[\d$\\(\[{+-]|\n)"
    r"|^[ \t*_]*A\s*:(?=\s*\S)",
    re.IGNORECASE | re.MULTILINE,
)
_LEAD = re.compile(r"[\s*_:>✅]*")


def _tags(text: str, options: Options) -> list[Answer]:
    if "nswer" not in text and "NSWER" not in text and "<final>" not in text:
        return []
    answers: list[Answer] = []
    opened: re.Match[str] | None = None
    for tag in _TAG.finditer(text):
        if "/" not in (tag[1], tag[2]):
            opened = tag
        elif opened is not None:
            inside = text[opened.end() : tag.start()]
            answers.append(Answer(inside.strip(), "tag", opened.start(), tag.end()))
            opened = None
    if opened is not None:
        whole = not (options.strict or options.truncated)
        rest = text[opened.end() :].strip() if whole else ""
        answers.append(Answer(rest, "tag", opened.start(), len(text)))
    # A box inside a tag says more exactly what is meant.
    return [
        Answer(boxes[-1].text, "tag", answer.start, answer.end)
        if (boxes := _boxes(answer.text, options))
        else answer
        for answer in answers
    ]


def _hashes(text: str) -> list[Answer]:
    if "####" not in text:
        return []
    return [Answer(m[1].strip(), "hash", m.start(), m.end()) for m in _HASH.finditer(text)]


def _markers(text: str) -> list[Answer]:
    answers: list[Answer] = []
    next_start = len(text)
    # From the end: "Answer: A. Hmm, no, Answer: B" ends where the next announcement begins.
    for match in reversed(list(_MARKER.finditer(text))):
        lead = _LEAD.match(text, match.end())
        start = lead.end() if lead else match.end()
        end = min(_end_of_answer(text, start), max(start, next_start))
        next_start = match.start()
        if _NOT_OURS.search(text[max(0, match.start() - 16) : match.start()]):
            continue
        # "The answer is 12. Wait, that is wrong" ends before it is taken back.
        if (taken := _TAKEN_BACK.search(text, start, end)) is not None and taken.start() > start:
            end = taken.start()
        content = text[start:end].strip()
        if content:
            answers.append(Answer(content, "marker", match.start(), end))
        if len(answers) == MAX_ANSWERS:
            break
    return answers


def _end_of_answer(text: str, start: int) -> int:
    """End of the line, or of the display math that opens on it."""
    for opening, closing in (("\\[", "\\]"), ("$$", "$$")):
        if text.startswith(opening, start):
            end = text.find(closing, start + 2)
            if end >= 0:
                return end + 2
    end = text.find("\n", start)
    return len(text) if end < 0 else end


# --- what follows ---------------------------------------------------------------------------

_TAKEN_BACK = re.compile(
    r"\b(?:(?:that|this|it|which)(?:'s| is| was)\s+(?:wrong|incorrect|not\s+(?:right|correct))|"
    r"scratch that|strike that|i made an? (?:mistake|error)|i was wrong|correction|correcting|"
    r"actually,?\s+(?:no|it|the|that|i)\b|(?:oh|hmm|wait|sorry),?\s+no\b|no,\s+wait|"
    r"let me (?:redo|recompute|recalculate|correct|fix|start over|try again)|"
    r"i (?:take (?:that|it) back|retract|withdraw)|on second thought|disregard|"
    r"ignore (?:that|the above))",
    re.IGNORECASE,
)


def _takes_back(rest: str) -> bool:
    return _TAKEN_BACK.search(rest) is not None


_SENTENCE = re.compile(r"(?<=[.!?])[*_\"')\]]{0,3}\s+(?=[A-Z\"'(*\\$\[])|(?<=[。！？])|\n{1,3}")


def sentences(text: str) -> list[str]:
    """Sentences and lines of a text, empty ones dropped."""
    return [piece.strip() for piece in _SENTENCE.split(text) if piece.strip()]


_WRAP = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mathsf|operatorname|mbox|emph|textrm|textnormal|textsc|bf|rm)\s*\{([^{}]*)\}"
)


def plain(text: str) -> str:
    """Text without the wrappers of LaTeX and Markdown: for kinds that read words."""
    for _ in range(4):
        unwrapped = _WRAP.sub(r"\1", text)
        if unwrapped == text:
            break
        text = unwrapped
    text = text.replace("\\(", " ").replace("\\)", " ").replace("\\[", " ").replace("\\]", " ")
    text = re.sub(r"\\boxed\s*\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\[,;:! ]|~", " ", text).replace("\\%", "%").replace("\\_", "_")
    text = re.sub(r"\*\*|__|`", "", text).replace("$", " ")
    return re.sub(r"\s+", " ", text).strip().strip("*")
