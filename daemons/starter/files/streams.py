"""Standard files that move while the job runs: stream_output and stream_error as it writes, stream_input as it reads.

The job writes to files in its sandbox, and what is new in them goes to the user's file agent now and then: each piece
with its place in the file, so that a piece that is sent twice does no harm. Its input comes through a pipe.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

import trio

from daemons.base.log import Log
from daemons.host.account import Account, acting_as
from daemons.starter.report.line import SharedConnection
from pool.base.errors import PeerError
from pool.classad import ClassAd
from pool.execute.plan import RunPlan
from pool.files.transfer import streamed_input, streamed_outputs
from protocol.messages.agent import ReadStream, WriteStream
from protocol.messages.starter import RunJob

PAUSE_S: Final = 0.5
PIECE_BYTES: Final = 256 * 1024
CALL_S: Final = 60.0
RETRY_S: Final = 1.0


@dataclass
class Streams:
    """One job's."""

    request: RunJob
    job: ClassAd
    sandbox: str
    account: Account
    line: SharedConnection
    log: Log
    _sent: dict[str, int] = field(default_factory=dict)
    _pipe: trio.lowlevel.FdStream | None = None

    def prepare(self, plan: RunPlan) -> None:
        """Make the pipe that the job reads its input from; this process holds both ends until all of it is written."""
        if streamed_input(self.job) is None or self._pipe is not None:
            return
        with acting_as(self.account):
            if not os.path.exists(plan.stdin):
                os.mkfifo(plan.stdin, 0o600)
            # For reading too: with one end alone the opening would wait for the job, and the job sees no end before we
            # close it.
            fd = os.open(plan.stdin, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._pipe = trio.lowlevel.FdStream(fd)

    async def run(self) -> None:
        """Move what there is to move, until cancelled."""
        async with trio.open_nursery() as nursery:
            if self._pipe is not None:
                nursery.start_soon(self._feed, self._pipe)
            if names := streamed_outputs(self.job):
                nursery.start_soon(self._send_now_and_then, names)

    async def finish(self) -> None:
        """The program has ended: what it wrote last goes too, however often that has to be tried."""
        self._close_pipe()
        for name in streamed_outputs(self.job):
            while True:
                try:
                    await self._send(name)
                    break
                except (PeerError, OSError) as error:
                    self.log.always("The last output does not reach the file agent yet", error=str(error))
                await trio.sleep(RETRY_S)

    # ---- output

    async def _send_now_and_then(self, names: list[str]) -> None:
        while True:
            try:
                for name in names:
                    await self._send(name)
            except (PeerError, OSError) as error:
                self.log.full(f"Output does not stream now: {error}")
            await trio.sleep(PAUSE_S)

    async def _send(self, name: str) -> None:
        """All that is new in one file; at first also nothing, so that it is there."""
        with acting_as(self.account):
            fd = os.open(os.path.join(self.sandbox, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while (data := os.pread(fd, PIECE_BYTES, self._sent.get(name, 0))) or name not in self._sent:
                at = self._sent.get(name, 0)
                peer = await self.line.peer(self.request.agent_address, self.request.agent_ticket)
                piece = WriteStream(
                    activation=self.request.activation, name=name, at=at, data=data, begins=name not in self._sent
                )
                await peer.call(piece, timeout=CALL_S)
                self._sent[name] = at + len(data)
        finally:
            os.close(fd)

    # ---- input

    async def _feed(self, pipe: trio.lowlevel.FdStream) -> None:
        """Write the input into the pipe as the job takes it; then the job sees its end."""
        at = 0
        while True:
            try:
                peer = await self.line.peer(self.request.agent_address, self.request.agent_ticket)
                request = ReadStream(activation=self.request.activation, at=at, size=PIECE_BYTES)
                data = (await peer.call(request, timeout=CALL_S)).data
            except (PeerError, OSError) as error:
                self.log.full(f"Input does not stream now: {error}")
                await trio.sleep(RETRY_S)
                continue
            if not data:
                self._close_pipe()
                return
            at += len(data)
            await pipe.send_all(data)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
