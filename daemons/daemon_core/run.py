"""One entry for all daemons: configuration, log, signals, the pipe from the parent, services, own ad.

A daemon is a module `daemons.<name>.main` with one coroutine:

    async def main(start: DaemonStart, *, task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        schedd = Schedd(start)
        start.service.on(SubmitJobs, schedd.submit)   # the common requests are there already
        start.describe(schedd.ad)                     # () -> ClassAd; published, and the answer to GetAd
        start.on_reconfigure(schedd.reconfigured)     # (Config) -> None; `start.config` is already the new one
        async with trio.open_nursery() as nursery:
            await nursery.start(start.serve)          # RUN/<name>.sock and the host's shared port
            nursery.start_soon(start.adverts.run)     # keeps what was `put` there, and the own ad, at the collectors
            task_status.started()                     # ready: the master hears of it
            how = await start.stopping()              # PEACEFUL, GRACEFUL or FAST
            ...                                       # `await start.stopping(StopHow.FAST)` wakes when it grows urgent
            nursery.cancel_scope.cancel()

Signals: SIGTERM (and SIGINT) stop gracefully, SIGQUIT fast, SIGHUP reconfigures. The master holds one end of the socket
pair that the daemon was born with: it says `stop HOW` and `reconfigure` on it, is told `ready`, and when it closes,
since the master is gone, the daemon stops fast. An error that leaves `main` is logged with its traceback and ends the
process with status 4; a wrong configuration, which only a person can mend, ends it with status 2.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import trio

from daemons import faults, own_history
from daemons.adverts import Adverts
from daemons.confine import confine
from daemons.layout import UMASK, publish
from daemons.linux import name_process
from daemons.log import Log, log_times
from daemons.metrics import LoopLag
from daemons.open_files import raise_limit
from daemons.remote_config import RemoteConfig, kept_values
from daemons.self_monitor import SelfMonitor
from daemons.services import CommonServices
from daemons.world import World
from pool.classad import ClassAd, environment
from pool.config import Config, load_config
from pool.config.attributes import listed_attributes
from pool.config.refused import check
from pool.config.restart import waiting_for_restart
from pool.config.values import check_values
from pool.errors import ConfigError, PoolError, UserError
from pool.version import CONDOR_PLATFORM, CONDOR_VERSION
from protocol import needs, rpc
from protocol.address import Address
from protocol.admission import Admission, Bounds
from protocol.auth.ticket import new_secret
from protocol.messages.common import StopHow
from protocol.net import RealNetwork
from protocol.security import Security
from protocol.service import Service

EXIT_BAD_CONFIG: Final = 2
EXIT_FAILED: Final = 4
EXIT_FOR_GOOD: Final = 99
"""The daemon ended because it was told to, and is not to be started again (`condor_drain -exit-on-completion`)."""

LOG_NAMES: Final[Mapping[str, str]] = {
    "MASTER": "MasterLog",
    "COLLECTOR": "CollectorLog",
    "NEGOTIATOR": "NegotiatorLog",
    "SCHEDD": "SchedLog",
    "STARTD": "StartLog",
    "STARTER": "StarterLog",
    "AGENT": "FileAgentLog",
}
"""Each subsystem's file in LOG, unless `<SUBSYS>_LOG` names another; starters and agents add `.slot` or `.user`."""

_URGENCY: Final = (StopHow.PEACEFUL, StopHow.GRACEFUL, StopHow.FAST)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a host's configuration comes from; read again at each start and reconfiguration."""

    directory: str | None = None
    files: tuple[str, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)

    def load(self, subsystem: str, environ: Mapping[str, str]) -> Config:
        """The configuration as `subsystem` sees it; ConfigError names file and line."""
        overrides, files = dict(self.overrides), list(self.files) or None
        if self.directory is not None:
            overrides = {"LOCAL_DIR": self.directory, **overrides}
            environ = {**environ, "POOL_DIR": overrides["LOCAL_DIR"]}
            if files is None and "CONDOR_CONFIG" not in environ:  # a directory of its own is a pool of its own
                own = os.path.join(self.directory, "config")
                files = [own] if os.path.exists(own) else []
        config = load_config(files, overrides=overrides, environ=environ, subsystem=subsystem)
        config = config.with_overrides(kept) if (kept := kept_values(config, subsystem)) else config
        if subsystem == "MASTER":
            check(config)
        return config

    def packed(self) -> dict[str, Any]:
        """As a map that crosses to another process."""
        return {"directory": self.directory, "files": list(self.files), "overrides": dict(self.overrides)}

    @classmethod
    def unpacked(cls, raw: Mapping[str, Any]) -> Source:
        """The inverse of `packed`."""
        return cls(raw["directory"], tuple(raw["files"]), dict(raw["overrides"]))


