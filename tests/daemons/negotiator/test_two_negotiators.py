"""Two central managers: one negotiator leads, the other stands by, with links and hosts that fail, in virtual time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from pool.base.errors import PoolError
from protocol.messages.negotiator import GetPriorities, SetPriority
from tests.daemons.one_host import OneHost, one_host
from tests.fakes.network import FakeNetwork

NAMES = ("cm1.pool.test", "cm2.pool.test")
LIST = ", ".join(NAMES)
BOB = "bob@pool.test"


class Pool:
    """Two central managers and an access point."""

    def __init__(self, network: FakeNetwork, cms: list[OneHost], ap: OneHost) -> None:
        self.network, self.cms, self.ap = network, cms, ap

    def log(self, rank: int) -> str:
        return (self.cms[rank].directory / "log" / "NegotiatorLog").read_text()

    def served(self) -> list[int]:
        """The terms of the negotiators that the schedd has leased to, in order."""
        text = (self.ap.directory / "log" / "SchedLog").read_text()
        return [int(term) for term in re.findall(r"Leases to a negotiator.*term=(\d+)", text)]

    async def until_leased(self, terms: int) -> int:
        """The virtual seconds until the schedd has leased in so many different terms."""
        began = trio.current_time()
        await until(lambda: len(set(self.served())) >= terms)
        return round(trio.current_time() - began)

    async def crash(self, rank: int) -> None:
        for name in ("negotiator", "collector"):
            await self.cms[rank].kill(name)

    async def start(self, rank: int) -> None:
        for name in ("collector", "negotiator"):
            await self.cms[rank].start(name)


async def until(condition: Callable[[], object], deadline_s: float = 120) -> None:
    with trio.fail_after(deadline_s):
        while not condition():
            await trio.sleep(0.1)


@asynccontextmanager
async def a_pool(path: Path, **knobs: str) -> AsyncIterator[Pool]:
    network = FakeNetwork()
    there = {"COLLECTOR_HOST": LIST, "HAD_LIST": LIST, **knobs}
    async with AsyncExitStack() as stack:
        cms = [
            await stack.enter_async_context(
                one_host(
                    path / name,
                    network.host(name, duties={"central"}),
                    overrides={**there, "DAEMON_LIST": "MASTER COLLECTOR NEGOTIATOR HAD REPLICATION"},
                )
            )
            for name in NAMES
        ]
        host = network.host("ap.pool.test", duties={"submit"})
        overrides = {"COLLECTOR_HOST": LIST, "DAEMON_LIST": "MASTER SCHEDD"}
        ap = await stack.enter_async_context(one_host(path / "ap", host, overrides=overrides))
        pool = Pool(network, cms, ap)
        for rank in (0, 1):
            await pool.start(rank)
        await ap.start("schedd")
        await pool.until_leased(1)
        yield pool


async def set_factor(pool: Pool, rank: int, value: float) -> None:
    async with pool.cms[rank].connected("negotiator") as peer:
        await peer.call(SetPriority(submitter=BOB, attribute="PriorityFactor", value=value))


async def factor(pool: Pool, rank: int) -> float | None:
    async with pool.cms[rank].connected("negotiator") as peer:
        ads = (await peer.call(GetPriorities())).submitters
    return next((ad.eval_float("PriorityFactor") for ad in ads if ad.eval_str("Name") == BOB), None)


async def until_known(pool: Pool, rank: int, value: float) -> None:
    with trio.fail_after(60):
        while await factor(pool, rank) != value:
            await trio.sleep(0.5)


async def test_the_second_takes_over_with_the_accounts_and_keeps_the_lead(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with a_pool(tmp_path) as pool:
        await set_factor(pool, 0, 7.0)
        with pytest.raises(PoolError, match="stands by"):
            await set_factor(pool, 1, 8.0)
        await until_known(pool, 1, 7.0)
        assert [ad["Name"] for ad in await pool.cms[1].until_known("Negotiator")] == [NAMES[0]]
        assert [ad["Name"] for ad in await pool.cms[0].until_known("HAD")] == [NAMES[1]]
        await pool.crash(0)
        assert await pool.until_leased(2) <= 60
        await until_known(pool, 1, 7.0)
        assert [ad["Name"] for ad in await pool.cms[1].until_known("Negotiator")] == [NAMES[1]]
        await set_factor(pool, 1, 9.0)
        await pool.start(0)
        await until_known(pool, 0, 9.0)
        await trio.sleep(100)
        assert len(set(pool.served())) == 2
        assert pool.served() == sorted(pool.served())


async def test_the_primary_gets_the_lead_back_where_that_is_configured(tmp_path: Path, autojump_clock: object) -> None:
    async with a_pool(tmp_path, HAD_USE_PRIMARY="true") as pool:
        await pool.crash(0)
        await pool.until_leased(2)
        await set_factor(pool, 1, 9.0)
        await pool.start(0)
        assert await pool.until_leased(3) <= 60
        assert await factor(pool, 0) == 9.0
        await set_factor(pool, 0, 10.0)
        assert pool.served() == sorted(pool.served())


async def test_central_managers_that_do_not_hear_each_other_do_not_both_negotiate(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with a_pool(tmp_path) as pool:
        pool.network.cut(*NAMES)
        await trio.sleep(300)
        assert "Refuses its lease." in (pool.ap.directory / "log" / "SchedLog").read_text()
        assert len(set(pool.served())) == 1
        assert re.findall(r"Leads\.", pool.log(1)) == []
        pool.network.heal(*NAMES)
        pool.network.cut(NAMES[0])  # from everybody
        assert await pool.until_leased(2) <= 60
        pool.network.heal(NAMES[0])
        await until(lambda: "Stands by." in pool.log(0))
        await trio.sleep(60)
        assert len(set(pool.served())) == 2


async def test_a_schedd_that_is_killed_keeps_its_lease(tmp_path: Path, autojump_clock: object) -> None:
    async with a_pool(tmp_path) as pool:
        pool.network.cut(*NAMES)
        await trio.sleep(30)
        for _ in range(20):
            await pool.ap.kill("schedd")
            await trio.sleep(pool.ap.world.rng.uniform(0, 3))
            await pool.ap.start("schedd")
            await trio.sleep(pool.ap.world.rng.uniform(0, 3))
        assert len(set(pool.served())) == 1
        assert re.findall(r"Leads\.", pool.log(1)) == []
        await pool.crash(0)
        await pool.ap.kill("schedd")
        await pool.ap.start("schedd")
        assert await pool.until_leased(2) <= 30  # what it has promised is over some time


async def test_negotiators_of_one_local_name_stand_in_for_each_other(tmp_path: Path, autojump_clock: object) -> None:
    async with a_pool(tmp_path) as pool:
        for cm in pool.cms:
            await cm.start("negotiator", local_name="FAST")

        async def leaders() -> set[str]:
            return {ad.eval_str("Name", "") for ad in await pool.cms[1].query("Negotiator")}

        with trio.fail_after(120):
            while await leaders() != {NAMES[0], f"FAST@{NAMES[0]}"}:
                await trio.sleep(0.5)
        await pool.cms[0].kill("FAST")
        with trio.fail_after(120):
            while await leaders() != {NAMES[0], f"FAST@{NAMES[1]}"}:
                await trio.sleep(0.5)
        await trio.sleep(100)
        fast = (pool.cms[1].directory / "log" / "FASTLog").read_text()
        assert (len(re.findall(r"Leads\.", fast)), re.findall(r"Leads\.", pool.log(1))) == (1, [])
