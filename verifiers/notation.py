"""The named part of the grammar: functions, macros, roots, series and matrices."""

from fractions import Fraction

from curate.verifiers.nodes import MINUS_ONE, ONE, Node, divide, is_scalar, negate
from curate.verifiers.tokens import Token, TooComplex, Unreadable

MAX_DEPTH = 60

_SAME_FUNCTION = {
    "lg": "log10", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "cosec": "csc",
    "sign": "sgn",
}  # fmt: skip
_MATRICES = frozenset({"pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix"})
_MARKS = frozenset("overline bar hat vec tilde overrightarrow widehat dot".split())


class Notation:
    """A place among tokens, and how to read on from a name; the grammar itself is a subclass."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.place, self.depth = tokens, 0, 0
        self.closers: list[str] = []

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.place]

    def at(self, *texts: str) -> bool:
        """True when one of these marks comes next."""
        token = self.token
        return token.kind in ("op", "open", "close", "rel") and token.text in texts

    def take(self, *texts: str) -> Token | None:
        """The next token if it is one of these marks, taken."""
        if self.at(*texts):
            self.place += 1
            return self.tokens[self.place - 1]
        return None

    def expect(self, *texts: str) -> Token:
        """``take`` what must come next."""
        token = self.take(*texts)
        if token is None:
            raise Unreadable(self.token.text)
        return token

    def deeper(self) -> None:
        """Count one level of nesting; whoever calls it counts back."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplex

    def scalar(self, node: Node) -> Node:
        """The node, which must be an expression."""
        if not is_scalar(node):
            raise Unreadable(str(node[0]))
        return node

    # --- what the grammar supplies ------------------------------------------------------

    def group(self) -> Node:
        """Items by commas, "and", "or"."""
        raise NotImplementedError

    def relation(self) -> Node:
        """Terms joined by =, <, ∈ and the like."""
        raise NotImplementedError

    def sum(self) -> Node:
        """Terms joined by + and -."""
        raise NotImplementedError

    def product(self) -> Node:
        """Factors, written with or without a sign."""
        raise NotImplementedError

    def power(self) -> Node:
        """A base with its marks and its exponent."""
        raise NotImplementedError

    def script(self) -> Node:
        """An exponent: a group, or a sign and one factor."""
        raise NotImplementedError

    def primary(self) -> Node:
        """A number, symbol, call or bracket."""
        raise NotImplementedError

    # --- functions ----------------------------------------------------------------------

    def function(self, name: str) -> Node:
        """A call of a function, whose base or exponent may come before its argument."""
        self.deeper()
        base = exponent = None
        for _ in range(2):
            if name in ("log", "lg", "min", "max") and base is None and self.take("_"):
                base = self.scalar(self.script())
            elif exponent is None and self.take("^"):
                exponent = self.scalar(self.script())
        arguments = self.arguments()
        name = _SAME_FUNCTION.get(name, name)
        if exponent == MINUS_ONE and name in ("sin", "cos", "tan"):
            name, exponent = "arc" + name, None
        if name == "exp":
            node: Node = ("pow", ("sym", "const_e"), arguments[0])
        elif name == "log" and base is not None:
            node = ("call", "logb", base, *arguments)
        else:
            node = ("call", name, *arguments)
        self.depth -= 1
        return node if exponent is None else ("pow", node, exponent)

    def arguments(self) -> tuple[Node, ...]:
        """Arguments in brackets, or the product that follows: sin 2x, but not sin x cos x."""
        if self.take("("):
            node = self.group()
            self.expect(")")
            items = node[1] if node[0] == "list" else (node,)
            return tuple(map(self.scalar, items))
        if self.take("{"):
            node = self.sum()
            self.expect("}")
            return (self.scalar(node),)
        if self.take("-"):
            self.deeper()
            node = negate(self.arguments()[0])
            self.depth -= 1
            return (node,)
        node = self.scalar(self.power()) if self.token.kind != "func" else self.power()
        while self.token.kind in ("num", "sym") or self.token.text in ("frac", "sqrt"):
            node = ("mul", node, self.scalar(self.power()))
        return (node,)

    def argument(self) -> Node:
        """One LaTeX argument: a group, or a single digit or symbol."""
        if self.take("{"):
            node = self.sum()
            self.expect("}")
            return self.scalar(node)
        token = self.token
        if token.kind == "num" and token.text.isdigit() and len(token.text) > 1:
            # \frac12: each argument takes one digit.
            rest = token.text[1:]
            self.tokens[self.place] = Token("num", rest, Fraction(int(rest)))
            return ("num", Fraction(int(token.text[0])))
        if (token.kind == "macro" and token.text != "frac") or token.kind in ("num", "sym", "open"):
            return self.scalar(self.primary())
        raise Unreadable(token.text)

    # --- macros -------------------------------------------------------------------------

    def macro(self, name: str) -> Node:
        """What a command such as frac or sqrt introduces."""
        if name == "frac":
            top = self.argument()
            return divide(top, self.argument())
        if name == "binom":
            if self.take("("):
                node = self.group()
                self.expect(")")
                if node[0] != "list" or len(node[1]) != 2:
                    raise Unreadable("binom")
                return ("call", "binom", *map(self.scalar, node[1]))
            top = self.argument()
            return ("call", "binom", top, self.argument())
        if name in ("sqrt", "cbrt"):
            return self.root(name)
        if name in ("sum", "prod"):
            return self.series(name)
        if name == "begin":
            return self.environment()
        if name in _MARKS:
            return ("call", f"mark_{name}", self.argument())
        raise Unreadable(name)

    def root(self, name: str) -> Node:
        """A root, of two or with its index in brackets."""
        index: Node = ("num", Fraction(3 if name == "cbrt" else 2))
        if name == "sqrt" and self.take("["):
            index = self.scalar(self.sum())
            self.expect("]")
        if self.take("("):
            inside = self.scalar(self.sum())
            self.expect(")")
        elif self.at("{"):
            inside = self.argument()
        else:
            # \sqrt2x is √2·x in LaTeX; √12 in plain text is the root of twelve.
            inside = self.scalar(self.primary())
        return ("pow", inside, divide(ONE, index))

    def series(self, name: str) -> Node:
        """A sum or product over an index, with both its bounds."""
        low = high = None
        variable = ""
        for _ in range(2):
            if self.take("_"):
                self.expect("{")
                bound = self.relation()
                self.expect("}")
                if bound[0] != "rel" or bound[1] != ("=",) or bound[2][0][0] != "sym":
                    raise Unreadable(name)
                variable, low = bound[2][0][1], self.scalar(bound[2][1])
            elif self.take("^"):
                high = self.scalar(self.script())
        if low is None or high is None:
            raise Unreadable(name)
        return (name, variable, low, high, self.scalar(self.product()))

    def environment(self) -> Node:
        """A matrix."""
        self.expect("{")
        name = self.token
        if name.kind != "env":
            raise Unreadable(name.text)
        self.place += 1
        self.expect("}")
        if name.text not in _MATRICES:
            raise Unreadable(name.text)
        rows: list[tuple[Node, ...]] = []
        while True:
            row = [self.scalar(self.sum())]
            while self.take("&"):
                row.append(self.scalar(self.sum()))
            rows.append(tuple(row))
            if not self.take("\\\\"):
                break
            if self.token.kind == "macro" and self.token.text == "end":
                break
        if self.token.kind != "macro" or self.token.text != "end":
            raise Unreadable("matrix")
        self.place += 1
        self.expect("{")
        self.place += 1
        self.expect("}")
        if len({len(row) for row in rows}) > 1:
            raise Unreadable("ragged matrix")
        return ("matrix", tuple(rows))
