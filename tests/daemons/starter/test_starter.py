from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
import trio

from daemons.base.linux import is_zombie
from daemons.host.tree import start_ticks
from daemons.startd.starters.leftovers import Trace, sweep
from pool.base.ids import JobId
from pool.classad import ClassAd, parse_long
from pool.execute.cgroup import Trees
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobEnded, JobExecuting, JobUpdate, StarterReady
from protocol.messages.starter import ActivationOver, ContinueJob, LeaveNow, RunJob, SuspendJob
from protocol.rpc.endpoints import RemoteError
from protocol.wire.message import replace

from .bench import Bench, bench, group_settings, trees_of


async def test_a_job_runs_where_its_files_are_and_its_end_is_reported() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad("echo hello; echo oops >&2; exit 3"))
        end = await b.ended(activation)
        assert end.ending is Ending.EXITED
        assert end.ad.eval_int("ExitCode") == 3
        assert (b.iwd / "out").read_text() == "hello\n"
        assert (b.iwd / "err").read_text() == "oops\n"
        kinds = [type(m) for m in b.heard]
        assert kinds.index(StarterReady) < kinds.index(JobEnded)
        assert JobExecuting in kinds or end.executing is not None
        assert b.is_cleared


async def test_a_starter_runs_one_job_after_another() -> None:
    async with bench(**group_settings("one-after-another")) as b:
        for number in range(3):
            end = await b.ended(await b.run(b.job_ad(f"exit {number}")))
            assert end.ad.eval_int("ExitCode") == number


async def test_the_jobs_of_a_claim_share_its_connection_to_the_schedd() -> None:
    async with bench() as b:
        for _ in range(2):
            await b.ended(await b.run(b.job_ad("exit 0"), claim="one"))
        await b.ended(await b.run(b.job_ad("exit 0"), claim="other"))
        assert b.callers[0] is b.callers[1]
        assert b.callers[1] is not b.callers[2]


async def test_the_next_job_of_a_claim_whose_connection_was_lost_makes_another() -> None:
    async with bench() as b:
        await b.ended(await b.run(b.job_ad("exit 0"), claim="one"))
        b.callers[0].abort("cut")
        end = await b.ended(await b.run(b.job_ad("exit 7"), claim="one"))
        assert end.ad.eval_int("ExitCode") == 7
        assert b.callers[0] is not b.callers[-1]


async def test_the_job_is_told_where_it_is() -> None:
    async with bench() as b:
        command = (
            "echo $_CONDOR_SLOT $BATCH_SYSTEM $_CONDOR_SCRATCH_DIR; grep -c ^Cmd $_CONDOR_JOB_AD; pwd; id -u; umask"
        )
        end = await b.ended(await b.run(b.job_ad(command)))
        assert end.ad.eval_int("ExitCode") == 0
        lines = (b.iwd / "out").read_text().split("\n")
        assert lines[0] == f"slot1_1 HTCondor {b.sandbox}"
        assert lines[1:3] == ["1", str(b.iwd)]
        assert (lines[3] == "0") is False
        assert lines[4] == "0022"


async def test_a_job_has_nothing_of_its_starters() -> None:
    show = (
        "import os, signal, socket\n"
        "print(sorted(int(f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)))\n"
        "print([s for s in range(1, 65) if s not in (9, 19, 32, 33) and signal.getsignal(s) is signal.SIG_IGN"
        " and s not in (13, 25)])\n"
        "status = dict(l.split(':', 1) for l in open('/proc/self/status'))\n"
        "print(status['SigBlk'].strip(), status['Groups'].split(), status['Uid'].split(), status['CapEff'].strip())\n"
        "print(os.getsid(0) == os.getpid() or os.getsid(0) == os.getppid())\n"
        # 13 and 25 are Python's own; 32 and 33 are glibc's, which its posix_spawn leaves ignored (make uses that)
        "print(int(status['SigIgn'], 16) & ~((1 << 12) | (1 << 24) | (0b11 << 31)))\n"
    )
    async with bench() as b:
        job = b.job_ad(Arguments="'-I' '-c' '" + show.replace("'", "''") + "'", Cmd="/usr/bin/python3")
        end = await b.ended(await b.run(job))
        assert end.ad.eval_int("ExitCode") == 0, (b.iwd / "err").read_text()
        out = (b.iwd / "out").read_text().split("\n")
        assert out[0] == "[0, 1, 2]"
        assert out[1] == "[]"
        words = out[2].split(" ", 1)
        assert int(words[0], 16) & ~(0b11 << 31) == 0
        if os.getuid() == 0:
            assert "'0'" not in words[1]
            assert words[1].endswith("0000000000000000")
        assert out[3] == "True"
        assert out[4] == "0"


