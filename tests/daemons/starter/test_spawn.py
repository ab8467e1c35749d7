"""Programs are started without a copy of the starter: as whom, where, with what, and what the starter is afterwards."""

from __future__ import annotations

import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daemons.base.log import Log
from daemons.host.account import Account, named_account, own_account
from daemons.host.cgroup import ENTRY_BYTES, ControlGroup
from daemons.host.cgroup_trees import usable_trees
from daemons.host.child_settings import StarterSettings
from daemons.host.processes import Processes
from daemons.starter.launch import bare
from daemons.starter.launch.bare import start_process
from daemons.starter.launch.context import Context
from daemons.starter.launch.spawn import OOM_SCORE, JobSpawner
from daemons.starter.launch.terms import Terms
from pool.execute.cgroup import CgroupLimits, Trees
from pool.execute.plan import NULL, RunPlan
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow

from .bench import PATIENCE_S, bench, job_user

AS_ROOT = os.getuid() == 0


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of the job's account."""
    path = Path(tempfile.mkdtemp(prefix="minipool-spawn-"))
    path.chmod(0o755)
    entry = pwd.getpwnam(job_user())
    os.chown(path, entry.pw_uid, entry.pw_gid)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    trees = usable_trees("minipool-test")
    if not trees.version:
        pytest.skip("no control groups can be made")
    made = ControlGroup(trees, f"minipool-test/spawn-{os.getpid()}")
    made.prepare(CgroupLimits(memory=256 << 20))
    yield made
    made.kill()
    made.remove()


def _account() -> Account:
    return named_account(job_user()) if AS_ROOT else own_account()


def _plan(home: Path, *words: str, **changes: Any) -> RunPlan:
    fields: dict[str, Any] = {
        "program": words[0] if words else "/bin/true",
        "arguments": words[1:],
        "environment": {"A": "b"},
        "directory": str(home),
        "stdin": NULL,
        "stdout": str(home / "out"),
        "stderr": NULL,
        "transfers": False,
        "rlimits": {},
        **changes,
    }
    return RunPlan(**fields)


def _spawn(plan: RunPlan, group: ControlGroup | None = None) -> int | None:
    with closing(JobSpawner(group if group is not None else ControlGroup(Trees(0), ""))) as spawner:
        spawned = spawner.spawn(plan, _account())
    return spawned[0] if spawned is not None else None


def _run(plan: RunPlan, group: ControlGroup | None = None) -> str:
    pid = _spawn(plan, group)
    assert pid is not None
    assert os.waitpid(pid, 0)[1] == 0
    return Path(plan.stdout).read_text()


