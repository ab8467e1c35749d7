"""Makes starters: what they are born with, the fork, the first words, and the record of what each may leave behind.

A starter is born for an EXECUTE directory and for no slot: which one it works for, it hears with its first job. All
that is the same for the slots of one directory is packed once.
"""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import trio

from daemons.base.faults import fault
from daemons.base.pace import LoopTurns
from daemons.base.sync import first_of
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.daemon_core.world import ZygoteLike
from daemons.host.child_settings import starter_payload, starter_slot
from daemons.process.children import SpawnError
from daemons.startd.machine.settings import execute_directory
from daemons.startd.starters.keepers import FreeKeepers, KeeperLine, KeptStarter
from daemons.startd.starters.living import LivingStarter
from daemons.startd.starters.sweep import StarterPlace, StarterRecords
from pool.base.errors import PeerError, PoolError
from pool.config import Config
from pool.execute.scratch import Store
from protocol.messages.starter import HomesServer, ServeHomes, StarterSlot
from protocol.network.channel import Channel
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.remote import TimedOut
from protocol.rpc.service import Answer, Service
from protocol.security import needs
from protocol.security.identity import Link

ORDER_TIMEOUT_S: Final = 20.0
_NUMBER: Final = re.compile(r"[A-Za-z-]*(\d+)")


@dataclass(frozen=True)
class MachineParts:
    """What starters have to know of the machine."""

    memory_mb: int
    store: Store | None = None
    refused: Collection[str] = ()
    """Which namespaces it does not let even root have."""
    criu: str = ""
    """The program that makes checkpoints of jobs, where one can."""
    vm: Mapping[str, str] = field(default_factory=dict)
    """What runs virtual machines, packed; empty where nothing does."""


