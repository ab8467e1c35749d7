"""A starter that has no job yet meets the schedd of its claim."""

from __future__ import annotations

from pool.classad import ClassAd
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.shadow import JobEnded
from protocol.messages.starter import KnowSlot, MeetSchedd
from protocol.security.authorize import Level
from protocol.security.ticket import digest_of
from tests.own_attributes import own

from .bench import ME, bench


async def test_a_starter_that_met_its_schedd_runs_the_claims_jobs_over_that_connection() -> None:
    async with bench() as b:
        assert b.startd is not None
        b.security.tickets.add(
            digest_of("secret-one"), identity="starter@test", levels=[Level.READ], bearer=ME, label="claim"
        )
        await b.startd.call(MeetSchedd(shadow_address=str(b.root / "schedd.sock"), ticket="secret-one"))
        for _ in range(2):
            assert (await b.ended(await b.run(b.job_ad("exit 0"), claim="one"))).ending is Ending.EXITED
        assert b.callers[0] is b.callers[1]


async def test_a_starter_whose_claim_was_refused_hangs_up() -> None:
    async with bench() as b:
        assert b.startd is not None
        b.security.tickets.add(
            digest_of("secret-one"), identity="starter@test", levels=[Level.READ], bearer=ME, label="claim"
        )
        await b.run(b.job_ad("exit 0"), claim="one")
        await b.until(JobEnded)
        await b.startd.notify(MeetSchedd())
        await b.callers[0].closed.wait()


async def test_a_starter_knows_of_its_slot_what_it_was_told_before_the_job() -> None:
    async with bench() as b:
        assert b.startd is not None
        slot = ClassAd({"Memory": 1, **own(Kept=1, Gone=2)})
        await b.startd.notify(KnowSlot(slot_ad=slot))
        await b.startd.notify(KnowSlot(slot_ad=ClassAd(), slot_lacks=["Gone"]))
        ad = "$_CONDOR_MACHINE_AD"
        script = f"grep -q Kept {ad} && ! grep -q Gone {ad} && grep -q 256 {ad}"
        ended = await b.ended(await b.run(b.job_ad(script)))
        assert (ended.ending, ended.ad["ExitCode"]) == (Ending.EXITED, 0)


async def test_a_schedd_that_cannot_be_met_costs_the_claims_first_job_nothing() -> None:
    async with bench() as b:
        assert b.startd is not None
        await b.startd.call(MeetSchedd(shadow_address=str(b.root / "nobody.sock"), ticket="nothing"))
        assert (await b.ended(await b.run(b.job_ad("exit 0")))).ending is Ending.EXITED


async def test_a_job_that_was_ordered_early_runs_as_the_schedd_then_tells_of_it() -> None:
    async with bench() as b:
        ad = "$_CONDOR_JOB_AD"
        script = f"grep -q ^Granted {ad} && ! grep -q ^Outdated {ad}"
        b.granted = b.job_ad(script, **own(Granted=1))
        ended = await b.ended(await b.run(b.job_ad("exit 3", **own(Outdated=1)), early=True))
        assert (ended.ending, ended.ad["ExitCode"]) == (Ending.EXITED, 0)
