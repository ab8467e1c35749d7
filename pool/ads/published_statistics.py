"""Which statistics an ad shows: the language of STATISTICS_TO_PUBLISH and of `condor_status -direct -statistics`.

SCHEDD:2, DC:1!R, TRANSFER:0      a collection, a level, and what of it: R recent, L lifetime, D debug, Z zeros
ALL:1   DEFAULT:1!L   NONE        all collections alike, all others, none at all
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pool.base.errors import UserError
from pool.base.words import split_list
from pool.classad import ClassAd

PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "TRANSFER": ("TransferQueue", "FileTransfer"),
    "SCHEDD": ("Jobs", "Shadows", "Autoclusters", "QueueCommits"),
    "DC": ("DC", "DaemonCore", "LoopLag", "MonitorSelf", "SelfMonitor", "StatsL", "Updates", "Queries"),
}
"""The statistics of each collection, by how their names begin (after `Recent`)."""
ALIASES: Final = {"DAEMONCORE": "DC", "SCHEDULER": "SCHEDD"}
_RECENT: Final = "Recent"


class ShownStatistics(NamedTuple):
    """What of a collection is shown."""

    level: int = 1
    recent: bool = True
    lifetime: bool = True
    zeros: bool = False

    def takes(self, name: str, value: object) -> bool:
        """Whether this statistic is among it."""
        if self.level == 0 or not (self.recent if name.startswith(_RECENT) else self.lifetime):
            return False
        return self.zeros or self.level > 1 or not (isinstance(value, int | float) and value == 0)


class Statistics(NamedTuple):
    """What a list says of each collection; `others` is for those that it does not name."""

    named: Mapping[str, ShownStatistics]
    others: ShownStatistics | None = None

    def shown(self, ad: ClassAd) -> ClassAd:
        """The ad without the statistics that are not wanted."""
        return ad.project([name for name in ad if self._wants(ad, name)])

    def _wants(self, ad: ClassAd, name: str) -> bool:
        collection = collection_of(name)
        if collection is None:
            return True
        how = self.named.get(collection, self.others)
        return how is not None and how.takes(name, ad.eval(name))


def collection_of(name: str) -> str | None:
    """The collection that an attribute is a statistic of; None when it is none."""
    bare = name.removeprefix(_RECENT)
    return next((known for known, prefixes in PREFIXES.items() if bare.startswith(prefixes)), None)


def parse(text: str) -> Statistics:
    """Read a list; UserError where it cannot be read."""
    named: dict[str, ShownStatistics] = {}
    others: ShownStatistics | None = None
    for item in split_list(text):
        name, _, options = item.upper().partition(":")
        name = ALIASES.get(name, name)
        if name == "NONE":
            return Statistics({})
        how = _shown(options, item)
        if name in ("ALL", "DEFAULT"):
            others = how
            named = {} if name == "ALL" else named
        else:
            named[name] = how
    return Statistics(named, others)


def _shown(options: str, item: str) -> ShownStatistics:
    how, no = ShownStatistics(), False
    for letter in options:
        if letter == "!":
            no = True
            continue
        if letter in "0123":
            how = how._replace(level=int(letter))
        elif letter == "R":
            how = how._replace(recent=not no)
        elif letter == "L":
            how = how._replace(lifetime=not no)
        elif letter == "Z":
            how = how._replace(zeros=not no)
        elif letter != "D":  # nothing here is only for debugging
            raise UserError(
                f"{item!r} is not a set of statistics", expected="COLLECTION:LEVEL and R, L, D, Z or !R ..."
            )
        no = False
    return how
