"""The process beside one job that runs at the access point: it becomes the job's user, starts the program, sees it out.

Forked by the schedd's zygote; it speaks lines of JSON on the socket pair that it was born with:

    schedd -> here    the order: program, arguments, environment, directory, standard files, limits
    here -> schedd    {"started": pid, "at": seconds}
                      {"failed": hold code, "subcode": errno, "reason": text}     the program was not started
                      {"ended": wait status, "user": s, "system": s}              it is gone, with all that it started
    schedd -> here    {"signal": 15}                                              for the program alone
                      {"kill": true}                                              for all of them

It is a subreaper, so whatever the job started ends up here. When the schedd is gone, all of it ends at once, and the
next schedd runs the job again. One thread, no event loop: a fork is always safe.

HTCondor's manual: users-manual/choosing-an-htcondor-universe ("Local Universe").
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Any, Final

from daemons.base.killing import kill_until_gone
from daemons.base.linux import become_subreaper, descendants, never_gain_privileges
from daemons.host.account import Account, become
from daemons.process.executable import seen
from daemons.process.zygote import Birth
from pool.base.errors import PoolError
from pool.execute.exit import Hold, cannot_enter, cannot_execute, cannot_open

UMASK: Final = 0o022
LINE_BYTES_MAX: Final = 16 * 1024 * 1024


class CannotStart(PoolError):
    """The job's program was not started."""

    def __init__(self, hold: Hold) -> None:
        super().__init__(hold.reason)
        self.hold = hold


def child_main(birth: Birth) -> int:
    """What the zygote calls in the forked child."""
    account = json.loads(birth.payload)
    become_subreaper()
    if account["no_set_user_id"]:
        never_gain_privileges()
    os.umask(UMASK)
    become(Account(account["name"], account["uid"], account["gid"], tuple(account["groups"]), None))
    return _Keeper(birth).run()


class _Keeper:
    """The conversation with the schedd, and the job's processes."""

    def __init__(self, birth: Birth) -> None:
        self._channel = birth.channel
        self._life = birth.life
        self._received = b""
        self._pid = 0
        self._status: int | None = None

    def run(self) -> int:
        wakeup, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        order = self._order()
        if order is None:
            return 0
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        try:
            self._pid = start(order)
        except CannotStart as error:
            hold = error.hold
            self._say({"failed": int(hold.code), "subcode": hold.subcode, "reason": hold.reason})
            return 0
        self._say({"started": self._pid, "at": time.time()})
        if self._see_it_out(wakeup):
            _end_all()
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            self._say({"ended": self._status, "user": used.ru_utime, "system": used.ru_stime})
        else:
            _end_all()
        return 0

    def _order(self) -> Mapping[str, Any] | None:
        while b"\n" not in self._received:
            if not self._receive():
                return None
        line, _, self._received = self._received.partition(b"\n")
        order: Mapping[str, Any] = json.loads(line)
        return order

    def _receive(self) -> bool:
        """Whether the schedd is there."""
        try:
            more = self._channel.recv(65536)
        except OSError:
            return False
        self._received += more
        return bool(more) and len(self._received) <= LINE_BYTES_MAX

    def _see_it_out(self, wakeup: int) -> bool:
        """Do what the schedd says until the program has ended; False when the schedd is gone."""
        poll = select.poll()
        for descriptor in (wakeup, self._life, self._channel.fileno()):
            poll.register(descriptor, select.POLLIN)
        self._reap()
        while self._status is None:
            for descriptor, _ in poll.poll():
                if descriptor == wakeup:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wakeup, 4096)
                    self._reap()
                elif descriptor == self._life or not self._receive():
                    return False
            self._obey()
        return True

    def _obey(self) -> None:
        while b"\n" in self._received:
            line, _, self._received = self._received.partition(b"\n")
            said = json.loads(line)
            if "kill" in said:
                for pid in descendants(os.getpid()):
                    _send(pid, signal.SIGKILL)
            elif self._status is None:
                _send(self._pid, int(said["signal"]))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._pid:
                self._status = status

    def _say(self, said: Mapping[str, object]) -> None:
        with contextlib.suppress(OSError):
            self._channel.sendall(json.dumps(said).encode() + b"\n")


def _send(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def _end_all() -> None:
    """End every process below this one."""

    def below() -> set[int]:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return descendants(os.getpid())

    kill_until_gone(below)


def start(order: Mapping[str, Any]) -> int:
    """Start the program; its process. CannotStart says what hold that is."""
    try:
        os.chdir(order["directory"])
    except OSError as error:
        raise CannotStart(cannot_enter(order["directory"], error.errno or 0)) from None
    files = [_open(order, name) for name in ("stdin", "stdout")]
    same = order["stdout"] == order["stderr"]
    files.append(os.dup(files[1]) if same else _open(order, "stderr"))

    def prepare() -> None:
        for name, soft in order["rlimits"].items():
            which = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(which)[1]
            resource.setrlimit(which, (soft if hard == -1 else min(soft, hard), hard))
        if order["nice"]:
            os.nice(order["nice"])

    try:
        process = subprocess.Popen(
            [order["program"], *order["arguments"]],
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
            env=order["environment"],
            start_new_session=True,
            preexec_fn=prepare,
        )
    except OSError as error:
        what = order["program"], order["arguments"], error.errno or 0
        raise CannotStart(cannot_execute(*what, seen(order["program"]))) from None
    finally:
        for descriptor in files:
            os.close(descriptor)
    process.returncode = 0  # its end is collected here, not by subprocess
    return process.pid


def _open(order: Mapping[str, Any], name: str) -> int:
    path = order[name]
    flags = os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_CREAT
    if name != "stdin":
        flags |= os.O_APPEND if order["append"] else os.O_TRUNC
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise CannotStart(cannot_open(name, path, error.errno or 0)) from None
