"""Whoever learns a claim id or a claim's public id can do nothing with it that its own schedd, or its own startd, can."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pool.base.errors import PeerError
from pool.base.ids import ClaimId
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.offers import ClaimChange
from protocol.messages.startd import (
    CoalesceClaims,
    ContinueClaim,
    MatchMade,
    ReconnectClaim,
    SuspendClaim,
)
from protocol.rpc import endpoints
from protocol.rpc.endpoints import RemoteError
from protocol.rpc.service import Service
from protocol.security import needs
from protocol.security.credentials import Security
from protocol.security.identity import Certificate, Link
from protocol.security.settings import SecuritySettings
from protocol.security.ticket import Bearer
from protocol.wire.address import Address
from tests.daemons.schedd.bench import a_bench as a_schedds_bench
from tests.daemons.schedd.bench import a_job as a_queued_job
from tests.daemons.startd.schedd import Bench, FakeSchedd, Held, a_bench, a_job

Clock = trio.testing.MockClock


@asynccontextmanager
async def from_host(bench: Bench, name: str, *duties: str) -> AsyncGenerator[FakeSchedd, None]:
    """A schedd, or what says to be one, on another host with these duties."""
    here = bench.host.network
    host = here.network.host(name, duties=set(duties))
    service = Service("schedd", needs.SCHEDD_TO_STARTD)
    domain = here.network.trust_domain
    async with endpoints.connected(
        Address.tcp(here.name, 9618, sock="startd", alias=here.name),
        security=Security(SecuritySettings(trust_domain=domain, uid_domain=domain)),
        network=host,
        service=service,
    ) as peer:
        yield FakeSchedd(peer, f"schedd@{name}")


async def test_a_claim_id_works_for_the_schedd_that_used_it_first_alone(tmp_path: Path, autojump_clock: Clock) -> None:
    async with (
        a_bench(tmp_path) as bench,
        from_host(bench, "ap1", needs.SUBMIT) as schedd,
        from_host(bench, "ap2", needs.SUBMIT) as thief,
    ):
        held = await schedd.claim(await bench.offer())
        assert held.answer.granted, held.answer.reason
        assert (await schedd.run(held)).started
        running = await bench.until_running()
        await everything(thief, held)
        assert bench.farm.running("1.0") is running
        assert await bench.where(held.slot) == "Claimed/Busy"
        assert await schedd.alive(held) == [True]


async def everything(thief: FakeSchedd, held: Held) -> None:
    """Try what can be done with a claim id; nothing may come of it."""
    claim_id = held.claim_id
    lease = {"lease_s": 2400.0, "alive_interval_s": 300.0}
    stolen = FakeSchedd(thief.peer, "schedd@ap1")  # in the name of the schedd that holds it
    assert not (await thief.claim(claim_id)).answer.granted
    assert not (await stolen.claim(claim_id)).answer.granted
    assert not (await thief.run(held, a_job(Cmd="/bin/evil"))).started
    assert await thief.alive(held) == [False]
    for needs_id in (False, True):
        back = ReconnectClaim(digest=ClaimId(claim_id).digest(), needs_id=needs_id, **lease)
        answer = await thief.peer.call(back)
        assert (answer.held, answer.claim_id) == (False, "")
    await thief.peer.call(SuspendClaim(claim_id=claim_id))
    await thief.peer.call(ContinueClaim(claim_id=claim_id))
    await thief.stop(held)
    await thief.release(held)
    with pytest.raises(RemoteError):
        await thief.peer.call(CoalesceClaims(claim_ids=[claim_id], job_ad=a_job(), **lease))


async def test_nobody_but_a_submit_host_speaks_of_claims(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench, from_host(bench, "ap1", needs.SUBMIT) as schedd:
        offer, spare = (await bench.offers())[:2]
        held = await schedd.claim(offer)
        for duty in (needs.EXECUTE, needs.CENTRAL):
            async with from_host(bench, f"{duty}.host", duty) as thief:
                for attempt in (
                    lambda: thief.claim(spare),
                    lambda: thief.run(held),
                    lambda: thief.release(held),
                    lambda: thief.alive(held),
                ):
                    with pytest.raises(RemoteError, match="PERMISSION DENIED"):
                        await attempt()
        assert await schedd.alive(held) == [True]


async def test_matches_are_told_by_the_central_manager_alone(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, NUM_SLOTS="1", NUM_SLOTS_TYPE_1="1", SLOT_TYPE_1="100%") as bench:
        offer = await bench.offer()
        for duty in (needs.EXECUTE, needs.SUBMIT):
            async with from_host(bench, f"{duty}.host", duty) as thief:
                with pytest.raises(RemoteError, match="PERMISSION DENIED"):
                    await thief.peer.call(MatchMade(claim_ids=[offer]))


async def test_a_schedd_claims_in_its_own_name(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench, from_host(bench, "ap2", needs.SUBMIT) as thief:
        thief.name = "schedd@ap1"
        stolen = await thief.claim(await bench.offer())
        assert not stolen.answer.granted
        assert "does not belong" in stolen.answer.reason


async def test_a_startd_says_nothing_of_another_startds_claims(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_schedds_bench(tmp_path) as bench:
        one, broken = await bench.startd("one"), await bench.startd("broken")
        await bench.submit(a_queued_job(RunsFor=1000), {}, {})
        await bench.match(one)
        await bench.match(broken)
        await bench.until(lambda: bool(one.running) and bool(broken.running))
        mine, other = next(iter(broken.claims)), next(iter(one.claims))
        broken.peers[other] = broken.peers[mine]
        for change in (ClaimChange.RELEASED, ClaimChange.STARTER_GONE, ClaimChange.VACATING):
            await broken.tell(other, change, "so it is said", hold_code=3)
        await trio.sleep(60)
        assert await bench.statuses() == {JobStatus.RUNNING: 2}


async def test_a_claims_ticket_works_on_the_host_of_its_startd_alone(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_schedds_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_queued_job(RunsFor=1000))
        await bench.match(startd)
        await bench.until_status(running=1)
        (order,) = startd.orders
        here = bench.host.network
        thief = here.network.host("ex2", duties={needs.EXECUTE})
        for host in (thief, here.network.host("ap2", duties={needs.SUBMIT})):
            with pytest.raises(PeerError, match="not valid here"):
                async with endpoints.connected(
                    Address.tcp(here.name, 9618, sock="schedd", alias=here.name),
                    security=bench.host.security.with_ticket(order.ticket),
                    network=host,
                ):
                    pass
        await bench.until_status(running=1)


async def test_a_ticket_is_good_for_one_host_of_its_duty() -> None:
    bearer = Bearer(duty=needs.EXECUTE, host="ex1.pool.test")
    for host, duty, is_good in (
        ("ex1.pool.test", needs.EXECUTE, True),
        ("EX1.pool.test", needs.EXECUTE, True),
        ("ex2.pool.test", needs.EXECUTE, False),
        ("ex1.pool.test", needs.SUBMIT, False),
    ):
        certificate = Certificate(host=host, names=(host,), duties=frozenset({duty}))
        assert bearer.is_at(Link(kind="tls", certificate=certificate)) is is_good
