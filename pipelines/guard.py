r"""What two prompts must have in common before they may count as one: their exact content.

Text similarity is blind where it matters: "2x + 3 = 7" and "2x + 3 = 9" share nearly every
character and are two problems. So every prompt gets a *signature*, the sequence of the tokens that
carry its mathematics: numbers, number words, comparisons and negations, operators, brackets, LaTeX
commands, single letters, and words in capitals ("AB" and "AC" are two segments). Prompts whose
signatures differ are never merged, however similar they look. A signature errs on one side: it may
keep two spellings of one problem apart, and drops no problem for another's sake.
"""

import polars as pl

from curate.pipelines.pool import letters

#: Signs Unicode has several of and NFKC leaves alone.
_SIGNS = {
    "\u2212": "-", "\u2013": "-", "\u2014": "-", "\u2010": "-", "\u00d7": " \\times ",
    "\u00b7": " \\cdot ", "\u22c5": " \\cdot ", "\u00f7": " \\div ", "\u2264": " \\le ",
    "\u2265": " \\ge ", "\u2260": " \\ne ", "\u2019": "'", "\u2044": "/",
}  # fmt: skip

#: LaTeX that changes the look and nothing else, and one spelling for what has several.
_LATEX = (
    (r"\\(?:left|right|displaystyle|textstyle|limits|qquad|quad|[bB]igg?[lr]?)\b|\\[,;:! ]|~", " "),
    (
        r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox|operatorname\*?|boldsymbol)\s*\{([^{}]*)\}",
        " $1 ",
    ),
    (r"\\[dtc]frac\b", r"\frac"),
    (r"\\leq\b", r"\le"), (r"\\geq\b", r"\ge"), (r"\\neq\b", r"\ne"),
    (r"\\[()\[\]]|\$", " "),
    (r"\{\s*([^{}\s])\s*\}", " $1 "),
)  # fmt: skip

_SPACING = (
    (r"(\d),(\d{3})\b", "$1$2"),
    (r"'", ""),
    # A mark after a word or another mark exclaims; after a number or a letter: factorial.
    (r"([A-Za-z]{2}|[\s?.,;:!])!+", "$1"),
    # An article before a word says nothing; the letter a in a formula does.
    (r"(?i)\b(?:an?|the)\s+([a-z]{2})", " $1"),
    # A hyphen between words is no minus.
    (r"([A-Za-z]{2})-([A-Za-z]{2})", "$1 $2"),
    (r"(\d)([A-Za-z])", "$1 $2"),
    (r"([A-Za-z])(\d)", "$1 $2"),
)

_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion dozen half halves thirds? quarters? fourths? fifths? sixths? "
    "sevenths? eighths? ninths? tenths? first second once twice thrice double triple quadruple "
    "percent more less fewer greater larger bigger smaller least most greatest largest biggest "
    "smallest fewest highest lowest higher lower longer shorter taller older younger faster slower "
    "heavier lighter earlier later before after above below over under increase[ds]? decrease[ds]? "
    "increasing decreasing maximum minimum maximize minimize maximal minimal even odd positive "
    "negative non sum difference product quotient mean median mode area perimeter volume inside "
    "outside not no none never neither nor without except cannot cant dont doesnt didnt isnt arent "
    "wasnt werent wont hasnt havent any all some every each only exactly or true false incorrect "
    "correct left right gain(?:s|ed)? lose[s]? lost win(?:s)? won"
).split()

_TOKEN = (
    r"\d+(?:\.\d+)?|\.\d+|\\[A-Za-z]+|(?i:\b(?:" + "|".join(_WORDS) + r")\b)"
    r"|\b[A-Z]{2,}\b|\b\pL\b|[-+*/^=<>_%|!(){}\[\]±√∞π∩∪∈∉⊂⊆→°]"
)

_SEPARATOR = "\x1e"


def parts() -> list[pl.Expr]:
    """All a policy is told: system message, question and choices; absent ones are empty."""
    return [
        pl.col("system").fill_null(""),
        pl.col("question"),
        pl.col("choices").list.join(_SEPARATOR).fill_null(""),
    ]


def text() -> pl.Expr:
    """``parts`` as one text that keeps them apart."""
    return pl.concat_str(parts(), separator="\x1f")


def canonical(expression: pl.Expr) -> pl.Expr:
    """Unicode and LaTeX in one spelling; case, numbers and structure as they were."""
    out = expression.str.normalize("NFKC").str.replace_many(_SIGNS)
    for pattern, put in _LATEX:
        out = out.str.replace_all(pattern, put)
    return out


def signature(expression: pl.Expr) -> pl.Expr:
    r"""The tokens that carry the mathematics, in order, as one text.

    Args:
        expression: text after ``canonical``.

    Returns:
        String; equal for two texts that may be merged. A text all in capitals is read as if it
        were in small letters, because its capitals name nothing.
    """
    shouted = ~expression.str.contains(r"[a-z]{3}")
    out = pl.when(shouted).then(expression.str.to_lowercase()).otherwise(expression)
    for pattern, put in _SPACING:
        out = out.str.replace_all(pattern, put)
    return out.str.extract_all(_TOKEN).list.join(" ").str.to_lowercase()


def words(expression: pl.Expr) -> pl.Expr:
    """Lower-case letters and digits with single spaces between: what similarity is taken over.

    Args:
        expression: text after ``canonical``.
    """
    return (
        expression.str.to_lowercase()
        .str.replace_all(r"'", "")
        .str.replace_all(r"[^\pL\pM\pN+*/^=<>-]+", " ")
        .str.replace_all(r" ?([+*/^=<>-]) ?", "$1")
        .str.strip_chars()
    )


def gold_text() -> pl.Expr:
    """The gold as a person would say it: the chosen option's text for a choice, else the answer."""
    place = pl.col("answer").str.strip_chars().str.to_uppercase()
    labels = letters(26)
    index = place.replace_strict(labels, list(range(26)), default=None, return_dtype=pl.Int64)
    chosen = pl.col("choices").list.get(index, null_on_oob=True)
    return pl.when(pl.col("kind") == "choice").then(chosen).otherwise(None).fill_null(
        pl.col("answer")
    )  # fmt: skip
