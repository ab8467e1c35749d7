"""Text to nodes: the grammar of grammar.lark, by hand, because a tool's start-up pays for a parser generator's tables
(a test parses the same texts with both).

An error names the place and what was expected. Nesting is limited, and so are paths (`a.b[0].c`); chains of operators
are not: they are read in loops.
The language is that of HTCondor's manual page classad-mechanism; where that is silent, 25.14's own parser decides.
"""

from __future__ import annotations

from typing import Final

from pool.base.errors import ClassAdError
from pool.classad.syntax.lex import END, LITERAL, NAME, Token, fail, tokenize
from pool.classad.syntax.nodes import (
    PRECEDENCE,
    AdNode,
    Binary,
    Call,
    ListNode,
    Lit,
    Node,
    Paren,
    Ref,
    RootRef,
    Select,
    Ternary,
    Unary,
)
from pool.classad.values.limits import MAX_EXPRESSION, MAX_NESTING, MAX_TEXT
from pool.classad.values.times import read_abstime, read_reltime
from pool.classad.values.value import Scalar

_PREFIXES: Final = frozenset("-+~!")
_POSTFIXES: Final = frozenset((".", "[", "?:"))


def parse_expression(text: str, *, old: bool = False, strict: bool = False, file: str = "expression") -> Node:
    """The node of a whole expression; `old` reads strings as the long form writes them.

    As in HTCondor a `//` comment at the very end is a mistake, but for the long form, whose lines end.
    """
    parser = Parser(text, old=old, strict=strict, file=file, most=MAX_EXPRESSION)
    node = parser.expression()
    parser.finish("an operator or the end")
    open_comment = parser.token.value
    if type(open_comment) is int and not old:
        raise fail(text, open_comment, "a // comment must end with its line", expected="the end of the line", file=file)
    return node


def parse_ad_node(text: str, *, strict: bool = False, file: str = "ad") -> AdNode:
    """The node of one ad in the new form, with nothing after it."""
    parser = Parser(text, old=False, strict=strict, file=file)
    if parser.token.kind != "[":
        raise parser.unexpected("[")
    node = parser.ad()
    parser.finish("the end")
    return node


