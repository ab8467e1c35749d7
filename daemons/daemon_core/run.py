"""What every daemon is given (`DaemonStart`), and how its `main` is run.

A daemon is a module `daemons.<name>.main` with one coroutine:

    async def main(start: DaemonStart, *, task_status: TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        schedd = Schedd(start)
        start.service.offer(schedd.answers())         # the common requests are answered already
        start.describe(schedd.ad)                     # () -> ClassAd; published, and the answer to GetAd
        start.on_reconfigure(schedd.reconfigured)     # (Config) -> None; `start.config` is already the new one
        async with trio.open_nursery() as nursery:
            await nursery.start(start.serve)          # RUN/<name>.sock and the host's shared port
            tasks = Tasks(nursery, start.log)         # what fails there is logged and begins again
            tasks.keep(start.adverts.run)             # keeps what was `put` there, and the own ad, at the collectors
            task_status.started()                     # ready: the master hears of it
            how = await start.stopping()              # PEACEFUL, GRACEFUL or FAST
            ...                                       # `await start.stopping(StopHow.FAST)` wakes when it grows urgent
            nursery.cancel_scope.cancel()

`entry` runs it as a process; a test may run several in one (`host`).

A stop may become more urgent, never less. A reconfiguration that cannot be read changes nothing; one that is read is
there for all before any part of the daemon is told of it.

Source: HTCondor's manual, "DaemonCore" and "DaemonCore Configuration File Entries".
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

import trio

from daemons.base.layout import publish
from daemons.base.log import Log, log_times
from daemons.base.loop_lag import LoopLag
from daemons.base.sync import Signal
from daemons.daemon_core.adverts import Adverts
from daemons.daemon_core.locate import sock_name
from daemons.daemon_core.log_file import log_level, open_log
from daemons.daemon_core.remote_config import RemoteConfig
from daemons.daemon_core.self_monitor import SelfMonitor
from daemons.daemon_core.services import CommonServices
from daemons.daemon_core.source import ConfigSource
from daemons.daemon_core.user_homes import UserHomes
from daemons.daemon_core.world import World
from pool.base.errors import PoolError, UserError
from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION
from pool.classad import ClassAd
from pool.config import Config, language
from pool.config.attributes import listed_attributes
from pool.config.restart import waiting_for_restart
from pool.config.values import check_values
from protocol.messages.common import StopHow
from protocol.network.admission import Admission, ConnectionBounds
from protocol.rpc import endpoints
from protocol.rpc.service import Service
from protocol.security import needs
from protocol.security.credentials import Security
from protocol.security.ticket import new_secret
from protocol.wire.address import Address

EXIT_FOR_GOOD: Final = 99
"""The daemon ended because it was told to, and is not to be started again (`condor_drain -exit-on-completion`)."""


_URGENCY: Final = (StopHow.PEACEFUL, StopHow.GRACEFUL, StopHow.FAST)


class DaemonMain(Protocol):
    """What each daemon's module offers as `main`."""

    def __call__(self, start: DaemonStart, *, task_status: trio.TaskStatus[None]) -> Awaitable[None]: ...


