"""The master: one per host. It owns the host's port, starts its daemons in order, and keeps them as they should be.

The collector starts first, since all others want to be known there, and daemons stop in the reverse order. Ready means
that each daemon of DAEMON_LIST has said that it is up; RUN/ready is there from then to the end. An order to the master
takes the place of an earlier one that still waits for the host to be drained. Whoever has no other parent left is
collected here.

Source: HTCondor's manual, "Master Daemon Configuration Options", condor_on, condor_off, condor_restart and
condor_set_shutdown.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import trio

from daemons.base import merging
from daemons.base.layout import publish
from daemons.base.linux import become_subreaper
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.master.drain import Drainage
from daemons.master.join import Admissions
from daemons.master.member import belong
from daemons.master.port import port_to_open, public_address
from daemons.master.preen import preen_now_and_then
from daemons.master.registrar import Registrar
from daemons.master.supervise import Keeper, stop_all
from daemons.process.orphans import reap_orphans
from pool.base.errors import ConfigError, UserError
from pool.classad import ClassAd
from pool.config import Config
from pool.config.listed_daemons import ListedDaemon, listed_daemons, start_place
from pool.hosts.daemon_names import daemon_name
from pool.hosts.supervision import ProcessState
from protocol.messages.common import StopHow
from protocol.messages.master import (
    DaemonsOff,
    DaemonsOn,
    DaemonStates,
    DrainFirst,
    GetDaemons,
    RestartDaemons,
    SetShutdown,
)
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done

ZYGOTE_KINDS: Final = {"daemon": "daemons.master.born:child_main"}


class Master:
    """The daemons of this host, and the orders about them."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._zygote = start.world.zygote(ZYGOTE_KINDS)
        self._keepers: dict[str, Keeper] = {}
        self._listed: dict[str, ListedDaemon] = {}
        self._ordered_off: set[str] = set()
        self._tasks: Tasks | None = None
        self._drainage = Drainage(start)
        start.on_reconfigure(self._reconfigured)

    @property
    def keepers(self) -> list[Keeper]:
        """All keepers, in the order in which their daemons start."""
        return [self._keepers[name] for name in sorted(self._listed, key=lambda name: start_place(self._listed[name]))]

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Start the daemons, and stay with them; started when all are up."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._zygote.run)
            self._tasks = Tasks(nursery, self._start.log)
            for daemon in listed_daemons(self._start.config):
                keeper = self._keeper(daemon)
                keeper.start()
                if daemon.kind == "collector":  # all others want to be known there
                    await keeper.until(ProcessState.RUNNING, ProcessState.BACKOFF, ProcessState.STOPPED)
            for keeper in self.keepers:
                await keeper.until(ProcessState.RUNNING, ProcessState.STOPPED)
            task_status.started()

    def _keeper(self, daemon: ListedDaemon) -> Keeper:
        start, name = self._start, daemon.name
        self._listed[name] = daemon
        if name not in self._keepers:
            self._keepers[name] = Keeper(
                name, self._zygote, self._payload, lambda: start.config, start.log, start.world.wall, self._at_work()
            )
        return self._keepers[name]

    def _at_work(self) -> Tasks:
        """Where daemons live; UserError before there can be any."""
        if self._tasks is None:
            raise UserError("the master does not start daemons yet", expected="to be asked again in a moment")
        return self._tasks

    def _payload(self, name: str) -> dict[str, object]:
        start = self._start
        return {
            "name": self._listed[name].kind,
            "local_name": self._listed[name].local_name,
            "source": start.source.packed(),
            "port_address": start.port_address,
            "family": start.security.settings.family,
        }

    # ---- orders

    def answers(self) -> list[Answer]:
        """What administrators order and ask about the host's daemons."""
        return [
            answer(DaemonsOff, self.off),
            answer(DaemonsOn, self.on),
            answer(RestartDaemons, self.restart),
            answer(DrainFirst, self.drain_first),
            answer(SetShutdown, self.set_shutdown),
            answer(GetDaemons, self.states),
        ]

    def _named(self, names: list[str]) -> list[Keeper]:
        """The keepers that are meant: all, when none is named. UserError lists what is there."""
        found = []
        for name in names:
            plain = name.lower().removeprefix("condor_")
            if plain == "master":
                continue
            if plain not in self._keepers:
                raise UserError(f"this host has no {plain}", expected=", ".join(self._keepers) or "no daemon at all")
            found.append(self._keepers[plain])
        return found if names else self.keepers

    async def off(self, peer: Peer, request: DaemonsOff) -> Done:
        """Stop daemons; answered when that has begun."""
        self._drainage.give_up()
        # In the reverse order of their start: the collector last, or the others' goodbyes would reach nobody.
        for keeper in reversed(self._named(request.daemons)):
            self._ordered_off.add(keeper.name)
            keeper.stop(request.how)
        return DONE

    async def on(self, peer: Peer, request: DaemonsOn) -> Done:
        """Start daemons."""
        self._drainage.give_up()
        named = {name.lower().removeprefix("condor_") for name in request.daemons}
        for daemon in listed_daemons(self._start.config):
            if not named or daemon.name in named:
                self._keeper(daemon)
        for keeper in self._named(request.daemons):
            self._ordered_off.discard(keeper.name)
            keeper.start()
        return DONE

    async def restart(self, peer: Peer, request: RestartDaemons) -> Done:
        """Stop and start daemons; with none named all of them, and the configuration is read again."""
        self._drainage.give_up()
        if not request.daemons:
            self._start.reconfigure()
        for keeper in self._named(request.daemons):
            self._ordered_off.discard(keeper.name)
            keeper.restart(request.how)
        return DONE

    async def drain_first(self, peer: Peer, request: DrainFirst) -> Done:
        """Let the jobs finish, then stop; answered when the startd drains."""
        then = {"off": DaemonsOff(), "restart": RestartDaemons(), "exit": None}
        if request.then not in then:
            raise UserError(f"{request.then!r} is nothing to do after a drain", expected=", ".join(then))
        tasks = self._at_work()

        async def carry_on() -> None:
            match then[request.then]:
                case DaemonsOff() as order:
                    await self.off(peer, order)
                case RestartDaemons() as order:
                    await self.restart(peer, order)
                case None:
                    self._start.stop(StopHow.GRACEFUL)

        return await self._drainage.begin(request, self._keepers.get("startd"), tasks, carry_on)

    async def set_shutdown(self, peer: Peer, request: SetShutdown) -> Done:
        """Note which program takes this process's place when it ends."""
        knob = f"MASTER_SHUTDOWN_{request.name.upper()}"
        program = self._start.config.str(knob, default="")
        if not program:
            raise UserError(f"{knob} is not set on this host")
        if not os.access(program, os.X_OK):
            raise UserError(f"{knob}: {program} cannot be executed")
        self._start.successor = program
        self._start.log.always(f"{program} will be executed when this master ends.", by=peer.identity)
        return DONE

    async def states(self, peer: Peer, request: GetDaemons) -> DaemonStates:
        """The daemons of this host."""
        return DaemonStates(daemons=[keeper.ad() for keeper in self.keepers])

    def _reconfigured(self, config: Config) -> None:
        if self._tasks is not None:  # else no daemon was started yet, and each will read what is there then
            self._tasks.once(self._follow, config)

    async def _follow(self, config: Config) -> None:
        """Bring the daemons in line with a new configuration; one that somebody has stopped stays stopped."""
        wanted = listed_daemons(config)
        self._ordered_off &= {daemon.name for daemon in wanted}
        for daemon in wanted:
            keeper = self._keeper(daemon)
            if keeper.state is not ProcessState.STOPPED:
                await keeper.reconfigure()
            elif keeper.name not in self._ordered_off:
                keeper.start()
        for keeper in self.keepers:
            if keeper.name not in {daemon.name for daemon in wanted}:
                keeper.stop(StopHow.GRACEFUL)

    # ---- the end

    async def stop(self) -> None:
        """Stop all daemons as `start.stop_how` says, which may grow more urgent meanwhile."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hurry)
            await stop_all(self.keepers, self._start.stop_how or StopHow.GRACEFUL)
            nursery.cancel_scope.cancel()

    async def _hurry(self) -> None:
        await self._start.stopping(StopHow.FAST)
        for keeper in self.keepers:
            keeper.stop(StopHow.FAST)

    def ad(self) -> ClassAd:
        """The master's own ad."""
        return ClassAd(
            {
                "MyType": "DaemonMaster",
                "Name": daemon_name(self._start.config.str("MASTER_NAME"), self._start.host),
                "DaemonList": ",".join(["master", *self._keepers]),
                "RealUid": os.getuid(),
                "DetectedCpus": os.cpu_count() or 1,
                "DetectedMemory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
                **{f"{keeper.name.capitalize()}State": keeper.state.value for keeper in self.keepers},
            }
        )


