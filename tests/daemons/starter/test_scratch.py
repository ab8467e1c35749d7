"""Sandboxes that have a size: every kind of file system that this kernel lets the tests have, with real jobs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from daemons.host.mounts import mounted_below
from daemons.host.tree import start_ticks
from daemons.host.volumes.found import sandboxes_with_volumes
from daemons.host.volumes.rootly import backing_files
from daemons.host.volumes.tools import find
from daemons.startd.machine.disk_limits import FoundLimits, look
from daemons.startd.starters.leftovers import Trace, sweep
from pool.base.errors import PeerError
from pool.config.load import load_config
from pool.execute.cgroup import Trees
from pool.execute.scratch import ENCRYPTABLE, MOUNTED, ScratchKind
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.shadow import JobExecuting, JobUpdate

from .bench import PATIENCE_S, Bench, bench

DISK_KIB = 20 * 1024
FILL = "head -c 60000000 /dev/zero > $_CONDOR_SCRATCH_DIR/big"
KINDS = [*ScratchKind]


def _look(execute: Path, **knobs: str) -> FoundLimits:
    overrides = {
        "LOCAL_DIR": str(execute.parent),
        "EXECUTE": str(execute),
        "STARTD_ENFORCE_DISK_LIMITS": "true",
        "LVM_BACKING_FILE": str(execute.with_suffix(".backing")),
        "LVM_BACKING_FILE_SIZE_MB": "300",
        "LVM_THIN_LV_EXTRA_SIZE_MB": "20",
        **knobs,
    }
    return look(load_config([], overrides=overrides, environ={}), str(execute))


@dataclass
class Machine:
    """Which kinds can be had here, tried when they are first asked for."""

    root: Path
    stack: ExitStack
    known: dict[str, tuple[Path, FoundLimits] | str] = field(default_factory=dict)
    """By kind and knobs; a string says why not."""

    def have(self, kind: ScratchKind, **knobs: str) -> tuple[Path, FoundLimits]:
        """An EXECUTE whose sandboxes are of this kind; the test is skipped with the reason where there is none."""
        key = f"{kind} {knobs}"
        if key not in self.known:
            execute = self.root / f"execute{len(self.known)}"
            execute.mkdir(mode=0o755)
            self.known[key] = self._try(kind, execute, knobs)
        known = self.known[key]
        if isinstance(known, str):
            pytest.skip(known)
        return known

    def _try(self, kind: ScratchKind, execute: Path, knobs: dict[str, str]) -> tuple[Path, FoundLimits] | str:
        problem = ""
        if os.geteuid() == 0 and kind is ScratchKind.BTRFS:
            problem = self._mount(execute, "mkfs.btrfs", "-q")
        if os.geteuid() == 0 and kind is ScratchKind.QUOTA:
            problem = self._mount(execute, "mkfs.xfs", "-q", options="loop,prjquota")
        if problem:
            return problem
        found = _look(execute, SCRATCH_FILE_SYSTEMS=kind, **knobs)
        self.stack.callback(found.end)
        return (execute, found) if found.store.kind is kind else found.said[0]

    def _mount(self, execute: Path, maker: str, *words: str, options: str = "loop") -> str:
        if find(maker) is None:
            return f"{maker} is not installed"
        image = execute.with_suffix(".img")
        with open(image, "wb") as file:
            file.truncate(400 << 20)
        subprocess.run([maker, *words, str(image)], check=True, capture_output=True)
        done = subprocess.run(["mount", "-o", options, str(image), str(execute)], capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()
        self.stack.callback(subprocess.run, ["umount", "-l", str(execute)], check=False)
        if maker == "mkfs.btrfs":
            subprocess.run(["btrfs", "quota", "enable", str(execute)], check=True, capture_output=True)
        return ""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    root = Path(tempfile.mkdtemp(prefix="minipool-scratch-"))
    root.chmod(0o755)
    with ExitStack() as stack:
        yield Machine(root, stack)
    shutil.rmtree(root, ignore_errors=True)


def _settings(execute: Path, found: FoundLimits, **others: Any) -> dict[str, Any]:
    return {"execute": str(execute), "scratch": found.store.packed(), "disk_poll_s": 0.1, **others}


def _what_is_left(execute: Path) -> list[str]:
    inside = [path for path in mounted_below(str(execute)) if path != str(execute)]
    used = [file for file in backing_files() if file.startswith(f"{execute}/")]
    return [*inside, *os.listdir(execute), *sandboxes_with_volumes(str(execute)), *used]


async def _until_nothing_is_left(execute: Path) -> None:
    with trio.move_on_after(PATIENCE_S):
        while _what_is_left(execute):
            await trio.sleep(0.02)
    assert _what_is_left(execute) == []


def _trace(b: Bench, execute: Path) -> Trace:
    return Trace(b.starter.pid, start_ticks(b.starter.pid), str(execute / f"dir_{b.starter.pid}"))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_that_fills_its_disk_is_held_and_the_next_has_all_of_its_own(
    machine: Machine, kind: ScratchKind
) -> None:
    execute, found = machine.have(kind)
    async with bench(**_settings(execute, found), job_namespaces=True) as b:
        end = await b.ended(await b.run(b.job_ad(f"{FILL}; exit 3"), disk=DISK_KIB))
        codes = end.ad.eval_int("HoldReasonCode"), end.ad.eval_int("HoldReasonSubCode")
        assert (end.ending, *codes) == (Ending.HOLD, 34, 104)
        assert end.reason.startswith("Job has exceeded allocated disk (20.00 MB). Last measured usage: ")
        assert end.reason.endswith("MB. Consider increasing the value of request_disk.")
        assert (end.ad.eval_int("DiskUsage") or 0) > 0.9 * DISK_KIB
        await _until_nothing_is_left(execute)
        end = await b.ended(await b.run(b.job_ad("head -c 19000000 /dev/zero > $_CONDOR_SCRATCH_DIR/x"), disk=DISK_KIB))
        assert (end.ending, end.ad.eval_int("ExitCode")) == (Ending.EXITED, 0)
        await _until_nothing_is_left(execute)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not ScratchKind.WALK])
async def test_what_a_job_writes_ends_at_its_disk_and_it_is_held_while_it_goes_on(
    machine: Machine, kind: ScratchKind
) -> None:
    execute, found = machine.have(kind)
    async with bench(**_settings(execute, found)) as b:
        activation = await b.run(b.job_ad(f"{FILL} || echo no room >&2; sleep 1000"), disk=DISK_KIB)
        end = await b.ended(activation)
        assert (end.ending, end.ad.eval_int("HoldReasonSubCode")) == (Ending.HOLD, 104)
        assert (end.ad.eval_int("DiskUsage") or 0) <= 1.1 * DISK_KIB
        await _until_nothing_is_left(execute)


async def test_a_thin_volume_has_room_beyond_the_disk_so_that_the_job_is_held_before_its_writes_fail(
    machine: Machine,
) -> None:
    execute, found = machine.have(ScratchKind.LVM, LVM_USE_THIN_PROVISIONING="true")
    async with bench(**_settings(execute, found)) as b:
        command = "head -c 25000000 /dev/zero > $_CONDOR_SCRATCH_DIR/x && echo room > room; sleep 1000"
        end = await b.ended(await b.run(b.job_ad(command), disk=DISK_KIB))
        assert (end.ending, end.ad.eval_int("HoldReasonSubCode")) == (Ending.HOLD, 104)
        await _until_nothing_is_left(execute)


@pytest.mark.parametrize("kind", KINDS)
async def test_usage_is_what_the_file_system_says(machine: Machine, kind: ScratchKind) -> None:
    execute, found = machine.have(kind)
    async with bench(**_settings(execute, found)) as b:
        command = "cd $_CONDOR_SCRATCH_DIR; touch a b; mkdir c; head -c 4000000 /dev/zero > c/d; sync c/d; sleep 1000"
        activation = await b.run(b.job_ad(command), disk=DISK_KIB)
        with trio.fail_after(PATIENCE_S):
            count = 1
            while True:
                ad = (await b.until(JobUpdate, activation, count)).ad
                if (ad.eval_int("DiskUsage") or 0) >= 3900 and (ad.eval_int("ScratchDirFileCount") or 0) >= 6:
                    break  # with what the starter has put there
                count += 1
        assert (ad.eval_int("DiskUsage") or 0) < 6000
        await b.stop(activation, vacate_s=0.0)
        assert (await b.ended(activation)).ending is Ending.EVICTED


@pytest.mark.parametrize("hide", ["true", "false"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in MOUNTED])
async def test_a_hidden_file_system_is_seen_by_the_job_alone(machine: Machine, kind: ScratchKind, hide: str) -> None:
    execute, found = machine.have(kind, LVM_HIDE_MOUNT=hide)
    async with bench(**_settings(execute, found), job_namespaces=True, pid_namespaces=True) as b:
        activation = await b.run(
            b.job_ad("echo secret > $_CONDOR_SCRATCH_DIR/file; echo > up; sleep 1000"), disk=DISK_KIB
        )
        with trio.fail_after(PATIENCE_S):
            while not (b.iwd / "up").exists():
                await trio.sleep(0.02)
        sandbox = execute / f"dir_{b.starter.pid}"
        assert bool(mounted_below(str(sandbox))) is (hide == "false")
        assert (sandbox / "file").exists() is (hide == "false")
        await b.stop(activation, vacate_s=0.0)
        assert (await b.ended(activation)).ending is Ending.EVICTED
        await _until_nothing_is_left(execute)


async def test_a_neighbours_namespace_does_not_keep_what_a_job_had(machine: Machine) -> None:
    execute, seen = machine.have(ScratchKind.EXT4, LVM_HIDE_MOUNT="false")
    _, hidden = machine.have(ScratchKind.EXT4)
    async with bench(start=False) as first, bench(start=False) as second:
        await first.start_starter(**_settings(execute, seen))
        await second.start_starter(**_settings(execute, hidden), job_namespaces=True)
        first_job = await first.run(first.job_ad("sleep 1000"), disk=DISK_KIB)
        await first.until(JobExecuting, first_job)
        second_job = await second.run(second.job_ad("sleep 1000"), disk=DISK_KIB)
        await second.until(JobExecuting, second_job)
        own = backing_files()
        await first.stop(first_job, vacate_s=0.0)
        assert (await first.ended(first_job)).ending is Ending.EVICTED
        with trio.fail_after(PATIENCE_S):
            while len([file for file in backing_files() if file in own and file.startswith(f"{execute}/")]) > 1:
                await trio.sleep(0.02)
        assert second.starter.alive
        await second.stop(second_job, vacate_s=0.0)
        assert (await second.ended(second_job)).ending is Ending.EVICTED


STAGES = ["scratch_attached", "scratch_mounted", "job_started", "job_exited", "scratch_unmounted"]
KILLED = [
    *((ScratchKind.EXT4, "true", stage) for stage in STAGES),
    *(pytest.param(ScratchKind.EXT4, "false", stage, marks=pytest.mark.slow) for stage in STAGES),
    *(
        pytest.param(ScratchKind.LVM, hide, stage, marks=pytest.mark.slow)
        for hide in ("true", "false")
        for stage in STAGES
    ),
    (ScratchKind.BTRFS, "auto", "job_started"),
    (ScratchKind.QUOTA, "auto", "job_started"),
]


@pytest.mark.parametrize(("kind", "hide", "stage"), KILLED)
async def test_p6_whenever_its_starter_is_killed_the_space_comes_back(
    machine: Machine, kind: ScratchKind, hide: str, stage: str
) -> None:
    execute, found = machine.have(kind, LVM_HIDE_MOUNT=hide)
    async with bench(start=False) as b:
        await b.start_starter(**_settings(execute, found), fault_points=f"starter.{stage}")
        trace = _trace(b, execute)
        (b.root / "run").chmod(0o777)
        with suppress(PeerError):  # it may die before it answers
            await b.run(b.job_ad("head -c 1000000 /dev/zero > $_CONDOR_SCRATCH_DIR/x; sleep 0.1"), disk=DISK_KIB)
        with trio.fail_after(PATIENCE_S):
            await b.starter.wait()
        assert sweep(trace, Trees(0)) == []
        await _until_nothing_is_left(execute)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in ENCRYPTABLE])
async def test_an_encrypted_sandbox_is_on_a_device_whose_key_is_forgotten(machine: Machine, kind: ScratchKind) -> None:
    execute, found = machine.have(kind)
    if not found.store.encrypts:
        pytest.skip("this kernel has no dm-crypt, or cryptsetup is not installed")
    async with bench(**_settings(execute, found)) as b:
        command = "grep $_CONDOR_SCRATCH_DIR /proc/self/mounts | cut -d' ' -f1; sleep 1000"
        activation = await b.run(b.job_ad(command, EncryptExecuteDirectory=True), disk=DISK_KIB)
        await b.until(JobExecuting, activation)
        with trio.fail_after(PATIENCE_S):
            while not (b.iwd / "out").read_text():
                await trio.sleep(0.02)
        assert (b.iwd / "out").read_text().strip().endswith(f"dir_{b.starter.pid}_enc")
        trace = _trace(b, execute)
        b.starter.kill(signal.SIGKILL)
        await b.starter.wait()
        assert sweep(trace, Trees(0)) == []
        await _until_nothing_is_left(execute)


async def test_a_sandbox_that_cannot_be_encrypted_runs_no_job_that_wants_that(machine: Machine) -> None:
    execute, found = machine.have(ScratchKind.WALK)
    async with bench(**_settings(execute, found)) as b:
        end = await b.ended(await b.run(b.job_ad("true", EncryptExecuteDirectory=True), disk=DISK_KIB))
        assert (end.ending, end.reason) == (
            Ending.FAILED,
            "the sandbox was to be encrypted, and this machine cannot do that",
        )
        await _until_nothing_is_left(execute)


async def test_input_that_does_not_fit_holds_the_job_for_its_disk(machine: Machine) -> None:
    execute, found = machine.have(ScratchKind.EXT4)
    async with bench(agent=True, **_settings(execute, found)) as b:
        (b.iwd / "input").write_bytes(os.urandom(30_000_000))
        job = b.job_ad("true", ShouldTransferFiles="YES", TransferInput="input", WhenToTransferOutput="ON_EXIT")
        end = await b.ended(await b.run(job, disk=DISK_KIB, files=True))
        assert (end.ending, end.ad.eval_int("HoldReasonCode")) == (Ending.HOLD, 34)
