"""What a job sees of its machine: the kernel's word."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from daemons.base.linux import is_zombie
from daemons.host import namespaces
from daemons.host.account import Account, named_account
from daemons.host.cgroup import ControlGroup
from daemons.host.mounts import mounts
from daemons.host.namespaces import IsolationError, can_isolate
from daemons.host.tree import start_ticks
from daemons.startd.starters.leftovers import Trace, sweep
from daemons.starter.launch.bare import start_process
from daemons.starter.launch.fork import LaunchError
from daemons.starter.launch.spawn import JobSpawner
from daemons.starter.launch.terms import Terms
from daemons.starter.remote_io.server import open_device
from pool.execute.cgroup import Trees
from pool.execute.isolation import HomeMount, Isolation
from pool.execute.plan import NULL, RunPlan
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobExecuting

from .bench import PATIENCE_S, bench, group_settings, job_user, trees_of

pytestmark = pytest.mark.skipif(not can_isolate(), reason="namespaces are root's to make")


class Scratch:
    """A directory of all sandboxes, with one in it that is the job's."""

    def __init__(self, root: Path, account: Account) -> None:
        self.root, self.account = root, account
        self.sandbox, self.other = self.make("dir_1"), self.make("dir_2")
        self.spawner = JobSpawner(ControlGroup(Trees(0), ""))

    def make(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(0o700)
        os.chown(path, self.account.uid, self.account.gid)
        return path

    def everything(self, **changes: Any) -> Isolation:
        fields: dict[str, Any] = {
            "sandbox": str(self.sandbox),
            "private": ("/var/tmp",),
            "execute": str(self.root),
            "shared_memory": True,
            **changes,
        }
        return Isolation(**fields)

    def plan(self, command: str) -> RunPlan:
        return RunPlan(
            program="/bin/sh",
            arguments=("-c", command),
            environment={"PATH": "/bin:/usr/bin"},
            directory=str(self.sandbox),
            stdin=NULL,
            stdout=str(self.sandbox / "out"),
            stderr=str(self.sandbox / "err"),
            transfers=True,
            rlimits={},
        )

    async def run(self, command: str, isolation: Isolation, **terms: Any) -> tuple[list[str], int]:
        """What the program printed, and its wait status."""
        started = start_process(self.plan(command), self.account, self.spawner, Terms(isolation=isolation, **terms))
        try:
            await started.begun()
        finally:
            status = os.waitpid(started.pid, 0)[1]
            if started.first is not None:
                started.first.end()
                os.waitpid(started.first.pid, 0)
        return (self.sandbox / "out").read_text().splitlines(), status


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    root = Path(tempfile.mkdtemp(prefix="minipool-apart-"))
    root.chmod(0o755)
    scratch = Scratch(root, named_account(job_user()))
    yield scratch
    scratch.spawner.close()
    shutil.rmtree(root, ignore_errors=True)


def _own_namespaces() -> list[str]:
    return [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "pid", "pid_for_children", "net")]


@pytest.mark.parametrize("changes", [{}, {"nice": 1}], ids=["spawned", "forked"])
@pytest.mark.parametrize("processes", [False, True], ids=["mounts", "and pids"])
async def test_private_directories_are_in_the_sandbox_and_nobody_else_sees_them(
    scratch: Scratch, changes: dict[str, Any], processes: bool
) -> None:
    before, here = _own_namespaces(), os.getcwd()
    name = f"minipool-{os.getpid()}"
    command = f"echo mine > /var/tmp/{name}; ls -A /var/tmp /dev/shm; stat -c %a /var/tmp"
    out, status = await scratch.run(command, scratch.everything(processes=processes), **changes)
    assert (out, status) == (["/dev/shm:", "", "/var/tmp:", name, "1777"], 0)
    assert (scratch.sandbox / "var" / "tmp" / name).read_text() == "mine\n"
    assert not Path("/var/tmp", name).exists()
    assert (_own_namespaces(), os.getcwd()) == (before, here)
    assert str(scratch.root) not in Path("/proc/self/mountinfo").read_text()


async def test_of_all_sandboxes_a_job_sees_its_own(scratch: Scratch) -> None:
    (scratch.other / "secret").write_text("")
    out, _ = await scratch.run(f"ls {scratch.root}; ls -A {scratch.sandbox}; pwd", scratch.everything())
    assert out == ["dir_1", "err", "out", "var", str(scratch.sandbox)]


async def test_a_hidden_file_is_as_if_nothing_were_in_it(scratch: Scratch) -> None:
    device = scratch.root / "nvidia1"
    device.write_text("secret\n")
    device.chmod(0o666)
    hidden = replace(scratch.everything(), execute="", hidden=(str(device), str(scratch.root / "gone")))
    out, _ = await scratch.run(f"cat {device}; echo more > {device}; echo done", hidden)
    assert out == ["done"]
    assert device.read_text() == "secret\n"


async def test_a_job_sees_no_processes_but_its_own(scratch: Scratch) -> None:
    out, _ = await scratch.run(
        "ls /proc | grep -c '^[0-9]'; cat /proc/1/comm; true", scratch.everything(processes=True)
    )
    assert int(out[0]) <= 5
    assert out[1] != Path("/proc/1/comm").read_text().strip()


