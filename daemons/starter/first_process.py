"""The first process of a job's pid namespace: parent of the job's program, collector of its orphans.

A namespace's first process ignores every signal that it does not handle, so a program in that place could not be asked
to leave. This process passes signals on, says through a pipe how the program ended, and then ends; all that is left in
the namespace ends with it. It makes system calls only, as the job's account.
"""

from __future__ import annotations

import os
import signal
import struct
from typing import Final, NoReturn

STATUS: Final = struct.Struct("i")


def attend(program: int, status: int) -> NoReturn:
    """Wait for the program's end; all signals are blocked."""
    awaited = signal.valid_signals()
    while True:
        signum = signal.sigwait(awaited)
        if signum == signal.SIGCHLD:
            _collect(program, status)
        else:
            try:
                os.kill(program, signum)
            except (ProcessLookupError, PermissionError):
                continue


def _collect(program: int, status: int) -> None:
    """Collect who has ended; with the program everything ends."""
    while True:
        try:
            pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == program:
            os.write(status, STATUS.pack(how))
            os._exit(0)
        if pid == 0:
            return
