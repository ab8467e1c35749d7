"""A look at a program that was not executed, by the account that tried: what its hold reason can tell of it."""

from __future__ import annotations

import os
from typing import Final

from pool.execute.exit import Program

HEAD_BYTES: Final = 256


def seen(path: str) -> Program:
    """The program's mode and how it begins, as far as this account may see that."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return Program()
    try:
        # What a job names may be a pipe.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return Program(mode)
    try:
        return Program(mode, os.read(file, HEAD_BYTES))
    except OSError:
        return Program(mode)
    finally:
        os.close(file)
