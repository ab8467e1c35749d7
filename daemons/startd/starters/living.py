"""One living starter, as its startd sees it: whose it is, what it is told, and whether it can still be used."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Final

import trio

from daemons.base.sync import Signal
from daemons.daemon_core.world import ChildProcess
from daemons.startd.starters.keepers import KeeperLine
from pool.classad import ClassAd
from pool.classad.eval.delta import Delta, delta
from protocol.messages.starter import LeaveNow, StarterSlot, WakeUp
from protocol.rpc import endpoints
from protocol.wire.message import Done, Request

ORDERS_MAX: Final = 256
"""Orders that a starter has not heard yet; one that has so many ahead of it hears nothing any more, and is killed."""


@dataclass(eq=False)
class LivingStarter:
    """One living starter. What it is told goes out in order."""

    process: ChildProcess
    execute: str
    """Where its sandbox is made."""
    has_rehearsed: bool = False
    """It did once what a job will have it do."""
    slot: StarterSlot | None = None
    """The slot that it works for; None while it waits for whichever needs one."""
    cpu_s: float = 0.0
    """The processor seconds that its jobs were last seen to have used."""
    peer: endpoints.Peer | None = None
    activation: str = ""
    """The job that it has been given, until it tells that nothing of it is left."""
    logged: str = ""
    """The job that the log says it has begun."""
    leaving: bool = False
    outdated: bool = False
    """The configuration has changed since it was made; a job that it has goes on."""
    line: KeeperLine | None = None
    """To its keeper, where it has one."""
    rests: bool = False
    """Its job is the keeper's, and there is no starter."""
    awake: Signal = field(default_factory=Signal)
    """Fired when a starter has taken the job over."""
    is_told: bool = False
    """An order is being sent."""
    gone: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self._told = ClassAd()
        self._orders, self.orders = trio.open_memory_channel[Request[Done]](ORDERS_MAX)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def slot_name(self) -> str:
        """The slot that it works for; empty for none."""
        return self.slot.name if self.slot is not None else ""

    @property
    def group(self) -> str:
        """Its jobs' control group; empty for none."""
        return self.slot.group if self.slot is not None else ""

    @property
    def usable(self) -> bool:
        """Whether it can be given a job."""
        stays = not self.leaving and not self.outdated and not self.gone.is_set()
        return stays and self.peer is not None and not self.peer.closed.is_set()

    def tell(self, order: Request[Done]) -> None:
        """Say something; it is sent after what was said before."""
        if self.gone.is_set():
            return
        try:
            self._orders.send_nowait(order)
        except trio.WouldBlock:  # it has not heeded any for a long time
            self.process.kill(signal.SIGKILL)

    @property
    def has_orders(self) -> bool:
        """Whether something is on its way to it."""
        return self.leaving or self.is_told or self._orders.statistics().current_buffer_used > 0

    def wake(self) -> None:
        """Have it there, if its keeper has the job."""
        if self.line is not None:
            self.tell(WakeUp())

    def news_of(self, slot: ClassAd) -> Delta:
        """What of its slot's ad it has not been told; with the job that is given to it next, it is."""
        before, self._told = self._told, slot.flat()
        return delta(before, self._told)

    def is_gone(self) -> None:
        """Its process has ended, and what it left is removed."""
        self.gone.set()
        self._orders.close()

    def leave(self) -> None:
        """The claim is over: the starter ends when nothing runs."""
        if not self.leaving:
            self.leaving = True
            self.tell(LeaveNow())
