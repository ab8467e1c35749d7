"""The maps behind userMap(NAME, user): CLASSAD_USER_MAPFILE_<NAME> or CLASSAD_USER_MAPDATA_<NAME>.

Each line is `METHOD USER GROUPS`. USER is a name, or a regular expression between slashes (`/^ann.*/i`); GROUPS may say
`\\0` to `\\9` for what it and its parts matched. USER and GROUPS may be in double quotes. The first line that matches
counts, by the order of the file. METHOD is `*`; lines with another one belong to a map of their own, NAME.METHOD. With
CLASSAD_USER_MAP_PREFIX_<NAME> a USER is what the user's name begins with. What cannot be read is left out, and said.

Users choose what is looked up: to look counts for the evaluation that asks.
(HTCondor's manual: "The authentication map file", and its section on these knobs.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pool.base.words import SPACE
from pool.classad.eval.budget import Budget
from pool.classad.eval.patterns import Pattern, compile_pattern

if TYPE_CHECKING:
    from pool.config import Config

#: Lines that are looked at one by one count for the evaluation that asks.
STEPS_PER_ENTRY: Final = 1
ANY: Final = "*"
_QUOTED: Final = r'"((?:\\.|[^"\\])*)"'
_USER: Final = rf"(?:/((?:\\.|[^/\\])*)/(i?)(?=\s|$)|{_QUOTED}|(\S+))"
# ASCII: a name may hold what only Unicode takes for a blank.
_LINE: Final = re.compile(rf"\s*(\S+)\s+{_USER}\s+(?:{_QUOTED}|(\S+)).*", re.ASCII)
_LINE_OF_PREFIXES: Final = re.compile(rf"\s*(\S+)\s+(?:(?!)()()|{_QUOTED}|(\S+))\s+(?:{_QUOTED}|(\S+)).*", re.ASCII)
_REFERENCE: Final = re.compile(r"\\([0-9])")


class MapEntry(Protocol):
    """Lines of a map that are looked up in one step."""

    def groups(self, user: str, budget: Budget) -> str | None:
        """What these lines say of a user; None: nothing."""


@dataclass(frozen=True)
class Names:
    """Lines with names, one after another."""

    found: dict[str, str]

    def groups(self, user: str, budget: Budget) -> str | None:
        groups = self.found.get(user)
        return None if groups is None else _filled_in(groups, [user])


@dataclass(frozen=True)
class Prefix:
    """A line with what a name begins with."""

    start: str
    says: str

    def groups(self, user: str, budget: Budget) -> str | None:
        return _filled_in(self.says, [self.start]) if user.startswith(self.start) else None


@dataclass(frozen=True)
class Expression:
    """A line with a regular expression."""

    pattern: Pattern
    says: str

    def groups(self, user: str, budget: Budget) -> str | None:
        found = self.pattern.match(user.encode(errors="surrogateescape"), 0, budget)
        if found is None:
            return None
        # A group that took no part is not there, which is not the same as an empty one.
        parts = [found[0], *found.groups(default=b"")][: (found.lastindex or 0) + 1]
        return _filled_in(self.says, [part.decode(errors="surrogateescape") for part in parts])


@dataclass(frozen=True)
class UserMap:
    """One map."""

    entries: tuple[MapEntry, ...] = ()

    def __call__(self, user: str, budget: Budget | None = None) -> str | None:
        """The user's groups, separated by commas, if the map has any; OverBudget when it takes too long to say."""
        budget = budget or Budget()
        for entry in self.entries:
            budget.spend(STEPS_PER_ENTRY)
            if (groups := entry.groups(user, budget)) is not None:
                return groups
        return None


def _filled_in(groups: str, parts: list[str]) -> str:
    """The groups, with the parts that `\\0` and the like stand for; a part that is not there stays as it is written."""
    return _REFERENCE.sub(lambda one: parts[int(one[1])] if int(one[1]) < len(parts) else one[0], groups)


@dataclass(frozen=True)
class UserMaps:
    """The maps that a process knows, by their names in lower case; and what of them cannot be read, for the log."""

    found: Mapping[str, UserMap]
    ignored: tuple[str, ...] = ()


