"""The first process of a job's pid namespace, beside the job's program: it takes in orphans, and all ends with it.

It is a shell that waits for a program that gives back what the starter says, which is one word when it begins; a shell
that waits collects whatever ends below it. When the starter kills it, lets go of it or is gone, it ends, and the kernel
kills what is left in the namespace. Both are root's, in their own session: the job can do nothing to them. The job's
program is the starter's own child, signalled and waited for as without a namespace.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Final

from pool.base.errors import PoolError

SHELL: Final = "/bin/sh"
SCRIPT: Final = "cat; :"
"""With a command after it, the shell waits for the program instead of becoming it."""
PATH: Final = "/usr/bin:/bin"
WORD: Final = b"\n"
PATIENCE_S: Final = 60.0


class NoFirstProcess(PoolError):
    """The namespace has no first process."""


class FirstProcess:
    """One, that runs."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self._line = line

    def begun(self) -> None:
        """Wait until it is all there: what the job does afterwards cannot keep it from beginning."""
        try:
            self._line.settimeout(PATIENCE_S)
            self._line.sendall(WORD)
            said = self._line.recv(len(WORD))
        except OSError:
            said = b""
        if said != WORD:
            raise NoFirstProcess(f"{SHELL} -c {SCRIPT!r} does not do as the first process of a pid namespace")

    def let_go(self) -> None:
        """It ends for want of anybody who might speak to it."""
        self._line.close()

    def end(self) -> None:
        """End it now, and with it everything in the namespace."""
        self.let_go()
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def start_first_process(sandbox: str) -> FirstProcess:
    """Make it; this process's next child has to be the namespace's first. It is marked as the sandbox's job's."""
    line, theirs = socket.socketpair()
    try:
        pid = os.posix_spawn(
            SHELL,
            ["sh", "-c", SCRIPT],
            {"PATH": PATH, "_CONDOR_SCRATCH_DIR": sandbox},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
            # This process may have blocked signals for the moment; the mask would stay through execve.
            setsigmask=(),
        )
    except BaseException:
        line.close()
        raise
    finally:
        theirs.close()
    return FirstProcess(pid, line)
