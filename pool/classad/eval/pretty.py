"""Expressions laid out for reading: nested ads and lists with a member to a line, as unparse() gives them."""

from __future__ import annotations

from typing import Any

from pool.classad.syntax.nodes import (
    AdNode,
    Binary,
    Call,
    ListNode,
    Node,
    Paren,
    Select,
    Ternary,
    Unary,
    spine,
)
from pool.classad.syntax.unparse import identifier, unparse

_AD = 4
_LIST = 3


def pretty(stored: Any) -> str:
    """What an ad stores, laid out."""
    from pool.classad.eval.expression import node_of

    out: list[str] = []
    _write(arranged(node_of(stored)), 0, out)
    return "".join(out)


def arranged(node: Node) -> Node:
    """The node with the attributes of its ads in HTCondor's order: short names first, then by the alphabet.

    Where an ad becomes a string, the order shows in the value.
    """
    match node:
        case AdNode(items):
            pairs = [(name, arranged(member)) for name, member in items]
            return AdNode(tuple(sorted(pairs, key=lambda pair: (len(pair[0]), pair[0].lower()))))
        case ListNode(items):
            return ListNode(tuple(arranged(member) for member in items))
        case Binary():
            first, tail = spine(node)
            whole = arranged(first)
            for op, right in tail:
                whole = Binary(op, whole, arranged(right))
            return whole
        case Paren(inner):
            return Paren(arranged(inner))
        case Unary(op, operand):
            return Unary(op, arranged(operand))
        case Ternary(test, yes, no):
            return Ternary(arranged(test), arranged(yes), arranged(no))
        case Select(base, name, key):
            return Select(arranged(base), name, key)
        case Call(name, key, args):
            return Call(name, key, tuple(arranged(arg) for arg in args))
        case _:
            return node


def _write(node: Node, indent: int, out: list[str]) -> None:
    match node:
        case AdNode(items):
            _block("[", [(f"{identifier(name)} = ", member) for name, member in items], "; ", "]", indent, _AD, out)
        case ListNode(items):
            _block("{", [("", member) for member in items], ",", "}", indent, _LIST, out)
        case Binary():
            _write_chain(node, indent, out)
        case Paren(inner):
            out.append("(")
            _write(inner, indent, out)
            out.append(")")
        case Unary(op, operand):
            out.append(" " + op)
            _write(operand, indent, out)
        case Ternary(test, yes, no):
            for part, after in ((test, " ? "), (yes, " : "), (no, "")):
                _write(part, indent, out)
                out.append(after)
        case Select(base=base, name=name):
            _write(base, indent, out)
            out.append("." + name)  # without quotes, as unparse() has it in HTCondor
        case Call(name=name, args=args):
            out.append(name + "(")
            for i, arg in enumerate(args):
                out.append("," if i else "")
                _write(arg, indent, out)
            out.append(")")
        case _:
            out.append(unparse(node))


def _write_chain(node: Binary, indent: int, out: list[str]) -> None:
    first, tail = spine(node)
    _write(first, indent, out)
    for op, right in tail:
        if op == "[]":
            out.append("[")
            _write(right, indent, out)
            out.append("]")
        else:
            out.append({"=?=": " is ", "=!=": " isnt "}.get(op, f" {op} "))
            _write(right, indent, out)


def _block(
    start: str, members: list[tuple[str, Node]], between: str, end: str, indent: int, step: int, out: list[str]
) -> None:
    out.append("\n" + " " * (indent + step) + start)
    for i, (label, member) in enumerate(members):
        out.append((between if i else "") + "\n" + " " * (indent + 2 * step) + label)
        _write(member, indent + 2 * step, out)
    out.append("\n" + " " * (indent + step) + end)