@pytest.mark.parametrize(
    ("attributes", "code", "subcode", "words"),
    [
        ({"Cmd": "/no/such/program"}, 6, 2, "Failed to execute '/no/such/program'"),
        ({"Cmd": "plain"}, 6, 13, "Permission denied"),
        ({"Iwd": "/no/such/directory"}, 14, 2, "/no/such/directory"),
        ({"In": "missing"}, 8, 2, "missing"),
        ({"Out": "no/such/out"}, 7, 2, "no/such/out"),
        ({"Err": "/proc/err"}, 7, None, "/proc/err"),
        ({"Arguments": "'open"}, 6, 0, "Unbalanced quote"),
    ],
)
async def test_what_cannot_start_is_held_with_a_reason(
    attributes: dict[str, str], code: int, subcode: int | None, words: str
) -> None:
    async with bench() as b:
        (b.iwd / "plain").write_text("not a program")
        (b.iwd / "plain").chmod(0o644)
        end = await b.ended(await b.run(b.job_ad("true", **attributes)))
        assert end.ending is Ending.HOLD
        assert end.ad.eval_int("HoldReasonCode") == code
        assert subcode is None or end.ad.eval_int("HoldReasonSubCode") == subcode
        assert words in (end.ad.eval_str("HoldReason") or "")
        assert b.is_cleared


async def test_a_signal_is_reported_as_such() -> None:
    async with bench() as b:
        end = await b.ended(await b.run(b.job_ad("kill -USR1 $$")))
        assert end.ad.eval_bool("ExitBySignal") is True
        assert end.ad.eval_int("ExitSignal") == 10


async def test_standard_input_is_read_and_one_file_takes_output_and_error() -> None:
    async with bench() as b:
        (b.iwd / "numbers").write_text("3\n1\n2\n")
        await b.ended(await b.run(b.job_ad("sort; echo end >&2", In="numbers", Out="both", Err="both")))
        assert (b.iwd / "both").read_text() == "1\n2\n3\nend\n"


async def test_asked_to_leave_the_job_gets_its_signal_and_its_time() -> None:
    async with bench() as b:
        job = b.job_ad(
            "trap ''echo bye > bye; exit 0'' QUIT; echo up; while :; do sleep 0.05; done".replace("''", '"'),
            KillSig="SIGQUIT",
        )
        activation = await b.run(job)
        await b.until(JobExecuting, activation)
        await _file_has(b.iwd / "out", "up")
        await b.stop(activation, StopHow.GRACEFUL, reason="because")
        end = await b.ended(activation)
        assert end.ending is Ending.EVICTED
        assert end.reason == "because"
        assert (b.iwd / "bye").read_text() == "bye\n"


async def test_a_job_that_does_not_leave_is_killed_after_its_vacate_time() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad('trap "" TERM; echo up; while :; do sleep 0.05; done'))
        await _file_has(b.iwd / "out", "up")
        await b.stop(activation, StopHow.GRACEFUL, vacate_s=0.2)
        assert (await b.ended(activation)).ending is Ending.EVICTED


@pytest.mark.parametrize("vacate_s", [0, -1])
async def test_a_job_says_itself_how_long_it_may_take_to_leave(vacate_s: int) -> None:
    async with bench() as b:
        job = b.job_ad('trap "" TERM; echo up; while :; do sleep 0.05; done', JobMaxVacateTime=vacate_s)
        activation = await b.run(job)
        await _file_has(b.iwd / "out", "up")
        await b.stop(activation, StopHow.GRACEFUL)
        assert (await b.ended(activation)).ending is Ending.EVICTED


