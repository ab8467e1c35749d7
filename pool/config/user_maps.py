"""The maps behind userMap(NAME, user): CLASSAD_USER_MAPFILE_<NAME> or CLASSAD_USER_MAPDATA_<NAME>.

Each line is `* USER GROUPS`. USER is a name, or a regular expression between slashes (`/^ann.*/i`), whose groups are
`\\1` to `\\9` in GROUPS; either may be in double quotes. The line of the user's very name counts, else the first that
matches. Lines of any other form are ignored, as HTCondor ignores them. Users choose what is looked up: to look counts
for the evaluation that asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pool.classad.budget import Budget
from pool.classad.patterns import Pattern, compile_pattern

if TYPE_CHECKING:
    from pool.config import Config

_LINE: Final = re.compile(r'\s*\*\s+(?:/((?:\\.|[^/\\])+)/(i?)|"([^"]*)"|(\S+))\s+(?:"([^"]*)"|(\S.*?))\s*')
_REFERENCE: Final = re.compile(r"\\(\d)")


@dataclass(frozen=True)
class UserMap:
    """One map."""

    names: Mapping[str, str]
    patterns: tuple[tuple[Pattern, str], ...] = ()

    def __call__(self, user: str, budget: Budget | None = None) -> str | None:
        """The user's groups, separated by commas, if the map has any; OverBudget when it takes too long to say."""
        if user in self.names:
            return self.names[user]
        budget, data = budget or Budget(), user.encode(errors="surrogateescape")
        for pattern, groups in self.patterns:
            if (found := pattern.match(data, 0, budget)) is not None:
                return _filled_in(groups, [part or b"" for part in found.groups()])
        return None


def _filled_in(groups: str, matched: Sequence[bytes]) -> str:
    """The groups, with what the pattern's own groups matched."""
    known = ("", *(part.decode(errors="surrogateescape") for part in matched))
    return _REFERENCE.sub(lambda one: known[int(one[1])] if int(one[1]) < len(known) else "", groups)


def read_user_map(text: str) -> UserMap:
    """A map from its lines."""
    names: dict[str, str] = {}
    patterns: list[tuple[Pattern, str]] = []
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        pattern, flag, quoted, bare, quoted_groups, groups = found.groups()
        value = quoted_groups if quoted_groups is not None else groups
        if pattern is None:
            names.setdefault(quoted if quoted is not None else bare, value)
            continue
        compiled = compile_pattern(pattern.replace(r"\/", "/"), flag, Budget())
        if isinstance(compiled, Pattern):
            patterns.append((compiled, value))
    return UserMap(names, tuple(patterns))


@dataclass(frozen=True)
class UserMaps:
    """The maps that a daemon knows, by their names in lower case; and what of them cannot be read, for the log."""

    found: Mapping[str, UserMap]
    ignored: tuple[str, ...] = ()


def user_maps(config: Config, subsystem: str) -> UserMaps:
    """The maps of a configuration."""
    maps: dict[str, UserMap] = {}
    ignored: list[str] = []
    for name in (*config.list("CLASSAD_USER_MAP_NAMES"), *config.list(f"{subsystem}_CLASSAD_USER_MAP_NAMES")):
        path, text = config.str(f"CLASSAD_USER_MAPFILE_{name}", default=""), ""
        try:
            text = (
                Path(path).read_text("utf-8") if path else config.str(f"CLASSAD_USER_MAPDATA_{name}", default="") or ""
            )
        except (OSError, UnicodeDecodeError, ValueError) as error:
            ignored.append(f"CLASSAD_USER_MAPFILE_{name}: {path} cannot be read: {error}")
            continue
        maps[name.lower()] = read_user_map(text)
    return UserMaps(maps, tuple(ignored))
