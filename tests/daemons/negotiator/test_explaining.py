"""The negotiator says why a job gets no slot, over the real protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from pool.classad import ClassAd
from protocol.messages.explaining import Explained, ExplainJob
from tests.daemons.negotiator.test_negotiator import a_pool, a_schedd, a_slot, publish, wants
from tests.daemons.one_host import OneHost

Clock = trio.testing.MockClock


async def ask(host: OneHost, submitter: str = "alice@pool.test", schedd: str = "ap1", **job: object) -> Explained:
    ad = ClassAd({"Requirements": True, "RequestCpus": 1, **job})
    async with host.connected("negotiator") as peer:
        return await peer.call(ExplainJob(ad=ad, submitter=submitter, autocluster=1, schedd=schedd))


@pytest.mark.parametrize("slots", [3, 70])
async def test_a_limit_that_jobs_use_up_is_told_with_how_many_slots_suit(
    slots: int, tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_pool(tmp_path, LICENSE_LIMIT="1") as host, a_schedd(host) as schedd:
        await publish(host, *(a_slot(f"slot1@ep{number}") for number in range(slots)))
        await schedd.announce(wants(count=2, ConcurrencyLimits="license"))
        await schedd.until_offered(1)
        while (said := await ask(host, ConcurrencyLimits="license")).analysis.slots < slots:
            await trio.sleep(0.1)  # the collector tells of many slots in parts
        assert said.reasons == ["Concurrency limit license reached: 1 of 1 are in use."]
        assert (said.analysis.slots, said.analysis.willing) == (slots, slots)


async def test_a_job_that_no_cycle_has_seen_only_has_to_wait_for_one(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host:
        await publish(host, a_slot("slot1@ep1"))
        said = await ask(host)
        assert said.reasons == ["The last cycle did not see the job yet: it is only a matter of time until the next."]


async def test_schedds_that_number_a_users_jobs_alike_are_told_apart(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path, LICENSE_LIMIT="0") as host, a_schedd(host, "ap1") as schedd:
        await publish(host, a_slot("slot1@ep1"))
        while (await ask(host)).analysis.slots < 1:
            await trio.sleep(0.1)
        await schedd.announce(wants(ConcurrencyLimits="license"))
        await schedd.until_rejected()
        assert (await ask(host, schedd="ap1")).reasons == [
            "In the last cycle it got none: concurrency limit license reached: 0 of 0 are in use."
            " In the next one it should."
        ]
        assert "did not see the job yet" in (await ask(host, schedd="ap2")).reasons[0]
