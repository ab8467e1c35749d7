"""The commands that say something of a node: keyword to the field of `Node` and its value."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from sys import intern
from typing import Final, Literal, NamedTuple, cast

from pool.dag.language.errors import wrong
from pool.dag.language.source import Line
from pool.dag.language.words import plain, rest_after, same_word, whole
from pool.dag.model import AbortOn, Place, Retry, Script, Tolerance


class Setting(NamedTuple):
    """What a command says of one node, or of all: a field of `Node`, and its value."""

    node: str
    field: str
    value: object


PLAIN_RETRIES: Final = tuple(Retry(times) for times in range(32))
"""Most nodes share one of these."""


def _retry(line: Line, said: list[str]) -> Setting:
    syntax = "RETRY node times [UNLESS-EXIT code]"
    _between(line, said, 3, 5, syntax)
    times = whole(line, said[2], "a number of retries", least=0)
    if len(said) == 3:
        return Setting(said[1], "retry", PLAIN_RETRIES[times] if times < len(PLAIN_RETRIES) else Retry(times))
    return Setting(said[1], "retry", Retry(times, _option(line, said, 3, "UNLESS_EXIT", "an exit code", syntax)))


def _abort(line: Line, said: list[str]) -> Setting:
    syntax = "ABORT-DAG-ON node code [RETURN code]"
    _between(line, said, 3, 5, syntax)
    code = whole(line, said[2], "an exit code")
    if len(said) == 3:
        return Setting(said[1], "abort_on", AbortOn(code))
    returns = _option(line, said, 3, "RETURN", "an exit code", syntax, least=0, most=255)
    return Setting(said[1], "abort_on", AbortOn(code, returns))


def _option(
    line: Line, said: list[str], at: int, keyword: str, what: str, syntax: str,
    *, least: int | None = None, most: int | None = None,
) -> int:  # fmt: skip
    if not same_word(said[at], keyword):
        raise wrong(f"{said[at]} is not known here", *line, said[at], expected=syntax)
    if len(said) <= at + 1:
        raise wrong(f"{said[at]} wants a number", *line, said[at], expected=syntax)
    return whole(line, said[at + 1], what, least=least, most=most)


def _priority(line: Line, said: list[str]) -> Setting:
    _between(line, said, 3, 3, "PRIORITY node number")
    return Setting(said[1], "priority", whole(line, said[2], "a priority"))


def _pre_skip(line: Line, said: list[str]) -> Setting:
    _between(line, said, 3, 3, "PRE_SKIP node code")
    code = whole(line, said[2], "an exit code")
    # condor_dagman refuses it too.
    if code == 0:
        raise wrong(
            "0 skips nothing: a PRE script that exits with 0 has succeeded", *line, said[2], expected="1 or more"
        )
    return Setting(said[1], "pre_skip", code)


def _category(line: Line, said: list[str]) -> Setting:
    _between(line, said, 3, 3, "CATEGORY node category")
    return Setting(said[1], "category", intern(said[2]))


def _done(line: Line, said: list[str]) -> Setting:
    _between(line, said, 2, 2, "DONE node")
    return Setting(said[1], "done", True)


def _tolerance(line: Line, said: list[str]) -> Setting:
    syntax = "TOLERANCE node number[%] [FAIL-FAST | WAIT]"
    _between(line, said, 3, 5, syntax)
    # The per cent may stand apart from its number.
    value, percent, rest = said[2], False, said[3:]
    if value.endswith("%"):
        value, percent = value[:-1], True
    elif rest[:1] == ["%"]:
        percent, rest = True, rest[1:]
    fail_fast = {"": None, "FAIL_FAST": True, "WAIT": False}.get("".join(rest).upper().replace("-", "_"), "bad")
    if fail_fast == "bad" or len(rest) > 1:
        raise wrong(f"{rest[0]} is not known here", *line, rest[0], expected=syntax)
    count = whole(line, value or said[2], "a number of jobs", least=0)
    return Setting(said[1], "tolerance", Tolerance(count, percent, cast(bool | None, fail_fast)))


def _save_point(line: Line, said: list[str]) -> Setting:
    _between(line, said, 2, 3, "SAVE_POINT_FILE node [file]")
    if same_word(said[1], "ALL_NODES"):
        raise wrong("a save point belongs to one node", *line, said[1], expected="a node's name")
    file = plain(said[2]) if len(said) > 2 else f"{said[1]}-{posixpath.basename(line.file)}.save"
    return Setting(said[1], "save_point", file)


_SCRIPT: Final = (
    "SCRIPT [DEFER status seconds] [DEBUG file STDOUT | STDERR | ALL] PRE | POST | HOLD node program arguments"
)


def _script(line: Line, said: list[str]) -> Setting:
    at, debug = 1, ("", "")
    defer: tuple[int | None, int] = (None, 0)
    while at < len(said) and (word := said[at].upper()) not in ("PRE", "POST", "HOLD"):
        if word == "DEFER":
            _between(line, said, at + 3, len(said), _SCRIPT)
            defer = whole(line, said[at + 1], "an exit code"), whole(line, said[at + 2], "a number of seconds", least=0)
        elif word == "DEBUG":
            _between(line, said, at + 3, len(said), _SCRIPT)
            debug = plain(said[at + 1]), said[at + 2].upper()
            if debug[1] not in ("STDOUT", "STDERR", "ALL"):
                raise wrong(f"{said[at + 2]} is no stream", *line, said[at + 2], expected="STDOUT, STDERR or ALL")
        else:
            raise wrong(f"{said[at]} is not a kind of script", *line, said[at], expected=_SCRIPT)
        at += 3
    # All behind the node belongs to the program: no quotes, as no shell reads it.
    command = rest_after(line.text, at + 2)
    if not command:
        # What is there of kind and node says what is missing.
        missing = "PRE, POST or HOLD" if at >= len(said) else "a node" if at + 1 >= len(said) else "a program"
        raise wrong(f"SCRIPT wants {missing}", *line, expected=_SCRIPT)
    kind = cast(Literal["PRE", "POST", "HOLD"], said[at].upper())
    program, _, arguments = command.partition(" ")
    streams = cast(Literal["", "STDOUT", "STDERR", "ALL"], debug[1])
    script = Script(kind, program, arguments.strip(), Place(line.file, line.number), *defer, debug[0], streams)
    return Setting(said[at + 1], kind.lower(), script)


def _between(line: Line, said: list[str], least: int, most: int, syntax: str) -> None:
    if len(said) < least:
        raise wrong(f"{said[0]} wants {'a node' if len(said) < 2 else 'more'}", *line, expected=syntax)
    if len(said) > most:
        raise wrong(f"{said[most]} is not known here", *line, said[most], expected=syntax)


SETTINGS: Final[dict[str, Callable[[Line, list[str]], Setting]]] = {
    "RETRY": _retry,
    "ABORT_DAG_ON": _abort,
    "PRIORITY": _priority,
    "PRE_SKIP": _pre_skip,
    "CATEGORY": _category,
    "DONE": _done,
    "TOLERANCE": _tolerance,
    "SAVE_POINT_FILE": _save_point,
    "SCRIPT": _script,
}
