"""`if`, `elif`, `else`, `endif`: which lines count, and what may stand after `if`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pool.base.words import SPACE

# What `if version` compares with: the release whose languages these are.
LANGUAGE_VERSION = (25, 14, 1)

# HTCondor keeps the open levels as the bits of a 64-bit word (class ConfigIfStack); one deeper is an error there, too.
_DEEPEST = 63
# Texts, which `re` compiles and keeps when they are first matched: few files have conditions.
_NUMBER: Final = r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z"
_NAME: Final = r"[A-Za-z_./][A-Za-z0-9_./]*\Z"
_DEFINED_NAME: Final = r"[A-Za-z0-9_./]+\Z"
_VERSION: Final = r"(?i)version\s*(!?)\s*([<=>]=?|=)?\s*(v?)(.*)\Z"
_NUMBERS: Final = r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?"
_YES = frozenset(("true", "yes", "t"))
_NO = frozenset(("false", "no", "f"))
_KEYWORDS = frozenset(("if", "elif", "else", "endif"))


class BadCondition(Exception):
    """The condition cannot be judged; the text is the reason."""


class Conditions:
    """The stack of open `if`s; `active` tells whether the current line counts."""

    __slots__ = ("_levels", "active")

    def __init__(self) -> None:
        # per level: [was the outside active, has a branch been taken, has else been seen, is this branch active]
        self._levels: list[list[bool]] = []
        self.active = True

    @property
    def is_open(self) -> bool:
        return bool(self._levels)

    def take(self, line: str, judge: Callable[[str], bool]) -> bool:
        """Handle `line` if it is one of the four keywords; False when it is an ordinary line.

        `judge` tells whether a condition holds; BadCondition when a keyword stands where it may not, or cannot be
        judged.
        """
        # Asked of every line of every file: the first letter spares nearly all of them the rest.
        if line[0] not in "iIeE":
            return False
        keyword, _, rest = line.replace("\t", " ").partition(" ")
        if keyword.lower() not in _KEYWORDS:
            return False
        getattr(self, "_" + keyword.lower())(rest.strip(SPACE), judge)
        self.active = self._levels[-1][3] if self._levels else True
        return True

    def _if(self, condition: str, judge: Callable[[str], bool]) -> None:
        if len(self._levels) >= _DEEPEST:
            raise BadCondition("if nesting too deep!")
        holds = self.active and _judged(condition, judge, "if")
        self._levels.append([self.active, holds, False, holds])

    def _elif(self, condition: str, judge: Callable[[str], bool]) -> None:
        if not self._levels:
            raise BadCondition("elif without matching if")
        level = self._levels[-1]
        if level[2]:
            raise BadCondition("elif is not allowed after else")
        # In this order: a branch that cannot be taken is not judged, so a mistake in it is none.
        holds = level[0] and not level[1] and _judged(condition, judge, "elif")
        level[1] = level[1] or holds
        level[3] = holds

    def _else(self, _: str, __: Callable[[str], bool]) -> None:
        if not self._levels:
            raise BadCondition("else without matching if")
        level = self._levels[-1]
        if level[2]:
            raise BadCondition("else is not allowed after else")
        level[2] = True
        level[3] = level[0] and not level[1]

    def _endif(self, _: str, __: Callable[[str], bool]) -> None:
        if not self._levels:
            raise BadCondition("endif without matching if")
        self._levels.pop()


def _judged(condition: str, judge: Callable[[str], bool], keyword: str) -> bool:
    try:
        return judge(condition)
    except BadCondition as why:
        reason = f" because {why}" if str(why) else ""
        raise BadCondition(f"{condition} is not a valid {keyword} condition{reason}") from None


def judge(
    condition: str,
    expand: Callable[[str], str],
    lookup: Callable[[str], str | None],
    template: Callable[[str, str], bool],
) -> bool:
    """Whether `condition` holds: a truth value, a number, `defined X`, `version >= X.Y`, each perhaps after `!`.

    `template(category, name)` tells whether `use category : name` exists (any of the category for an empty name).
    """
    text = condition
    if "$" in text:
        text = expand(text)
    text = text.strip(SPACE)
    negated = text.startswith("!")
    if negated:
        text = text[1:].strip(SPACE)
    # What expands to nothing is false, and not a missing condition: `if $(X)` asks whether X is set.
    if not text and "$" in condition:
        return negated
    return _simple(text, lookup, template) is not negated


def _simple(text: str, lookup: Callable[[str], str | None], template: Callable[[str, str], bool]) -> bool:
    if re.match(_NUMBER, text):
        return float(text) != 0
    lower = text.lower()
    if lower in _YES:
        return True
    if lower in _NO:
        return False
    first = text.partition(" ")[0]
    if lower == "defined" or first.lower() == "defined" or lower.startswith("defined\t"):
        return _defined(text[7:].strip(SPACE), lookup, template)
    if lower.startswith("version") and not lower[7:8].isalnum() and lower[7:8] != "_":
        return _version(text)
    if re.match(_NAME, text) or not text:
        raise BadCondition("expression is not a conditional")
    raise BadCondition("complex conditionals are not supported")


def _defined(what: str, lookup: Callable[[str], str | None], template: Callable[[str, str], bool]) -> bool:
    if not what:
        return False
    lower = what.lower()
    if re.match(_NUMBER, what) or lower in ("true", "false"):
        return True
    if re.match(_DEFINED_NAME, what):
        # A name that is set to nothing is not defined; yes and no are, as words, even where no knob has such a name.
        value = lookup(what)
        return bool(value) if value is not None else lower in _YES | _NO
    if lower.startswith("use "):
        kind = what[4:].strip(SPACE)
        if " " in kind or "\t" in kind:
            # HTCondor's own words, as in all messages here: people look them up.
            raise BadCondition("defined use meta argument with internal spaces will never match")
        category, _, name = kind.partition(":")
        return template(category, name)
    raise BadCondition("defined argument must be param name, boolean, or number")


def _version(text: str) -> bool:
    found = re.match(_VERSION, text)
    assert found is not None
    numbers = re.match(_NUMBERS, found[4].strip(SPACE))
    if numbers is None or int(numbers[1]) < 6:
        raise BadCondition("the version literal is invalid")
    # Two numbers compare with any release of that series: what is not said counts as ours.
    wanted = (int(numbers[1]), int(numbers[2]), int(numbers[3]) if numbers[3] else LANGUAGE_VERSION[2])
    sign = (wanted < LANGUAGE_VERSION) - (wanted > LANGUAGE_VERSION)
    operator = found[2] or "="
    holds = {"<": sign < 0, ">": sign > 0, "=": sign == 0}[operator[0]] or (operator.endswith("=") and sign == 0)
    return holds is not bool(found[1])
