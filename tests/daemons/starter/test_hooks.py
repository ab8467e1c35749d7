"""Hooks of running jobs, as real programs: changing, refusing, failing, hanging and garbage-printing ones."""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio

from daemons.base.linux import is_zombie
from daemons.host.tree import start_ticks
from daemons.startd.starters.leftovers import Trace, sweep
from pool.classad import ClassAd, parse_long
from pool.execute.cgroup import Trees
from pool.hooks.table import TIMEOUTS, Hook
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobExecuting, JobNotice
from protocol.messages.starter import LeaveNow, SuspendJob

from .bench import PATIENCE_S, Bench, bench, job_user

BEFORE, PREPARE, UPDATE, EXIT = (
    Hook.PREPARE_JOB_BEFORE_TRANSFER,
    Hook.PREPARE_JOB,
    Hook.UPDATE_JOB_INFO,
    Hook.JOB_EXIT,
)


class Scripts:
    """Hooks with the keyword MINE in a directory that only its owner may write to; they may write into `notes`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.notes = directory / "notes"
        self.rows: list[list[str]] = []
        directory.chmod(0o755)  # the job's account must get there
        self.notes.mkdir()
        self.notes.chmod(0o777)

    def add(
        self, hook: Hook, script: str, *arguments: str, timeout_s: float | None = None, keyword: str = "MINE"
    ) -> Path:
        path = self.directory / f"{keyword.lower()}_{hook.value.lower()}"
        path.write_text(f"#!/bin/sh\nnotes={self.notes}\n{script}\n")
        path.chmod(0o755)
        timeout_s = TIMEOUTS[hook] if timeout_s is None else timeout_s
        self.rows.append([keyword, hook.value, str(path), str(timeout_s), *arguments])
        return path

    async def note(self, name: str) -> str:
        """What a hook has written there: a shell makes the file first, and writes then."""
        path = self.notes / name
        with trio.fail_after(PATIENCE_S):
            while not path.exists() or not path.stat().st_size:
                await trio.sleep(0.01)
        return path.read_text()


@pytest.fixture
def scripts() -> Iterator[Scripts]:
    """Not below pytest's own directory, which is closed to the job's account."""
    with TemporaryDirectory(prefix="hooks-") as directory:
        yield Scripts(Path(directory))


def a_job(b: Bench, command: str = "true", **attributes: Any) -> ClassAd:
    return b.job_ad(command, HookKeyword="MINE", **attributes)


SAVE = "cat > $notes/{0}.new; mv $notes/{0}.new $notes/{0}"


async def test_a_prepare_hook_reads_the_job_and_changes_it(scripts: Scripts) -> None:
    scripts.add(
        PREPARE,
        SAVE.format("ad") + '\necho "$*" > $notes/args; id -un > $notes/user; pwd > $notes/pwd\n'
        'echo "$_CONDOR_SLOT $BATCH_SYSTEM" > $notes/env\necho \'Arguments = "-c \\"echo changed\\""\'',
        "one",
        "two words",
    )
    async with bench(hooks=scripts.rows) as b:
        end = await b.ended(await b.run(a_job(b, "echo plain", Arguments="-c 'echo plain'")))
        assert end.ending is Ending.EXITED, end.reason
        assert (b.iwd / "out").read_text() != "plain\n"
        assert parse_long(await scripts.note("ad")).eval_str("Arguments") == "-c 'echo plain'"
        assert await scripts.note("args") == "one two words\n"
        assert await scripts.note("user") == f"{pwd.getpwnam(job_user()).pw_name}\n"
        assert await scripts.note("pwd") == f"{b.sandbox}\n"
        assert await scripts.note("env") == "slot1_1 HTCondor\n"


async def test_a_prepare_hook_chooses_another_program(scripts: Scripts) -> None:
    program = scripts.directory / "chosen"
    program.write_text("#!/bin/sh\necho chosen $1\n")
    program.chmod(0o755)
    scripts.add(PREPARE, f"cat > /dev/null\necho 'Cmd = \"{program}\"'")
    async with bench(hooks=scripts.rows) as b:
        end = await b.ended(await b.run(a_job(b, Cmd="/no/such/program", Arguments="Hello", TransferExecutable=True)))
        assert end.ad.eval_int("ExitCode") == 0
        assert (b.iwd / "out").read_text() == "chosen Hello\n"


async def test_the_hook_before_transfer_runs_first_and_its_changes_last(scripts: Scripts) -> None:
    scripts.add(BEFORE, "echo before >> $notes/order\necho 'Mark = 1'")
    scripts.add(PREPARE, "echo prepare >> $notes/order; " + SAVE.format("ad"))
    async with bench(hooks=scripts.rows) as b:
        end = await b.ended(await b.run(a_job(b, "grep -c '^Mark = 1' $_CONDOR_JOB_AD")))
        assert end.ad.eval_int("ExitCode") == 0
        assert await scripts.note("order") == "before\nprepare\n"
        assert parse_long(await scripts.note("ad")).eval_int("Mark") == 1


@pytest.mark.parametrize("hook", [BEFORE, PREPARE])
@pytest.mark.parametrize(
    ("script", "ending", "subcode", "words"),
    [
        ("exit 2", Ending.HOLD, 2, "failed (exited with status 2): <no message>"),
        ("echo 'HookStatusCode = 1'", Ending.HOLD, 1, "reported status 001"),
        (
            "echo 'HookStatusCode = 299'; echo 'HookStatusMessage = \"no licence\"'",
            Ending.HOLD,
            299,
            "(reported status 299): no licence",
        ),
        ("echo 'HookStatusCode = 300'", Ending.FAILED, None, "reported status 300"),
        ("kill -9 $$", Ending.FAILED, None, "died on signal 9"),
        ("echo complete garbage", Ending.HOLD, 1, "its output is not an ad"),
        ("head -c 300000 /dev/urandom", Ending.HOLD, 1, "its output is not an ad"),
        ("exec sleep 1000", Ending.FAILED, None, "took longer than"),
    ],
)
async def test_a_prepare_hook_that_fails_keeps_the_job_from_running(
    scripts: Scripts, hook: Hook, script: str, ending: Ending, subcode: int | None, words: str
) -> None:
    scripts.add(hook, script, timeout_s=1 if "sleep" in script else None)
    async with bench(hooks=scripts.rows) as b:
        end = await b.ended(await b.run(a_job(b, f"touch {scripts.notes}/ran")))
        assert end.ending is ending
        assert words in end.reason
        if ending is Ending.HOLD:
            assert end.ad.eval_int("HoldReasonCode") == 19
            assert end.ad.eval_int("HoldReasonSubCode") == subcode
            assert hook.value in (end.ad.eval_str("HoldReason") or "")
        assert not (scripts.notes / "ran").exists()
        assert b.is_cleared


async def test_a_message_with_success_goes_to_the_log_and_the_job_runs(scripts: Scripts) -> None:
    scripts.add(PREPARE, "echo 'HookStatusMessage = \"slow disk\"'; exit 0")
    async with bench(hooks=scripts.rows) as b:
        activation = await b.run(a_job(b))
        notice = await b.until(JobNotice, activation)
        assert "succeeded (exited with status 0): slow disk" in notice.message
        assert (await b.ended(activation)).ad.eval_int("ExitCode") == 0


async def test_standard_error_goes_to_the_log(scripts: Scripts) -> None:
    scripts.add(PREPARE, "echo what I saw >&2")
    async with bench(hooks=scripts.rows) as b:
        await b.ended(await b.run(a_job(b)))
        assert "PREPARE_JOB (mine_prepare_job): what I saw" in b.log()


async def test_p6_a_starter_ends_what_a_hook_has_left_before_it_ends(scripts: Scripts) -> None:
    leave = 'env -i setsid sh -c "echo \\$\\$ > $notes/new; mv $notes/new $notes/pid; exec sleep 600" &'
    # The hook stays until it has left something: what is still of its session when it ends is ended with it.
    scripts.add(EXIT, f"{leave}\nuntil [ -e $notes/pid ]; do sleep 0.01; done")
    async with bench(hooks=scripts.rows) as b:
        await b.ended(await b.run(a_job(b)))
        left = int(await scripts.note("pid"))
        assert not is_zombie(left)
        assert b.startd is not None
        await b.startd.call(LeaveNow())
        assert await b.starter.wait() == 0
        assert is_zombie(left)


@pytest.mark.parametrize("where", ["directory", "file"])
async def test_a_hook_that_everybody_can_change_is_refused(scripts: Scripts, where: str) -> None:
    path = scripts.add(PREPARE, "echo 'Mark = 1'")
    (path if where == "file" else path.parent).chmod(0o777)
    async with bench(hooks=scripts.rows) as b:
        end = await b.ended(await b.run(a_job(b)))
        assert end.ending is Ending.HOLD
        assert end.ad.eval_int("HoldReasonCode") == 19
        assert "world-writable" in end.reason


async def test_a_hook_that_is_not_there_holds_the_job(scripts: Scripts) -> None:
    scripts.add(PREPARE, "true").unlink()
    async with bench(hooks=scripts.rows) as b:
        end = await b.ended(await b.run(a_job(b)))
        assert (end.ending, end.ad.eval_int("HoldReasonCode")) == (Ending.HOLD, 19)
        assert "No such file" in end.reason


async def test_the_update_hook_hears_how_the_job_is_again_and_again(scripts: Scripts) -> None:
    scripts.add(UPDATE, "n=$(ls $notes | grep -c '^update.*d$'); " + SAVE.format("update$n.ad"))
    async with bench(hooks=scripts.rows) as b:
        activation = await b.run(a_job(b, "sleep 1000"))
        executing = await b.until(JobExecuting, activation)
        first = parse_long(await scripts.note("update0.ad"))
        assert first.eval_str("JobState") == "Running"
        assert first.eval_int("JobPid") == executing.ad.eval_int("JobPid")
        assert all(name in first for name in ("NumPids", "JobStartDate", "RemoteSysCpu", "RemoteUserCpu", "ImageSize"))
        assert b.startd is not None
        await b.startd.call(SuspendJob(activation=activation))
        with trio.fail_after(PATIENCE_S):
            n = 1
            while parse_long(await scripts.note(f"update{n}.ad")).eval_str("JobState") != "Suspended":
                n += 1
        await b.stop(activation, StopHow.FAST)
        await b.ended(activation)


async def test_an_update_hook_goes_on_while_its_job_is_suspended(scripts: Scripts) -> None:
    scripts.add(UPDATE, "echo > $notes/begun; until [ -e $notes/go ]; do sleep 0.02; done; echo > $notes/done")
    async with bench(hooks=scripts.rows) as b:
        activation = await b.run(a_job(b, "sleep 1000"))
        await scripts.note("begun")
        assert b.startd is not None
        await b.startd.call(SuspendJob(activation=activation))
        (scripts.notes / "go").touch()
        await scripts.note("done")
        await b.stop(activation, StopHow.FAST)
        await b.ended(activation)


async def test_an_update_hook_that_hangs_holds_nobody_up_and_is_gone_with_its_job(scripts: Scripts) -> None:
    scripts.add(UPDATE, "echo $$ > $notes/pid; exec sleep 1000")
    async with bench(hooks=scripts.rows) as b:
        activation = await b.run(a_job(b, f"while [ ! -s {scripts.notes}/pid ]; do sleep 0.05; done"))
        assert (await b.ended(activation)).ending is Ending.EXITED
        assert not os.path.exists(f"/proc/{(scripts.notes / 'pid').read_text().strip()}")


@pytest.mark.parametrize(
    ("command", "attributes"),
    [
        ("exit 3", {"ExitBySignal": False, "ExitCode": 3, "ExitReason": "exited normally with status 3"}),
        ("kill -9 $$", {"ExitBySignal": True, "ExitSignal": 9, "ExitReason": "died on signal 9"}),
    ],
)
async def test_the_exit_hook_hears_how_the_job_ended(
    scripts: Scripts, command: str, attributes: dict[str, object]
) -> None:
    scripts.add(EXIT, 'echo "$*" > $notes/how; ' + SAVE.format("ad"))
    async with bench(hooks=scripts.rows) as b:
        await b.ended(await b.run(a_job(b, command)))
        assert await scripts.note("how") == "exit\n"
        ad = parse_long(await scripts.note("ad"))
        assert {name: ad.eval(name) for name in attributes} == attributes
        assert all(name in ad for name in ("JobDuration", "JobPid", "NumPids", "JobStartDate", "ImageSize"))


@pytest.mark.parametrize(("cause", "how"), [("hold", "hold"), ("remove", "remove"), ("", "evict")])
async def test_the_exit_hook_hears_why_the_job_was_ended(scripts: Scripts, cause: str, how: str) -> None:
    scripts.add(EXIT, 'echo "$*" > $notes/how.new; mv $notes/how.new $notes/how')
    async with bench(hooks=scripts.rows) as b:
        activation = await b.run(a_job(b, "sleep 1000"))
        await b.until(JobExecuting, activation)
        await b.stop(activation, reason="because", cause=cause)
        assert (await b.ended(activation)).ending is Ending.EVICTED
        assert await scripts.note("how") == f"{how}\n"


async def test_the_end_is_reported_after_the_exit_hook_and_however_long_it_hangs(scripts: Scripts) -> None:
    scripts.add(EXIT, "echo $$ > $notes/pid; exec sleep 1000", timeout_s=0.5)
    async with bench(hooks=scripts.rows) as b:
        assert (await b.ended(await b.run(a_job(b)))).ending is Ending.EXITED
        assert not os.path.exists(f"/proc/{(await scripts.note('pid')).strip()}")


async def test_a_job_whose_exit_hook_fails_has_ended_all_the_same(scripts: Scripts) -> None:
    scripts.add(EXIT, "echo garbage; echo trouble >&2; exit 9")
    async with bench(hooks=scripts.rows) as b:
        assert (await b.ended(await b.run(a_job(b, "exit 4")))).ad.eval_int("ExitCode") == 4
        assert "JOB_EXIT (mine_job_exit): trouble" in b.log()


async def test_a_job_that_is_told_to_leave_while_its_hook_runs_leaves(scripts: Scripts) -> None:
    scripts.add(PREPARE, "echo $$ > $notes/pid; exec sleep 1000")
    async with bench(hooks=scripts.rows) as b:
        activation = await b.run(a_job(b))
        pid = (await scripts.note("pid")).strip()
        await b.stop(activation, reason="because")
        assert (await b.ended(activation)).ending is Ending.EVICTED
        assert not os.path.exists(f"/proc/{pid}")


async def test_what_a_prepare_hook_has_started_serves_the_job_and_ends_with_it(scripts: Scripts) -> None:
    scripts.add(PREPARE, "sleep 1000 > /dev/null 2>&1 & echo $! > $notes/pid")
    async with bench(hooks=scripts.rows) as b:
        assert (await b.ended(await b.run(a_job(b)))).ending is Ending.EXITED
        assert not os.path.exists(f"/proc/{(await scripts.note('pid')).strip()}")


@pytest.mark.parametrize("hook", [BEFORE, PREPARE, UPDATE, EXIT])
async def test_p6_the_hooks_of_a_killed_starter_are_swept(scripts: Scripts, hook: Hook) -> None:
    scripts.add(hook, "echo $$ > $notes/pid.new; mv $notes/pid.new $notes/pid; exec sleep 1000", timeout_s=1000)
    async with bench(hooks=scripts.rows) as b:
        await b.run(a_job(b, "sleep 1000" if hook is UPDATE else "true"))
        pid = int(await scripts.note("pid"))
        trace = Trace(b.starter.pid, start_ticks(b.starter.pid), str(b.sandbox))
        b.starter.kill(signal.SIGKILL)
        await b.starter.wait()
        assert sweep(trace, Trees(0)) == []
        assert not os.path.exists(f"/proc/{pid}") or is_zombie(pid)
        assert not b.sandbox.exists()


@pytest.mark.parametrize(
    ("own", "forced", "default", "mark"),
    [
        ("MINE", "", "", "mine"),
        ("MINE", "OTHER", "", "other"),
        ("UNKNOWN", "", "OTHER", "other"),
        (None, "", "OTHER", "other"),
        (None, "", "", ""),
    ],
)
async def test_whose_hooks_run(scripts: Scripts, own: str | None, forced: str, default: str, mark: str) -> None:
    scripts.add(PREPARE, "echo 'Mark = \"mine\"'")
    scripts.add(PREPARE, "echo 'Mark = \"other\"'", keyword="OTHER")
    async with bench(hooks=scripts.rows, hook_keyword=forced, default_hook_keyword=default) as b:
        job = b.job_ad("sed -n 's/^Mark = //p' $_CONDOR_JOB_AD", **({"HookKeyword": own} if own else {}))
        await b.ended(await b.run(job))
        assert (b.iwd / "out").read_text() == (f'"{mark}"\n' if mark else "")