class DaemonMain(Protocol):
    """What each daemon's module offers as `main`."""

    def __call__(self, start: DaemonStart, *, task_status: trio.TaskStatus[None]) -> Awaitable[None]: ...


class DaemonStart:
    """All that a daemon's `main` is given, and how it speaks to whoever started it."""

    def __init__(
        self,
        name: str,
        source: Source,
        world: World,
        *,
        log: Log | None = None,
        config: Config | None = None,
        security: Security | None = None,
        port_address: str = "",
        family: str = "",
    ) -> None:
        self.name = name
        self.subsystem = name.upper()
        self.world = world
        self.config = config if config is not None else source.load(self.subsystem, world.env)
        self.log = log if log is not None else open_log(self.config, self.subsystem, world)
        self.security = security if security is not None else self._security(family)
        self.port_address = port_address
        self.started_at = world.wall()
        self.reconfigured_at = self.started_at
        self.lag = LoopLag()
        self.monitor = SelfMonitor(self.started_at)
        self.service = Service(name, needs.SIDES[name])
        self.common = CommonServices(self)
        self.remote_config = RemoteConfig(self)
        self.adverts = Adverts(self)
        self.admission = Admission(_bounds(self.config))
        self.source = source
        self.exit_status = 0
        """What the process ends with when nothing went wrong; EXIT_FOR_GOOD: the master lets it be."""
        self.successor = ""
        """A program that is executed in the process's place when it ends; only the master looks at it."""
        self._started_with = self.config
        self.runtime_values: dict[str, str] = {}
        """What `condor_config_val -rset` has set; it counts from the next reconfiguration on."""
        self._how: StopHow | None = None
        self._stop_changed = trio.Event()
        self._listeners_of_config: list[Callable[[Config], None]] = []
        self._describe: Callable[[], ClassAd] = ClassAd

    def _security(self, family: str) -> Security:
        """What the configuration says; a process that was given no family founds one."""
        security = Security.from_config(self.config, self.subsystem)
        return security.with_family(family or new_secret()) if self.config.bool("SEC_USE_FAMILY_SESSION") else security

    # ---- names and places

    @property
    def run_dir(self) -> Path:
        """Where sockets and address files are."""
        return Path(self.config.path("RUN"))

    @property
    def socket_path(self) -> Path:
        """The unix socket that this daemon listens on."""
        return self.run_dir / f"{self.name}.sock"

    @property
    def host(self) -> str:
        """The name that this host has in the pool."""
        return self.config.str("FULL_HOSTNAME")

    @property
    def address(self) -> str:
        """Where others reach this daemon: the host's shared port, or only the unix socket when there is none."""
        if not self.port_address:
            return str(self.socket_path)
        port = Address.parse(self.port_address)
        return str(Address.tcp(port.host, port.port, sock=self.name, alias=port.alias))

    # ---- being a daemon

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer requests on the daemon's socket and, through the master, on the host's shared port."""
        listeners = [await self.world.network.listen(Address.unix(str(self.socket_path)))]
        if self.port_address:
            listeners.append(await self.world.network.listen_shared(str(self.run_dir), Address.parse(self.address)))
        publish(self.run_dir / f"{self.name}.address", f"{self.address}\n{CONDOR_VERSION}\n{CONDOR_PLATFORM}\n")
        try:
            await rpc.serve(
                self.service, listeners, security=self.security, admission=self.admission, task_status=task_status
            )
        finally:
            (self.run_dir / f"{self.name}.address").unlink(missing_ok=True)

    def describe(self, ad: Callable[[], ClassAd]) -> None:
        """`ad()` is this daemon's own ad from now on, to which `own_ad` adds what all daemons have."""
        self._describe = ad
        self.adverts.refresh()

    def own_ad(self) -> ClassAd:
        """The daemon's ad as it is now, with its metrics."""
        ad = self._describe()
        for name, value in self._common_attributes().items():
            if name not in ad:
                ad[name] = value
        ad.update(self._listed_attributes())
        wanted = self.config.str("STATISTICS_TO_PUBLISH", default="")
        return self._with_statistics(ad, wanted) if wanted else ad

    def _listed_attributes(self) -> ClassAd:
        """What the knobs that <SUBSYS>_ATTRS names say, as far as it can be read."""
        found, troubles = listed_attributes(self.config, self.subsystem)
        for trouble in troubles:
            self.log.error(trouble)
        return found

    def _with_statistics(self, ad: ClassAd, wanted: str) -> ClassAd:
        """The ad with those statistics; with all where the list cannot be read."""
        from pool.published_statistics import parse

        try:
            return parse(wanted).shown(ad)
        except UserError as error:
            self.log.error(f"STATISTICS_TO_PUBLISH: {error}")
            return ad

    def _common_attributes(self) -> dict[str, Any]:
        return {
            "Name": self.host,
            "Machine": self.host,
            "MyAddress": self.address,
            "AddressV1": self.address,
            f"{self.name.capitalize()}IpAddr": self.address,
            "CondorVersion": CONDOR_VERSION,
            "CondorPlatform": CONDOR_PLATFORM,
            "DaemonStartTime": int(self.started_at),
            "DaemonLastReconfigTime": int(self.reconfigured_at),
            "MyCurrentTime": int(self.world.wall()),
            **self.monitor.look(self.world.wall()),
            "LoopLagP99": round(self.lag.p99(), 6),
            "LoopLagMax": round(self.lag.worst(), 6),
        }

    # ---- stopping and reconfiguring

    def stop(self, how: StopHow) -> None:
        """Ask the daemon to end. It may become more urgent, never less."""
        if self._how is None or _URGENCY.index(how) > _URGENCY.index(self._how):
            self.log.always(f"Got a {how.value} stop.")
            self._how = how
            self._stop_changed.set()
            self._stop_changed = trio.Event()

    @property
    def stop_how(self) -> StopHow | None:
        """How the daemon is to end; None while it is not."""
        return self._how

    async def stopping(self, at_least: StopHow = StopHow.PEACEFUL) -> StopHow:
        """Wait until the daemon is to end, at least as urgently as said; how it is to end."""
        while self._how is None or _URGENCY.index(self._how) < _URGENCY.index(at_least):
            await self._stop_changed.wait()
        return self._how

    def on_reconfigure(self, callback: Callable[[Config], None]) -> None:
        """Call back after each reconfiguration; `start.config` is the new one by then."""
        self._listeners_of_config.append(callback)

    def reconfigure(self) -> None:
        """Read the configuration again; ConfigError leaves the old one in force."""
        config = self.source.load(self.subsystem, self.world.env).with_overrides(self.runtime_values)
        check_values(config)
        security = Security.from_config(config, self.subsystem)
        self.config = config
        self.reconfigured_at = self.world.wall()
        self.log.set_level(_log_level(self.config, self.subsystem))
        self.log.times = log_times(self.config)
        self.security.renew(security)
        self.log.always("Reconfigured.")
        for doubt in _doubts(self):
            self.log.always(doubt)
        for knob in waiting_for_restart(self._started_with, self.config, self.subsystem):
            self.log.always(
                f"{knob} was changed; it stays as it was until the {self.name} is started again "
                f"(condor_restart -{self.name})"
            )
        for callback in self._listeners_of_config:
            callback(self.config)
        self.adverts.refresh()