async def main(start: DaemonStart, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Keep this host's daemons running until told to stop."""
    become_subreaper()
    ready = start.run_dir / "ready"
    ready.unlink(missing_ok=True)
    master = Master(start)
    registrar = Registrar(start)
    start.service.offer(master.answers(), registrar.answers(), Admissions(start, registrar).answers())
    if start.config.bool("MERGE_EQUAL_MEMORY"):
        _merge_memory(start)
    async with trio.open_nursery() as nursery:
        if start.config.bool("USE_SHARED_PORT") and start.security.has_host_certificate:
            await _open_port(start, nursery)
        start.describe(master.ad)  # not before the port is known, or the first ad would lead to nobody
        await nursery.start(start.serve)
        tasks = Tasks(nursery, start.log)
        tasks.keep(start.adverts.run)
        tasks.keep(reap_orphans)
        tasks.keep(preen_now_and_then, start)
        if start.security.is_ca:
            tasks.keep(registrar.keep_own_certificate)
        elif start.security.has_host_certificate:
            tasks.keep(belong, start)
        nursery.start_soon(_announce, master, ready, start, task_status)
        await start.stopping()
        await master.stop()
        ready.unlink(missing_ok=True)
        nursery.cancel_scope.cancel()
    sweep_sockets(start.run_dir)


def _merge_memory(start: DaemonStart) -> None:
    try:
        merging.switch_on()
    except OSError as error:
        start.log.always(f"MERGE_EQUAL_MEMORY has no effect: {merging.SWITCH}: {error.strerror}")


async def _open_port(start: DaemonStart, nursery: trio.Nursery) -> None:
    """Be the host's shared port from now on; ConfigError when it is taken."""
    wanted = port_to_open(start.config)
    try:
        opened = await nursery.start(start.world.network.share_port, wanted, str(start.run_dir))
    except OSError as error:
        where = f"{wanted.host or '*'}:{wanted.port}"
        raise ConfigError(
            f"cannot listen at {where}: {error.strerror}", expected="a free SHARED_PORT_PORT (0: any)"
        ) from None
    start.port_address = str(public_address(start.config, opened))


async def _announce(master: Master, ready: Path, start: DaemonStart, task_status: trio.TaskStatus[None]) -> None:
    """Run the daemons; say so once all are up."""
    async with trio.open_nursery() as nursery:
        await nursery.start(master.run)
        if start.stop_how is None:
            _say_ready(ready, start)
            start.adverts.refresh()
        task_status.started()


def sweep_sockets(run: Path) -> None:
    """Remove what killed daemons, and file agents that may not write to RUN, have left there."""
    for leftover in (*run.glob("*.sock"), *run.glob("*.port"), *run.glob("*.address"), *run.glob("agents/*.sock")):
        leftover.unlink(missing_ok=True)


def _say_ready(ready: Path, start: DaemonStart) -> None:
    publish(ready, f"{start.address}\n")
