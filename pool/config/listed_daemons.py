"""What DAEMON_LIST names: the daemons that a host's master keeps, several negotiators among them.

A further negotiator has a name of its own. XYZZY = $(NEGOTIATOR) says what XYZZY is, and XYZZY_ARGS = -local-name NAME
which knobs are its own: NEGOTIATOR.NAME.KNOB and NAME.KNOB. Without such arguments the name in the list counts.

Source: HTCondor's manual, "Introduction to Configuration" (-local-name) and DAEMON_LIST.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final, NoReturn

from pool.config.config import Config

DAEMONS: Final = ("MASTER", "COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD", "DEFRAG", "ROOSTER")
"""What DAEMON_LIST may name, in the order in which the daemons start."""
PARTS_OF_OTHERS: Final = ("SHARED_PORT", "HAD", "REPLICATION")
"""Daemons of HTCondor's whose work the master or the negotiator does, so that a list with them is served."""
SEVERAL: Final = "NEGOTIATOR"
"""The daemon of which a host may have several."""


@dataclass(frozen=True, slots=True)
class ListedDaemon:
    """One daemon of this host: its name in the list, in lower case, what it is, and its local name."""

    name: str
    kind: str
    local_name: str = ""


def listed_daemons(config: Config) -> list[ListedDaemon]:
    """All but the master, in the order in which they start; ConfigError where one does not exist."""
    found: dict[str, ListedDaemon] = {}
    for name in config.list("DAEMON_LIST"):
        if name.upper() not in PARTS_OF_OTHERS and name.upper() != "MASTER":
            found.setdefault(name.lower(), _listed(config, name))
    local_names = [one.local_name.lower() for one in found.values() if one.local_name]
    if len(set(local_names)) < len(local_names):
        raise config.error("DAEMON_LIST", "DAEMON_LIST: two negotiators have the same local name")
    return sorted(found.values(), key=start_place)


def start_place(daemon: ListedDaemon) -> int:
    """Daemons of a lower place start before those of a higher one."""
    return DAEMONS.index(daemon.kind.upper())


def _listed(config: Config, name: str) -> ListedDaemon:
    if name.upper() in DAEMONS:
        return ListedDaemon(name.lower(), name.lower())
    if posixpath.basename(config[name] or "") == f"condor_{SEVERAL.lower()}":
        return ListedDaemon(name.lower(), SEVERAL.lower(), _local_name(config, name))
    return _refuse(config, name)


def _local_name(config: Config, name: str) -> str:
    """What -local-name says among the daemon's arguments, else its name in the list."""
    knob = f"{name}_ARGS"
    words = (config[knob] or "").strip('"').split()
    local_name = name
    while words:
        word = words.pop(0)
        if word == "-local-name" and words:
            local_name = words.pop(0)
        elif word != "-f":
            raise config.error(knob, f"{knob}: {word} is no argument that is known here (expected -local-name NAME)")
    if not local_name.replace("_", "").isalnum() or local_name.upper() in DAEMONS:
        raise config.error(knob, f"{knob}: {local_name} is no local name (expected letters, digits and _)")
    return local_name


def _refuse(config: Config, name: str) -> NoReturn:
    from pool.base.nearest import nearest_name

    near = nearest_name(name, DAEMONS)
    hint = (
        f' (did you mean "{near}"?)' if near else f" (there are {', '.join(DAEMONS)}; {name} = $({SEVERAL}) makes one)"
    )
    raise config.error("DAEMON_LIST", f"DAEMON_LIST: there is no daemon {name}{hint}")
