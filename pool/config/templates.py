"""`use CATEGORY : NAME(arguments)`: the registry of templates, `templates.txt`, and how arguments are put into one.

Inside a template `$(1)` is its first argument, `$(0)` all of them, `$(2:x)` the second or else x, `$(2?)` 1 if there is
a second and 0 if not, `$(2+)` the second and all after it, `$(0#)` how many there are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from re import Match
from typing import Final

from pool.base.nearest import nearest_name
from pool.base.words import SPACE

_ARGUMENT = re.compile(r"\$\((\d+)([?#+]?)(?::((?:[^()]|\([^()]*\))*))?\)")


FILE: Final = os.path.join(os.path.dirname(__file__), "templates.txt")


@cache
def _texts() -> dict[str, dict[str, str]]:
    """The texts by category, in capitals, and name."""
    found: dict[str, dict[str, str]] = {}
    with open(FILE, encoding="utf-8") as file:
        # Not configparser: the texts are configuration themselves, with `=` and `#` in any place.
        _comment, *parts = file.read().split("\n[")
    for part in parts:
        head, _, said = part.partition("]\n")
        category, _, name = head.partition(" : ")
        found.setdefault(category, {})[name] = said.strip("\n")
    return found


def text(category: str, name: str) -> str | None:
    """What `use category : name` stands for; None when there is no such template."""
    lower = name.lower()
    for key, value in _texts().get(category.upper(), {}).items():
        if key.lower() == lower:
            return value
    return None


def categories() -> list[str]:
    return sorted(_texts())


def names(category: str) -> list[str]:
    """The templates of one category, in alphabetical order."""
    return sorted(_texts().get(category.upper(), {}), key=str.lower)


def exists(category: str, name: str) -> bool:
    """Whether there is such a template; with an empty name, whether there is such a category."""
    return text(category, name) is not None if name else category.upper() in _texts()


def nearest(category: str, name: str) -> str | None:
    return nearest_name(name, names(category))


def calls(said: str) -> Iterator[tuple[str, str]]:
    """The templates that stand after the colon of `use`, each with the text of its arguments."""
    at = 0
    while True:
        while at < len(said) and (said[at] in SPACE or said[at] == ","):
            at += 1
        start = at
        while at < len(said) and said[at] not in SPACE and said[at] not in ",(":
            at += 1
        name = said[start:at]
        if not name:
            return
        while at < len(said) and said[at] in SPACE:
            at += 1
        arguments = ""
        if said[at : at + 1] == "(":
            end = _closing(said, at)
            arguments = said[at + 1 : end]
            at = end + 1
        yield name, arguments


def _closing(said: str, at: int) -> int:
    depth = 0
    for index in range(at, len(said)):
        if said[index] in "([":
            depth += 1
        elif said[index] in ")]":
            depth -= 1
            if not depth:
                return index
    return len(said)


def fill(template: str, arguments: str) -> str:
    """`template` with its arguments in place."""
    items = [item.strip(SPACE) for item in arguments.split(",")] if arguments.strip(SPACE) else []

    def value(found: Match[str]) -> str:
        index, mark, default = int(found[1]), found[2], found[3]
        if mark == "#":
            said = str(len(items)) if not index else ", ".join(items[index - 1 :])
        elif not index:
            said = arguments.strip(SPACE)
        # `$(2+)` is the second and all after it, `$(2#)` how many these are: templates with lists of any length.
        elif mark == "+":
            said = ", ".join(items[index - 1 :])
        else:
            said = items[index - 1] if index <= len(items) else ""
        if mark == "?":
            return "1" if said else "0"
        return said or (default or "").strip(SPACE)

    # Bounded, as an argument that names itself would never come to an end.
    for _ in range(20):  # an argument's default may itself mention an argument
        filled = _ARGUMENT.sub(value, template)
        if filled == template:
            break
        template = filled
    return template
