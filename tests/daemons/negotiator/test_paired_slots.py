"""Job suspension with paired slots: between two jobs of one kind, their owners' priorities decide."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from protocol.messages.negotiator import SetPriority
from tests.daemons.negotiator.test_negotiator import Clock, a_schedd, wants
from tests.daemons.startd.policy_case import CASES, Case
from tests.daemons.startd.schedd import a_bench, a_job

PRIORITIES = "\nPREEMPTION_REQUIREMENTS = RemoteUserPrio > SubmitterUserPrio * 1.2\nNEGOTIATOR_INTERVAL = 20\n"


@pytest.mark.parametrize("suspendable", [True, False])
@pytest.mark.parametrize("better", [True, False])
async def test_the_better_users_job_has_the_slot_of_its_kind(
    tmp_path: Path, autojump_clock: Clock, suspendable: bool, better: bool
) -> None:
    policy = tmp_path / "policy"
    policy.write_text(Case.read(CASES / "paired_slots.policy").machine() + PRIORITIES)
    slot = "slot2" if suspendable else "slot1"
    async with a_bench(tmp_path, files=(str(policy),), only_files=True) as bench, bench.schedd() as holder:
        await bench.host.start("negotiator")
        async with bench.host.connected("negotiator") as admin:
            for user, factor in (("alice@pool.test", 1000.0), ("bob@pool.test", 1.0 if better else 1e6)):
                await admin.call(SetPriority(submitter=user, attribute="PriorityFactor", value=factor))
        first = await bench.offer(slot)
        held = await holder.claim(first, a_job(IsSuspendableJob=suspendable))
        assert (await holder.run(held)).started
        await bench.until("Claimed/Busy", slot)
        async with a_schedd(bench.host) as schedd:
            await schedd.announce(wants("bob@pool.test", IsSuspendableJob=suspendable))
            if better:
                (claim,) = await schedd.until_offered(1)
                assert (await holder.claim(claim, a_job(Owner="bob", IsSuspendableJob=suspendable))).answer.granted
                assert await bench.where(slot) == "Claimed/Idle"
            else:
                await schedd.until_rejected()
                await trio.sleep(60)
                assert schedd.offers == []
                assert await bench.where(slot) == "Claimed/Busy"
