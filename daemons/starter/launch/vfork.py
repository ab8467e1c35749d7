"""Makes a child that takes its last steps to a program by itself, without a copy of this process.

`os.posix_spawn` can do nearly all that a job needs in its child, but it cannot give the child another account. A
process that took the account on for itself, to be copied, could meanwhile be stopped or killed by whatever else runs as
that account. So the child does it: it borrows this process's memory (CLONE_VM) while this process stands still
(CLONE_VFORK), and makes one system call after another from a table that was filled beforehand, the last of which is
execve. Python cannot run there, nor can a C library that is shared; what runs is these few instructions, here in the
words of x86-64, with those of aarch64 beside them:

        mov  rbx, rdi             mov  x19, x0              the table: rows of a number, four arguments, a result
    1:  mov  rax, [rbx]           ldr  x8, [x19]
        mov  rdi, [rbx + 8]       ldp  x0, x1, [x19, #8]
        mov  rsi, [rbx + 16]
        mov  rdx, [rbx + 24]      ldp  x2, x3, [x19, #24]
        mov  r10, [rbx + 32]
        syscall                   svc  #0
        mov  [rbx + 40], rax      str  x0, [x19, #40]
        add  rbx, 48              add  x19, x19, #48
        test rax, rax
        jns  1b                   tbz  x0, #63, 1b          until one fails
        mov  edi, 127             mov  x0, #127
        mov  eax, 231             mov  x8, #94              exit_group
        syscall                   svc  #0

They and the numbers of the system calls are another for each kind of processor; where it is none of these, nobody is
made this way. The calls are those that all kinds have: the newer ones of Linux do without `open` and `dup2`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True)
class Machine:
    """One kind of processor: the instructions above, and the numbers of system calls. Without any: an unknown one."""

    code: bytes = b""
    write: int = 0
    close: int = 0
    openat: int = 0
    dup3: int = 0
    execve: int = 0
    chdir: int = 0
    setsid: int = 0
    setgroups: int = 0
    setresuid: int = 0
    setresgid: int = 0
    rt_sigaction: int = 0
    rt_sigprocmask: int = 0


MACHINES: Final = {
    "x86_64": Machine(
        bytes.fromhex(
            "4889fb 488b03 488b7b08 488b7310 488b5318 4c8b5320 0f05 48894328 4883c330 4885c0 79de"
            "bf7f000000 b8e7000000 0f05"
        ),
        write=1, close=3, openat=257, dup3=292, execve=59, chdir=80, setsid=112,
        setgroups=116, setresuid=117, setresgid=119, rt_sigaction=13, rt_sigprocmask=14,
    ),
    "aarch64": Machine(
        bytes.fromhex(
            "f30300aa 680240f9 608640a9 628e41a9 010000d4 601600f9 73c20091 40ffffb6 e00f80d2 c80b80d2 010000d4"
        ),
        write=64, close=57, openat=56, dup3=24, execve=221, chdir=49, setsid=157,
        setgroups=159, setresuid=147, setresgid=149, rt_sigaction=134, rt_sigprocmask=135,
    ),
}  # fmt: skip
HERE: Final = MACHINES.get(platform.machine(), Machine())
AT_FDCWD: Final = -100
_SIG_SETMASK: Final = 2
_SIGSET_BYTES: Final = 8
_PADDING: Final = (0, 0, 0, 0, 0, 1 << 40)
"""What a row has beyond its words; the result is there before a child has gone so far."""
_ROW: Final = len(_PADDING)
_RESULT: Final = _ROW - 1
_STACK_BYTES: Final = 16 * 1024
_FLAGS: Final = 0x00000100 | 0x00004000 | signal.SIGCHLD
"""CLONE_VM and CLONE_VFORK, and what this process hears of the child's end."""
_PROT_READ, _PROT_EXEC, _MAP_PRIVATE = 1, 4, 2
_SUID_DUMPABLE: Final = Path("/proc/sys/fs/suid_dumpable")