class _Reading:
    """The text of one map, line by line; a map for each method that its lines name."""

    def __init__(self, where: str, *, prefixes: bool) -> None:
        self._where, self._prefixes = where, prefixes
        self._entries: dict[str, list[MapEntry]] = {}
        self.ignored: list[str] = []

    def read(self, text: str) -> None:
        # Not splitlines(), for which a line ends at a form feed and at half a dozen characters of Unicode's too.
        for number, raw in enumerate(text.split("\n"), 1):
            if (line := raw.rstrip("\r")).strip(SPACE) and not line.lstrip(SPACE).startswith("#"):
                self._line(number, line)

    def _line(self, number: int, line: str) -> None:
        found = (_LINE_OF_PREFIXES if self._prefixes else _LINE).fullmatch(line)
        if found is None or found[1] == "@include":
            column, expected = _missing(line)
            said = f"{line.strip()[:100]!r} (expected {expected} of METHOD USER GROUPS)"
            self.ignored.append(f"{self._where}:{number}:{column}: {said}")
            return
        method, expression, flags, *rest = found.groups()
        name, groups = (
            _plain(quoted) if quoted is not None else bare for quoted, bare in zip(rest[::2], rest[1::2], strict=True)
        )
        entries = self._entries.setdefault(method.lower(), [])
        if expression:
            # By the language's own matcher: `re` could be made to search for hours by a user's name.
            pattern = compile_pattern(expression.replace(r"\/", "/"), flags, Budget())
            if not isinstance(pattern, Pattern):
                said = f"/{expression[:100]}/ is no regular expression"
                self.ignored.append(f"{self._where}:{number}:{found.start(2)}: {said}")
                return
            entries.append(Expression(pattern, groups))
        elif self._prefixes:
            entries.append(Prefix(name, groups))
        else:
            last = entries[-1] if entries else None
            # Names in a row share one dictionary; behind an expression a new one begins, so that the file's order still
            # decides.
            if not isinstance(last, Names):
                last = Names({})
                entries.append(last)
            # The first line for a name wins.
            last.found.setdefault(name, groups)

    def maps(self, name: str) -> Iterator[tuple[str, UserMap]]:
        """The maps of this text: NAME of the lines for all methods, NAME.METHOD of the others."""
        yield name.lower(), UserMap(tuple(self._entries.get(ANY, ())))
        for method, entries in self._entries.items():
            if method != ANY:
                yield f"{name}.{method}".lower(), UserMap(tuple(entries))


def _missing(line: str) -> tuple[int, str]:
    """The column at which a line is none, and the field that should stand there."""
    method = re.match(r"\s*(\S+)", line)
    if method is None or method[1] == "@include":
        return len(line) - len(line.lstrip()) + 1, "METHOD"
    user = re.compile(rf"\s+{_USER}").match(line, method.end())
    return (method.end() + 1, "USER") if user is None else (user.end() + 1, "GROUPS")


def _plain(quoted: str) -> str:
    """What is between quotation marks, where a backslash goes before them and before itself."""
    return re.sub(r'\\(["\\])', r"\1", quoted)


def read_user_map(text: str) -> UserMap:
    """A map from its lines."""
    reading = _Reading("map", prefixes=False)
    reading.read(text)
    return dict(reading.maps("map"))["map"]


def user_maps(config: Config, subsystem: str) -> UserMaps:
    """The maps of a configuration."""
    maps: dict[str, UserMap] = {}
    ignored: list[str] = []
    for name in (*config.list("CLASSAD_USER_MAP_NAMES"), *config.list(f"{subsystem}_CLASSAD_USER_MAP_NAMES")):
        knob = f"CLASSAD_USER_MAPFILE_{name}"
        path = config.str(knob, default="")
        try:
            text = Path(path).read_text("utf-8") if path else config.str(f"CLASSAD_USER_MAPDATA_{name}", default="")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            # A map less makes expressions undefined; a daemon that refused to start would be worse.
            ignored.append(f"{knob}: {path} cannot be read: {error}")
            continue
        reading = _Reading(
            path or f"CLASSAD_USER_MAPDATA_{name}",
            prefixes=config.bool(f"CLASSAD_USER_MAP_PREFIX_{name}", default=False),
        )
        reading.read(text or "")
        maps.update(reading.maps(name))
        ignored.extend(reading.ignored)
    return UserMaps(maps, tuple(ignored))
