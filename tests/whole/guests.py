"""A tiny guest for virtual machines: a boot sector that counts, in 512 bytes.

It writes `begin` and then a number each tick of the clock (18 a second) to its first serial port, up to `last`; then it
writes itself, with its number, into the disk's second sector, says `written`, and switches itself off. When the power
button is pressed it says `button`, and switches itself off at once.

        xor  ax, ax; mov ds, ax; mov es, ax; mov ss, ax; mov sp, 0x7c00; mov [drive], dl; sti
        mov  dx, 0x602; mov ax, 0x100; out dx, ax          the power button counts (PM1_EN)
        mov  si, begin; call say
    count:
        mov  ax, [number]; call decimal; mov si, newline; call say
        mov  ax, [number]; cmp ax, [last]; jae done
        inc  word [number]; mov bl, [0x46c]                the clock's ticks
    wait:
        hlt; mov dx, 0x600; in ax, dx; test ax, 0x100; jnz asked
        cmp  [0x46c], bl; je wait; jmp count
    asked:
        mov  si, button; call say; jmp off
    done:
        mov  ax, 0x301; mov bx, 0x7c00; mov cx, 2; mov dh, 0; mov dl, [drive]; int 0x13; jc failed
        mov  si, written; call say
    off:
        mov  dx, 0x604; mov ax, 0x2000; out dx, ax; cli; hlt   asleep for good (PM1_CNT)
    failed:
        mov  si, not_written; call say; jmp off
    say, put, decimal:                                      a text, a character, a number to port 0x3f8
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

SECTOR: Final = bytes.fromhex(
    """
    31c08ed88ec08ed0bc007c8816d67cfbba0206b80001efbeaf7ce86100a1fa7de87600beb67ce85500a1fa7d3b06fc7d7322ff06fa7d8a1e6c04f4ba0006eda9
    000175083a1e6c0474f0ebd1bece7ce82c00eb19b80103bb007cb90200b6008a16d67ccd13720fbeb87ce81100ba0406b80020effaf4bec17ce80200ebefac84
    c07415e80200ebf688c4bafd03eca82074fb88e0baf803eec331d2b90a00f7f15285c07403e8f1ff580430e8daffc3626567696e0a000a007772697474656e0a
    006e6f74207772697474656e0a00627574746f6e0a0000
    """
)
_AT_NUMBER: Final = 506
DISK_BYTES: Final = 2 << 20
FOR_EVER: Final = 60000

REAL = pytest.mark.skipif(
    shutil.which("qemu-system-x86_64") is None or shutil.which("qemu-img") is None,
    reason="takes the programs qemu-system-x86_64 and qemu-img",
)
MACHINE: Final = {"VM_TYPE": "kvm", "VM_ACCELERATOR": "tcg"}


def counting(last: int) -> bytes:
    """The disk of a guest that counts so far."""
    numbers = (1).to_bytes(2, "little") + last.to_bytes(2, "little")
    return (SECTOR.ljust(_AT_NUMBER, b"\0") + numbers + b"\x55\xaa").ljust(DISK_BYTES, b"\0")


def put_disk(home: Path, last: int, name: str = "disk.img") -> Path:
    """That disk as a file that everybody may change."""
    path = home / name
    path.write_bytes(counting(last))
    path.chmod(0o666)
    return path


def reached(image: bytes) -> int:
    """How far a guest had counted when it wrote into its disk; 0 if it has not."""
    second = image[512:1024]
    return int.from_bytes(second[_AT_NUMBER : _AT_NUMBER + 2], "little")