async def test_told_to_leave_twice_the_harder_way_counts() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad('trap "" TERM; echo up; while :; do sleep 0.05; done'))
        await _file_has(b.iwd / "out", "up")
        await b.stop(activation, StopHow.GRACEFUL, vacate_s=3600.0)
        await b.stop(activation, StopHow.FAST)
        assert (await b.ended(activation)).ending is Ending.EVICTED


async def test_policy_of_the_machine_can_hold_the_job() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad("exec sleep 600"))
        await b.until(JobExecuting, activation)
        await b.stop(activation, reason="too hot", hold_code=21, hold_subcode=7)
        end = await b.ended(activation)
        assert end.ending is Ending.HOLD
        assert (end.ad.eval_int("HoldReasonCode"), end.ad.eval_int("HoldReasonSubCode")) == (21, 7)


STUBBORN = r"""
for how in "" setsid "nohup setsid"; do
  $how /bin/sh -c 'trap "" TERM HUP INT QUIT; (trap "" TERM HUP; while :; do sleep 1; done) & echo $! $$ >> pids; while :; do sleep 1; done' > /dev/null 2>&1 &
done
while [ "$(cat pids 2> /dev/null | wc -l)" != 3 ]; do sleep 0.02; done
"""


@pytest.mark.parametrize("groups", [False, True])
async def test_p6_nothing_survives_a_job_that_leaves_stubborn_processes_behind(groups: bool) -> None:
    async with bench(**(group_settings("stubborn") if groups else {})) as b:
        end = await b.ended(await b.run(b.job_ad(STUBBORN + "echo done")))
        assert end.ad.eval_int("ExitCode") == 0
        assert (b.iwd / "out").read_text() == "done\n"
        assert not _alive(_pids(b.iwd / "pids"))


@pytest.mark.parametrize("groups", [False, True])
async def test_p6_nothing_survives_an_eviction(groups: bool) -> None:
    async with bench(**(group_settings("evicted") if groups else {})) as b:
        activation = await b.run(b.job_ad(STUBBORN + 'trap "" TERM; echo up; while :; do sleep 1; done'))
        await _file_has(b.iwd / "out", "up")
        pids = _pids(b.iwd / "pids")
        assert len(_alive(pids)) == 6
        await b.stop(activation, StopHow.FAST)
        assert (await b.ended(activation)).ending is Ending.EVICTED
        assert not _alive(pids)
        assert b.is_cleared


@pytest.mark.parametrize("groups", [False, True])
async def test_a_suspended_job_stands_still_and_can_be_evicted(groups: bool) -> None:
    async with bench(**(group_settings("suspended") if groups else {})) as b:
        assert b.startd is not None
        activation = await b.run(b.job_ad("echo up; i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.01; done"))
        await _file_has(b.iwd / "out", "up")
        await _grows(b.iwd / "count")
        await b.startd.call(SuspendJob(activation=activation))
        await _stands_still(b.iwd / "count")
        await b.startd.call(ContinueJob(activation=activation))
        await _grows(b.iwd / "count")
        await b.startd.call(SuspendJob(activation=activation))
        await b.stop(activation, StopHow.GRACEFUL, vacate_s=30.0)
        assert (await b.ended(activation)).ending is Ending.EVICTED


async def test_usage_is_reported_while_the_job_runs_and_at_its_end() -> None:
    async with bench(**group_settings("usage")) as b:
        burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 600"
        activation = await b.run(b.job_ad(burn))
        with trio.fail_after(60):
            count = 1
            while True:
                update = await b.until(JobUpdate, activation, count)
                if update.ad.eval_float("RemoteUserCpu", 0.0) > 0.02:
                    break
                count += 1
        assert update.ad.eval_int("ImageSize") > 0
        assert update.ad.eval_int("ResidentSetSize") > 0
        assert update.ad.eval_int("MemoryUsage") >= 1
        assert update.ad.eval_int("NumPids") == 1
        await b.stop(activation, StopHow.FAST)
        end = await b.ended(activation)
        assert end.ad.eval_float("RemoteUserCpu") > 0.02


