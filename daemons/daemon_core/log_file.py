"""The log file of a daemon, as `<SUBSYS>_LOG`, `<SUBSYS>_DEBUG` and the knobs beside them have it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from daemons.base.log import Log, log_times
from daemons.daemon_core.world import World
from pool.config import Config

LOG_NAMES: Final[Mapping[str, str]] = {
    "MASTER": "MasterLog",
    "COLLECTOR": "CollectorLog",
    "NEGOTIATOR": "NegotiatorLog",
    "SCHEDD": "SchedLog",
    "STARTD": "StartLog",
    "STARTER": "StarterLog",
    "DEFRAG": "DefragLog",
    "ROOSTER": "RoosterLog",
    "AGENT": "FileAgentLog",
}
"""Each subsystem's file in LOG, unless `<SUBSYS>_LOG` names another; starters and agents add `.slot` or `.user`."""


def open_log(config: Config, subsystem: str, world: World, *, suffix: str = "") -> Log:
    """The log of a daemon, starter (`suffix` is its slot) or agent (`suffix` is its user), as the knobs say."""
    where = _where(config, subsystem)
    return Log(
        Path(f"{where}.{suffix}" if suffix else where),
        level=log_level(config, subsystem),
        bytes_max=config.bytes(f"MAX_{subsystem}_LOG", default=10 * 1024 * 1024),
        old_max=config.int(f"MAX_NUM_{subsystem}_LOG"),
        # A starter's or an agent's log is shared by those that come after it: only a daemon's own begins anew.
        begins_anew=not suffix and config.bool(f"TRUNC_{subsystem}_LOG_ON_OPEN"),
        wall=world.wall,
        times=log_times(config),
    )


def _where(config: Config, subsystem: str) -> str:
    """One of several daemons of a kind writes no log of another's: it has its own, or one by its local name."""
    local_name, knob = config.local_name, f"{subsystem}_LOG"
    if local_name:
        own = next(
            (full for full in (f"{subsystem}.{local_name}.{knob}", f"{local_name}.{knob}") if config[full]), None
        )
        return config.path(own) if own else str(Path(config.path("LOG")) / f"{_capitalized(local_name)}Log")
    return config.str(knob, default="") or str(Path(config.path("LOG")) / LOG_NAMES[subsystem])


def _capitalized(local_name: str) -> str:
    """As HTCondor makes names of logs: NEGOTIATOR_FAST becomes NegotiatorFast."""
    return "".join(part.capitalize() for part in local_name.split("_"))


def log_level(config: Config, subsystem: str) -> str:
    """The categories that a daemon logs: its own, or those of daemons that have none, and those of all daemons."""
    own = config.list(f"{subsystem}_DEBUG", default=[]) or config.list("DEFAULT_DEBUG")
    return " ".join((*own, *config.list("ALL_DEBUG", default=[])))
