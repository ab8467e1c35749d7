"""Programs for 32-bit processors, and without an interpreter or a library, are jobs like others on a 64-bit host."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.whole.real_pool import real_pool

pytestmark = pytest.mark.slow

SAID: Final = b"32 bits\n"
CODE: Final = 7
_BASE, _HEADERS = 0x10000, 52 + 32
# By the kind of the host: the number of the 32-bit kind in an ELF header, its flags, and write(1, text, 8); exit(7).
_PROGRAMS: Final = {
    "x86_64": (
        3,
        0,
        bytes.fromhex("b804000000 bb01000000 b9")  # mov eax, 4; mov ebx, 1; mov ecx, text
        + struct.pack("<I", _BASE + _HEADERS + 34)
        + bytes.fromhex("ba08000000 cd80 b801000000 bb07000000 cd80"),  # mov edx, 8; int 0x80; mov eax, 1; mov ebx, 7
    ),
    "aarch64": (
        40,
        0x05000200,
        # mov r7, 4; mov r0, 1; adr r1, text; mov r2, 8; svc 0; mov r7, 1; mov r0, 7; svc 0
        struct.pack(
            "<8I", 0xE3A07004, 0xE3A00001, 0xE28F1010, 0xE3A02008, 0xEF000000, 0xE3A07001, 0xE3A00007, 0xEF000000
        ),
    ),
}


def _program(path: Path) -> Path:
    """A whole program in an ELF file of 32 bits."""
    kind, flags, code = _PROGRAMS[os.uname().machine]
    size = _HEADERS + len(code) + len(SAID)
    head = b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
    head += struct.pack("<HHIIIIIHHHHHH", 2, kind, 1, _BASE + _HEADERS, 52, 0, flags, 52, 32, 1, 40, 0, 0)
    segment = struct.pack("<8I", 1, 0, _BASE, _BASE, size, size, 5, 0x1000)
    path.write_bytes(head + segment + code + SAID)
    path.chmod(0o755)
    return path


def _runs(program: Path) -> bool:
    """Whether this kernel runs programs of 32 bits, which is an option of its configuration."""
    try:
        return subprocess.run([program], capture_output=True, check=False).stdout == SAID
    except OSError:
        return False


def test_a_program_of_32_bits_runs_on_a_host_of_64(tmp_path: Path) -> None:
    if os.uname().machine not in _PROGRAMS or not _runs(_program(tmp_path / "try")):
        pytest.skip("this kernel runs no programs of 32 bits")
    with real_pool(NUM_CPUS=1) as pool:
        home = pool.place("small")
        _program(home / "small")
        (ad,) = pool.until_done(pool.submit("executable = small\noutput = out\nlog = log\nqueue\n", cwd=home))
        assert (ad.eval("ExitCode"), ad.eval("ExitBySignal")) == (CODE, False)
        assert (home / "out").read_bytes() == SAID
