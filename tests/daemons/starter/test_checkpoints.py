"""Checkpoints of one job between a real starter and a real agent; whole lives are in tests/whole/test_transfer.py."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import trio

from pool.jobs.vocabulary.endings import Ending
from protocol.messages.shadow import JobExecuting, JobUpdate

from .bench import bench

CHECKPOINTS = {
    "ShouldTransferFiles": "YES", "WantFTOnCheckpoint": True, "SuccessCheckpointExitCode": 85,
    "TransferCheckpoint": "state, more", "TransferOutput": "", "GlobalJobId": "here#1.0#7",
}  # fmt: skip
COUNT = 'n=$(cat state 2>/dev/null || echo 0); echo $n; mkdir -p more; echo $n > more/$n; echo $((n+1)) > state; [ "$n" = 2 ] || exit 85'


async def test_a_checkpoint_at_a_url_leaves_its_manifest_at_the_access_point() -> None:
    async with bench(agent=True, url_plugins=["/nowhere/curl_plugin"]) as b:
        job = b.job_ad(COUNT, CheckpointDestination=f"file://{b.iwd}/kept", **CHECKPOINTS)
        activation = await b.run(job, files=True, spool=True)
        end = await b.ended(activation)
        assert end.ending is Ending.EXITED, end.ad
        assert (b.iwd / "out").read_text() == "0\n1\n2\n"
        assert (b.iwd / "kept/here_1.0_7/0001/more/1").read_text() == "1\n"
        assert len([m for m in b.heard if isinstance(m, JobUpdate) and "CheckpointNumber" in m.ad]) == 2
        again = await b.ended(await b.run(job, files=True, spool=True))
        assert again.ending is Ending.EXITED
        assert (b.iwd / "out").read_text() == "0\n1\n2\n"


async def test_a_checkpoint_that_was_changed_is_not_gone_on_from_but_the_one_before_is() -> None:
    async with bench(agent=True) as b:
        job = b.job_ad(COUNT, **CHECKPOINTS)
        await b.ended(await b.run(job, files=True, spool=True))
        kept = sorted(path.name for path in (b.iwd / "spool").iterdir())
        assert kept == ["_condor_checkpoint_0000", "_condor_checkpoint_0001"]
        (b.iwd / "spool" / kept[1] / "more" / "1").write_text("forged\n")
        await b.ended(await b.run(job, files=True, spool=True))
        assert (b.iwd / "out").read_text() == "0\n1\n2\n"


async def test_a_checkpoint_without_its_files_holds_the_job() -> None:
    async with bench(agent=True) as b:
        job = b.job_ad("exit 85", **CHECKPOINTS)
        end = await b.ended(await b.run(job, files=True, spool=True))
        assert end.ending is Ending.HOLD
        assert end.ad["HoldReasonCode"] == 36
        assert "state" in (end.ad.eval_str("HoldReason") or "")


async def test_a_job_whose_slot_takes_no_other_leaves_after_its_checkpoint() -> None:
    async with bench(agent=True) as b:
        b.why_not = "the claim takes no more jobs"
        end = await b.ended(await b.run(b.job_ad(COUNT, **CHECKPOINTS), files=True, spool=True))
        assert (end.ending, end.reason) == (Ending.EVICTED, b.why_not)
        assert [path.name for path in (b.iwd / "spool").iterdir()] == ["_condor_checkpoint_0000"]
        b.why_not = ""
        end = await b.ended(await b.run(b.job_ad(COUNT, CheckpointNumber=0, **CHECKPOINTS), files=True, spool=True))
        assert (end.ending, (b.iwd / "out").read_text()) == (Ending.EXITED, "0\n1\n2\n")


async def test_a_job_that_is_told_to_leave_while_its_checkpoint_is_kept_has_not_ended() -> None:
    """Its exit code says only that it has made one."""
    async with bench(agent=True) as b:
        script = "echo 1 > state; mkdir more; while [ ! -e go ]; do sleep 0.05; done; exit 85"
        activation = await b.run(b.job_ad(script, **CHECKPOINTS), files=True, spool=True)
        executing = await b.until(JobExecuting, activation)
        assert b.agent_child is not None
        os.kill(b.agent_child.pid, signal.SIGSTOP)
        try:
            (Path(executing.ad.eval_str("CondorScratchDir")) / "go").touch()
            while os.path.exists(f"/proc/{executing.ad.eval_int('JobPid')}"):
                await trio.sleep(0.05)
            for _ in range(10):  # the starter goes on to its agent meanwhile, and waits for that
                await trio.sleep(0.05)
            await b.stop(activation)
        finally:
            os.kill(b.agent_child.pid, signal.SIGCONT)
        end = await b.ended(activation)
        assert (end.ending, end.ad.eval_int("ExitCode")) == (Ending.EVICTED, None)
        assert [path.name for path in (b.iwd / "spool").iterdir()] == ["_condor_checkpoint_0000"]
