from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from daemons.starter.report.line import SharedConnection
from pool.base.errors import PeerError
from protocol.network.net import RealNetwork
from protocol.rpc import endpoints
from protocol.rpc.service import Service
from protocol.security.authorize import Level
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.security.ticket import Bearer, digest_of
from protocol.wire.address import Address

TICKET = "ticket"
ME = Bearer(uids=[os.getuid()])


@asynccontextmanager
async def line_to(path: Path) -> AsyncIterator[tuple[SharedConnection, str]]:
    """A line, and the address of somebody who answers there."""
    security = Security(SecuritySettings(uid_domain="test", trust_domain="test"))
    security.tickets.add(digest_of(TICKET), identity="starter@test", levels=[Level.READ], bearer=ME, label="claim")
    address = Address.unix(str(path / "sock"))
    listener = await RealNetwork().listen(address)
    async with trio.open_nursery() as nursery:
        await nursery.start(
            lambda task_status: endpoints.serve(Service("", {}), [listener], security=security, task_status=task_status)
        )
        yield SharedConnection(nursery, security, RealNetwork()), str(address)
        nursery.cancel_scope.cancel()


async def test_a_line_is_one_connection_until_it_is_lost(tmp_path: Path) -> None:
    async with line_to(tmp_path) as (line, address):
        first = await line.peer(address, TICKET)
        assert await line.peer(address, TICKET) is first
        first.abort("cut")
        await first.closed.wait()
        assert await line.peer(address, TICKET) is not first


async def test_what_was_left_in_the_middle_costs_the_connection(tmp_path: Path) -> None:
    async with line_to(tmp_path) as (line, address):
        async with line.held(address, TICKET) as first:
            pass
        assert await line.peer(address, TICKET) is first
        with pytest.raises(ValueError, match="half of a file"):
            async with line.held(address, TICKET):
                raise ValueError("half of a file")
        await first.closed.wait()
        assert await line.peer(address, TICKET) is not first


async def test_a_line_that_cannot_be_made_says_so_and_can_be_made_later(tmp_path: Path) -> None:
    async with line_to(tmp_path) as (line, address):
        with pytest.raises(PeerError):
            await line.peer(str(Address.unix(str(tmp_path / "nobody"))), TICKET)
        assert not (await line.peer(address, TICKET)).closed.is_set()