class Parser:
    """Reads one text; `token` is the next token that was not yet used."""

    __slots__ = ("_file", "_index", "_nesting", "_strict", "_text", "_tokens", "token")

    def __init__(self, text: str, *, old: bool, strict: bool, file: str, most: int = MAX_TEXT) -> None:
        if len(text) > MAX_TEXT:
            raise ClassAdError(f"{file}: the text is too long", expected=f"at most {MAX_TEXT} characters")
        self._text, self._file, self._strict = text, file, strict
        self._tokens = tokenize(text, old=old, strict=strict, file=file, most=most)
        self._index = 0
        self._nesting = 0
        self.token: Token = self._tokens[0]

    def next(self) -> Token:
        """Use the next token."""
        token = self.token
        if token.kind != END:
            self._index += 1
            self.token = self._tokens[self._index]
        return token

    def take(self, kind: str) -> None:
        """Use the next token, which must be `kind`."""
        if self.token.kind != kind:
            raise self.unexpected(kind)
        self.next()

    def finish(self, expected: str) -> None:
        """Nothing may be left."""
        if self.token.kind != END:
            raise self.unexpected(expected)

    def unexpected(self, expected: str) -> ClassAdError:
        """The error for a token that has no place here."""
        token = self.token
        if token.kind == END:
            return fail(self._text, token.at, "the text ends too early", expected=expected, file=self._file)
        what = str(token.value) if token.kind == NAME else "a literal" if token.kind == LITERAL else token.kind
        return fail(self._text, token.at, f"{what} has no place here", expected=expected, file=self._file)

    def _deeper(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise fail(
                self._text,
                self.token.at,
                "nested too deeply",
                expected=f"at most {MAX_NESTING} levels",
                file=self._file,
            )

    def expression(self) -> Node:
        """A ternary, or anything that binds tighter."""
        self._deeper()
        test = self._binary(self._unary(), 1)
        if self.token.kind == "?":
            self.next()
            yes = self.expression()
            self.take(":")
            test = Ternary(test, yes, self.expression())
        self._nesting -= 1
        return test

    def _binary(self, left: Node, lowest: int) -> Node:
        while (level := PRECEDENCE.get(self.token.kind, 0)) >= lowest:
            op = self.next().kind
            right = self._unary()
            while PRECEDENCE.get(self.token.kind, 0) > level:
                right = self._binary(right, level + 1)
            left = Binary(op, left, right)
        return left

    def _unary(self) -> Node:
        ops: list[str] = []
        while self.token.kind in _PREFIXES:
            ops.append(self.next().kind)
        if not ops:
            return self._postfix()
        for _ in ops:
            self._deeper()
        node = self._postfix()
        self._nesting -= len(ops)
        for op in reversed(ops):
            node = Unary(op, node)
        return node

    def _postfix(self) -> Node:
        node = self._primary()
        before = self._nesting
        while (kind := self.token.kind) in _POSTFIXES:
            # Each one nests what stands before it, and those who walk the tree go down there.
            self._deeper()
            self.next()
            if kind == ".":
                if self.token.kind != NAME:
                    raise self.unexpected("the name of an attribute")
                name = str(self.next().value)
                node = Select(node, name, name.lower())
            elif kind == "[":
                index = self.expression()
                self.take("]")
                node = Binary("[]", node, index)
            else:
                node = Binary("?:", node, self._postfix())
        self._nesting = before
        return node

    def _primary(self) -> Node:
        token = self.token
        kind = token.kind
        if kind == LITERAL:
            self.next()
            return Lit(token.value)
        if kind == NAME:
            self.next()
            name = str(token.value)
            return self._call(name, token.at) if self.token.kind == "(" else Ref(name, name.lower())
        if kind == "(":
            self.next()
            inner = self.expression()
            self.take(")")
            return Paren(inner)
        if kind == "[":
            return self.ad()
        if kind == "{":
            self.next()
            return ListNode(self._members("}", (",",)))
        if kind == ".":
            self.next()
            if self.token.kind != NAME:
                raise self.unexpected("the name of an attribute")
            name = str(self.next().value)
            return RootRef(name, name.lower())
        raise self.unexpected("an expression")

    def _call(self, name: str, at: int) -> Node:
        self.next()
        args = self._members(")", (",",) if self._strict else (",", ";"))
        key = name.lower()
        # A literal, and not a call, as in HTCondor: a bad time is then a mistake of the text, not an error value.
        if key in ("abstime", "reltime") and len(args) == 1:
            only = args[0]
            if type(only) is Lit and type(only.value) is str:
                return Lit(self._time(key, only.value, at))
        return Call(name, key, args)

    def _time(self, key: str, text: str, at: int) -> Scalar:
        value = read_abstime(text) if key == "abstime" else read_reltime(text)
        if value is None:
            shape = "2024-02-29T12:34:56-06:00" if key == "abstime" else "1+02:03:04"
            raise fail(self._text, at, f"{text!r} is no time", expected=f"the form {shape}", file=self._file)
        return value

    def _members(self, close: str, separators: tuple[str, ...]) -> tuple[Node, ...]:
        members: list[Node] = []
        while self.token.kind != close:
            members.append(self.expression())
            if self.token.kind in separators:
                self.next()
            elif self.token.kind != close:
                raise self.unexpected(f", or {close}")
        self.next()
        return tuple(members)

    def ad(self) -> AdNode:
        """An ad; the next token is its `[`."""
        self._deeper()
        self.next()
        pairs: list[tuple[str, Node]] = []
        while self.token.kind != "]":
            if self.token.kind == ";":
                self.next()
                continue
            if self.token.kind != NAME:
                raise self.unexpected("the name of an attribute, or ]")
            if not self.token.value:
                raise fail(self._text, self.token.at, "an attribute without a name", file=self._file)
            name = str(self.next().value)
            self.take("=")
            pairs.append((name, self.expression()))
            if self.token.kind not in (";", "]"):
                raise self.unexpected("; or ]")
        self.next()
        self._nesting -= 1
        return AdNode(tuple(pairs))


def literal_of(node: Node) -> Scalar | None:
    """The value of a node that is a scalar literal, else None."""
    return node.value if type(node) is Lit else None
