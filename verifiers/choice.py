"""Multiple choice: the letter (or letters) the response settles on, by letter or by option text."""

import re
from collections.abc import Mapping

from curate.verifiers.extract import Found, find, plain, sentences
from curate.verifiers.text import normalise
from curate.verifiers.verdict import Options, Verdict

#: Words that may follow a letter that is meant as one; before any other lower-case word,
#: "A" is an article and "I" a pronoun.
_FOLLOWS = (
    "is|are|was|and|or|nor|since|because|as|can|could|cannot|must|would|should|seems|fits|but|et|"
    "und|y|e|o|ou|oder|for|which|that|who|if|due|given|so|alone|only|both|here|too|not|matches|"
    "works|looks|breaks|fails|does|has|describes|remains|est|ist|es|will|may|might|rather|instead"
)
_LETTER = re.compile(
    rf"(?<![A-Za-z0-9'_\\-])([A-Z])(?![A-Za-z0-9'_]|-[A-Za-z])(?!\s+(?!(?:{_FOLLOWS})\b)[a-z])"
)
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not|cannot|never|neither|nor|than|except|excluding|without|pas|nicht|kein|no|unlike|"
    r"eliminat\w+|exclud\w+|rejects?|discard\w*|instead of|rule[sd]? out)|n't)"
    r"(?:\s+(?:be|option|choice|answer|the|both|either))*[\s(*]*$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"^[)\]*\s]*(?:\?|(?:is|are|was|were|can|could|must|may|cannot|does|do|has)\b(?:\s+\w+){0,2}?\s*"
    r"\b(?:impossible|wrong|incorrect|false|not|ruled out|eliminated|excluded|invalid|out|rejected|"
    r"be ruled|be eliminated|be excluded|fail)|(?:fails|breaks|violates|contradicts|cannot|"
    r"isn't|doesn't|can't|aren't)\b)",
    re.IGNORECASE,
)
_LINK = re.compile(r"^[)\]*\s]*(?:,|/|and|or|nor|&|et|und|y|,\s*(?:and|or))[\s(*]*$", re.IGNORECASE)
_LEADING = re.compile(r"^[(\[{*\s]*([A-Za-z])(?:\s*[)\]}]+[.:,]?|\s*[.:]|\s*[-—–])(?:\s|$)")
_SEVERAL = re.compile(
    r"^[(\[{\s]*[A-Z][)\]}\s]*(?:(?:,|/|;|&|\s|and|or|et|und|y)+[(\[{\s]*[A-Z][)\]}\s]*)*[.]?$"
)
_RUN = re.compile(r"^[A-Z]{2,}$")
_OPTION_LINE = re.compile(r"^[\s>*-]*[(\[]?([A-Z])[)\].:]+\s*(\S.*?)\s*$")


def _texts(options: Options) -> dict[str, str]:
    given = options.options
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(key).strip().upper(): str(text) for key, text in given.items()}
    return {chr(ord("A") + index): str(text) for index, text in enumerate(given)}


def check(gold: str, options: Options) -> str | None:
    """The gold must name its options: one, or with ``multi`` at least one, by letter or text."""
    texts = _texts(options)
    letters = _gold(gold, texts)
    if not letters:
        return "gold_not_an_option"
    if len(letters) > 1 and not options.multi:
        return "gold_names_several"
    named = [normalise(texts[letter], case_sensitive=True) for letter in letters if texts]
    all_texts = [normalise(text, case_sensitive=True) for text in texts.values()]
    if any(all_texts.count(text) > 1 for text in named):
        return "ambiguous_options"
    return None


def _gold(gold: str, texts: dict[str, str]) -> frozenset[str]:
    text = plain(gold)
    if len(text.strip("()[]{}. ")) == 1:
        text = text.upper()
    if _SEVERAL.match(text) or _RUN.match(text):
        letters = frozenset(re.findall(r"[A-Z]", text))
        if not texts or letters <= texts.keys():
            return letters
    same = [letter for letter, option in texts.items() if normalise(option) == normalise(gold)]
    if len(same) == 1:
        return frozenset(same)
    lead = _LEADING.match(text)
    if lead and (not texts or lead[1].upper() in texts):
        return frozenset(lead[1].upper())
    return frozenset()


def judge(gold: str, response: str, options: Options) -> Verdict:
    """Compare the set of letters the response settles on with the gold's."""
    texts = _texts(options)
    want = _gold(gold, texts)
    found = find(_without_option_list(response, texts), options)
    if not found.text:
        return Verdict("incorrect", found.reason)
    given = _settled(found, texts, options)
    if not given:
        return Verdict("incorrect", "no_option")
    extracted = ",".join(sorted(given))
    if len(given) > 1 and not options.multi:
        return Verdict("incorrect", "several_options", extracted)
    if given == want:
        return Verdict("correct", "equal", extracted)
    return Verdict("incorrect", "not_equal", extracted)


