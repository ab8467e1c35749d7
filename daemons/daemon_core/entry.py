"""One entry for all daemons: a process becomes the daemon of a name until that ends.

Signals: SIGTERM (and SIGINT) stop gracefully, SIGQUIT fast, SIGHUP reconfigures. The master holds one end of the socket
pair that the daemon was born with: it says `stop HOW` and `reconfigure` on it, is told `ready`, and when it closes,
since the master is gone, the daemon stops fast. An error that leaves `main` is logged with its traceback and ends the
process with status 4; a wrong configuration, which only a person can mend, ends it with status 2.

Source: HTCondor's manual, "DaemonCore and Unix signals".
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import trio

from daemons.base import faults
from daemons.base.layout import UMASK
from daemons.base.linux import name_process
from daemons.base.open_files import raise_limit
from daemons.base.short_looks import keep_looks_short
from daemons.daemon_core import own_history
from daemons.daemon_core.confine import confine
from daemons.daemon_core.run import DaemonMain, DaemonStart, admission_bounds, doubts, host, load_main
from daemons.daemon_core.source import ConfigSource
from daemons.daemon_core.tasks import Tasks
from daemons.daemon_core.world import World
from pool.base.errors import ConfigError, PoolError
from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION
from pool.classad.values import environment
from pool.config import language
from protocol.messages.common import StopHow
from protocol.network.admission import Admission
from protocol.network.net import RealNetwork

EXIT_BAD_CONFIG: Final = 2
EXIT_FAILED: Final = 4
_KEEP_MUCH: Final = frozenset({"COLLECTOR", "NEGOTIATOR"})


def run_process(
    name: str,
    source: ConfigSource,
    *,
    port_address: str = "",
    family: str = "",
    local_name: str = "",
    control: socket.socket | None = None,
    at_end: Callable[[DaemonStart], None] = lambda _: None,
) -> int:
    """Be the daemon `name` in this process until it ends; the exit status. `control` leads to the master.

    `local_name` is its own where there are several of this kind. `at_end` is called when it has ended in good order.
    """
    world = World.real()
    name_process(f"condor_{name}")
    os.umask(UMASK)
    try:
        start = DaemonStart(name, source, world, port_address=port_address, family=family, local_name=local_name)
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr)
        # Before there is a log: whoever waits for the master to start would only see a status.
        _say_why(control, error)
        return EXIT_BAD_CONFIG
    _prepare(start)
    try:
        language.set_mode(start.config)
        language.load(start.config)
        start.install_language()
        trio.run(_as_process, start, load_main(name), control)
    except BaseException as error:
        return _failed(start, error, control)
    start.log.always(f"**** {name} (pid {os.getpid()}) EXITING WITH STATUS {start.exit_status}")
    at_end(start)
    return start.exit_status


def _prepare(start: DaemonStart) -> None:
    """What is set for the whole process, before its event loop begins."""
    world = start.world
    raise_limit(start.config, start.subsystem)
    start.admission = Admission(admission_bounds(start.config))
    network = RealNetwork(start.config.int("SOCKET_LISTEN_BACKLOG"), start.admission)
    start.world = replace(world, network=network)
    start.log.capture_logging()
    confine(start.config, start.subsystem, start.log)
    _use_directory(start.config.path("TMP_DIR") or start.config.path("TEMP_DIR"))
    environment.install(
        clock=world.wall,
        cpu=world.cpu,
        rng=world.rng,
        zone=_zone,
        zone_name=time.tzname[0],
        debug=start.log.always,
    )
    faults.arm(start.config.str("FAULT_POINTS", default=""), start.run_dir)
    # What was imported is there for good; the collector need not look at it at each turn.
    gc.freeze()
    if start.subsystem in _KEEP_MUCH:
        keep_looks_short()
    for line in _banner(start):
        start.log.always(line)


def _failed(start: DaemonStart, error: BaseException, control: socket.socket | None) -> int:
    """Say what has ended the daemon, and to the master why; the exit status."""
    cause = error
    # Each nursery on the way out wraps the error once more.
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]
    if not isinstance(cause, PoolError):
        start.log.error(f"{start.name} failed", error)
        return EXIT_FAILED
    start.log.error(f"{start.name} cannot run: {cause}")  # in words: where it came from would help nobody
    print(f"{start.name}: {cause}", file=sys.stderr)
    _say_why(control, cause)
    return EXIT_BAD_CONFIG if isinstance(cause, ConfigError) else EXIT_FAILED


def _say_why(control: socket.socket | None, cause: PoolError) -> None:
    """Tell the master why this daemon cannot run, for whoever waits for it to start."""
    if control is not None:
        with contextlib.suppress(OSError):  # a master that is gone waits for nothing
            control.send(f"failed {' '.join(str(cause).split())}\n".encode())


def _use_directory(temporary: str) -> None:
    """Short-lived files go there, not to /tmp."""
    if temporary:
        import tempfile  # few daemons need it otherwise

        tempfile.tempdir = temporary


def _banner(start: DaemonStart) -> list[str]:
    """What opens each life of a daemon in its log."""
    stars = "*" * 54
    return [
        stars,
        f"** {start.name} ({start.subsystem}) STARTING UP",
        f"** {CONDOR_VERSION}",
        f"** {CONDOR_PLATFORM}",
        f"** PID = {os.getpid()}",
        stars,
        f"Using configuration: {', '.join(start.config.files) or 'defaults alone'}",
        *doubts(start),
    ]


async def _as_process(start: DaemonStart, main: DaemonMain, control: socket.socket | None) -> None:
    async with trio.open_nursery() as beside:
        await beside.start(_heed_signals, start)
        tasks = Tasks(beside, start.log)
        tasks.keep(start.lag.watch)
        tasks.keep(own_history.keep, start)
        ready = None
        if control is not None:
            control.setblocking(False)
            master = trio.SocketStream(trio.socket.from_stdlib_socket(control))
            tasks.keep(_obey, master, start)
            ready = partial(_say_ready, master)
        await host(start, main, ready=ready)
        beside.cancel_scope.cancel()


async def _heed_signals(start: DaemonStart, *, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP:
                _reconfigure(start)
            else:
                start.stop(StopHow.FAST if number == signal.SIGQUIT else StopHow.GRACEFUL)


async def _obey(master: trio.SocketStream, start: DaemonStart) -> None:
    """Do what the master says; stop fast when it is gone."""
    said = b""
    try:
        async for data in master:
            *lines, said = (said + data).split(b"\n")
            for line in lines:
                order, _, how = line.decode("ascii", "replace").partition(" ")
                if order == "stop":
                    start.stop(StopHow(how))
                elif order == "reconfigure":
                    _reconfigure(start)
    except trio.BrokenResourceError:
        pass
    start.log.always("The master is gone.")
    # A master that dies takes its host's daemons along: the next master starts them anew, and there is one of each.
    start.stop(StopHow.FAST)


async def _say_ready(master: trio.SocketStream) -> None:
    try:
        await master.send_all(b"ready\n")
    except trio.BrokenResourceError:
        pass  # `_obey` sees it too


def _reconfigure(start: DaemonStart) -> None:
    try:
        start.reconfigure()
    except PoolError as error:
        start.log.error(f"The configuration is wrong; the old one stays in force: {error}")
    except Exception as error:
        start.log.error(f"{start.name} has failed over the new configuration: {error}", error)


def _zone(at: float, no_dst: bool) -> int:
    """This host's offset from UTC, in seconds."""
    if no_dst:
        return -time.timezone
    return time.localtime(at).tm_gmtoff
