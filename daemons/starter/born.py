"""What a zygote forks as a starter, and what it does once before there are any."""

from __future__ import annotations

import os

import trio

from daemons.base.linux import become_subreaper, leave_nothing_to_programs
from daemons.host.child_settings import StarterSettings
from daemons.process.zygote import Birth
from daemons.starter.launch.spawn import JOB_UMASK
from daemons.starter.main import main
from daemons.starter.rehearsal import once_more, warm_up
from pool.base.errors import PeerError
from protocol.network.net import RealNetwork

__all__ = ["child_main", "warm_up"]


def child_main(birth: Birth) -> None:
    """What the zygote calls in the forked child."""
    settings = StarterSettings.unpack(birth.payload)
    become_subreaper()
    # Descriptors that the zygote or a library has left open are the pool's, and hooks and jobs are not.
    leave_nothing_to_programs()
    if settings.rehearses:
        once_more()  # before it has a log, and before a test wants it killed
    log = settings.begin()
    os.umask(JOB_UMASK)
    try:
        trio.run(main, birth, settings, log, RealNetwork())
    except* PeerError as group:  # the fork was given up before it could be answered
        log.always("The startd did not speak", error=str(group.exceptions[0]))
