"""The parser that programs use reads what grammar.lark describes: the same texts, grouped the same way."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from lark import Lark, Token, Tree
from lark.exceptions import LarkError

import pool.classad
from pool.base.errors import ClassAdError
from pool.classad import expr
from pool.classad.syntax.nodes import (
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
from tests.pool.classad.generate import Generator

GRAMMAR = Path(pool.classad.__file__).parent / "syntax" / "grammar.lark"
HAND_PICKED = [
    "a + b * c - d", "a || b && c | d ^ e & f == g < h << i + j * !k", "-a ?: b.c[0]", "a ?: b ?: c", "a ? b : c ? d : e",
    "!!a", "- - 3", "a is b isnt c", "IS_x IS y", "f(a, b; c,)", "{}", "{1, 2,}", "[a = 1; b = [c = 2;];]", "[;;a = 1;;]",
    ".a.b", "'quoted name'.b", '"a" "b"', "a // b\n + c", "a /* b */ + c", "1e5 + .5", "a ? : b", "(a)[0].b(c)"[:-3],
    "a &&", "a b", "(a", "a]", "[a]", "{a", "f(", "f(,)", "a . 1", "", "a ? b", "a : b", "'a", "#", "1.", "a !", "is",
]  # fmt: skip


@pytest.fixture(scope="module")
def lark() -> Lark:
    return Lark(GRAMMAR.read_text(), parser="lalr")


def shape(node: Node) -> Any:
    """How a node groups its parts."""
    match node:
        case Lit():
            return "literal"
        case Ref() | RootRef():
            return "reference"
        case Paren(inner):
            return ["(", shape(inner)]
        case Select(base=base, name=name):
            return [".", shape(base), name]
        case Unary(op, operand):
            return [op, shape(operand)]
        case Binary(op, left, right):
            return [op, shape(left), shape(right)]
        case Ternary(test, yes, no):
            return ["?", shape(test), shape(yes), shape(no)]
        case Call(args=args):
            return ["call", *map(shape, args)]
        case ListNode(items):
            return ["list", *map(shape, items)]
        case AdNode(items):
            return ["ad", *((name, shape(member)) for name, member in items)]


WORDS = {"is": "=?=", "isnt": "=!="}


def tree_shape(tree: Tree[Token] | Token) -> Any:
    """The same of what lark read."""
    assert isinstance(tree, Tree)
    kids = tree.children
    match tree.data:
        case "start":
            return tree_shape(kids[0])
        case "literal":
            return "literal"
        case "reference" | "root_reference":
            return "reference"
        case "parentheses":
            return ["(", tree_shape(kids[0])]
        case "select":
            return [".", tree_shape(kids[0]), str(kids[1]).strip("'")]
        case "prefix":
            return [str(kids[0]), tree_shape(kids[1])]
        case "binary":
            op = str(kids[1])
            return [WORDS.get(op.lower(), op), tree_shape(kids[0]), tree_shape(kids[2])]
        case "default":
            return ["?:", tree_shape(kids[0]), tree_shape(kids[2])]
        case "subscript":
            return ["[]", tree_shape(kids[0]), tree_shape(kids[1])]
        case "ternary":
            return ["?", *map(tree_shape, kids)]
        case "call":
            return ["call", *map(tree_shape, kids[1:])]
        case "list":
            return ["list", *map(tree_shape, kids)]
        case _:
            return ["ad", *((str(kid.children[0]), tree_shape(kid.children[1])) for kid in kids)]  # type: ignore[union-attr]


def both(lark: Lark, text: str) -> tuple[Any, Any]:
    """The shapes that the two give, None where a text is refused."""
    try:
        here = shape(expr(text).node)
    except ClassAdError:
        here = None
    try:
        there = tree_shape(lark.parse(text))
    except LarkError:
        there = None
    return here, there


@pytest.mark.parametrize("text", HAND_PICKED)
def test_parser_and_grammar_agree_on(lark: Lark, text: str) -> None:
    here, there = both(lark, text)
    assert here == there


def test_parser_and_grammar_agree_on_generated_expressions(lark: Lark) -> None:
    for seed in range(300):
        text = Generator(Random(seed)).expression(2).replace("-", " - 0 - ")
        here, there = both(lark, text)
        # Time literals are calls to the grammar.
        if "Time(" not in text:
            assert here == there, text
