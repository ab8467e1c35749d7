"""The starter's line to its shadow task in the schedd: kept up, and made anew, until the job's lease runs out.

The connection is the claim's: one activation after another uses it, each saying first who is here, so that a schedd
that has given an execution up can refuse it. A schedd that restarts loses the connection but not the job (P5): the
starter tries again and again, says who it is, and repeats what was not acknowledged. Only when it has heard nothing for
a whole lease does it give up; then nobody waits for the job any more, and it has to end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from daemons.base.log import Log
from daemons.base.sync import Backoff, Signal
from daemons.starter.report.line import SharedConnection
from pool.base.errors import PeerError, PoolError
from pool.classad import ClassAd
from pool.slots.lease import ALIVE_INTERVAL_S, alive_interval
from protocol.messages.shadow import JobEnded, JobExecuting, JobNotice, JobUpdate, StarterReady, StarterRests
from protocol.messages.starter import RunJob
from protocol.rpc.endpoints import ConnectionLost, Peer, RemoteError, TimedOut
from protocol.wire.message import replace

FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
FIRST_CONTACT_S: Final = 60.0
PASSING_CODES: Final = frozenset({"internal", "busy"})


class ActivationRefused(PoolError):
    """The schedd does not want this activation (any more)."""


class ShadowLink:
    """One activation's use of its claim's line; `run` keeps that up."""

    def __init__(self, job: RunJob, line: SharedConnection, log: Log) -> None:
        self._job = job
        self._line = line
        self._log = log
        self._peer: Peer | None = None
        self._changed = Signal()
        self._executing: JobExecuting | None = None
        self._told = False
        self._patience = FIRST_CONTACT_S
        self._wants_job = job.early
        self.granted: ClassAd | None = None
        """The job as it is with this slot, where it was ordered before the schedd knew the slot."""
        self.over: str | None = None
        """Why nobody waits for the job any more, in words: the schedd has refused it, or the lease has run out."""

    # ---- keeping it

    async def run(self) -> None:
        """Connect, and connect again, until there is no point."""
        patience, heard_at = self._patience, trio.current_time()
        while True:
            peer: Peer | None = None
            try:
                with trio.move_on_at(heard_at + patience):
                    peer = await self._meet_again_and_again()
            except ActivationRefused as error:
                self._give_up(str(error))
                return
            if peer is None:
                self._give_up(f"heard nothing from the schedd for {patience:.0f} s")
                return
            self._set(peer)
            await peer.closed.wait()
            self._set(None)
            self._log.always("The connection to the schedd is lost", reason=peer.close_reason)
            # From the last word of the schedd on, not from the loss: the lease has been running since.
            patience, heard_at = self._job.lease_s, peer.heard_at

    async def _meet_again_and_again(self) -> Peer:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while (peer := await self._meet()) is None:
            await backoff.wait()
        return peer

    async def _meet(self) -> Peer | None:
        """Connect, if need be, and say who is here; None when it may work later."""
        job = self._job
        try:
            peer = await self._line.peer(job.shadow_address, job.ticket)
        except (PeerError, OSError) as error:
            self._log.always("Cannot reach the schedd", address=job.shadow_address, error=str(error))
            return None
        try:
            ready = StarterReady(job_id=job.job_id, activation=job.activation, wants_job=self._wants_job)
            said = await peer.call(ready)
            if self._wants_job:
                self._wants_job, self.granted = False, said.job_ad
            if self._executing is not None:  # also when it was told before: that schedd may have died of it
                await peer.call(self._executing)
                self._told = True
        except RemoteError as error:
            if error.code not in PASSING_CODES:
                raise ActivationRefused(str(error)) from None
            await peer.aclose()
            return None
        except (ConnectionLost, TimedOut):
            peer.abort("no answer")
            return None
        peer.may_rest(alive_interval(ALIVE_INTERVAL_S, job.lease_s))  # `run` counts the lease from its last word
        return peer

    def _set(self, peer: Peer | None) -> None:
        self._peer = peer
        self._changed.fire()

    def _give_up(self, reason: str) -> None:
        self._log.always("The activation is over for the schedd", activation=self._job.activation, reason=reason)
        self.over = reason
        self._set(None)

    # ---- speaking

    async def peer(self) -> Peer:
        """The connection, when there is one; Refused when there will be none."""
        while self._peer is None:
            if self.over is not None:
                raise ActivationRefused(self.over)
            await self._changed.wait()
        return self._peer

    def runs(self, message: JobExecuting) -> None:
        """The program was started; the schedd hears of it before it hears of the end, whatever comes between."""
        self._executing = message

    def goes_on(self, message: JobExecuting) -> None:
        """The program was started by another process, which has said so; the schedd is away no longer than a lease."""
        self._executing, self._told, self._patience = message, True, self._job.lease_s

    @property
    def told(self) -> JobExecuting | None:
        """What the schedd was told of the program's start."""
        return self._executing if self._told else None

    async def rests(self) -> bool:
        """Say that the starter leaves the job alone; whether the schedd knows that now."""
        if self._peer is None:
            return False
        try:
            await self._peer.call(StarterRests(job_id=self._job.job_id, activation=self._job.activation))
        except PeerError:  # an older one does not know the word
            return False
        return True

    async def rests_not(self) -> None:
        """It stays after all."""
        if self._peer is not None:
            with suppress(PeerError):
                await self._peer.call(StarterReady(job_id=self._job.job_id, activation=self._job.activation))

    async def say_that_it_runs(self) -> None:
        """Tell the schedd now, if there is a connection."""
        peer, message = self._peer, self._executing
        if peer is None or message is None or self._told:
            return
        try:
            await peer.call(message)
            self._told = True
        except (ConnectionLost, TimedOut):
            peer.abort("no answer")
        except RemoteError as error:
            self._told = True
            self._log.always("The schedd did not take that the job runs", error=str(error))

    async def update(self, message: JobUpdate) -> None:
        """Tell the usage, if anybody listens; the next update says it all again."""
        if self._peer is not None:
            try:
                await self._peer.notify(message)
            except PeerError:
                pass

    async def notice(self, message: JobNotice) -> None:
        """Say something to the job's user; it is lost when nobody listens."""
        if self._peer is not None:
            try:
                await self._peer.notify(message)
            except PeerError:
                pass

    async def ended(self, message: JobEnded) -> None:
        """Report until it is acknowledged. Refused when nobody wants to know."""
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            peer = await self.peer()
            try:
                await peer.call(message if self._told else replace(message, executing=self._executing))
                return
            except (ConnectionLost, TimedOut):
                peer.abort("no answer")
            except RemoteError as error:
                if error.code not in PASSING_CODES:
                    raise ActivationRefused(str(error)) from None
            await backoff.wait()
