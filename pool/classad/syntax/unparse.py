"""Nodes and values to text, in HTCondor's own spelling: the new form (`[ a = 1; b = a is 2 ]`) and the long form's
expressions (`a =?= 2`), character for character.
"""

from __future__ import annotations

import math
import re
from re import Match
from typing import TYPE_CHECKING, Final

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
    spine,
)
from pool.classad.values.limits import MAX_INTERNED_NAME
from pool.classad.values.times import show_abstime, show_reltime
from pool.classad.values.value import AbsTime, Error, RelTime, Scalar, Undefined, to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

_RESERVED: Final = frozenset({"error", "false", "is", "isnt", "parent", "true", "undefined"})
_WORDS: Final = _RESERVED - {"parent"}
_TO_ESCAPE: Final = r"[^ !#-\[\]-~]"
_PLAIN: Final = frozenset(map(chr, range(32, 127))) - {'"', "\\"}
"""Characters that stand in a string literal as they are."""
_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_NEW_OPERATORS: Final = {"=?=": " is ", "=!=": " isnt "}


def quote(text: str, *, old: bool = False) -> str:
    """`text` as a string literal: `"..."`."""
    if old:
        # In the long form a backslash is an ordinary character, but before a quote.
        return '"' + text.replace('"', '\\"') + '"'
    if _PLAIN.issuperset(text):
        return f'"{text}"'
    return '"' + re.sub(_TO_ESCAPE, _escape, text) + '"'


def _escape(found: Match[str]) -> str:
    short = _ESCAPES.get(found[0])
    return short if short is not None else "".join(f"\\{byte:03o}" for byte in to_bytes(found[0]))


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier()


_bare_names: set[str] = set()
"""Names that are known to need no quotes: the same few hundred are written again and again."""
_BARE_NAMES_MAX: Final = 4096


def identifier(name: str, *, old: bool = False) -> str:
    """`name` as an attribute's name, in single quotes when it would not be read as one otherwise."""
    if name in _bare_names:
        return name
    if _is_plain(name) and name.lower() not in _RESERVED:
        if len(_bare_names) < _BARE_NAMES_MAX and len(name) <= MAX_INTERNED_NAME:
            _bare_names.add(name)
        return name
    if old:
        return "'" + name.replace("'", "\\'") + "'"
    return "'" + quote(name)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"


def selected(name: str, *, old: bool) -> str:
    """`name` after a point; only what is no word to the reader needs quotes there."""
    return name if _is_plain(name) and name.lower() not in _WORDS else identifier(name, old=old)


def real(value: float, *, old: bool = False) -> str:
    """A real: sixteen digits in the new form, as few as say the same in the long form."""
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    if math.isnan(value):
        return 'real("NaN")'
    if math.isinf(value):
        return 'real("INF")' if value > 0 else 'real("-INF")'
    if not old:
        return f"{value:.15E}"
    shown = f"{value:.16G}"
    return shown if "." in shown or "E" in shown else shown + ".0"


def scalar(value: Scalar | RelTime, *, old: bool = False) -> str:
    """A scalar as the literal for it."""
    kind = type(value)
    if kind is str:
        return quote(value, old=old)  # type: ignore[arg-type]
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is float:
        return real(value, old=old)  # type: ignore[arg-type]
    if kind is Undefined:
        return "undefined"
    if kind is Error:
        return "error"
    if kind is AbsTime:
        return f'absTime("{show_abstime(value)}")'  # type: ignore[arg-type]
    assert isinstance(value, RelTime)
    return f'relTime("{show_reltime(value.secs)}")'


def unparse(node: Node, *, old: bool = False) -> str:
    """The text of a node."""
    out: list[str] = []
    _write(node, old, out)
    return "".join(out)


def _write(node: Node, old: bool, out: list[str]) -> None:
    match node:
        case Lit(value):
            out.append(scalar(value, old=old))
        case Ref(name=name):
            out.append(identifier(name, old=old))
        case RootRef(name=name):
            out.append("." + identifier(name, old=old))
        case Binary():
            _write_chain(node, old, out)
        case Paren(inner):
            out.append("(")
            _write(inner, old, out)
            out.append(")")
        case Select(base=base, name=name):
            _write(base, old, out)
            if type(base) is Lit and type(base.value) is int:
                out.append(" ")  # `5.a` could not be read again
            out.append("." + selected(name, old=old))
        case Call(name=name, args=args):
            out.append(name if _is_plain(name) else identifier(name, old=old))
            _write_many("(", args, ")", old, out)
        case Unary(op=op, operand=operand):
            out.append(" " + op)
            _write(operand, old, out)
        case Ternary(test, yes, no):
            _write(test, old, out)
            out.append(" ? ")
            _write(yes, old, out)
            out.append(" : ")
            _write(no, old, out)
        case ListNode(items):
            _write_many("{ ", items, " }", old, out)
        case AdNode(items):
            out.append("[ ")
            for i, (name, member) in enumerate(items):
                out.append(("; " if i else "") + identifier(name, old=old) + " = ")
                _write(member, old, out)
            out.append(" ]")


def _write_chain(node: Binary, old: bool, out: list[str]) -> None:
    first, tail = spine(node)
    _write(first, old, out)
    for op, right in tail:
        if op == "[]":
            out.append("[")
            _write(right, old, out)
            out.append("]")
        else:
            out.append(f" {op} " if old or op not in _NEW_OPERATORS else _NEW_OPERATORS[op])
            _write(right, old, out)


def _write_many(start: str, nodes: Iterable[Node], end: str, old: bool, out: list[str]) -> None:
    out.append(start)
    for i, node in enumerate(nodes):
        if i:
            out.append(",")
        _write(node, old, out)
    out.append(end)
