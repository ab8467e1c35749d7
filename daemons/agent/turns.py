"""Turns in the access point's transfer queue, which the schedd keeps for all users: asked for before much is moved.

A turn belongs to a connection: when the starter, this agent or the schedd goes, so does the turn. What moves little
does not queue.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from pool.base.errors import PeerError
from protocol.messages.agent import InputTaken, TurnGiven, TurnTakenBack
from protocol.messages.schedd import AskTurn, EndTurn, TransferReport
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer

IDLE_S: Final = 10.0
REPORTED_BYTES_MIN: Final = 1 << 20
"""What is less than this is not worth a report."""


@dataclass
class TurnTransfer:
    """Files on their way under one turn, and what that costs."""

    activation: str
    upload: bool
    size: int
    peer: Peer
    """The starter's connection."""
    turn: str = ""
    """Empty where it needs none."""
    began: float = field(default_factory=trio.current_time)
    moved: int = 0
    file_s: float = 0.0
    _taken: trio.Event = field(default_factory=trio.Event)
    _reported: tuple[float, int, float] | None = None

    async def run_sync(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Read or write in a thread, and note how long that takes."""
        began = time.monotonic()
        result = await trio.to_thread.run_sync(fn, *args)
        self.file_s += time.monotonic() - began
        self.moved += _bytes_in(result, args)
        return result

    async def taken(self) -> None:
        """Wait until the starter has copied the files that it was given open."""
        self.peer.on_close(lambda _: self.copied())
        await self._taken.wait()
        self.moved = self.size

    def copied(self) -> None:
        """It has, or is gone."""
        self._taken.set()

    def report(self) -> dict[str, float]:
        """What has come since the last report."""
        now = trio.current_time()
        since, moved, file_s = self._reported or (self.began, 0, 0.0)
        self._reported = now, self.moved, self.file_s
        reading = self.file_s - file_s
        elsewhere = max(0.0, now - since - reading)
        if self.upload:
            return {"UploadBytes": self.moved - moved, "FileReadSeconds": reading, "NetWriteSeconds": elsewhere}
        return {"DownloadBytes": self.moved - moved, "FileWriteSeconds": reading, "NetReadSeconds": elsewhere}


def _bytes_in(result: Any, args: tuple[Any, ...]) -> int:
    """How many bytes a function has moved: those it has read, those it was given, or from where to where it copied."""
    if type(result) is tuple:
        result = result[0]
        if type(result) is int:
            return max(0, result - int(args[2]))
    if type(result) is bytes:
        return len(result)
    return len(args[1]) if len(args) > 1 and isinstance(args[1], bytes | memoryview) else 0


class AgentTurns:
    """What moves now. `schedd` is the connection to the schedd; without one (yet) nothing queues."""

    def __init__(self, nursery: trio.Nursery, *, small_bytes: int = 100_000_000, report_s: float = 10.0) -> None:
        self.schedd: Peer | None = None
        self._nursery = nursery
        self._small_bytes, self._report_s = small_bytes, report_s
        self._numbers = itertools.count(1)
        self._asked: dict[str, trio.Event] = {}
        self._transfers: dict[int, TurnTransfer] = {}
        self._began = trio.Event()

    def answers(self) -> list[Answer]:
        """What the schedd says of its queue."""
        return [answer(TurnGiven, self.given), answer(TurnTakenBack, self.taken_back)]

    async def take(self, peer: Peer, activation: str, *, upload: bool, size: int) -> TurnTransfer:
        """Wait for a turn. Whoever is cancelled meanwhile has none."""
        transfer = TurnTransfer(activation, upload, size, peer)
        # What is small is moved before the queue could be asked.
        if size > self._small_bytes and self.schedd is not None:
            await self._ask(self.schedd, transfer)
        # By identity: a connection may have two transfers of one activation at a time, one in each direction.
        self._transfers[id(transfer)] = transfer
        self._began.set()
        return transfer

    async def _ask(self, schedd: Peer, transfer: TurnTransfer) -> None:
        turn = transfer.turn = str(next(self._numbers))
        given = self._asked[turn] = trio.Event()
        request = AskTurn(turn=turn, activation=transfer.activation, upload=transfer.upload, size=transfer.size)
        try:
            await schedd.notify(request)
            await given.wait()
        except BaseException:
            self._say(EndTurn(turn=turn))
            raise
        finally:
            self._asked.pop(turn, None)
        transfer.began = trio.current_time()

    def give_back(self, transfer: TurnTransfer) -> None:
        """It is over."""
        if self._transfers.pop(id(transfer), None) is None:
            return
        self._report(transfer)
        if transfer.turn:
            self._say(EndTurn(turn=transfer.turn))

    def taken(self, peer: Peer, message: InputTaken) -> None:
        """A starter has copied its input."""
        for transfer in self._transfers.values():
            if transfer.peer is peer and transfer.upload and transfer.activation == message.activation:
                transfer.copied()

    # ---- from the schedd

    def given(self, _peer: Peer, message: TurnGiven) -> None:
        """It is the turn of one that asked. One that has given up meanwhile has said so."""
        if message.turn in self._asked:
            self._asked[message.turn].set()

    def taken_back(self, _peer: Peer, message: TurnTakenBack) -> None:
        """A turn is over before its files have moved: the starter comes again."""
        for transfer in list(self._transfers.values()):
            if transfer.turn == message.turn:
                # The connection is cut, not the transfer alone: the starter asks anew, and what has come is kept.
                transfer.peer.abort("the transfer has taken longer than MAX_TRANSFER_QUEUE_AGE while others wait")

    # ---- what it costs

    async def run(self) -> None:
        """Report what moves, now and then."""
        while True:
            await self._began.wait()
            await trio.sleep(self._report_s or IDLE_S)
            for transfer in list(self._transfers.values()):
                self._report(transfer)
            if not self._transfers:
                self._began = trio.Event()

    def _report(self, transfer: TurnTransfer) -> None:
        if self._report_s > 0 and transfer.moved >= REPORTED_BYTES_MIN:
            self._say(TransferReport(activation=transfer.activation, amounts=transfer.report()))

    def _say(self, message: EndTurn | TransferReport) -> None:
        if self.schedd is not None:
            self._nursery.start_soon(self._tell, self.schedd, message)

    @staticmethod
    async def _tell(schedd: Peer, message: EndTurn | TransferReport) -> None:
        try:
            await schedd.notify(message)
        except PeerError:  # the schedd is gone, and with it its queue
            return
