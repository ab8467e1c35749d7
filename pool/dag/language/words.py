"""A line's words: blanks part them, except between quotes.

Both kinds of quotes may stand anywhere in a word. A backslash between quotes makes the next character ordinary;
outside of them it is one itself.
"""

from __future__ import annotations

import re
from typing import Final

from pool.dag.language.errors import DagError, wrong
from pool.dag.language.source import Line

_QUOTED: Final = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
_WORD: Final = re.compile(rf"(?:[^\s\"']|{_QUOTED})+")
_PAIR: Final = re.compile(rf"\s*([^\s=\"']*)\s*(=?)\s*({_QUOTED}|(?:[^\s\"'](?:[^\s\"']|{_QUOTED})*)?)(?=\s|$)")
_PIECE: Final = re.compile(rf"{_QUOTED}|[^\"']+")
_ESCAPE: Final = re.compile(r"\\(.)")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def words(line: Line, *, free: bool = False) -> list[str]:
    """The words of a line, quotes and all. `free`: the last part is free text, where a quote may stand alone."""
    text = line.text
    # Nearly no line has quotes, and `split` is ten times as fast.
    if '"' not in text and "'" not in text:
        return text.split()
    found: list[str] = []
    at = 0
    while match := _WORD.match(text, _blank(text, at)):
        found.append(match[0])
        at = match.end()
    if _blank(text, at) < len(text) and not free:
        raise unended(line, at)
    return found


def rest_after(text: str, count: int) -> str:
    """A line without its first words (those of commands whose last part is free text)."""
    at = 0
    for _ in range(count):
        if (match := _WORD.match(text, _blank(text, at))) is None:
            return ""
        at = match.end()
    return text[at:].strip()


def plain(word: str) -> str:
    """A word without its quotes."""
    if '"' not in word and "'" not in word:
        return word
    return "".join(
        _ESCAPE.sub(r"\1", piece[1:-1]) if piece[0] in "\"'" else piece for piece in _PIECE.findall(word)
    )  # fmt: skip


def pairs(line: Line, text: str) -> list[tuple[str, str]]:
    """The `key = value` of a text; a value without its quotes."""
    found = []
    at, end = 0, len(text)
    while at < end:
        match = _PAIR.match(text, at)
        if match is None:
            raise _no_pair(line, text[at:])
        key, equals, value = match.groups()
        if not (key and equals and value):
            raise _no_pair(line, text[at:], key)
        found.append((key, value[1:-1] if value[0] == '"' and "\\" not in value else plain(value)))
        at = _blank(text, match.end())
    return found


def _no_pair(line: Line, text: str, key: str = "") -> DagError:
    # An odd number of quotes says more than that there is no value.
    text = text.strip()
    if text.count('"') % 2 and "\\" not in text:
        return unended(line, line.text.find(text))
    word = key or text.split()[0]
    return wrong(f"{word} is not a variable with its value", *line, word, expected='name="value"')


def unended(line: Line, at: int) -> DagError:
    """The error of a quote that nothing ends."""
    text = line.text[at:].lstrip()
    return wrong("a quote is not ended", *line, text.split()[0] if text else "")


def same_word(word: str, keyword: str) -> bool:
    """Whether a word is this keyword: in any case, with - for _."""
    return word.upper().replace("-", "_") == keyword


def whole(line: Line, word: str, what: str, *, least: int | None = None, most: int | None = None) -> int:
    """A whole number, within bounds."""
    # int() would take more: 1_000, and digits of other scripts.
    value = int(word) if _WHOLE.fullmatch(word) else None
    if value is None or (least is not None and value < least) or (most is not None and value > most):
        bounds = "a whole number"
        if least is not None:
            bounds += f" from {least}" + (f" to {most}" if most is not None else " up")
        raise wrong(f"{word} is not {what}", *line, word, expected=bounds)
    return value


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