@pytest.mark.parametrize("groups", [True, False])
async def test_what_a_job_writes_to_disk_is_counted_whoever_wrote_it(groups: bool) -> None:
    settings = group_settings("traffic") if groups else {}
    async with bench(**settings) as b:
        write = "dd if=/dev/zero of=here bs=64k count=64 conv=fsync 2>/dev/null"
        end = await b.ended(await b.run(b.job_ad(f'cd "$_CONDOR_SCRATCH_DIR"; (({write}) & wait); sleep 0.1')))
        assert end.ad.eval_int("BlockReadKbytes") is not None
        on_disk = os.major(os.stat(b.root).st_dev) != 0  # a file system in memory has no traffic
        assert not on_disk or end.ad.eval_int("BlockWriteKbytes", 0) >= 4096


@pytest.mark.parametrize(("name", "file"), [("cluster", "StarterLog.1"), ("jobid", "StarterLog.1.1")])
async def test_each_job_has_a_log_of_its_own_where_that_is_wanted(name: str, file: str) -> None:
    async with bench(log_name=name, log_times="") as b:
        await b.ended(await b.run(b.job_ad("exit 0")))
        assert re.search(r"^\d+ \(D_ALWAYS\) The job ended", (b.root / file).read_text(), re.MULTILINE)


async def test_over_its_memory_a_job_is_held_with_what_it_had_and_used() -> None:
    settings = group_settings("memory")
    if not any(entry.startswith(("memory=", "=")) for entry in settings.get("tree_mounts", [])):
        if os.environ.get("CI") == "true" and os.getuid() == 0:
            pytest.fail("root has no control group to limit memory with")
        pytest.skip("no control group to limit memory with")
    async with bench(**settings) as b:
        eat = 'x = []\nwhile True: x.append(bytearray(b"x" * 4194304))'
        job = b.job_ad(Cmd="/usr/bin/python3", Arguments="'-I' '-c' '" + eat + "'")
        end = await b.ended(await b.run(job, memory=64))
        assert end.ending is Ending.HOLD, (b.iwd / "err").read_text()
        assert (end.ad.eval_int("HoldReasonCode"), end.ad.eval_int("HoldReasonSubCode")) == (34, 102)
        assert "memory limit of 64 megabytes" in (end.ad.eval_str("HoldReason") or "")
        following = await b.ended(await b.run(b.job_ad("exit 4"), memory=64))
        assert following.ad.eval_int("ExitCode") == 4


async def test_a_neighbour_does_not_notice_that_a_job_is_over_its_memory() -> None:
    settings, others = group_settings("memory-greedy"), group_settings("memory-modest")
    if not any(entry.startswith(("memory=", "=")) for entry in settings.get("tree_mounts", [])):
        pytest.skip("no control group to limit memory with")
    async with bench(**settings) as greedy, bench(**others) as modest:
        waits = f"x=0; while [ ! -e {modest.iwd}/go ]; do x=$((x+1)); sleep 0.02; done; exit 5"
        neighbour = await modest.run(modest.job_ad(waits), memory=64)
        await modest.until(JobExecuting, neighbour)
        eat = 'x = []\nwhile True: x.append(bytearray(b"x" * 4194304))'
        job = greedy.job_ad(Cmd="/usr/bin/python3", Arguments="'-I' '-c' '" + eat + "'")
        end = await greedy.ended(await greedy.run(job, memory=64))
        assert (end.ending, end.ad.eval_int("HoldReasonCode")) == (Ending.HOLD, 34)
        (modest.iwd / "go").touch()
        assert (await modest.ended(neighbour)).ad.eval_int("ExitCode") == 5


