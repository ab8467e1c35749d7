"""What the answers of prepare hooks mean, and what hooks read."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd
from pool.execute.exit import Exited
from pool.hooks.ads import Executed, ended_job, running_job
from pool.hooks.answers import Verdict, changed_by, job_and_slot, prepared
from pool.hooks.table import Hook, HookProgram

HOOK = HookProgram(Hook.PREPARE_JOB, "/opt/hooks/prep", (), 60)
GO, HOLD, IDLE = Verdict.GO, Verdict.HOLD, Verdict.IDLE


@pytest.mark.parametrize(
    ("status", "output", "verdict", "subcode", "message"),
    [
        (0, "", GO, 0, ""),
        (0, 'Cmd = "/bin/true"', GO, 0, ""),
        (1, "", HOLD, 1, "PREPARE_JOB (prep) failed (exited with status 1): <no message>"),
        (2, 'HookStatusMessage = "no disk"', HOLD, 2, "PREPARE_JOB (prep) failed (exited with status 2): no disk"),
        (0, "HookStatusCode = 1", HOLD, 1, "PREPARE_JOB (prep) failed (reported status 001): <no message>"),
        (0, "HookStatusCode = 299", HOLD, 299, "reported status 299"),
        (0, "HookStatusCode = 300", IDLE, 300, "reported status 300"),
        (0, "HookStatusCode = 4711", IDLE, 4711, "reported status 4711"),
        (3, "HookStatusCode = 0", GO, 0, ""),
        (3, "HookStatusCode = -1", HOLD, 3, "exited with status 3"),
        (-9, "", IDLE, -9, "died on signal 9"),
        (-15, "HookStatusCode = 0", IDLE, -15, "died on signal 15"),
        (0, 'HookStatusMessage = "slow disk"', GO, 0, "PREPARE_JOB (prep) succeeded (exited with status 0): slow disk"),
        (0, "this is garbage", HOLD, 1, "its output is not an ad"),
        (5, "this is garbage", HOLD, 5, "exited with status 5"),
    ],
)
def test_what_a_prepare_hooks_end_means(status: int, output: str, verdict: Verdict, subcode: int, message: str) -> None:
    answer = prepared(HOOK, status, output)
    assert (answer.verdict, answer.status) == (verdict, subcode)
    assert message in answer.message
    assert bool(message) == bool(answer.message)


def test_a_hook_that_takes_too_long_sends_the_job_elsewhere() -> None:
    answer = prepared(HOOK, -9, "", timed_out=True)
    assert answer.verdict is IDLE
    assert "took longer than 60 seconds" in answer.message


def test_updates_are_put_into_the_job_without_the_status() -> None:
    answer = prepared(
        HOOK, 0, 'Cmd = "/usr/java/java5/bin/java"\nHookStatusCode = 0\nHookStatusMessage = "x"\nA = 1 + 1\n'
    )
    job = changed_by(ClassAd({"Cmd": "java", "TransferExecutable": True, "B": 2}), answer.updates)
    assert job.eval_str("Cmd") == "/usr/java/java5/bin/java"
    assert job.eval_bool("TransferExecutable") is False
    assert (job.eval_int("A"), job.eval_int("B")) == (2, 2)
    assert "HookStatusCode" not in job
    assert "HookStatusMessage" not in job


def test_updates_that_leave_the_program_alone_leave_its_transfer_alone() -> None:
    job = changed_by(ClassAd({"Cmd": "java", "TransferExecutable": True}), ClassAd({"A": 1}))
    assert job.eval_bool("TransferExecutable") is True


def test_a_job_and_a_slot_are_parted_by_dashes() -> None:
    assert job_and_slot(ClassAd({"A": 1}), ClassAd({"B": 2})) == "A = 1\n-----\nB = 2\n"


def test_what_update_and_exit_hooks_read() -> None:
    job, usage = ClassAd({"Cmd": "/bin/x"}), ClassAd({"RemoteUserCpu": 1.5, "RemoteSysCpu": 0.5, "NumPids": 3})
    executed = Executed(42, 1000.0)
    running = running_job(job, usage, executed, "Running")
    assert {
        name: running.eval(name) for name in ("JobState", "JobPid", "NumPids", "JobStartDate", "RemoteUserCpu")
    } == {
        "JobState": "Running",
        "JobPid": 42,
        "NumPids": 3,
        "JobStartDate": 1000,
        "RemoteUserCpu": 1.5,
    }
    done = ended_job(job, usage, Executed(42, 1000.0, Exited(code=3)), 1010.0, "")
    assert (done.eval_int("ExitCode"), done.eval_bool("ExitBySignal")) == (3, False)
    assert done.eval_float("JobDuration") == 10.0
    assert done.eval_str("ExitReason") == "exited normally with status 3"
    killed = ended_job(job, usage, Executed(42, 1000.0, Exited(signal=9)), 1010.0, "The job was evicted")
    assert (killed.eval_int("ExitSignal"), killed.eval_bool("ExitBySignal")) == (9, True)
    assert killed.eval_str("ExitReason") == "The job was evicted"
