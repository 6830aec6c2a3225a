"""Parse an answer in full: numbers, expressions, tuples, sets, intervals, relations, matrices.

Nodes are plain tuples, the tag first:

- scalars: ``("num", Fraction)``, ``("sym", name)``, ``("add", …)``, ``("mul", …)``,
  ``("pow", base, exponent)``, ``("call", name, …)``, ``("sum"|"prod", variable, low, high, body)``
- structures: ``("tuple", opening, closing, items)``, ``("set", items)``, ``("list", items)``,
  ``("rel", operators, terms)``, ``("union"|"cap"|"minus", left, right)``,
  ``("matrix", rows)``, ``("ratio", items)``, ``("all", parts)`` for inequalities joined by "and"
"""

from fractions import Fraction
from typing import Any, TypeAlias

from curate.verifiers.tokens import Token, TooComplex, Unreadable, prepare, tokenise

Node: TypeAlias = tuple[Any, ...]

MAX_DEPTH = 60
SCALARS = frozenset({"num", "sym", "add", "mul", "pow", "call", "sum", "prod"})
MINUS_ONE: Node = ("num", Fraction(-1))
ONE: Node = ("num", Fraction(1))
HALF: Node = ("num", Fraction(1, 2))


def parse(text: str) -> Node:
    """The node of a whole answer.

    Raises:
        Unreadable: some part of the text is not understood.
        TooComplex: longer or deeper than any answer.
    """
    return parse_prepared(prepare(text))


def parse_prepared(text: str) -> Node:
    """``parse`` for text that ``prepare`` has been through."""
    parser = _Parser(tokenise(text))
    node = parser.answer()
    if parser.token.kind != "end":
        raise Unreadable(parser.token.text)
    return node


def is_scalar(node: Node) -> bool:
    """True for expressions, false for structures."""
    return node[0] in SCALARS


def negate(node: Node) -> Node:
    """-node, literal numbers negated in place."""
    return ("num", -node[1]) if node[0] == "num" else ("mul", MINUS_ONE, node)