def _without_option_list(text: str, texts: dict[str, str]) -> str:
    """Drop option lines copied from the question: at least two, each letter with its own text."""
    if not texts or "\n" not in text:
        return text
    lines = text.splitlines()
    copied = [
        number
        for number, line in enumerate(lines)
        if len(line) < 2000
        and (match := _OPTION_LINE.match(line))
        and match[1] in texts
        and normalise(match[2]) == normalise(texts[match[1]])
    ]
    if len(copied) < 2:
        return text
    return "\n".join(line for number, line in enumerate(lines) if number not in set(copied))


def _settled(found: Found, texts: dict[str, str], options: Options) -> frozenset[str]:
    if found.taken_back:
        return _from_prose(found.rest, texts)
    read = [letters for one in found.answers if (letters := _read(one.text, texts))]
    if read:
        # Declaring every option in turn settles on none.
        declared = frozenset().union(*read)
        if len(texts) > 2 and declared == texts.keys() and len(read) >= len(texts):
            return declared
        return read[0]
    if found.answers and found.answers[0].source in ("box", "tag"):
        return frozenset()
    return _read(found.text, texts) or _from_prose(found.text, texts)


def _read(text: str, texts: dict[str, str]) -> frozenset[str]:
    """Letters of an announced answer."""
    words = plain(text)
    if not words:
        return frozenset()
    bare = words.strip("()[]{}.,:;*'\" ")
    if len(bare) == 1 and bare.isalpha():
        return _known({bare.upper()}, texts)
    by_text = _by_text(words, texts)
    if by_text:
        return by_text
    if _SEVERAL.match(words) or _RUN.match(bare):
        letters = set(re.findall(r"[A-Z]", words))
        if not texts or letters <= texts.keys():
            return frozenset(letters)
    lead = _LEADING.match(words)
    if lead and (lead[1].isupper() or words[:1] in "(["):
        letter = lead[1].upper()
        rest = words[lead.end() :].strip()
        other = _by_text(rest, texts) if rest else frozenset()
        if other and other != {letter}:
            return other | {letter}
        return _known({letter}, texts)
    parts = sentences(words)
    return _from_sentence(parts[0], texts) if parts else frozenset()


def _by_text(text: str, texts: dict[str, str]) -> frozenset[str]:
    for case in (True, False):
        wanted = normalise(text, case_sensitive=case)
        same = [
            k for k, option in texts.items() if normalise(option, case_sensitive=case) == wanted
        ]
        if same and wanted:
            return frozenset(same)
    return frozenset()


def _known(letters: set[str], texts: dict[str, str]) -> frozenset[str]:
    return frozenset(letters if not texts else letters & texts.keys())


def _from_prose(text: str, texts: dict[str, str]) -> frozenset[str]:
    """Letters of the last sentence that names any; failing that, the one option named in words."""
    parts = sentences(plain_lines(text))
    if parts and (lead := _LEADING.match(parts[0])) and len(parts) <= 3 and lead[1].isupper():
        return _known({lead[1]}, texts)
    for part in reversed(parts):
        letters = _from_sentence(part, texts)
        if letters:
            return letters
    for part in reversed(parts):
        read = normalise(part)
        named = {
            letter
            for letter, option in texts.items()
            if (name := normalise(option))
            and (match := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", read))
            and not _denied(read, match.start(), match.end())
        }
        if named:
            return frozenset(named)
    return frozenset()


def plain_lines(text: str) -> str:
    """``plain`` line by line."""
    return "\n".join(plain(line) for line in text.splitlines())


def _denied(text: str, start: int, end: int) -> bool:
    """True when the words around a mention reject it."""
    return (
        _DENIED_BEFORE.search(text[max(0, start - 80) : start]) is not None
        or _DENIED_AFTER.match(text[end : end + 80]) is not None
    )


def _from_sentence(text: str, texts: dict[str, str]) -> frozenset[str]:
    """Letters a sentence affirms: those of its first group that is not denied.

    Letters linked by commas, slashes, "and" or "or" form a group and stand or fall together.
    """
    groups: list[list[re.Match[str]]] = []
    for match in _LETTER.finditer(text):
        if texts and match[1] not in texts:
            continue
        if groups and _LINK.match(text[groups[-1][-1].end() : match.start()]):
            groups[-1].append(match)
        else:
            groups.append([match])
    affirmed = [group for group in groups if not _denied(text, group[0].start(), group[-1].end())]
    if not affirmed:
        return frozenset()
    return frozenset(match[1] for match in affirmed[0])