async def test_a_process_that_the_kernel_kills_takes_its_whole_job_along() -> None:
    settings = group_settings("memory-child")
    if not any(entry.startswith(("memory=", "=")) for entry in settings.get("tree_mounts", [])):
        pytest.skip("no control group to limit memory with")
    async with bench(**settings) as b:
        eat = 'x = []\nwhile True: x.append(bytearray(b"x" * 4194304))'
        end = await b.ended(await b.run(b.job_ad(f"/usr/bin/python3 -I -c '{eat}'; exec sleep 600"), memory=64))
        assert (end.ending, end.ad.eval_int("HoldReasonCode")) == (Ending.HOLD, 34)


async def test_p5_a_schedd_that_comes_back_finds_the_job_running() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad("echo up; while [ ! -e go ]; do sleep 0.05; done; exit 5"))
        await b.until(JobExecuting, activation)
        b.close_schedd()
        await _log_has(b, "connection to the schedd is lost")
        await b.open_schedd()
        await b.until(StarterReady, activation, 2)
        (b.iwd / "go").touch()
        end = await b.ended(activation)
        assert end.ad.eval_int("ExitCode") == 5


async def test_p5_an_end_that_nobody_heard_is_reported_when_the_schedd_is_back() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad("while [ ! -e go ]; do sleep 0.05; done; echo $$ > ended; exit 6"))
        await b.until(JobExecuting, activation)
        b.close_schedd()
        await _log_has(b, "connection to the schedd is lost")
        (b.iwd / "go").touch()
        await _log_has(b, "The job ended")
        await b.open_schedd()
        end = await b.ended(activation)
        assert end.ad.eval_int("ExitCode") == 6
        assert end.ending is Ending.EXITED


async def test_when_the_lease_runs_out_the_job_is_ended() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad("echo $$ > pids; exec sleep 600"), lease_s=0.5)
        await b.until(JobExecuting, activation)
        await _file_has(b.iwd / "pids", "\n")
        b.close_schedd()
        over = await b.until(ActivationOver, activation)
        assert not over.reported
        assert "heard nothing" in over.reason
        assert not _alive(_pids(b.iwd / "pids"))
        assert b.is_cleared


async def test_a_starter_whose_ticket_is_not_taken_gives_up() -> None:
    async with bench() as b:
        assert b.startd is not None
        activation = "refused"
        await b.startd.call(
            RunJob(
                slot=b.slot,
                activation=activation,
                job_id=JobId(9, 9),
                job_ad=b.job_ad("touch ran"),
                slot_ad=ClassAd({"Memory": 10}),
                shadow_address=str(b.root / "schedd.sock"),
                ticket="wrong",
            )
        )
        over = await b.until(ActivationOver, activation)
        assert not over.reported
        assert "must come by TICKET" in over.reason
        assert not (b.iwd / "ran").exists()


async def test_when_the_life_pipe_ends_the_job_is_evicted_and_reported() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad("echo $$ > pids; exec sleep 600"))
        await _file_has(b.iwd / "pids", "\n")
        b.owner.cancel()
        end = await b.until(JobEnded, activation)
        assert end.ending is Ending.EVICTED
        with trio.fail_after(60):
            while not is_zombie(b.starter.pid):
                await trio.sleep(0.02)
        assert not _alive(_pids(b.iwd / "pids"))
        assert not b.sandbox.exists()


async def test_when_the_startd_hangs_up_the_job_is_evicted_and_reported() -> None:
    async with bench() as b:
        assert b.startd is not None
        activation = await b.run(b.job_ad("echo $$ > pids; exec sleep 600"))
        await _file_has(b.iwd / "pids", "\n")
        await b.startd.aclose()
        assert (await b.until(JobEnded, activation)).ending is Ending.EVICTED
        await b.starter.wait()
        assert not _alive(_pids(b.iwd / "pids"))


async def test_told_by_a_signal_to_end_a_starter_evicts_its_job_first() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad("echo $$ > pids; exec sleep 600"))
        await _file_has(b.iwd / "pids", "\n")
        b.starter.kill(signal.SIGTERM)
        end = await b.until(JobEnded, activation)
        assert end.ending is Ending.EVICTED
        await b.starter.wait()
        assert not _alive(_pids(b.iwd / "pids"))
        assert not b.sandbox.exists()


