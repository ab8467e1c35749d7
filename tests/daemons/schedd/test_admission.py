"""Transforms of new jobs, and the requirements that they must meet, in a real schedd."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from pool.classad import ClassAd
from protocol.messages.schedd import Action
from protocol.messages.submit import SubmitJobs
from protocol.rpc.endpoints import RemoteError
from protocol.wire.codec import pack_ads
from tests.daemons.schedd.bench import LOG, USER, a_bench, a_job
from tests.daemons.schedd.test_factories import factories, submit

Clock = trio.testing.MockClock

GROUP = {
    "JOB_TRANSFORM_NAMES": "Group, Tag",
    "JOB_TRANSFORM_Group": 'REQUIREMENTS Wanted\nSET AccountingGroup "physics.$(MY.Owner)"\nSET Owner "root"',
    "JOB_TRANSFORM_Tag": "SET Requirements ($(MY.Requirements)) && TARGET.HasTag\nEVALSET Number ProcId + 1",
}
MEMORY = {
    "SUBMIT_REQUIREMENT_NAMES": "NotMuch, Little",
    "SUBMIT_REQUIREMENT_NotMuch": "TARGET.RequestMemory < 1000",
    "SUBMIT_REQUIREMENT_NotMuch_REASON": 'strcat("You asked for ", RequestMemory, " MB.")',
    "SUBMIT_REQUIREMENT_Little": "RequestMemory > 5",
    "SUBMIT_REQUIREMENT_Little_REASON": '"So little?"',
    "SUBMIT_REQUIREMENT_Little_IS_WARNING": "true",
}


async def test_new_jobs_go_through_the_transforms(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, **GROUP) as bench:
        await bench.submit(a_job(Wanted=True), {}, {"Wanted": False})
        await bench.submit(a_job())
        first, second, other = (await bench.ads()).values()
        assert (first["AccountingGroup"], first["Owner"], first["Number"]) == (f"physics.{USER}", USER, 1)
        assert first.text("Requirements").endswith("&& TARGET.HasTag")
        assert first.text("Requirements").count("HasTag") == 1
        assert second.eval_str("AccountingGroup") is None
        assert (second["Number"], second.text("Requirements")) == (2, first.text("Requirements"))
        assert "AccountingGroup" not in other
        await bench.restart()
        assert (await bench.ad("1.0"))["AccountingGroup"] == f"physics.{USER}"


async def test_what_a_transform_sets_holds_for_jobs_made_later(tmp_path: Path, autojump_clock: Clock) -> None:
    rules = {"JOB_TRANSFORM_NAMES": "A", "JOB_TRANSFORM_A": 'SET Args "by the site"\nSET Tag 1'}
    async with a_bench(tmp_path, **rules) as bench:
        await submit(bench, "max_materialize = 1\narguments = $(Process)\nqueue 3\n")
        await bench.act(Action.REMOVE, "1.0")
        await bench.until(lambda: bench.events("1.1") == [0])
        ad = await bench.ad("1.1")
        assert (ad["Args"], ad["Tag"]) == ("by the site", 1)
        assert set((await factories(bench))[0].eval_str("EditedClusterAttrs", "").split(",")) == {"Args", "Tag"}


async def test_one_refused_job_refuses_the_cluster(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, **MEMORY) as bench:
        with pytest.raises(RemoteError) as caught:
            await bench.submit(a_job(RequestMemory=10), {}, {"RequestMemory": 5000})
        assert "ERROR: You asked for 5000 MB." in str(caught.value)
        with pytest.raises(RemoteError, match="You asked for 5000"):
            await submit(bench, "max_materialize = 1\nrequest_memory = 5000\nqueue 3\n")
        assert await bench.ads() == {}
        assert bench.agents.logs.get(LOG, "") == ""


async def test_a_warning_is_told_and_logged_and_the_job_is_queued(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, **MEMORY) as bench:
        async with bench.connected() as peer:
            answer = await peer.call(SubmitJobs(cluster_ad=a_job(), procs=[pack_ads([ClassAd()])]))
        assert answer.warnings[-1] == "So little?"
        assert list(await bench.ads()) == ["1.0"]
        assert "with the following warning(s): So little?" in bench.agents.logs[LOG]


async def test_a_requirement_without_an_answer_refuses(tmp_path: Path, autojump_clock: Clock) -> None:
    rules = {"SUBMIT_REQUIREMENT_NAMES": "Odd", "SUBMIT_REQUIREMENT_Odd": "JOB.NoSuchThing"}
    async with a_bench(tmp_path, **rules) as bench:
        with pytest.raises(RemoteError, match="Submit requirement Odd evaluated to non-boolean"):
            await bench.submit(a_job())


async def test_rules_that_cannot_be_read_are_left_out(tmp_path: Path, autojump_clock: Clock) -> None:
    rules = {
        "JOB_TRANSFORM_NAMES": "Bad Missing",
        "JOB_TRANSFORM_Bad": "FROB x",
        "SUBMIT_REQUIREMENT_NAMES": "Bad",
        "SUBMIT_REQUIREMENT_Bad": "((",
    }
    async with a_bench(tmp_path, **rules) as bench:
        await bench.submit(a_job())
        log = (tmp_path / "log" / "SchedLog").read_text()
        for said in (
            "FROB is not a valid transform keyword",
            "JOB_TRANSFORM_Missing is not defined",
            "REQUIREMENT_Bad",
        ):
            assert said in log


async def test_a_map_says_whom_else_a_user_may_charge(tmp_path: Path, autojump_clock: Clock) -> None:
    rules = {
        "SCHEDD_CLASSAD_USER_MAP_NAMES": "Portals",
        "CLASSAD_USER_MAPDATA_Portals": f"* {USER} ann,bob",
        "ACCOUNTING_GROUP_USER_MAP": "Portals",
    }
    async with a_bench(tmp_path, **rules) as bench:
        await bench.submit(a_job(AccountingGroup="ann"), {}, {"AccountingGroup": "physics.bob"})
        assert [ad["AccountingGroup"] for ad in (await bench.ads()).values()] == ["ann", "physics.bob"]
        await bench.until(lambda: bench.announced is not None and len(bench.announced.requests) == 2)
        assert bench.announced is not None
        assert {one.submitter.partition("@")[0] for one in bench.announced.requests} == {"ann", "physics.bob"}
        with pytest.raises(RemoteError, match=f"{USER} may not charge eve"):
            await bench.submit(a_job(), {"AccountingGroup": "eve"})
        with pytest.raises(RemoteError, match="bin may not charge ann"):
            await bench.submit(a_job(AccountingGroup="ann"), user="bin")
    async with a_bench(tmp_path) as bench:
        assert {ad.eval_str("AccountingGroup") for ad in (await bench.ads()).values()} == {None}