async def host(start: DaemonStart, main: DaemonMain, *, ready: Callable[[], Awaitable[None]] | None = None) -> None:
    """Run one daemon in this task: its main, and beside it what all daemons need. Ends when the main ends."""
    async with trio.open_nursery() as nursery:
        await nursery.start(_main_then_leave, start, main, nursery.cancel_scope)
        if start.stop_how is None:
            start.log.always(f"{start.name} is ready.", address=start.address, pid=os.getpid())
            if ready is not None:
                await ready()


async def _main_then_leave(
    start: DaemonStart, main: DaemonMain, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]
) -> None:
    """A main may end before it is ready, when it is stopped early: that is no fault."""
    started = False

    class Once:
        def started(self, value: None = None) -> None:
            nonlocal started
            if not started:
                started = True
                task_status.started()

    await main(start, task_status=Once())
    Once().started()
    scope.cancel()


# ---- as a process


def open_log(config: Config, subsystem: str, world: World, *, suffix: str = "") -> Log:
    """The log of a daemon, starter (`suffix` is its slot) or agent (`suffix` is its user), as the knobs say."""
    where = config.str(f"{subsystem}_LOG", default="") or str(Path(config.path("LOG")) / LOG_NAMES[subsystem])
    return Log(
        Path(f"{where}.{suffix}" if suffix else where),
        level=_log_level(config, subsystem),
        bytes_max=config.bytes(f"MAX_{subsystem}_LOG", default=10 * 1024 * 1024),
        old_max=config.int(f"MAX_NUM_{subsystem}_LOG"),
        begins_anew=not suffix and config.bool(f"TRUNC_{subsystem}_LOG_ON_OPEN"),
        wall=world.wall,
        times=log_times(config),
    )