async def test_p6_what_a_killed_starter_leaves_can_be_swept() -> None:
    settings = group_settings("swept")
    async with bench(**settings) as b:
        activation = await b.run(b.job_ad(STUBBORN + "echo up; exec sleep 600"))
        await b.until(JobExecuting, activation)
        await _file_has(b.iwd / "out", "up")
        pids = _pids(b.iwd / "pids")
        trace = Trace(b.starter.pid, start_ticks(b.starter.pid), str(b.sandbox), settings.get("group", ""))
        b.starter.kill(signal.SIGKILL)
        await b.starter.wait()
        assert sweep(trace, trees_of(settings) if settings else Trees(0)) == []
        assert not _alive(pids)
        assert not b.sandbox.exists()


async def test_a_claims_jobs_have_one_directory_which_goes_with_the_claim() -> None:
    async with bench() as b:
        assert b.startd is not None
        for number in range(2):
            script = f"ls -A | grep -v '^.chirp' > found.{number}; mkdir -p $_CONDOR_SCRATCH_DIR/x/y; exit {number}"
            job = b.job_ad(f"cd $_CONDOR_SCRATCH_DIR; {script.replace('found', str(b.iwd / 'found'))}")
            activation = await b.run(job, claim="c")
            await b.until(ActivationOver, activation)
            assert (b.iwd / f"found.{number}").read_text().split() == [".job.ad", ".machine.ad"]
            assert os.listdir(b.sandbox) == []
            assert b.sandbox.stat().st_uid == os.geteuid()
        await b.startd.call(LeaveNow())
        await b.starter.wait()
        assert not b.sandbox.exists()


async def test_the_next_job_of_a_claim_finds_the_slot_as_it_is_by_then() -> None:
    async with bench() as b:
        assert b.startd is not None
        first = await b.run(b.job_ad("true"), claim="c", memory=256, disk=100_000)
        await b.until(ActivationOver, first)
        await b.startd.call(
            RunJob(
                slot=b.slot,
                activation="next",
                job_id=JobId(1, 2),
                job_ad=b.job_ad("cp $_CONDOR_MACHINE_AD found"),
                slot_ad=ClassAd({"Memory": 128}),
                slot_lacks=["Disk"],
                shadow_address=str(b.root / "schedd.sock"),
                ticket="secret-c",
            )
        )
        await b.ended("next")
        found = parse_long((b.iwd / "found").read_text())
        assert (found["Memory"], found["Cpus"], "Disk" in found) == (128, 1, False)


async def test_run_job_is_heeded_once() -> None:
    async with bench() as b:
        assert b.startd is not None
        activation = await b.run(b.job_ad("echo x >> ran; while [ ! -e go ]; do sleep 0.05; done"))
        request = RunJob(
            slot=b.slot,
            activation=activation,
            job_id=JobId(1, 1),
            job_ad=b.job_ad("x"),
            slot_ad=ClassAd(),
            shadow_address="/x",
            ticket="x",
        )
        await b.startd.call(request)
        with pytest.raises(RemoteError, match="still runs"):
            await b.startd.call(replace(request, activation="another"))
        (b.iwd / "go").touch()
        await b.ended(activation)
        assert (b.iwd / "ran").read_text() == "x\n"


def _pids(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()]


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if not is_zombie(pid)]


async def _file_has(path: Path, text: str) -> None:
    with trio.fail_after(60):
        while not (path.exists() and text in path.read_text()):
            await trio.sleep(0.02)


async def _log_has(b: Bench, text: str) -> None:
    await _file_has(b.root / "StarterLog", text)


async def _grows(path: Path) -> None:
    with trio.fail_after(60):
        before = path.read_text() if path.exists() else ""
        while not path.exists() or path.read_text() in (before, ""):
            await trio.sleep(0.02)


async def _stands_still(path: Path) -> None:
    """Suspension takes effect: ten looks in a row see the same."""
    with trio.fail_after(60):
        same, last = 0, path.read_text()
        while same < 10:
            await trio.sleep(0.03)
            now = path.read_text()
            same, last = (same + 1, now) if now == last else (0, now)