def divide(top: Node, bottom: Node) -> Node:
    """Top / bottom."""
    return ("mul", top, ("pow", bottom, MINUS_ONE))


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.place, self.depth = tokens, 0, 0
        self.closers: list[str] = []

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def at(self, *texts: str) -> bool:
        token = self.token
        return token.kind in ("op", "open", "close", "rel") and token.text in texts

    def take(self, *texts: str) -> Token | None:
        if self.at(*texts):
            self.place += 1
            return self.tokens[self.place - 1]
        return None

    def expect(self, *texts: str) -> Token:
        token = self.take(*texts)
        if token is None:
            raise Unreadable(self.token.text)
        return token

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplex

    # --- structures ---------------------------------------------------------------------

    def answer(self) -> Node:
        """Groups by semicolons; within a group, items by commas, "and", "or"."""
        groups = [self.group()]
        while self.take(";", "\\\\"):
            if self.token.kind in ("end", "close"):
                break
            groups.append(self.group())
        if len(groups) == 1:
            return groups[0]
        # "p=5,q=2;p=7,q=2": a group of assignments is one solution, a tuple.
        return ("list", tuple(
            ("tuple", "(", ")", group[1]) if group[0] == "list" else group for group in groups
        ))  # fmt: skip

    def group(self) -> Node:
        items, joins = [self.relation()], set()
        while True:
            found = self.take(",", "and", "or")
            if found is None and not (items[-1][0] == "tuple" and self.token.kind == "open"):
                break
            if found is None:  # (2,3)(2,7): pairs in a row are a list
                items.append(self.relation())
                continue
            joins.add(found.text)
            while more := self.take("and", "or", ","):
                joins.add(more.text)
            if self.token.kind in ("end", "close") and found.text == ",":
                break
            items.append(self.relation())
        if len(items) == 1:
            return items[0]
        relations = all(item[0] == "rel" for item in items)
        inequalities = relations and all(set(item[1]) <= {"<", "<=", ">", ">="} for item in items)
        if inequalities and joins == {"or"}:
            node = items[0]
            for item in items[1:]:
                node = ("union", node, item)
            return node
        if inequalities and "or" not in joins:
            return ("all", tuple(items))
        return ("list", tuple(items))

    def relation(self) -> Node:
        terms, operators = [self.ratio()], []
        while self.token.kind == "rel":
            operators.append(self.token.text)
            self.place += 1
            terms.append(self.ratio())
        return ("rel", tuple(operators), tuple(terms)) if operators else terms[0]

    def ratio(self) -> Node:
        items = [self.union()]
        while self.take(":"):
            items.append(self.union())
        return ("ratio", tuple(items)) if len(items) > 1 else items[0]

    def union(self) -> Node:
        node, depth = self.sum(), self.depth
        while found := self.take("cup", "cap", "setminus"):
            self.deeper()
            other = self.sum()
            if (is_scalar(node) and node[0] != "sym") or (is_scalar(other) and other[0] != "sym"):
                raise Unreadable(found.text)
            node = ({"cup": "union", "cap": "cap", "setminus": "minus"}[found.text], node, other)
        self.depth = depth
        return node

    # --- expressions --------------------------------------------------------------------

    def sum(self) -> Node:
        self.deeper()
        terms: list[Node] = []
        if found := self.take("+", "-", "pm", "mp"):
            terms.append(self.signed(found.text, self.product()))
        else:
            terms.append(self.product())
        while found := self.take("+", "-", "pm", "mp"):
            terms.append(self.signed(found.text, self.product()))
        self.depth -= 1
        if len(terms) == 1:
            return terms[0]
        return ("add", *map(self.scalar, terms))

    def signed(self, sign: str, node: Node) -> Node:
        self.scalar(node)
        if sign in ("pm", "mp"):
            return ("mul", ("sym", sign), node)
        return negate(node) if sign == "-" else node

    def scalar(self, node: Node) -> Node:
        if not is_scalar(node):
            raise Unreadable(str(node[0]))
        return node

    def product(self) -> Node:
        node, factors = self.unary(), 1
        while True:
            whole = node
            if self.take("*"):
                node = self.multiply(node, self.unary(), factors)
            elif self.take("/"):
                other = ("pow", self.scalar(self.implicit()), MINUS_ONE)
                node = self.multiply(node, other, factors)
            elif self.take("over"):
                self.deeper()
                node = divide(self.scalar(node), self.scalar(self.product()))
                self.depth -= 1
            elif self.take("mod"):
                node = ("call", "mod", self.scalar(node), self.scalar(self.unary()))
            elif self.take("%"):
                node = self.multiply(node, ("num", Fraction(1, 100)), factors)
            elif self.starts() and is_scalar(node):
                node = self.times(node, factors)
            else:
                return node
            # Long products stay flat: a nest as deep as the text is long could not be walked.
            factors = factors + 1 if node[0] == "mul" and len(node) > len(whole) else 1

    def multiply(self, node: Node, other: Node, factors: int) -> Node:
        self.scalar(node)
        self.scalar(other)
        return (*node, other) if factors > 1 else ("mul", node, other)

    def implicit(self) -> Node:
        """The divisor after a slash: one factor, so that 1/2 x is (1/2)x; but 1/2π is 1/(2π)."""
        node = self.unary()
        while node[0] == "num" and self.token.kind == "sym" and not self.token.spaced:
            node = ("mul", node, self.scalar(self.unary()))
        return node

    def starts(self) -> bool:
        token = self.token
        if token.kind in ("num", "sym", "func"):
            return True
        if token.kind == "macro":
            return token.text not in ("end", "choose", "pmod")
        if token.kind == "open":
            return True
        return token.kind == "op" and token.text == "|" and "|" not in self.closers

    def times(self, node: Node, factors: int) -> Node:
        """Implicit multiplication, or the fraction part of a mixed number."""
        before, token = self.tokens[self.place - 1], self.token
        self.scalar(node)
        if token.kind == "num":
            mixed = self.mixed(before)
            if mixed is not None:
                return self.add_part(node, mixed)
            # (n-2)180 and n 2^k are products; 3 4 and x2 are slips.
            if before.kind == "num" or not (token.spaced or before.kind == "close"):
                raise Unreadable(token.text)
        other = self.scalar(self.unary())
        if (
            before.kind == "num"
            and before.text.isdigit()
            and token.kind == "macro"
            and token.text == "frac"
            and (part := _proper(other)) is not None
        ):
            return self.add_part(node, part)
        return self.multiply(node, other, factors)

    def add_part(self, node: Node, part: Fraction) -> Node:
        if node[0] != "num" or node[1] < 0:
            raise Unreadable("mixed number")
        return ("num", node[1] + part)

    def mixed(self, before: Token) -> Fraction | None:
        """The fraction of "1 1/4", taken; None when this is no mixed number."""
        top, slash, bottom = (self.tokens + [Token("end", "")] * 2)[self.place : self.place + 3]
        ints = all(token.kind == "num" and token.text.isdigit() for token in (before, top, bottom))
        if not ints or slash.text != "/" or not top.spaced:
            return None
        assert top.value is not None and bottom.value is not None
        if not 0 < top.value < bottom.value:
            return None
        self.place += 3
        return top.value / bottom.value

    def unary(self) -> Node:
        self.deeper()
        if found := self.take("-", "+"):
            node = self.scalar(self.unary())
            node = negate(node) if found.text == "-" else node
        else:
            node = self.power()
        self.depth -= 1
        return node

    def power(self) -> Node:
        node = self.postfix(self.primary())
        if self.take("^"):
            exponent = self.scalar(self.script())
            node = self.postfix(("pow", self.scalar(node), exponent))
        return node

    def postfix(self, node: Node) -> Node:
        for _ in range(MAX_DEPTH):
            if self.at("!") and self.tokens[self.place + 1].text == "!":
                self.place += 2
                node = ("call", "factorial2", self.scalar(node))
            elif self.take("!"):
                node = ("call", "factorial", self.scalar(node))
            elif self.take("degree"):
                node = ("mul", self.scalar(node), ("sym", "degree"))
            elif self.take("'"):
                node = ("call", "prime", self.scalar(node))
            else:
                return node
        raise TooComplex

    def script(self) -> Node:
        """An exponent: a group, or a sign and one factor."""
        self.deeper()
        if self.take("-"):
            node = negate(self.scalar(self.script()))
            self.depth -= 1
            return node
        if self.take("{"):
            node = self.sum()
            self.expect("}")
            self.depth -= 1
            return node
        token = self.token
        # In LaTeX x^10 is x^1 0, but whoever writes it means x^10.
        node = self.postfix(self.primary()) if token.kind != "func" else self.unary()
        if self.take("^"):
            node = ("pow", self.scalar(node), self.scalar(self.script()))
        self.depth -= 1
        return node

    def primary(self) -> Node:
        token = self.token
        self.deeper()
        try:
            if token.kind == "num":
                self.place += 1
                if self.at("_"):
                    raise Unreadable("_")
                return ("num", token.value)
            if token.kind == "sym":
                self.place += 1
                return self.symbol(token.text)
            if token.kind == "func":
                self.place += 1
                return self.function(token.text)
            if token.kind == "macro":
                self.place += 1
                return self.macro(token.text)
            if token.kind == "open":
                self.place += 1
                return self.bracket(token.text)
            if self.take("|"):
                self.closers.append("|")
                node = self.scalar(self.sum())
                self.expect("|")
                self.closers.pop()
                return ("call", "abs", node)
            if self.take("dots"):
                return ("sym", "dots")
        finally:
            self.depth -= 1
        raise Unreadable(token.text)

    def symbol(self, name: str) -> Node:
        if name in ("pi", "inf", "empty", "reals", "integers", "naturals", "rationals",
                    "complexes"):  # fmt: skip
            return ("sym", name)
        if self.take("_"):
            name += "_" + self.subscript()
        elif name in ("e", "i"):
            return ("sym", f"const_{name}")
        # f(x, y) is a call; f(x) may be a product and is compared as one.
        if self.at("(") and not self.token.spaced and self.has_comma():
            self.place += 1
            arguments = self.group()
            self.expect(")")
            if arguments[0] == "list":
                return ("call", f"fn_{name}", *map(self.scalar, arguments[1]))
            raise Unreadable("call")
        return ("sym", name)

    def has_comma(self) -> bool:
        depth = 0
        for token in self.tokens[self.place :]:
            depth += (token.kind == "open") - (token.kind == "close")
            if not depth:
                return False
            if depth == 1 and token.kind == "op" and token.text == ",":
                return True
        return False

    def subscript(self) -> str:
        """A subscript as canonical text."""
        from curate.verifiers.evaluate import canonical

        if self.take("{"):
            node = self.group()
            self.expect("}")
        elif self.token.kind in ("num", "sym"):
            token = self.token
            self.place += 1
            node = ("num", token.value) if token.kind == "num" else ("sym", token.text)
        else:
            raise Unreadable("_")
        return canonical(node)

    def function(self, name: str) -> Node:
        self.deeper()
        base = exponent = None
        for _ in range(2):
            if name in ("log", "lg", "min", "max") and base is None and self.take("_"):
                base = self.scalar(self.script())
            elif exponent is None and self.take("^"):
                exponent = self.scalar(self.script())
        arguments = self.arguments()
        name = {"lg": "log10", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
                "cosec": "csc", "sign": "sgn"}.get(name, name)  # fmt: skip
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

    def macro(self, name: str) -> Node:
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
        if name in ("overline", "bar", "hat", "vec", "tilde", "overrightarrow", "widehat", "dot"):
            return ("call", f"mark_{name}", self.argument())
        raise Unreadable(name)

    def root(self, name: str) -> Node:
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

    def bracket(self, opening: str) -> Node:
        if opening in ("floor", "ceil"):
            node = self.scalar(self.sum())
            self.expect(opening)
            return ("call", opening, node)
        closings = {"(": (")", "]"), "[": ("]", ")"), "{": ("}",), "{{": ("}}",), "<<": (">>",)}
        if self.take(*closings[opening]):
            if opening in ("{", "{{"):
                return ("set", ())
            return ("tuple", opening, self.tokens[self.place - 1].text, ())
        saved, self.closers = self.closers, []
        if opening == "{{" and self.token.kind == "sym":
            bar = self.tokens[self.place + 1]
            if bar.kind == "op" and bar.text in ("mid", "|", ":"):
                self.place += 2
                node = self.group()  # {x | condition}
                self.expect("}}")
                self.closers = saved
                return node
        node = self.answer()
        closing = self.expect(*closings[opening]).text
        self.closers = saved
        if opening in ("{", "{{"):
            if opening == "{" and node[0] != "list":
                return node
            return ("set", node[1] if node[0] == "list" else (node,))
        if node[0] == "list":
            return ("tuple", opening, closing, node[1])
        if is_scalar(node) and (opening, closing) not in (("(", "]"), ("[", ")"), ("<<", ">>")):
            return node
        if not is_scalar(node) and (opening, closing) == ("(", ")"):
            return node
        raise Unreadable(opening)

    def environment(self) -> Node:
        self.expect("{")
        name = self.token
        if name.kind != "env":
            raise Unreadable(name.text)
        self.place += 1
        self.expect("}")
        if name.text not in ("pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix"):
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


def _proper(node: Node) -> Fraction | None:
    """Value of a literal proper fraction n/d, else None."""
    if node[0] == "mul" and len(node) == 3 and node[1][0] == "num" and node[2][0] == "pow":
        top, bottom = node[1][1], node[2][1]
        if bottom[0] == "num" and node[2][2] == MINUS_ONE and 0 < top < bottom[1]:
            if top.denominator == bottom[1].denominator == 1:
                value: Fraction = top / bottom[1]
                return value
    return None