@pytest.mark.parametrize("changes", [{}, {"nice": 1}], ids=["spawned", "forked"])
async def test_an_offline_job_has_a_loopback_of_its_own_and_no_other_network(
    scratch: Scratch, changes: dict[str, Any]
) -> None:
    before = _own_namespaces()
    command = "tail -n +3 /proc/net/dev | cut -d: -f1; cat /proc/net/fib_trie | grep -c 127.0.0.1"
    out, _ = await scratch.run(command, Isolation(str(scratch.sandbox), offline=True), **changes)
    assert (out[0].strip(), len(out)) == ("lo", 2)
    assert int(out[1]) > 0, "the loopback is up"
    assert _own_namespaces() == before


async def test_a_shell_beside_an_offline_job_is_offline_too(scratch: Scratch) -> None:
    isolation = Isolation(str(scratch.sandbox), offline=True)
    started = start_process(
        scratch.plan("exec sleep 600"), scratch.account, scratch.spawner, Terms(isolation=isolation)
    )
    try:
        await started.begun()
        before, jobs = _own_namespaces(), os.readlink(f"/proc/{started.pid}/ns/net")
        with namespaces.joined(started.pid, isolation):
            assert os.readlink("/proc/thread-self/ns/net") == jobs != before[-1]
        assert _own_namespaces() == before
    finally:
        os.kill(started.pid, signal.SIGKILL)
        os.waitpid(started.pid, 0)


async def test_a_kernel_that_shows_processes_to_nobody_outside_has_them_shown_from_inside(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "mount_proc_for", lambda pid: False)
    out, _ = await scratch.run("readlink /proc/self; echo $$; cat /proc/1/comm", scratch.everything(processes=True))
    assert (int(out[0]) > int(out[1]), out[2]) == (True, "sh")


async def test_orphans_of_a_pid_namespace_are_collected(scratch: Scratch) -> None:
    orphans = "(sleep 0.1 & sleep 0.1 & echo $! > late); while [ -e /proc/$(cat late) ]; do sleep 0.05; done; echo gone"
    out, _ = await scratch.run(orphans, scratch.everything(processes=True))
    assert out == ["gone"]


async def test_a_job_cannot_end_its_namespaces_first_process_nor_look_into_it(scratch: Scratch) -> None:
    command = "kill -9 1 2 2> /dev/null; ls /proc/1/fd /proc/2/fd 2> /dev/null; cat /proc/1/comm; sleep 0.1; echo on"
    out, status = await scratch.run(command, scratch.everything(processes=True))
    assert (out, status) == (["sh", "on"], 0)


async def test_a_pid_namespace_ends_when_nobody_holds_its_first_process(scratch: Scratch) -> None:
    plan = replace(scratch.plan("sleep 1000"), stdout=NULL)
    started = start_process(plan, scratch.account, scratch.spawner, Terms(isolation=scratch.everything(processes=True)))
    assert started.first is not None
    started.first.let_go()
    assert os.WTERMSIG(os.waitpid(started.pid, 0)[1]) == signal.SIGKILL
    os.waitpid(started.first.pid, 0)


@pytest.mark.parametrize(
    ("command", "judge"),
    [
        ("exit 7", lambda status: os.WEXITSTATUS(status) == 7),
        ("kill -USR1 $$", lambda status: os.WTERMSIG(status) == signal.SIGUSR1),
        ("kill -KILL $$", lambda status: os.WTERMSIG(status) == signal.SIGKILL),
        ("sleep 1000 & exit 3", lambda status: os.WEXITSTATUS(status) == 3),
    ],
)
async def test_in_a_pid_namespace_a_program_ends_as_anywhere(
    scratch: Scratch, command: str, judge: Callable[[int], bool]
) -> None:
    _, status = await scratch.run(command, scratch.everything(processes=True))
    assert judge(status)


async def test_a_program_that_is_not_there_is_told_from_inside_a_namespace(scratch: Scratch) -> None:
    scratch.sandbox.chmod(0o000)
    os.chown(scratch.sandbox, 0, 0)
    with pytest.raises(LaunchError) as failure:
        await scratch.run("true", Isolation(processes=True))
    assert failure.value.hold() is not None


async def test_what_cannot_be_mounted_is_told(scratch: Scratch) -> None:
    before = _own_namespaces()
    (scratch.sandbox / "var").write_text("in the way")
    with pytest.raises(IsolationError, match=r"cannot make the private directory .*/dir_1/var/tmp: Not a directory"):
        await scratch.run("true", scratch.everything())
    with pytest.raises(IsolationError, match="mounting nothing on /no/such: No such file or directory"):
        namespaces.mount("nothing", "/no/such", flags=4096)
    assert _own_namespaces() == before


async def test_a_link_in_the_sandbox_opens_nothing_that_is_closed_to_the_job(scratch: Scratch) -> None:
    secret = scratch.root / "secret"
    (secret / "tmp").mkdir(parents=True)
    secret.chmod(0o700)
    (scratch.sandbox / "var").symlink_to(secret)
    with pytest.raises(IsolationError, match="Permission denied"):
        await scratch.run("true", scratch.everything())


