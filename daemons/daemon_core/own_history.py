"""<SUBSYS>_DAEMON_HISTORY: a daemon's own ad, written down now and then, for `condor_history -daemon`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from daemons.base.record_file import RecordFile
from pool.jobs.queue.history_file import daemon_banner, own_lines

if TYPE_CHECKING:
    from daemons.daemon_core.run import DaemonStart

FIRST_S: Final = 5.0
"""When the first record of a life is written: the daemon has something to tell by then."""


async def keep(start: DaemonStart) -> None:
    """Write for as long as the daemon runs; where no file is named, look now and then whether one is."""
    await trio.sleep(FIRST_S)
    while True:
        if path := start.config.str(f"{start.subsystem}_DAEMON_HISTORY", default=""):
            await start.world.threads.run_sync(_append, start, path, record(start))
        await trio.sleep(start.config.seconds("SCHEDD_HISTORY_RECORD_INTERVAL"))


def record(start: DaemonStart) -> str:
    """The daemon's ad as it is now, and the line after it."""
    now = int(start.world.wall())
    ad = start.own_ad().flat()
    return f"{own_lines(ad)}RecordWriteDate = {now}\n{daemon_banner(start.subsystem, now)}"


def _append(start: DaemonStart, path: str, text: str) -> None:
    config = start.config
    file = RecordFile(path, int(config.bytes("MAX_DAEMON_HISTORY_LOG")), config.int("MAX_DAEMON_HISTORY_ROTATIONS"))
    try:
        file.append(text, now=start.world.wall())
    except OSError as error:
        start.log.always(f"{path} cannot be written: {error.strerror}")
