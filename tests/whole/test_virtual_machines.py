"""Jobs that are virtual machines, with a real QEMU."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.whole.guests import FOR_EVER, MACHINE, REAL, put_disk, reached
from tests.whole.hosts import four_hosts
from tests.whole.real_pool import RealPool, real_pool

JOB = """
universe     = vm
executable   = counter
vm_type      = kvm
vm_memory    = 32
vm_disk      = disk.img:vda:w
transfer_input_files = disk.img
output       = console
log          = log
"""


def numbers(text: str) -> list[int]:
    return [int(line) for line in text.split() if line.isdigit()]


def counted(pool: RealPool, cluster: int | str) -> int:
    """How far the running guest has counted."""
    said = numbers(pool.tool("condor_tail", "-maxbytes", "100000", str(cluster), check=False))
    return said[-1] if said else 0


@REAL
def test_a_virtual_machine_runs_and_its_console_and_disk_come_back() -> None:
    with real_pool(NUM_CPUS=1, **MACHINE) as pool:
        home = pool.place("vm")
        put_disk(home, last=5)
        slot = pool.machine()
        facts = {name: slot.eval(name) for name in ("HasVM", "VM_Type", "VM_Accelerator", "VM_AvailNum")}
        assert facts == {"HasVM": True, "VM_Type": "kvm", "VM_Accelerator": "tcg", "VM_AvailNum": 1}
        (ad,) = pool.until_done(pool.submit(JOB + "queue\n", cwd=home))
        assert (ad.eval("ExitCode"), ad.eval("ExitBySignal")) == (0, False)
        assert (home / "console").read_text().split() == ["begin", "1", "2", "3", "4", "5", "written"]
        assert reached((home / "disk.img").read_bytes()) == 5
        assert ad.eval_float("RemoteUserCpu", 0.0) + ad.eval_float("RemoteSysCpu", 0.0) > 0


@REAL
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("keeps_memory", [False, True])
def test_it_stands_still_goes_on_and_shuts_itself_down_when_it_has_to_leave(keeps_memory: bool) -> None:
    with real_pool(NUM_CPUS=1, VM_SOFT_SUSPEND=keeps_memory, **MACHINE) as pool:
        home = pool.place("vm")
        put_disk(home, last=FOR_EVER)
        cluster = pool.submit(JOB + "queue\n", cwd=home)
        pool.until(lambda: counted(pool, cluster) > 3, "the guest to count")
        (job,) = pool.jobs(str(cluster))
        qemu = job.eval_int("JobPid", 0)
        pool.tool("condor_suspend", str(cluster))
        pool.until_status(cluster, 7)
        (log,) = pool.directory.glob("log/StarterLog.slot1_1")
        pool.until(lambda: _guests(pool) == [(32, 1, 1)], "the guest to be in its slot's ad")
        if not keeps_memory:
            pool.until(lambda: "is put away" in log.read_text(), "its memory to be free")
            assert not os.path.exists(f"/proc/{qemu}")
        still = pool.until(lambda: _twice_the_same(pool, cluster), "the guest to stand still")
        pool.tool("condor_continue", str(cluster))
        pool.until(lambda: counted(pool, cluster) > still, "the guest to go on")
        assert os.path.exists(f"/proc/{qemu}") == keeps_memory
        pool.tool("condor_hold", str(cluster))
        pool.until(lambda: "012 (" in (home / "log").read_text(), "it to have left")
        assert "The job is asked to leave" in log.read_text()
        assert "The job is killed" not in log.read_text()


@REAL
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_has_to_leave_while_it_is_put_away_and_shuts_itself_down_all_the_same() -> None:
    with real_pool(NUM_CPUS=1, **MACHINE) as pool:
        home = pool.place("vm")
        put_disk(home, last=FOR_EVER)
        cluster = pool.submit(JOB + "queue\n", cwd=home)
        pool.until(lambda: counted(pool, cluster) > 3, "the guest to count")
        pool.tool("condor_suspend", str(cluster))
        (log,) = pool.directory.glob("log/StarterLog.slot1_1")
        pool.until(lambda: "is put away" in log.read_text(), "its memory to be free")
        pool.tool("condor_vacate_job", str(cluster))
        pool.until(lambda: "is taken out again" in log.read_text(), "the guest to be asked")
        pool.until(lambda: log.read_text().count("The virtual machine runs") == 2, "it to begin anew")
        pool.until(lambda: counted(pool, cluster) > 3, "the guest to count again")
        assert "The job is killed" not in log.read_text()


def _guests(pool: RealPool) -> list[tuple[object, ...]]:
    """Memory and processors of the guest in each claimed slot, and how many more the machine takes."""
    names = ("VM_Guest_Mem", "JobVM_VCPUS", "VM_AvailNum")
    return [tuple(map(ad.eval, names)) for ad in pool.slots() if ad.eval("State") == "Claimed"]


def _twice_the_same(pool: RealPool, cluster: int) -> int:
    """How far a guest has counted that does not count; a running one would be further the next time."""
    first = counted(pool, cluster)
    return first if first == counted(pool, cluster) else 0


@REAL
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_goes_on_on_another_host_from_where_it_was() -> None:
    with four_hosts(NUM_CPUS="1", MEMORY="1024", **MACHINE) as hosts:
        submit = hosts.submit
        home = submit.place("vm")
        put_disk(home, last=400)
        with submit.as_user("nobody"):
            text = JOB + "vm_checkpoint = true\nrequirements = Machine =!= MY.LeftMachine\nqueue\n"
            cluster = str(submit.submit(text, cwd=home))
            submit.until(lambda: counted(submit, cluster) > 3, "the guest to count")
            submit.tool("condor_suspend", cluster)  # so that it is not over before it has to leave
            (job,) = submit.until(lambda: submit.jobs(cluster, "-constraint", "JobStatus == 7"), "it to stand still")
            first = (job.eval_str("RemoteHost") or "").partition("@")[2]
            submit.tool("condor_qedit", cluster, "LeftMachine", f'"{first}"')
            submit.tool("condor_vacate_job", cluster)
            (ad,) = submit.until_done(int(cluster))
        assert (ad.eval("ExitCode"), ad.eval("NumCkpts"), ad.eval("NumJobStarts")) == (0, 1, 2)
        assert first not in str(ad.eval("LastRemoteHost"))
        assert (home / "console").read_text().split() == ["begin", *map(str, range(1, 401)), "written"]
        assert reached((home / "disk.img").read_bytes()) == 400


@REAL
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("killed", ["starter", "startd"])
def test_no_virtual_machine_is_left_when_its_starter_or_startd_is_killed(killed: str) -> None:
    with real_pool(NUM_CPUS=1, **MACHINE) as pool:
        home = pool.place("vm")
        put_disk(home, last=FOR_EVER)
        cluster = pool.submit(JOB + "queue\n", cwd=home)
        pool.until(lambda: counted(pool, cluster) > 3, "the guest to count")
        (job,) = pool.jobs(str(cluster))
        qemu = job.eval_int("JobPid", 0)
        assert os.path.basename(os.readlink(f"/proc/{qemu}/exe")).startswith("qemu-system")
        if killed == "startd":
            pool.restart_of("startd")
        else:
            os.kill(parent_of(qemu), signal.SIGKILL)
        pool.until(lambda: not os.path.exists(f"/proc/{qemu}/exe"), "the end of the virtual machine")
        pool.tool("condor_rm", str(cluster))
        pool.until_gone(cluster)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
