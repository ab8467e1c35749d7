"""A job that is a virtual machine of Linux: it boots from its disk, stands still, and goes on on another host."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.whole.guests import MACHINE, REAL
from tests.whole.hosts import four_hosts
from tests.whole.linux_guests import Kernel, kernel, why_not, with_busybox
from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_virtual_machines import parent_of

pytestmark = [REAL, pytest.mark.slow, pytest.mark.timeout(900)]
TOOLS = ("syslinux", "mformat", "mcopy")
LAST = 120
BOOTS_S = 300.0
DISK_SECTORS = 65536
STATE = "**/_condor_vm/state.qcow2"
SAVING_BYTES = 4 << 20
BEGIN = """\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /dev /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc
"""
INIT = f"""\
{BEGIN}
echo Linux $(uname -r) on $(hostname)
number=0
while [ $number -lt {LAST} ]; do number=$((number + 1)); echo $number; sleep 0.2; done
poweroff -f
"""
BOOT = "DEFAULT linux\nPROMPT 0\nLABEL linux\n KERNEL vmlinuz\n INITRD initrd\n APPEND console=ttyS0 quiet no_timer_check\n"
JOB = """
universe     = vm
executable   = linux
vm_type      = kvm
vm_memory    = 256
vm_disk      = disk.img:vda:w
vm_checkpoint = true
vm_no_output_vm = true
transfer_input_files = disk.img
requirements = Machine =!= MY.LeftMachine
output       = console
log          = log
queue
"""

READS_CD = f"""\
{BEGIN}
mkdir -p /sys /mnt; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in {{modules}}; do [ -e /sys/module/$module ] || insmod /modules/$module.ko; done
until [ -b /dev/sr0 ]; do sleep 0.1; done
mount -t iso9660 -o ro /dev/sr0 /mnt; cat /mnt/data.txt
poweroff -f
"""
CD_DRIVERS = ("ata_piix", "sr_mod", "isofs")


def put_linux(home: Path, linux: Kernel, init: str = INIT, drivers: Sequence[str] = ()) -> None:
    """disk.img: a file system with a boot loader, the kernel and an initramfs that counts."""
    guest = with_busybox()
    modules = dict(one for driver in drivers for one in linux.module(driver))
    for name, content in modules.items():
        guest.write(f"/modules/{name}.ko", content)
    guest.write("/init", init.format(modules=" ".join(modules)).encode(), 0o755)
    files = {"vmlinuz": linux.image.read_bytes(), "initrd": guest.archive(), "syslinux.cfg": BOOT.encode()}
    disk = home / "disk.img"
    _run("mformat", "-C", "-i", disk, "-T", DISK_SECTORS, "-h", 16, "-s", 63, "::")
    for name, content in files.items():
        (home / name).write_bytes(content)
        _run("mcopy", "-i", disk, home / name, f"::{name}")
    _run("syslinux", "--install", disk)
    disk.chmod(0o666)


def _run(*words: object) -> None:
    subprocess.run([*map(str, words)], check=True, capture_output=True)


def counted(pool: RealPool, cluster: str) -> int:
    """How far the running guest has counted."""
    said = pool.tool("condor_tail", "-maxbytes", "100000", cluster, check=False)
    return max((int(line) for line in said.split() if line.isdigit()), default=0)


def the_kernel() -> Kernel:
    linux, missing = kernel(), [tool for tool in TOOLS if shutil.which(tool) is None]
    if linux is None or missing:
        pytest.skip(why_not() or f"takes the programs {', '.join(missing)}")
    return linux


def test_linux_boots_stands_still_and_goes_on_on_another_host() -> None:
    linux = the_kernel()
    with four_hosts(NUM_CPUS="1", MEMORY="1024", **MACHINE) as hosts:
        submit = hosts.submit
        home = submit.place("vm")
        put_linux(home, linux)
        with submit.as_user("nobody"):
            cluster = str(submit.submit(JOB, cwd=home))
            submit.until(lambda: counted(submit, cluster) > 3, "Linux to count", deadline_s=BOOTS_S)
            submit.tool("condor_suspend", cluster)
            (job,) = submit.until(lambda: submit.jobs(cluster, "-constraint", "JobStatus == 7"), "it to stand still")
            still = submit.until(lambda: _twice_the_same(submit, cluster), "the guest to stand still")
            submit.tool("condor_continue", cluster)
            submit.until(lambda: counted(submit, cluster) > still, "Linux to go on")
            first = (job.eval_str("RemoteHost") or "").partition("@")[2]
            submit.tool("condor_qedit", cluster, "LeftMachine", f'"{first}"')
            submit.tool("condor_vacate_job", cluster)
            submit.until(lambda: not submit.jobs(cluster), "the end of Linux", deadline_s=BOOTS_S)
            (ad,) = submit.until_done(int(cluster))
        said = (home / "console").read_text().split("\n")
    lines = [line.strip() for line in said]
    assert [line for line in lines if line.isdigit()] == [*map(str, range(1, LAST + 1))], "it booted once"
    assert sum(line.startswith(f"Linux {linux.modules.name} on ") for line in lines) == 1
    assert (ad.eval("ExitCode"), ad.eval("NumCkpts"), ad.eval("NumJobStarts")) == (0, 1, 2)
    assert first not in str(ad.eval("LastRemoteHost"))


def _twice_the_same(pool: RealPool, cluster: str) -> int:
    """How far a guest has counted that does not count; a running one would be further the next time."""
    first = counted(pool, cluster)
    return first if first == counted(pool, cluster) else 0


BRIDGE = "vmtest0"
HOST, GUEST = "10.97.0.1", "10.97.0.2"
PINGS = f"""\
{BEGIN}
for module in {{modules}}; do insmod /modules/$module.ko; done
ip address add {GUEST}/24 dev eth0; ip link set eth0 up
number=0
while [ $number -lt {LAST} ]; do ping -c 1 -W 2 {HOST} > /dev/null && number=$((number + 1)) && echo $number; done
poweroff -f
"""
BRIDGED = JOB.replace("vm_checkpoint = true", "vm_networking = true").replace("requirements =", "#")


@contextmanager
def a_bridge() -> Iterator[None]:
    """A network of this machine's, in which it has an address."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("takes root's rights and the program ip")
    _run("ip", "link", "add", "name", BRIDGE, "type", "bridge")
    try:
        _run("ip", "address", "add", f"{HOST}/24", "dev", BRIDGE)
        _run("ip", "link", "set", "dev", BRIDGE, "up")
        yield
    finally:
        _run("ip", "link", "del", "dev", BRIDGE)