def _log_level(config: Config, subsystem: str) -> str:
    """The categories that a daemon logs: its own, or those of daemons that have none, and those of all daemons."""
    own = config.list(f"{subsystem}_DEBUG", default=[]) or config.list("DEFAULT_DEBUG")
    return " ".join((*own, *config.list("ALL_DEBUG", default=[])))


def run_process(
    name: str,
    source: Source,
    *,
    port_address: str = "",
    family: str = "",
    control: socket.socket | None = None,
    at_end: Callable[[DaemonStart], None] = lambda _: None,
) -> int:
    """Be the daemon `name` in this process until it ends; the exit status. `control` leads to the master.

    `at_end` is called when it has ended in good order.
    """
    world = World.real()
    name_process(f"condor_{name}")
    os.umask(UMASK)
    try:
        start = DaemonStart(name, source, world, port_address=port_address, family=family)
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr)
        _say_why(control, error)
        return EXIT_BAD_CONFIG
    raise_limit(start.config, start.subsystem)
    start.admission = Admission(_bounds(start.config))
    network = RealNetwork(start.config.int("SOCKET_LISTEN_BACKLOG"), start.admission)
    start.world = replace(world, network=network)
    start.log.capture_logging()
    confine(start.config, start.subsystem, start.log)
    _use_directory(start.config.path("TMP_DIR") or start.config.path("TEMP_DIR"))
    environment.install(clock=world.wall, cpu=world.cpu, rng=world.rng, zone=_zone, debug=start.log.always)
    faults.arm(start.config.str("FAULT_POINTS", default=""), start.run_dir)
    gc.freeze()
    for line in _banner(start):
        start.log.always(line)
    try:
        trio.run(_as_process, start, load_main(name), control)
    except BaseException as error:
        cause = error
        while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
            cause = cause.exceptions[0]
        if isinstance(cause, PoolError):  # said in words: where it came from would help nobody
            start.log.error(f"{name} cannot run: {cause}")
            print(f"{name}: {cause}", file=sys.stderr)
            _say_why(control, cause)
            return EXIT_BAD_CONFIG if isinstance(cause, ConfigError) else EXIT_FAILED
        start.log.error(f"{name} failed", error)
        return EXIT_FAILED
    start.log.always(f"**** {name} (pid {os.getpid()}) EXITING WITH STATUS {start.exit_status}")
    at_end(start)
    return start.exit_status


def _say_why(control: socket.socket | None, cause: PoolError) -> None:
    """Tell the master why this daemon cannot run, for whoever waits for it to start."""
    if control is not None:
        with contextlib.suppress(OSError):  # a master that is gone waits for nothing
            control.send(f"failed {' '.join(str(cause).split())}\n".encode())


def _bounds(config: Config) -> Bounds:
    """How many connections of whom this process takes."""
    return Bounds(
        strangers_max=config.int("MAX_UNAUTHENTICATED_CONNECTIONS"),
        user_max=config.int("MAX_CONNECTIONS_PER_USER"),
        calls_max=config.int("MAX_REQUESTS_PER_USER"),
        handshake_s=config.seconds("SEC_DEFAULT_AUTHENTICATION_TIMEOUT"),
        idle_s=config.seconds("CONNECTION_IDLE_TIMEOUT"),
    )


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
        *_doubts(start),
    ]


def _doubts(start: DaemonStart) -> list[str]:
    """What is odd about the configuration; one daemon of the host says it, the one that is always there."""
    return [*start.config.warnings, *start.config.without_effect] if start.subsystem == "MASTER" else []


def load_main(name: str) -> DaemonMain:
    """The `main` of `daemons.<name>.main`."""
    main: DaemonMain = importlib.import_module(f"daemons.{name}.main").main
    return main


async def _as_process(start: DaemonStart, main: DaemonMain, control: socket.socket | None) -> None:
    async with trio.open_nursery() as beside:
        await beside.start(_heed_signals, start)
        beside.start_soon(start.lag.watch)
        beside.start_soon(own_history.keep, start)
        ready = None
        if control is not None:
            control.setblocking(False)
            master = trio.SocketStream(trio.socket.from_stdlib_socket(control))
            beside.start_soon(_obey, master, start)
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


def _zone(at: float, no_dst: bool) -> int:
    """This host's offset from UTC, in seconds."""
    if no_dst:
        return -time.timezone
    return time.localtime(at).tm_gmtoff
