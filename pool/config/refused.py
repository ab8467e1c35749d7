"""What a host does not start with: daemons that do not exist, and limits that its central manager would not keep.

Whoever sets a limit relies on it, so a pool that only warned of it would do harm; what else has no effect is warned of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pool.config.config import Config
from pool.config.knobs import find

DAEMONS: Final = ("MASTER", "COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD")
"""What DAEMON_LIST may name, in the order in which the daemons start."""
PARTS_OF_THE_MASTER: Final = ("SHARED_PORT",)
"""Daemons of HTCondor's whose work the master does, so that a list with them is served."""

_LIMITS: Final = "concurrency limits are not enforced"
_QUOTAS: Final = "group quotas are not enforced"
NOT_KEPT: Final[Mapping[str, str]] = {
    "<LIMIT>_LIMIT": _LIMITS,
    "CONCURRENCY_LIMIT_DEFAULT": _LIMITS,
    "CONCURRENCY_LIMIT_DEFAULT_<PREFIX>": _LIMITS,
    "GROUP_NAMES": _QUOTAS,
    "GROUP_QUOTA_<GROUP>": _QUOTAS,
    "GROUP_QUOTA_DYNAMIC_<GROUP>": _QUOTAS,
}
"""Knobs, as the table names them, that a central manager refuses, and why."""


def check(config: Config) -> None:
    """ConfigError when a master must not start with this configuration."""
    _check_daemons(config)
    if "NEGOTIATOR" in {name.upper() for name in config.list("DAEMON_LIST")}:
        _check_limits(config)


def _check_daemons(config: Config) -> None:
    for name in config.list("DAEMON_LIST"):
        if name.upper() in DAEMONS or name.upper() in PARTS_OF_THE_MASTER:
            continue
        from pool.base.nearest import nearest_name

        near = nearest_name(name, DAEMONS)
        hint = f' (did you mean "{near}"?)' if near else f" (there are {', '.join(DAEMONS)})"
        raise config.error("DAEMON_LIST", f"DAEMON_LIST: there is no daemon {name}{hint}")


def _check_limits(config: Config) -> None:
    for name in config.knobs_set():
        # NEGOTIATOR.GROUP_NAMES is GROUP_NAMES for the daemon that would have to keep it.
        knob = find(name.rpartition(".")[2])
        why = NOT_KEPT.get(knob.name) if knob is not None else None
        if why is not None and config[name]:
            raise config.error(name, f"{name}: {why}, so no central manager starts with it")