class Births:
    """The maker. `answers` is what a starter may say; `born` has it looked after from its fork on."""

    def __init__(
        self,
        start: DaemonStart,
        nursery: trio.Nursery,
        zygote: ZygoteLike,
        records: StarterRecords,
        machine: MachineParts,
        answers: Callable[[LivingStarter], list[Answer]],
        born: Callable[[LivingStarter], None],
    ) -> None:
        self._start = start
        self._nursery, self._tasks = nursery, Tasks(nursery, start.log)
        self._zygote = zygote
        self._records = records
        self._machine = machine
        self._answers = answers
        self._born = born
        self._turns = LoopTurns()
        self._settings = 0
        """How often they have changed."""
        self._configs: dict[str, Config] = {}
        self._payloads: dict[tuple[str, bool], bytes] = {}
        """By EXECUTE, as the configurations, and by whether it rehearses."""
        self.free_keepers = FreeKeepers()

    def forget_settings(self) -> None:
        """The configuration has changed: starters made from now on get the new one."""
        self._settings += 1
        self._payloads.clear()
        self._configs.clear()
        self.free_keepers.let_go()

    def run_vms_by(self, packed: Mapping[str, str]) -> None:
        """What runs virtual machines has changed: starters made from now on know."""
        self._machine = replace(self._machine, vm=packed)

    def execute_of(self, slot_name: str) -> str:
        """Where jobs of this slot have their sandboxes (`SLOT<N>_EXECUTE`, or EXECUTE)."""
        found = _NUMBER.match(slot_name)
        return execute_directory(self._start.config, int(found[1]) if found else 0)

    async def fork(self, execute: str, *, rehearses: bool = False) -> LivingStarter:
        """A starter that has spoken, and rehearsed before, by the configuration of now; SpawnError if there is none."""
        failed = False
        while True:
            await self._turns.next()
            settings = self._settings
            starter = await self._forked(execute, rehearses)
            process = starter.process
            fault("startd.starter_forked")
            try:
                await self._introduce(starter)
            except (PoolError, OSError, trio.BrokenResourceError) as error:
                process.kill(signal.SIGKILL)
                if failed:
                    raise SpawnError(f"the starter ended before it could speak: {error}") from None
                failed = True
                continue
            if settings == self._settings:
                return starter
            starter.leave()  # they have changed while it was made

    async def _forked(self, execute: str, rehearses: bool) -> LivingStarter:
        """A child of the zygote's; a keeper with a starter, where starters may rest."""
        payload = self._payload(execute, rehearses)
        if not self._start.config.seconds("STARTER_REST_AFTER"):
            return LivingStarter(await self._zygote.fork("starter", payload), execute, has_rehearsed=rehearses)
        if (kept := await self.free_keepers.starter(payload)) is not None:
            return LivingStarter(kept, execute, has_rehearsed=rehearses, line=kept.line)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                process = await self._zygote.fork("starter", payload, [theirs.fileno()])
            except BaseException:
                ours.close()
                raise
        kept = KeptStarter(process, process.channel, KeeperLine(ours), payload)
        return LivingStarter(kept, execute, has_rehearsed=rehearses, line=kept.line)

    async def serve_homes(self, starter: LivingStarter, _peer: Peer, asked: ServeHomes) -> HomesServer:
        """A process that serves the files of this starter's job; it ends with the starter, and nobody waits for it."""
        if asked.activation != starter.activation:
            raise PeerError("this starter has no such job")
        order = {"settings": self._payload(starter.execute, rehearses=False), "door": asked.door}
        process = await self._zygote.fork("homes", order)
        await process.channel.aclose()  # what it hears, it hears from the starter
        return HomesServer(pid=process.pid)

    def seat(self, starter: LivingStarter, slot_name: str) -> None:
        """The starter works for this slot from now on, and what it leaves can be found in the slot's group too."""
        starter.slot = self._slot(starter.execute, slot_name)
        self._records.write(starter.pid, StarterPlace(starter.execute, starter.group))

    async def _introduce(self, starter: LivingStarter) -> None:
        self._records.write(starter.pid, StarterPlace(starter.execute))
        self._born(starter)
        starter.peer = await self._open(starter, starter.process.channel)
        self._tasks.once(self._send_orders, starter)

    async def _open(self, starter: LivingStarter, stream: trio.abc.Stream) -> endpoints.Peer:
        service = Service("startd", needs.STARTD_TO_STARTER)
        service.offer(self._answers(starter))
        channel = Channel(stream, Link(kind="pair", label=f"starter {starter.pid}", verified=True))
        return await endpoints.open_pair(
            self._nursery, channel, parent=True, security=self._start.security, service=service
        )

    async def _send_orders(self, starter: LivingStarter) -> None:
        async for order in starter.orders:
            starter.is_told = True
            try:
                await self._have_awake(starter)
                assert starter.peer is not None
                # Nobody needs an answer: what a starter does not heed in time, its slot's deadlines kill it for, and an
                # order that is lost is lost with the starter.
                await starter.peer.notify(order)
            except (PoolError, OSError, trio.BrokenResourceError) as error:
                self._start.log.full(f"The starter {starter.pid} was not told: {error}")
            finally:
                starter.is_told = False

    async def _have_awake(self, starter: LivingStarter) -> None:
        """Nothing, unless the starter rests: then its keeper forks one, which has taken the job over after this."""
        if not starter.rests or starter.line is None:
            return
        awake = starter.awake.next()
        # Whoever says that it is awake is the one to speak to: the one that was about to rest may have stayed.
        try:
            await self._open(starter, await starter.line.call())
            if await first_of(awake, starter.gone, timeout_s=ORDER_TIMEOUT_S) is None:
                raise TimedOut(f"no starter has taken over from the keeper within {ORDER_TIMEOUT_S:g} s")
        except (PoolError, OSError, trio.BrokenResourceError):
            if starter.rests:  # nobody is there who would ever do what it was told
                starter.process.kill(signal.SIGKILL)
            raise

    def _payload(self, execute: str, rehearses: bool) -> bytes:
        key = execute, rehearses
        if key not in self._payloads:
            self._payloads[key] = starter_payload(
                self._config(execute),
                rehearses=rehearses,
                trees=self._records.trees,
                machine_memory_mb=self._machine.memory_mb,
                store=self._machine.store,
                refused=self._machine.refused,
                criu=self._machine.criu,
                vm=self._machine.vm,
            )
        return self._payloads[key]

    def _slot(self, execute: str, slot_name: str) -> StarterSlot:
        return starter_slot(self._config(execute), slot_name, self._records.trees)

    def _config(self, execute: str) -> Config:
        if execute not in self._configs:
            self._configs[execute] = self._start.config.with_overrides({"EXECUTE": execute})
        return self._configs[execute]
