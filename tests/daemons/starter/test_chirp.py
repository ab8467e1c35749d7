"""What a job, or whoever finds its port, says to its starter over chirp."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daemons.base.log import Log
from daemons.host.account import own_account
from daemons.starter.chirp.job import ChirpJob, ChirpRules
from daemons.starter.chirp.server import ChirpServer
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.execute.plan import CHIRP_CONFIG_NAME
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobExecuting
from protocol.messages.starter import RunJob, StarterSlot
from tests.daemons.starter.bench import Bench, bench

PATIENCE_S = 60.0


async def _job(b: Bench) -> str:
    job = b.job_ad("exec sleep 3600", WantIOProxy=True, ShouldTransferFiles="YES")
    activation = await b.run(job, files=True)
    await b.until(JobExecuting, activation)
    return activation


@asynccontextmanager
async def _connected(b: Bench) -> AsyncIterator[tuple[trio.SocketStream, bytes]]:
    """A connection to the job's starter, and the line that says whose it is."""
    host, port, cookie = (b.sandbox / ".chirp.config").read_text().split()
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        yield stream, f"cookie {cookie}".encode()


async def _said(stream: trio.SocketStream, line: bytes, *answers: bytes) -> None:
    """A line, and what comes back."""
    await stream.send_all(line + b"\n")
    expected, got = b"".join(answer + b"\n" for answer in answers), b""
    with trio.fail_after(PATIENCE_S):
        while len(got) < len(expected):
            piece = await stream.receive_some()
            assert piece, f"the starter hangs up after {got!r}"
            got += piece
    assert got == expected


@pytest.mark.parametrize("line", [b"\xff\xfe", b"cookie \xff", b"", b"cookie"])
async def test_p9_who_has_no_cookie_is_refused_whatever_it_says(line: bytes) -> None:
    async with bench(agent=True) as b:
        activation = await _job(b)
        async with _connected(b) as (stream, cookie):
            await _said(stream, line, b"-1")
            await _said(stream, cookie, b"0")
            await b.stop(activation, StopHow.FAST)
            assert (await b.ended(activation)).ending is Ending.EVICTED


HUGE = b"9" * 30


@pytest.mark.parametrize("line", [b"pread 0 5 " + HUGE, b"truncate name " + HUGE, b"fsync x"])
async def test_p9_a_number_that_is_none_is_an_invalid_request(line: bytes) -> None:
    async with bench(agent=True) as b:
        activation = await _job(b)
        (b.iwd / "name").write_text("words")
        (b.iwd / "name").chmod(0o666)
        async with _connected(b) as (stream, cookie):
            await _said(stream, cookie, b"0")
            await stream.send_all(b"open name r 0\n")
            assert (await stream.receive_some()).startswith(b"0\n")
            await _said(stream, line, b"-8")
            await _said(stream, b"close 0", b"0")
            await b.stop(activation, StopHow.FAST)
            assert (await b.ended(activation)).ending is Ending.EVICTED


async def test_a_connection_ends_with_its_job() -> None:
    async with bench(agent=True) as b:
        activation = await _job(b)
        async with _connected(b) as (stream, cookie):
            await _said(stream, cookie, b"0")
            await b.stop(activation, StopHow.FAST)
            with trio.fail_after(PATIENCE_S):
                assert await stream.receive_some() == b""


@pytest.mark.parametrize(
    "line",
    [b"ulog \xff", b"get_job_attr \xff", b"stat \xff", b'set_job_attr_delayed ChirpX "\xff"', b"\xff", b"open \0 r 0"],
)
async def test_p9_bytes_that_are_no_text_have_an_answer(line: bytes) -> None:
    async with bench(agent=True) as b:
        activation = await _job(b)
        async with _connected(b) as (stream, cookie):
            await _said(stream, cookie, b"0")
            await stream.send_all(line + b"\n")
            with trio.fail_after(PATIENCE_S):
                assert (await stream.receive_some()).endswith(b"\n")
            await _said(stream, b"nonsense", b"-8")
            await b.stop(activation, StopHow.FAST)
            assert (await b.ended(activation)).ending is Ending.EVICTED


async def test_a_connection_that_fails_costs_nobody_else_anything(tmp_path: Path) -> None:
    async def broken() -> None:
        raise KeyError("nobody has thought of this")

    log = Log(tmp_path / "StarterLog")
    slot, ad = StarterSlot(name="slot1_1@test"), ClassAd()
    request = RunJob(
        slot=slot, activation="one", job_id=JobId(1, 0), job_ad=ad, slot_ad=ad, shadow_address="schedd", ticket=""
    )
    agent: Any = None
    job = ChirpJob(request, ClassAd({"WantRemoteUpdates": True}), ChirpRules(), agent, broken, log)
    async with trio.open_nursery() as nursery:
        server = ChirpServer(nursery, log)
        with server.serving(job, str(tmp_path), own_account()):
            host, port, cookie = (tmp_path / CHIRP_CONFIG_NAME).read_text().split()
            for _ in range(2):
                async with await trio.open_tcp_stream(host, int(port)) as stream:
                    await _said(stream, f"cookie {cookie}".encode(), b"0")
                    await _said(stream, b"version", b"2")
                    await stream.send_all(b"get_job_attr Color\n")
                    with trio.fail_after(PATIENCE_S):
                        assert await stream.receive_some() == b""
        nursery.cancel_scope.cancel()
    log.close()
    assert "nobody has thought of this" in (tmp_path / "StarterLog").read_text()
