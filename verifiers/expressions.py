"""Parse an answer in full: numbers, expressions, tuples, sets, intervals, relations, matrices."""

from fractions import Fraction

from curate.verifiers.nodes import MINUS_ONE, Node, canonical, divide, is_scalar, negate, proper
from curate.verifiers.notation import MAX_DEPTH, Notation
from curate.verifiers.tokens import Token, TooComplex, Unreadable, prepare, tokenise


def parse(text: str) -> Node:
    """The node of a whole answer.

    Raises:
        Unreadable: some part of the text is not understood.
        TooComplex: longer or deeper than any answer.
    """
    parser = _Parser(tokenise(prepare(text)))
    node = parser.answer()
    if parser.token.kind != "end":
        raise Unreadable(parser.token.text)
    return node


class _Parser(Notation):
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
            and (part := proper(other)) is not None
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

    def bracket(self, opening: str) -> Node:
        if opening in ("floor", "ceil"):
            node = self.scalar(self.sum())
            self.expect(opening)
            return ("call", opening, node)
        if self.take(*_CLOSINGS[opening]):
            if opening in ("{", "{{"):
                return ("set", ())
            return ("tuple", opening, self.tokens[self.place - 1].text, ())
        saved, self.closers = self.closers, []
        if opening == "{{" and self.at_condition():
            self.place += 2
            node, closing = self.group(), ""
            self.expect("}}")
        else:
            node = self.answer()
            closing = self.expect(*_CLOSINGS[opening]).text
        self.closers = saved
        return self.bracketed(opening, closing, node) if closing else node

    def at_condition(self) -> bool:
        """True before the ``x |`` of a set ``{x | condition}``."""
        if self.token.kind != "sym":
            return False
        bar = self.tokens[self.place + 1]
        return bar.kind == "op" and bar.text in ("mid", "|", ":")

    def bracketed(self, opening: str, closing: str, node: Node) -> Node:
        """What a pair of brackets makes of its content: a set, a tuple or interval, or nothing."""
        is_list = node[0] == "list"
        if opening == "{{" or (opening == "{" and is_list):
            return ("set", node[1] if is_list else (node,))
        if opening == "{":
            return node
        if is_list:
            return ("tuple", opening, closing, node[1])
        same_kind = (opening, closing) not in (("(", "]"), ("[", ")"), ("<<", ">>"))
        if same_kind if is_scalar(node) else (opening, closing) == ("(", ")"):
            return node
        raise Unreadable(opening)


_CLOSINGS = {"(": (")", "]"), "[": ("]", ")"), "{": ("}",), "{{": ("}}",), "<<": (">>",)}