async def test_everything_in_a_jobs_pid_namespace_ends_when_it_leaves() -> None:
    async with bench(pid_namespaces=True, job_namespaces=True, mount_under_scratch='"/var/tmp"') as b:
        daemonizing = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &) ; sleep 1000"
        activation = await b.run(b.job_ad(daemonizing))
        await b.until(JobExecuting, activation)
        await b.stop(activation, StopHow.GRACEFUL, vacate_s=0.2)
        assert (await b.ended(activation)).ending is Ending.EVICTED
        assert b.is_cleared
        end = await b.ended(await b.run(b.job_ad("ls /proc | grep '^[0-9]' | wc -l")))
        assert end.ad.eval_int("ExitCode") == 0
        assert int((b.iwd / "out").read_text()) <= 6


async def test_a_job_in_a_pid_namespace_is_asked_to_leave_by_its_signal() -> None:
    async with bench(pid_namespaces=True) as b:
        job = b.job_ad("trap 'echo asked; exit 0' TERM; echo up > up; while :; do sleep 0.05; done")
        activation = await b.run(job)
        with trio.fail_after(PATIENCE_S):
            while not (b.iwd / "up").exists():
                await trio.sleep(0.02)
        await b.stop(activation, StopHow.GRACEFUL, vacate_s=60.0)
        assert (await b.ended(activation)).ending is Ending.EVICTED
        assert (b.iwd / "out").read_text() == "asked\n"


@pytest.mark.parametrize("grouped", [True, False], ids=["in a group", "without groups"])
async def test_p6_a_killed_starters_namespace_ends_with_the_sweep(grouped: bool) -> None:
    settings = group_settings("swept-apart") if grouped else {}
    async with bench(
        **settings,
        pid_namespaces=True,
        job_namespaces=True,
        mount_under_scratch='"/var/tmp"',
        private_shared_memory=True,
    ) as b:
        activation = await b.run(b.job_ad("setsid sleep 1000 & sleep 1000"))
        executing = await b.until(JobExecuting, activation)
        first = executing.ad.eval_int("JobPid") or 0
        trace = Trace(b.starter.pid, start_ticks(b.starter.pid), str(b.sandbox), settings.get("group", ""))
        b.starter.kill(signal.SIGKILL)
        await b.starter.wait()
        assert sweep(trace, trees_of(settings) if settings else Trees(0)) == []
        assert not b.sandbox.exists()
        with trio.fail_after(PATIENCE_S):
            while not is_zombie(first):
                await trio.sleep(0.02)


# ---- directories of the access point


def test_a_place_is_made_for_a_directory_that_the_machine_does_not_have(scratch: Scratch) -> None:
    crowded = scratch.root / "crowded"
    crowded.mkdir()
    (crowded / "file").write_text("as before")
    (crowded / "sub").mkdir()
    (crowded / "sub" / "inner").write_text("inside")
    (crowded / "link").symlink_to("file")
    for path in (str(crowded / "new" / "deep"), "/minipool-test-not-there/deep"):
        above = os.path.dirname(os.path.dirname(path))
        before = sorted(os.listdir(above))
        device = open_device()
        isolation = Isolation(
            sandbox=str(scratch.sandbox), homes=(HomeMount(path, device, scratch.account.uid, scratch.account.gid),)
        )
        try:
            with namespaces.inside(isolation, scratch.account):
                mounted = [one.point for one in mounts() if one.kind == "fuse" and one.source == "home"]
                seen = sorted(os.listdir(above))
                read = [(crowded / name).read_text() for name in ("file", "link", "sub/inner")]
        finally:
            os.close(device)
        assert mounted == [path]
        assert seen == sorted([*before, os.path.basename(os.path.dirname(path))])
        assert read == ["as before", "as before", "inside"]
        # Of all this nothing is left, and nobody else has seen it.
        assert sorted(os.listdir(above)) == before


def test_what_is_removed_while_a_place_is_made_beside_it_is_left_out(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded = scratch.root / "crowded"
    crowded.mkdir()
    (crowded / "file").write_text("as before")
    there = os.listdir
    device = open_device()
    home = HomeMount(str(crowded / "new"), device, scratch.account.uid, scratch.account.gid)
    try:
        monkeypatch.setattr(os, "listdir", lambda path: [*there(path), "removed"])
        with namespaces.inside(Isolation(sandbox=str(scratch.sandbox), homes=(home,)), scratch.account):
            seen = sorted(there(crowded))
    finally:
        os.close(device)
    assert seen == ["file", "new"]


def test_no_place_is_made_below_a_file(scratch: Scratch) -> None:
    (scratch.root / "file").write_text("")
    device = open_device()
    path = str(scratch.root / "file" / "deep")
    isolation = Isolation(sandbox=str(scratch.sandbox), homes=(HomeMount(path, device, 0, 0),))
    try:
        with pytest.raises(IsolationError, match="no directory"), namespaces.inside(isolation, scratch.account):
            pass
    finally:
        os.close(device)
