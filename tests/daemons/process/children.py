"""What the zygotes of these tests can be."""

from __future__ import annotations

import os
import signal
import time

from daemons.process.zygote import Birth


def _is_library(fd: str) -> bool:
    """Whether this descriptor is of a library that keeps itself open, as libffi may."""
    try:
        return ".so" in os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # the one that lists them
        return False


def echo(birth: Birth) -> int:
    """Say who it is and what it was given, then answer each line until the channel ends."""
    fds = [fd for fd in os.listdir("/proc/self/fd") if not _is_library(fd)]
    ignored = [s for s in range(1, 32) if s not in (9, 19) and signal.getsignal(s) is signal.SIG_IGN]
    birth.channel.sendall(f"{os.getpid()} {os.getsid(0)} {birth.payload.decode()} {len(fds)} {ignored}\n".encode())
    while data := birth.channel.recv(100):
        birth.channel.sendall(data.upper())
    return 7


def until_orphaned(birth: Birth) -> int:
    """Wait for the end of the life pipe."""
    birth.channel.sendall(b"x")
    while os.read(birth.life, 1):
        pass
    return 3


def die_at_once(birth: Birth) -> int:
    """Be gone before anybody looks."""
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def leave_orphan(birth: Birth) -> int:
    """Fork a child that outlives this process for a moment; tell its pid."""
    pid = os.fork()
    if pid == 0:
        time.sleep(0.2)
        os._exit(0)
    birth.channel.sendall(str(pid).encode())
    return 0


def leave_stubborn_orphans(birth: Birth) -> int:
    """Leave two processes behind, one in a session of its own, that ignore every signal they can."""
    pids = []
    for new_session in (False, True):
        pid = os.fork()
        if pid == 0:
            if new_session:
                os.setsid()
            for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(signum, signal.SIG_IGN)
            while True:
                time.sleep(60)
        pids.append(pid)
    birth.channel.sendall(" ".join(map(str, pids)).encode())
    return 0


_warmed_up: list[int] = []
"""The processes in which `warm_up` was called, as far as this one knows."""


def warm_up() -> None:
    """What the zygote calls before it has children."""
    _warmed_up.append(os.getpid())


def tell_who_warmed_up(birth: Birth) -> int:
    """Say who is the parent, and which processes have called `warm_up`."""
    birth.channel.sendall(" ".join(map(str, (os.getppid(), *_warmed_up))).encode())
    return 0


def write_to_given(birth: Birth) -> int:
    """Write to the first descriptor that came along."""
    os.write(birth.descriptors[0], birth.payload)
    return 0
