"""A job that is a virtual machine of Linux: it boots from its disk, stands still, and goes on on another host."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.whole.guests import MACHINE, REAL
from tests.whole.hosts import four_hosts
from tests.whole.linux_guests import Kernel, kernel, why_not, with_busybox
from tests.whole.real_pool import RealPool

pytestmark = [REAL, pytest.mark.slow, pytest.mark.timeout(900)]
TOOLS = ("syslinux", "mformat", "mcopy")
LAST = 120
BOOTS_S = 300.0
DISK_SECTORS = 65536
INIT = f"""\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /dev /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc
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


def put_linux(home: Path, linux: Kernel) -> None:
    """disk.img: a file system with a boot loader, the kernel and an initramfs that counts."""
    guest = with_busybox()
    guest.write("/init", INIT.encode(), 0o755)
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


def test_linux_boots_stands_still_and_goes_on_on_another_host() -> None:
    linux, missing = kernel(), [tool for tool in TOOLS if shutil.which(tool) is None]
    if linux is None or missing:
        pytest.skip(why_not() or f"takes the programs {', '.join(missing)}")
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
