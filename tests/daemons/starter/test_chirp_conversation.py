"""Bytes that follow a call are never read as calls, whatever becomes of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from daemons.starter.chirp.conversation import CHUNK_BYTES, STRIDED_BYTES_MAX, ChirpConversation
from daemons.starter.chirp.job import Said
from pool.base.errors import PeerError
from pool.execute.chirp import VERSION, ChirpError, Right


class Job:
    """A job whose file agent is lost at its first write."""

    rights = frozenset(Right)
    log = SimpleNamespace(full=lambda *_, **__: None)

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    async def ask_agent(self, operation: str, *texts: str, numbers: Any = (), data: bytes = b"") -> Said:
        await trio.lowlevel.checkpoint()
        if operation == "pwrite" and self._fails:
            raise PeerError("the file agent is lost")
        return Said(len(data))


@pytest.mark.parametrize(
    ("call", "size", "fails", "answers"),
    [
        (b"pwrite 0 %d 0", 2 * CHUNK_BYTES + 20, True, ChirpError.OFFLINE),
        (b"swrite 0 %d 0 33554432 33554432", STRIDED_BYTES_MAX + 20, False, STRIDED_BYTES_MAX),
    ],
)
async def test_what_follows_a_call_that_cannot_be_done_is_taken(
    call: bytes, size: int, fails: bool, answers: int
) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    conversation = ChirpConversation(theirs, Job(fails=fails), "word")  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(conversation.run)
        await ours.send_all(b"cookie word\nopen file w 0\n" + call % size + b"\n" + b"version\n" * (size // 8))
        await ours.send_all(b"x" * (size % 8) + b"version\n")
        said = b""
        with trio.fail_after(60):
            while said.count(b"\n") < 4:
                said += await ours.receive_some()
        assert said == b"0\n0\n%d\n%d\n" % (answers, VERSION)
        nursery.cancel_scope.cancel()
