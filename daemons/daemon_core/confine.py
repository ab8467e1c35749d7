"""What a daemon that needs none of root's rights gives up for good before it hears from anybody.

The collector, the negotiator, the defragmenter and the rooster of root's pool need the network and their files, and
nothing else; so do the programs that the rooster runs. They stay uid 0, since their logs, sockets, keys and accounts
are root's and are made anew while they run, but keep nothing of what makes uid 0 powerful. They have no capability, so
they become no other account and reach none of its files or processes, and no program brings them one back. Where the
kernel has Landlock, they write no file outside LOG, RUN and SPOOL, and signal no process but their own children.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from daemons.base.linux import CAP_DAC_OVERRIDE, keep_capabilities, never_gain_privileges
from daemons.base.log import Log
from daemons.daemon_core import landlock
from pool.config import Config

CONFINED: Final = frozenset({"COLLECTOR", "NEGOTIATOR", "DEFRAG", "ROOSTER"})
DIRECTORIES: Final = ("LOG", "RUN", "SPOOL")
FILES: Final = (
    *("{subsystem}_LOG", "{subsystem}_DAEMON_HISTORY", "ACCOUNTANT_DATABASE_FILE", "NEGOTIATOR_MATCH_LOG"),
    *("DEFRAG_STATE_FILE", "COLLECTOR_PERSISTENT_AD_LOG", "OFFLINE_LOG"),
)
DEVICES: Final = "/dev"


def confine(config: Config, subsystem: str, log: Log) -> None:
    """Give up what this daemon does not need, for good; nothing, where it has no rights of root's."""
    if subsystem not in CONFINED or os.geteuid() != 0:
        return
    writable = places(config, subsystem)
    read = {Path(config.path("KEYS")), *map(Path, config.files)}
    never_gain_privileges()
    # Directories of the condor account (a pool that HTCondor has run before) are not root's to write without it.
    keep_capabilities(() if _are_roots([*writable, *read]) else (CAP_DAC_OVERRIDE,))
    try:
        # /dev, since standard error and /dev/null are written too.
        landlock.write_only_beneath([*writable, DEVICES])
    except OSError as error:
        log.always(f"This kernel confines no process to directories, so root's files can still be written: {error}")


def places(config: Config, subsystem: str) -> list[Path]:
    """The directories in which it makes files, as far as they are there."""
    found = [Path(config.path(name)) for name in DIRECTORIES]
    for knob in FILES:
        if path := config.str(knob.format(subsystem=subsystem), default=""):
            found.append(Path(path).parent)
    if temporary := config.path("TMP_DIR") or config.path("TEMP_DIR"):
        found.append(Path(temporary))
    return [path for path in dict.fromkeys(found) if path.is_dir()]


def _are_roots(paths: Iterable[Path]) -> bool:
    """Whether root reaches all of them as their owner."""
    return all(path.stat().st_uid == 0 for path in paths if path.exists())
