"""Reading the transform language: each line becomes a statement once, however many ads it will change.

    SET | DEFAULT | EVALSET | EVALMACRO   ATTRIBUTE [=|,] VALUE
    COPY | RENAME                         ATTRIBUTE | /REGEX/ [=|,] NAME
    DELETE                                ATTRIBUTE | /REGEX/
    REQUIREMENTS EXPRESSION     NAME TEXT     UNIVERSE TEXT     TRANSFORM ...
    MACRO = TEXT                          if, elif, else, endif

The source is HTCondor's manual page transforms. The older form, an ad with `set_X`, `copy_X`, `delete_X`, `default_X`
and `eval_set_X`, is read as the lines that it means. What could never do anything is refused with its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pool.base.errors import ClassAdError, Span, UserError, offset_in
from pool.classad import ClassAd, Expr, expr, parse_ad
from pool.macros.lines import Line, argument_at, logical_lines


class Keyword(StrEnum):
    """What is done to an attribute."""

    SET = "SET"
    DEFAULT = "DEFAULT"
    EVALSET = "EVALSET"
    EVALMACRO = "EVALMACRO"
    COPY = "COPY"
    RENAME = "RENAME"
    DELETE = "DELETE"


COMMANDS: Final = frozenset(Keyword)
WITH_PATTERNS: Final = frozenset((Keyword.COPY, Keyword.RENAME, Keyword.DELETE))
_IF: Final = frozenset({"if", "elif", "else", "endif"})
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][\w.]*)\s*=(?!=)\s*(.*)\Z", re.DOTALL)
_WORDS: Final = re.compile(r"(\S+)\s*(.*)\Z", re.DOTALL)
_REGEX: Final = re.compile(r"/((?:[^/\\]|\\.)*)/([a-zA-Z]*)\s*(.*)\Z", re.DOTALL)
_OLD: Final = {"copy_": "COPY", "delete_": "DELETE", "set_": "SET", "default_": "DEFAULT", "eval_set_": "EVALSET"}


@dataclass(frozen=True)
class Condition:
    """`if`, `elif`, `else` or `endif`, which `pool.macros.conditions` judges."""

    number: int
    line: Line


@dataclass(frozen=True)
class Assignment:
    """A macro of the transform's own."""

    number: int
    line: Line
    name: str
    """In lower case."""
    text: str


@dataclass(frozen=True)
class AttributeChange:
    """A command for one attribute, or for all whose names a pattern matches."""

    number: int
    line: Line
    command: Keyword
    attribute: str
    pattern: re.Pattern[str] | None
    text: str


Instruction = Condition | Assignment | AttributeChange


@dataclass(frozen=True)
class TransformText:
    """A transform's text."""

    name: str
    statements: tuple[Instruction, ...]
    requirements: Expr | None = None
    universe: str = ""


def read_statements(name: str, text: str) -> TransformText:
    """Read a transform's text; UserError with the place of what is no transform."""
    # The older form is an ad. No line of the newer one begins so, and a configuration may hold both.
    if text.lstrip().startswith("["):
        text = "\n".join(_of_old_form(_old_form(name, text)))
    statements: list[Instruction] = []
    requirements, universe = None, ""
    for number, line in logical_lines(text):
        first, rest = _split(line)
        keyword = first.upper()
        if first.lower() in _IF:
            statements.append(Condition(number, line))
        # Before the keywords: `SET = x` is a macro of that name.
        elif (assigned := _ASSIGNMENT.match(line)) is not None:
            statements.append(Assignment(number, line, assigned[1].lower(), assigned[2].strip()))
        elif keyword == "REQUIREMENTS":
            requirements = _requirement(name, line, rest)
        elif keyword == "NAME":
            name = rest or name
        elif keyword == "UNIVERSE":
            universe = rest
        elif keyword in COMMANDS:
            statements.append(_change(name, number, line, Keyword(keyword), rest))
        elif keyword != "TRANSFORM":
            raise UserError(f"{first} is not a valid transform keyword", span=line.span(name))
    return TransformText(name, tuple(statements), requirements, universe)


def _split(line: str) -> tuple[str, str]:
    found = _WORDS.match(line)
    return (found[1], found[2]) if found else (line, "")


def _requirement(name: str, line: Line, text: str) -> Expr:
    try:
        return expr(text, old=True)
    except ClassAdError as why:
        at = len(line) - len(text) + offset_in(text, why.span)
        raise UserError(f"the requirements are no expression: {why.message}", span=line.span(name, at)) from None


def _change(name: str, number: int, line: Line, command: Keyword, rest: str) -> AttributeChange:
    """The command with what follows it: an attribute or a pattern, and the rest of the line."""
    at = argument_at(line)
    regex = _REGEX.match(rest)
    if regex is not None and command not in WITH_PATTERNS:
        raise UserError(f"{command} takes no regular expression", span=line.span(name, at))
    if regex is not None:
        attribute, pattern, value = "", _pattern(name, line, at + 1, regex[1]), regex[3]
    else:
        attribute, value = _split(rest)
        pattern = None
        # `SET A = 1` and `SET A, 1` are the same to HTCondor as `SET A 1`.
        if attribute[-1:] in (",", "="):
            attribute = attribute[:-1]
        # Only with a blank behind it: `SET A =?= B` is an expression and no assignment.
        if value[:1] in ("=", ",") and value[1:2] in ("", " ", "\t"):
            value = value[1:].lstrip()
    if (not attribute and pattern is None) or (command != Keyword.DELETE and not value):
        needs = "an attribute" if command == Keyword.DELETE else "2 arguments"
        raise UserError(f"{command} needs {needs}", span=line.span(name, at))
    return AttributeChange(number, line, command, attribute, pattern, value)


def _pattern(name: str, line: Line, at: int, text: str) -> re.Pattern[str]:
    try:
        # Names of attributes have no case, so neither have the patterns that choose them.
        return re.compile(text, re.IGNORECASE)
    except re.error as why:
        span = line.span(name, at + (why.pos or 0))
        raise UserError(f"/{text}/ is no regular expression: {why.msg}", span=span) from None


def _old_form(name: str, text: str) -> ClassAd:
    try:
        return parse_ad(text)
    except ClassAdError as why:
        # The place is in the ad's own text, which begins where the transform does.
        span = why.span and Span(name, *why.span[1:])
        raise UserError(f"the transform {name} is no ad: {why.message}", span=span) from None


def _of_old_form(ad: ClassAd) -> Iterator[str]:
    """The lines that an older transform means; its kinds of change are made in a fixed order."""
    if "Requirements" in ad:
        yield f"REQUIREMENTS {ad.text('Requirements')}"
    # In the order that HTCondor makes its kinds of change in, whatever order the ad has.
    for prefix, command in _OLD.items():
        for attribute in ad:
            if not attribute.lower().startswith(prefix):
                continue
            target = attribute[len(prefix) :]
            if command == "COPY":
                yield f"COPY {target} {ad.eval_str(attribute, '')}"
            elif command != "DELETE":
                yield f"{command} {target} {ad.text(attribute)}"
            elif ad.eval_bool(attribute, False):
                yield f"DELETE {target}"
