"""What a zygote forks as a starter, and what it does once before there are any."""

from __future__ import annotations

import os

import trio

from daemons.base.linux import become_subreaper, leave_nothing_to_programs, never_gain_privileges
from daemons.host.child_settings import StarterSettings
from daemons.process.zygote import Birth
from daemons.starter.launch.spawn import JOB_UMASK
from daemons.starter.main import main
from daemons.starter.rehearsal import once_more, warm_up
from daemons.starter.rest.keeper import Keeper
from daemons.starter.rest.kept import Kept
from pool.base.errors import PeerError
from protocol.network.net import RealNetwork
from protocol.wire.message import replace

__all__ = ["child_main", "warm_up"]


def child_main(birth: Birth) -> int:
    """What the zygote calls in the forked child: a starter; or a keeper, where its startd has a line to one."""
    if birth.descriptors:
        return Keeper(birth, be_starter).serve()
    be_starter(birth)
    return 0


def be_starter(birth: Birth, kept: Kept | None = None) -> None:
    """The starter's process."""
    settings = StarterSettings.unpack(birth.payload)
    if kept is not None:
        settings = replace(settings, keeper=kept.keeper)
    become_subreaper()
    if settings.no_set_user_id:
        never_gain_privileges()  # nor does what it starts: jobs, hooks, plug-ins, an engine's program
    # Descriptors that the zygote or a library has left open are the pool's, and hooks and jobs are not.
    leave_nothing_to_programs()
    if settings.rehearses and (kept is None or kept.state < 0):
        once_more(settings)  # before it has a log, and before a test wants it killed
    log = settings.begin()
    os.umask(JOB_UMASK)
    try:
        trio.run(main, birth, settings, log, RealNetwork(), kept)
    except* PeerError as group:  # the fork was given up before it could be answered
        log.always("The startd did not speak", error=str(group.exceptions[0]))