def ports() -> list[str]:
    """Who is plugged into the bridge."""
    return os.listdir(f"/sys/class/net/{BRIDGE}/brif")


def test_linux_on_a_bridge_of_its_machine_reaches_that_also_after_it_was_put_away() -> None:
    linux = the_kernel()
    network = {"VM_NETWORKING": True, "VM_NETWORKING_TYPE": "bridge", "VM_NETWORKING_BRIDGE_INTERFACE": BRIDGE}
    with a_bridge(), real_pool(NUM_CPUS=1, MEMORY=1024, **MACHINE, **network) as pool:
        home = pool.place("vm")
        put_linux(home, linux, PINGS, ["virtio_pci", "virtio_net"])
        cluster = str(pool.submit(BRIDGED, cwd=home))
        pool.until(lambda: counted(pool, cluster) > 3, "the host to answer Linux", deadline_s=BOOTS_S)
        assert len(ports()) == 1
        pool.tool("condor_suspend", cluster)
        pool.until(lambda: not ports(), "Linux to be put away", deadline_s=BOOTS_S)
        before = counted(pool, cluster)
        pool.tool("condor_continue", cluster)
        pool.until(lambda: counted(pool, cluster) > before, "the host to answer again", deadline_s=BOOTS_S)
        (ad,) = pool.until_done(int(cluster))
        assert ad.eval("ExitCode") == 0
        pool.until(lambda: not ports(), "the end of its cable")


def kill_while_it_saves(pool: RealPool, pid: int) -> None:
    """SIGKILL to that process as soon as the guest's memory is being written."""
    deadline = time.monotonic() + BOOTS_S
    while time.monotonic() < deadline:
        if any(path.stat().st_size > SAVING_BYTES for path in pool.directory.glob(STATE)):
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.002)


@pytest.mark.parametrize("killed", ["starter", "startd"])
def test_no_linux_is_left_when_its_starter_or_startd_is_killed_while_it_boots_or_is_written_down(killed: str) -> None:
    linux = the_kernel()
    with real_pool(NUM_CPUS=1, MEMORY=1024, **MACHINE) as pool:
        home = pool.place("vm")
        put_linux(home, linux)
        for saving in (False, True):
            cluster = pool.submit(JOB, cwd=home)
            (job,) = pool.until(lambda c=cluster: pool.jobs(str(c), "-constraint", "JobPid > 0"), "Linux to boot")
            qemu = job.eval_int("JobPid", 0)
            assert os.path.basename(os.readlink(f"/proc/{qemu}/exe")).startswith("qemu-system")
            victim = parent_of(qemu) if killed == "starter" else pool.pid_of("startd")
            if saving:
                pool.until(lambda c=cluster: counted(pool, str(c)) > 3, "Linux to count", deadline_s=BOOTS_S)
                killer = threading.Thread(target=kill_while_it_saves, args=(pool, victim))
                killer.start()
                pool.tool("condor_suspend", str(cluster), check=False)
                killer.join()
                assert "is put away" not in "".join(log.read_text() for log in pool.directory.glob("log/StarterLog.*"))
            else:
                os.kill(victim, signal.SIGKILL)
            pool.until(lambda pid=qemu: not os.path.exists(f"/proc/{pid}/exe"), "the end of QEMU")
            pool.tool("condor_rm", str(cluster))
            pool.until_gone(cluster)


def test_linux_reads_its_input_files_from_a_cd() -> None:
    linux = the_kernel()
    if shutil.which("genisoimage") is None:
        pytest.skip("takes the program genisoimage")
    with real_pool(**MACHINE) as pool:
        home = pool.place("vm")
        put_linux(home, linux, READS_CD, CD_DRIVERS)
        (home / "data.txt").write_text("good morning\n")
        _run("genisoimage", "-quiet", "-R", "-o", home / "input.iso", home / "data.txt")
        (home / "input.iso").chmod(0o644)
        disks = JOB.replace("disk.img:vda:w", "disk.img:vda:w, input.iso:hda:r").replace(
            "= disk.img\n", "= disk.img, input.iso\n"
        )
        cluster = pool.submit(disks.replace("vm_checkpoint = true", ""), cwd=home)
        pool.until(lambda: "\n005 (" in (home / "log").read_text(), "Linux to read it", deadline_s=BOOTS_S)
        (job,) = pool.until_done(cluster)
        assert job["ExitCode"] == 0
        assert "good morning" in (home / "console").read_text().splitlines()