class DaemonStart:
    """All that a daemon's `main` is given, and how it speaks to whoever started it."""

    def __init__(
        self,
        name: str,
        source: ConfigSource,
        world: World,
        *,
        log: Log | None = None,
        config: Config | None = None,
        security: Security | None = None,
        port_address: str = "",
        family: str = "",
        local_name: str = "",
    ) -> None:
        self.name = name
        self.subsystem = name.upper()
        self.local_name = local_name
        self.world = world
        self.config = config if config is not None else source.load(self.subsystem, world.env, local_name)
        self.log = log if log is not None else open_log(self.config, self.subsystem, world)
        self.security = security if security is not None else self._security(family)
        self.port_address = port_address
        self.started_at = world.wall()
        self.reconfigured_at = self.started_at
        self.lag = LoopLag()
        self.monitor = SelfMonitor(self.started_at)
        self.service = Service(self.sock, needs.SIDES[name])
        self.service.offer(CommonServices(self).answers(), RemoteConfig(self).answers())
        self.adverts = Adverts(self)
        self.admission = Admission(admission_bounds(self.config))
        self.source = source
        self.exit_status = 0
        """What the process ends with when nothing went wrong; EXIT_FOR_GOOD: the master lets it be."""
        self.successor = ""
        """A program that is executed in the process's place when it ends; only the master looks at it."""
        self._started_with = self.config
        self._homes = UserHomes()
        self.runtime_values: dict[str, str] = {}
        """What `condor_config_val -rset` has set; it counts from the next reconfiguration on."""
        self._how: StopHow | None = None
        self._stop_changed = Signal()
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

    @cached_property
    def socket_path(self) -> Path:
        """The unix socket that this daemon listens on."""
        return self.run_dir / f"{self.sock}.sock"

    @property
    def sock(self) -> str:
        """What the daemon is called behind the host's shared port, and in RUN."""
        return sock_name(self.name, self.local_name)

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
        return str(Address.tcp(port.host, port.port, sock=self.sock, alias=port.alias))

    # ---- being a daemon

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer requests on the daemon's socket and, through the master, on the host's shared port."""
        listeners = [await self.world.network.listen(Address.unix(str(self.socket_path)))]
        if self.port_address:
            listeners.append(await self.world.network.listen_shared(str(self.run_dir), Address.parse(self.address)))
        publish(self.run_dir / f"{self.sock}.address", f"{self.address}\n{CONDOR_VERSION}\n{CONDOR_PLATFORM}\n")
        try:
            await endpoints.serve(
                self.service, listeners, security=self.security, admission=self.admission, task_status=task_status
            )
        finally:
            (self.run_dir / f"{self.sock}.address").unlink(missing_ok=True)

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
        from pool.ads.published_statistics import parse

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
            self._stop_changed.fire()

    @property
    def stop_how(self) -> StopHow | None:
        """How the daemon is to end; None while it is not."""
        return self._how

    async def stopping(self, at_least: StopHow = StopHow.PEACEFUL) -> StopHow:
        """Wait until the daemon is to end, at least as urgently as said; how it is to end."""
        await self._stop_changed.until(lambda: self._is_urgent(at_least))
        assert self._how is not None
        return self._how

    def _is_urgent(self, at_least: StopHow) -> bool:
        return self._how is not None and _URGENCY.index(self._how) >= _URGENCY.index(at_least)

    def install_language(self) -> None:
        """Let expressions know what the configuration gives them, and say what of that cannot be read."""
        for said in language.install(self.config, self.subsystem, self._homes):
            self.log.always(f"WARNING: ignoring {said}")

    def on_reconfigure(self, callback: Callable[[Config], None]) -> None:
        """Call back after each reconfiguration; `start.config` is the new one by then."""
        self._listeners_of_config.append(callback)

    def reconfigure(self) -> None:
        """Read the configuration again; ConfigError leaves the old one in force."""
        # All that can fail comes first: an error leaves the daemon as it was.
        config = self.source.load(self.subsystem, self.world.env, self.local_name).with_overrides(self.runtime_values)
        check_values(config)
        security = Security.from_config(config, self.subsystem)
        language.load(config)
        self.config = config
        self.reconfigured_at = self.world.wall()
        self.log.set_level(log_level(self.config, self.subsystem))
        self.log.times = log_times(self.config)
        self.security.renew(security)
        self.log.always("Reconfigured.")
        self.install_language()
        for doubt in doubts(self):
            self.log.always(doubt)
        for knob in waiting_for_restart(self._started_with, self.config, self.subsystem):
            self.log.always(
                f"{knob} was changed; it stays as it was until the {self.name} is started again "
                f"(condor_restart -{self.name})"
            )
        for callback in self._listeners_of_config:
            self._tell_of_config(callback)
        self.adverts.refresh()

    def _tell_of_config(self, callback: Callable[[Config], None]) -> None:
        """One part of the daemon that fails over the new configuration keeps no other from it."""
        try:
            callback(self.config)
        except PoolError:
            raise
        except Exception as error:
            self.log.error(f"A part of the {self.name} has failed over the new configuration: {error}", error)


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


def admission_bounds(config: Config) -> ConnectionBounds:
    """How many connections of whom this process takes."""
    return ConnectionBounds(
        strangers_max=config.int("MAX_UNAUTHENTICATED_CONNECTIONS"),
        user_max=config.int("MAX_CONNECTIONS_PER_USER"),
        calls_max=config.int("MAX_REQUESTS_PER_USER"),
        handshake_s=config.seconds("SEC_DEFAULT_AUTHENTICATION_TIMEOUT"),
        idle_s=config.seconds("CONNECTION_IDLE_TIMEOUT"),
    )


def doubts(start: DaemonStart) -> list[str]:
    """What is odd about the configuration; one daemon of the host says it, the one that is always there."""
    return [*start.config.warnings, *start.config.without_effect] if start.subsystem == "MASTER" else []


def load_main(name: str) -> DaemonMain:
    """The `main` of `daemons.<name>.main`."""
    main: DaemonMain = importlib.import_module(f"daemons.{name}.main").main
    return main
