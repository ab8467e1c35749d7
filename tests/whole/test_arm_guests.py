"""Jobs that are virtual machines, on a host of aarch64 with a real QEMU."""

from __future__ import annotations

import os
import shutil
import struct
from typing import Final

import pytest

from tests.whole.real_pool import real_pool

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        os.uname().machine != "aarch64" or shutil.which("qemu-system-aarch64") is None or not shutil.which("qemu-img"),
        reason="takes a host of aarch64 with QEMU",
    ),
]

# A firmware that is all of the guest, as UEFI alone takes minutes where QEMU itself is emulated. It writes a text to
# the board's serial port and switches the board off (PSCI's SYSTEM_OFF).
_CODE: Final = (
    0xD2A12001,  # movz x1, 0x0900, lsl 16     the serial port's register
    0x10000142,  # adr  x2, text
    0x38401440,  # put: ldrb w0, [x2], 1
    0x34000060,  # cbz  w0, off
    0x39000020,  # strb w0, [x1]
    0x17FFFFFD,  # b    put
    0x52800100,  # off: mov w0, 0x84000008
    0x72B08000,
    0xD4000002,  # hvc  0
    0xD503207F,  # wfi
    0x14000000,  # b    .
)
SAID: Final = "a guest of aarch64\n"
JOB = """
universe     = vm
executable   = guest
vm_type      = kvm
vm_memory    = 64
vm_disk      = disk.img:vda:w
transfer_input_files = disk.img
vm_no_output_vm = true
output       = console
log          = log
queue
"""


def test_a_virtual_machine_of_aarch64_runs_and_its_console_comes_back() -> None:
    knobs = {"VM_TYPE": "kvm", "VM_ACCELERATOR": "tcg", "QEMU_FIRMWARE": "$(LOCAL_DIR)/firmware"}
    with real_pool(start=False, NUM_CPUS=1, **knobs) as pool:
        code = struct.pack(f"<{len(_CODE)}I", *_CODE) + SAID.encode() + b"\0"
        (pool.directory / "firmware").write_bytes(code.ljust(4096, b"\0"))
        (pool.directory / "firmware").chmod(0o644)
        pool.start()
        slot = pool.machine()
        facts = [slot.eval(name) for name in ("HasVM", "VM_Accelerator", "VM_Platform", "VMOfflineReason")]
        assert facts[:2] == [True, "tcg"], facts
        assert str(facts[2]).startswith("tcg virt qemu-"), facts
        home = pool.place("vm")
        (home / "disk.img").write_bytes(bytes(2 << 20))
        (home / "disk.img").chmod(0o666)
        (ad,) = pool.until_done(pool.submit(JOB, cwd=home))
        assert (ad.eval("ExitCode"), ad.eval("ExitBySignal")) == (0, False)
        assert (home / "console").read_text() == SAID