def _state() -> Mapping[str, object]:
    """What a job must not change about its starter."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        **{name: status[name] for name in ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "SigBlk", "SigIgn", "Umask")},
        "directory": os.getcwd(),
        "oom": Path("/proc/self/oom_score_adj").read_text(),
        "groups": Path("/proc/self/cgroup").read_text(),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "stack": resource.getrlimit(resource.RLIMIT_STACK),
    }


def test_a_program_is_its_account_for_good(home: Path) -> None:
    status = dict(line.split(":\t", 1) for line in _run(_plan(home, "/bin/cat", "/proc/self/status")).splitlines())
    account = _account()
    assert status["Uid"].split() == [str(account.uid)] * 4
    assert status["Gid"].split() == [str(account.gid)] * 4
    if AS_ROOT:
        assert {int(word) for word in status["Groups"].split()} == set(account.groups)
        for kind in ("CapPrm", "CapEff", "CapAmb"):
            assert int(status[kind], 16) == 0
    assert int(status["SigBlk"], 16) == 0
    assert status["NSsid"] == status["Pid"]


def test_a_program_has_its_files_variables_directory_and_limits(home: Path) -> None:
    (home / "in").write_text("from the file\n")
    show = "cat; pwd; echo $A; ulimit -c; ulimit -s; cat /proc/self/oom_score_adj; echo to the other >&2"
    plan = _plan(
        home,
        "/bin/sh",
        "-c",
        show,
        stdin=str(home / "in"),
        stderr=str(home / "err"),
        rlimits={"CORE": 0, "STACK": 1 << 20},
    )
    assert _run(plan).splitlines() == ["from the file", str(home), "b", "0", "1024", OOM_SCORE.decode()]
    assert (home / "err").read_text() == "to the other\n"
    assert (home / "out").stat().st_uid == _account().uid
    assert (home / "out").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    return int(str(_state()["Umask"]), 8)


def test_output_and_error_in_one_file_share_their_place(home: Path) -> None:
    plan = _plan(home, "/bin/sh", "-c", "echo one; echo two >&2; echo three", stderr=str(home / "out"))
    assert _run(plan) == "one\ntwo\nthree\n"


def test_a_program_is_born_inside_its_group(home: Path, group: ControlGroup) -> None:
    groups = _run(_plan(home, "/bin/cat", "/proc/self/cgroup"), group)
    assert groups.count(group.name) == len(group.trees.mounts)
    assert not group.members()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"program": "/no/such/program"},
        {"directory": "/no/such/directory"},
        {"stdout": "/no/such/out"},
        {"rlimits": {"CORE": 0, "STACK": 1 << 20}},
    ],
    ids=lambda changes: next(iter(changes), "nothing"),
)
def test_the_starter_is_afterwards_what_it_was(home: Path, group: ControlGroup, changes: dict[str, Any]) -> None:
    before = _state()
    pid = _spawn(_plan(home, **changes), group)
    if pid is not None:
        os.waitpid(pid, 0)
    assert (pid is None) == bool(changes and "rlimits" not in changes)
    assert _state() == before


def test_what_may_keep_the_starter_waiting_is_left_to_a_fork(home: Path) -> None:
    os.mkfifo(home / "pipe")
    (home / "pipe").chmod(0o666)
    for name in ("stdin", "stdout", "stderr"):
        assert _spawn(_plan(home, **{name: str(home / "pipe")})) is None


def test_nobody_enters_with_the_starters_memory_a_group_whose_own_is_nearly_full(
    home: Path, group: ControlGroup
) -> None:
    if not group.limits_memory:
        pytest.skip("no memory controller")
    group.prepare(CgroupLimits(memory=ENTRY_BYTES // 2))
    assert _spawn(_plan(home), group) is None


def test_a_group_that_was_left_frozen_is_thawed_for_the_next_job(home: Path, group: ControlGroup) -> None:
    if not group.can_freeze:
        pytest.skip("no freezer")
    group.freeze(True)
    group.prepare(CgroupLimits(memory=256 << 20))
    assert _run(_plan(home, "/bin/echo", "moves"), group) == "moves\n"


def test_a_usual_job_is_not_forked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fork(*_: object) -> None:
        raise AssertionError("forked")

    monkeypatch.setattr(bare, "fork", fork)
    with closing(JobSpawner(ControlGroup(Trees(0), ""))) as spawner:
        started = start_process(_plan(home), _account(), spawner)
    assert os.waitpid(started.pid, 0)[1] == 0


def test_what_a_starter_was_born_with_is_not_its_programs() -> None:
    """Descriptors that somebody left open for children, above all."""
    script = (
        "import os\n"
        "from daemons.base.linux import leave_nothing_to_programs\n"
        "os.set_inheritable(os.dup2(0, 7), True)\n"
        "leave_nothing_to_programs()\n"
        "pid = os.posix_spawn('/bin/ls', ['ls', '/proc/self/fd'], {})\n"
        "os.waitpid(pid, 0)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["0", "1", "2", "3"]  # 3: ls reads the directory


async def test_a_job_that_waits_for_a_pipe_keeps_nobody_else_waiting() -> None:
    async with bench() as b:
        os.mkfifo(b.iwd / "pipe")
        (b.iwd / "pipe").chmod(0o666)
        activation = await b.run(b.job_ad("cat", In="pipe"))
        with trio.fail_after(PATIENCE_S):
            while not b.sandbox.exists():
                await trio.sleep(0.02)
        await b.stop(activation, StopHow.FAST)
        assert (await b.ended(activation)).ending is Ending.EVICTED
        activation = await b.run(b.job_ad("cat", In="pipe"))
        async with await trio.open_file(b.iwd / "pipe", "w") as pipe:
            await pipe.write("through a pipe\n")
        assert (await b.ended(activation)).ad.eval_int("ExitCode") == 0
        assert (b.iwd / "out").read_text() == "through a pipe\n"


class _HeldByTheKernel(Processes):
    """The job's processes, one of which does not end for an hour, whatever signal it gets."""

    async def end_all(self, group: ControlGroup) -> None:
        await trio.sleep(3600)


async def test_a_process_that_does_not_end_keeps_a_starter_only_so_long(
    home: Path, autojump_clock: trio.testing.MockClock
) -> None:
    os.mkfifo(home / "pipe", 0o666)
    (home / "pipe").chmod(0o666)
    nothing: Any = None
    group, processes = ControlGroup(Trees(0), ""), _HeldByTheKernel()
    with closing(JobSpawner(group)) as spawner:
        context = Context(
            StarterSettings(slot="slot1", execute=str(home)),
            Log(None),
            nothing,
            nothing,
            processes,
            group,
            spawner,
            nothing,
            nothing,
            nothing,
        )
        plan = replace(_plan(home), stdin=str(home / "pipe"))
        with trio.move_on_after(1.0) as told_to_leave:
            await bare.start_bare(context, plan, _account(), Terms(), CgroupLimits(memory=256 << 20))
    (child,) = processes._watched
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert told_to_leave.cancelled_caught
    assert trio.current_time() <= 1.0 + bare.END_S
