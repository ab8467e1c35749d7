"""What a host does not start with: daemons that do not exist.

Whoever lists one relies on it, so a pool that only warned of it would do harm; what else has no effect is warned of.
"""

from __future__ import annotations

from typing import Final

from pool.config.config import Config

DAEMONS: Final = ("MASTER", "COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD", "DEFRAG")
"""What DAEMON_LIST may name, in the order in which the daemons start."""
PARTS_OF_OTHERS: Final = ("SHARED_PORT", "HAD", "REPLICATION")
"""Daemons of HTCondor's whose work the master or the negotiator does, so that a list with them is served."""


def check(config: Config) -> None:
    """ConfigError when a master must not start with this configuration."""
    for name in config.list("DAEMON_LIST"):
        if name.upper() in DAEMONS or name.upper() in PARTS_OF_OTHERS:
            continue
        from pool.base.nearest import nearest_name

        near = nearest_name(name, DAEMONS)
        hint = f' (did you mean "{near}"?)' if near else f" (there are {', '.join(DAEMONS)})"
        raise config.error("DAEMON_LIST", f"DAEMON_LIST: there is no daemon {name}{hint}")