Word = int | bytes | ctypes.Array[ctypes.c_char_p] | ctypes.Array[ctypes.c_uint32]
Step = tuple[Word, ...]

# PyDLL keeps the interpreter's lock: no other thread runs Python while the child borrows this memory.
_libc = ctypes.PyDLL(None, use_errno=True)
_all, _before = ctypes.create_string_buffer(b"\xff" * 128), ctypes.create_string_buffer(128)
_zeros = ctypes.create_string_buffer(64)
"""An empty set of signals, and the default action."""


@cache
def is_possible() -> bool:
    """Whether children can be made this way here.

    Not where the kernel would let the account trace a process that gave root's rights up: its memory is this one's.
    """
    return HERE.code != b"" and _SUID_DUMPABLE.read_text().strip() != "1" and _code() != 0


@cache
def _code() -> int:
    """Where the instructions are, in memory that nobody can write; 0 where no such memory is to be had."""
    fd = os.memfd_create("spawn")
    try:
        os.write(fd, HERE.code)
        _libc.mmap.restype = ctypes.c_void_p
        size = ctypes.c_size_t(len(HERE.code))
        at = _libc.mmap(None, size, _PROT_READ | _PROT_EXEC, _MAP_PRIVATE, fd, ctypes.c_long(0))
    finally:
        os.close(fd)
    return 0 if at is None or at == ctypes.c_void_p(-1).value else int(at)


@cache
def _stack() -> tuple[ctypes.Array[ctypes.c_char], int]:
    """A stack for children, one at a time, and its upper end."""
    memory = ctypes.create_string_buffer(_STACK_BYTES)
    return memory, (ctypes.addressof(memory) + _STACK_BYTES) & ~15


def default_signals(signals: Sequence[int]) -> list[Step]:
    """Give these signals their default action, and block none."""
    zeros = ctypes.addressof(_zeros)
    steps: list[Step] = [(HERE.rt_sigaction, number, zeros, 0, _SIGSET_BYTES) for number in signals]
    return [*steps, (HERE.rt_sigprocmask, _SIG_SETMASK, zeros, 0, _SIGSET_BYTES)]


def vfork(steps: Sequence[Step]) -> int:
    """The child that has gone these steps, the last of which is execve; OSError says which error stopped it."""
    rows: list[int] = []
    for step in steps:
        row = [word if type(word) is int else _address(word) for word in step]
        rows += (*row, *_PADDING[len(row) :])
    table = (ctypes.c_int64 * len(rows))(*rows)
    _libc.pthread_sigmask(_SIG_SETMASK, _all, _before)  # no handler of ours may run there
    try:
        pid = _libc.clone(ctypes.c_void_p(_code()), ctypes.c_void_p(_stack()[1]), _FLAGS, table)
        number = ctypes.get_errno()
    finally:
        _libc.pthread_sigmask(_SIG_SETMASK, _before, None)
    if pid < 0:
        raise OSError(number, os.strerror(number))
    failed = next((result for result in table[_RESULT::_ROW] if result < 0), 0)
    if failed:
        # It never was the job: collected here, before the starter's own collector hears of it.
        os.waitpid(pid, 0)
        raise OSError(-failed, os.strerror(-failed))
    return int(pid)


def words(texts: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    """Texts as execve takes them."""
    if b"\0" in b"".join(texts):
        raise ValueError("a text for the kernel has a null character")
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


def numbers(ids: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
    """Ids as setgroups takes them."""
    return (ctypes.c_uint32 * max(1, len(ids)))(*ids)


def _address(word: Any) -> int:
    """Where it is in memory, for as long as the caller has it."""
    if type(word) is bytes and b"\0" in word:
        raise ValueError("a text for the kernel has a null character")
    return int(ctypes.cast(word, ctypes.c_void_p).value or 0)
