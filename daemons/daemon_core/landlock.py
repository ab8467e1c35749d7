"""Landlock: from some moment on, a process and its children change no file outside certain directories (landlock(7)).

Nothing is protected from being read, and descriptors that are open already keep working. From Linux 6.12 on, the
process and its children can signal each other alone.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from typing import Final

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1

_WRITE_FILE: Final = 1 << 1
_CHANGE_DIRECTORIES: Final = sum(1 << bit for bit in range(4, 13))  # REMOVE_DIR ... MAKE_SYM
# LANDLOCK_ACCESS_FS_REFER (bit 13) is not asked for: unhandled, it forbids moves between directories by itself.
_TRUNCATE: Final = 1 << 14
_TRUNCATE_SINCE: Final = 3
_NETWORK_SINCE: Final = 4
SCOPES_SINCE: Final = 6
_SCOPE_SIGNAL: Final = 1 << 1

_libc = ctypes.CDLL(None, use_errno=True)


def write_only_beneath(directories: Iterable[os.PathLike[str] | str]) -> None:
    """Confine this thread, and what it starts; OSError where the kernel has no Landlock.

    Call it while there is one thread, and after `linux.never_gain_privileges`.
    """
    known = _version()
    access = _WRITE_FILE | _CHANGE_DIRECTORIES | (_TRUNCATE if known >= _TRUNCATE_SINCE else 0)
    # An older kernel refuses a longer structure than it knows, so each field only where it is known.
    attributes = struct.pack("=Q", access)
    if known >= _NETWORK_SINCE:
        attributes += struct.pack("=Q", 0)
    if known >= SCOPES_SINCE:
        attributes += struct.pack("=Q", _SCOPE_SIGNAL)
    rules = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for directory in directories:
            place = os.open(directory, os.O_PATH | os.O_CLOEXEC)
            try:
                # The kernel's structure is packed: twelve bytes, not sixteen.
                rule = struct.pack("=Qi", access, place)
                _call(_ADD_RULE, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
            finally:
                os.close(place)
        _call(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def version() -> int:
    """Which Landlock the kernel has; 0: none."""
    try:
        return _version()
    except OSError:
        return 0


def _version() -> int:
    return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))


def _call(number: int, *arguments: object) -> int:
    answer = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer
