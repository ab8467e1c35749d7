"""A machine that cannot start virtual machines any more, with a QEMU that fails when the test says so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.whole.guests import MACHINE, REAL, put_disk
from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_virtual_machines import JOB

pytestmark = REAL
QEMU = (
    "#!/bin/sh\nif [ -e {broken} ]; then echo 'qemu: cannot set up guest memory' >&2; exit 1; fi\nexec {qemu} \"$@\"\n"
)
REASON = "QEMU could not be started: cannot set up guest memory"


@contextmanager
def a_machine(**knobs: object) -> Iterator[tuple[RealPool, Path]]:
    """A pool of one slot, and the file that breaks its QEMU while it is there."""
    with real_pool(start=False, NUM_CPUS=1, **MACHINE, **knobs) as pool:
        program, broken = pool.directory / "qemu", pool.directory / "broken"
        program.write_text(QEMU.format(broken=broken, qemu=shutil.which("qemu-system-x86_64")))
        program.chmod(0o755)
        with open(pool.directory / "config", "a") as config:
            config.write(f"QEMU = {program}\n")
        pool.start()
        yield pool, broken


def offline(pool: RealPool) -> list[str]:
    """What condor_status says of a universe that is off, and why."""
    facts = ("-af", "HasVM", "VMOfflineReason", "VM_Type")
    return pool.tool("condor_status", "-offline", "-constraint", "PartitionableSlot", *facts).splitlines()


def test_a_machine_that_fails_has_no_virtual_machines_until_a_trial_shows_that_it_can_again() -> None:
    with a_machine(VM_RECHECK_INTERVAL=1) as (pool, broken):
        home = pool.place("vm")
        put_disk(home, last=5)
        broken.touch()
        cluster = pool.submit(JOB + "queue\n", cwd=home)
        (line,) = pool.until(lambda: offline(pool), "the machine to say that it fails")
        assert line.startswith("false ")
        assert line.endswith(" undefined"), "VM_Type is gone too"
        slot = pool.machine()
        assert slot.eval("OfflineUniverses") == ["VM", 13]
        assert slot.eval_int("VMOfflineTime", 0) > 0
        pool.until_status(cluster, 1)  # it waits for a machine that can
        broken.unlink()
        (ad,) = pool.until_done(cluster)
        assert (ad.eval("ExitCode"), ad.eval("NumJobStarts")) == (0, 1)
        slot = pool.machine()
        assert (slot.eval("HasVM"), slot.eval("VM_Type"), "VMOfflineReason" in slot) == (True, "kvm", False)


def test_an_administrator_brings_them_back_without_waiting_for_the_trial() -> None:
    with a_machine() as (pool, broken):
        home = pool.place("vm")
        put_disk(home, last=5)
        broken.touch()
        cluster = pool.submit(JOB + "queue\n", cwd=home)
        (line,) = pool.until(lambda: offline(pool), "the machine to say that it fails")
        assert REASON in line
        broken.unlink()
        pool.user = None
        pool.tool("condor_update_machine_ad", text="HasVM = True\n")
        (ad,) = pool.until_done(cluster)
        assert ad.eval("ExitCode") == 0
