"""What a starter does about a virtual machine, with a QEMU that only answers."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from daemons.host.processes import WatchedChild
from daemons.starter.launch.monitor import Monitor, MonitorError
from daemons.starter.launch.vm_body import Qemu, VmBody
from daemons.starter.report.result import HoldJob

TIMEOUT_S, STATUS_S = 300.0, 60.0
Answers = Callable[[str], Any]
"""What QEMU answers to a command; an error where it is one, and nothing at all for None."""


async def _speak(theirs: trio.SocketStream, answers: Answers, child: WatchedChild) -> None:
    heard = b""
    while piece := await theirs.receive_some():
        heard += piece
        *lines, heard = heard.split(b"\n")
        for line in lines:
            order = json.loads(line)
            said = answers(order["execute"])
            if said is not None:
                word = {"error": {"desc": said}} if isinstance(said, str) else {"return": said}
                await theirs.send_all(json.dumps({"id": order["id"], **word}).encode() + b"\n")
            if order["execute"] == "quit":
                child.ended.set()


@asynccontextmanager
async def a_guest(answers: Answers, **more: Any) -> AsyncIterator[tuple[VmBody, list[str]]]:
    """A virtual machine whose QEMU answers so; what the log says of it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    child, said = WatchedChild(4711), list[str]()
    log = SimpleNamespace(always=lambda text, **about: said.append(f"{text} {about.get('problem', '')}".strip()))

    async def end_all(_group: object) -> None:
        child.ended.set()

    context: Any = SimpleNamespace(processes=SimpleNamespace(end_all=end_all), group=None, log=log)
    stream, monitor = trio.SocketStream(trio.socket.from_stdlib_socket(theirs)), Monitor(ours, TIMEOUT_S)
    async with stream, trio.open_nursery() as nursery:
        nursery.start_soon(_speak, stream, answers, child)
        body = VmBody(Qemu(child, monitor), context, STATUS_S, more.get("again"))
        nursery.start_soon(body.attend)
        try:
            yield body, said
        finally:
            monitor.close()
            nursery.cancel_scope.cancel()


async def test_one_that_stands_still_for_want_of_disk_is_seen_and_held(autojump_clock: object) -> None:
    began = trio.current_time()
    async with a_guest(lambda _: {"status": "io-error"}) as (body, _):
        await body.watched.ended.wait()
        assert trio.current_time() - began == pytest.approx(STATUS_S, abs=1)
        with pytest.raises(HoldJob, match=r"stands still \(io-error\): its disk image can hold no more"):
            await body.outcome()


async def test_a_qemu_that_does_not_answer_is_given_up_after_its_time(autojump_clock: object) -> None:
    async with a_guest(lambda _: None) as (body, _):
        began = trio.current_time()
        with pytest.raises(MonitorError, match="QEMU has not answered to stop within 300 s"):
            await body.write_down()
        assert trio.current_time() - began == pytest.approx(TIMEOUT_S, abs=1)


async def test_one_whose_memory_cannot_be_written_keeps_it_while_it_is_suspended(autojump_clock: object) -> None:
    heard: list[str] = []

    def answers(command: str) -> Any:
        heard.append(command)
        return "no room" if command == "snapshot-save" else {}

    async with a_guest(answers, again=trio.sleep_forever) as (body, said):
        body.suspend()
        await trio.sleep(1)
        assert said == ["The suspended virtual machine keeps its memory no room"]
        body.resume()
        await trio.sleep(1)
        assert [command for command in heard if command != "query-status"] == ["stop", "snapshot-save", "cont"]
        assert not body.watched.ended.is_set()


async def test_one_that_cannot_be_taken_out_again_is_held(autojump_clock: object) -> None:
    async def again() -> Qemu:
        raise MonitorError("no such file")

    def answers(command: str) -> Any:
        return [] if command == "query-jobs" else {}

    async with a_guest(answers, again=again) as (body, said):
        body.suspend()
        await trio.sleep(1)
        assert said[0].startswith("The virtual machine is put away")
        assert not body.watched.ended.is_set(), "it is no end of the job"
        body.resume()
        await body.watched.ended.wait()
        with pytest.raises(HoldJob, match="cannot go on after it was suspended: no such file"):
            await body.outcome()
