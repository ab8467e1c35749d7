"""The process that a starter belongs to: while the job only runs it waits for the job, and there is no starter.

A keeper is what the zygote forks. It has one thread and no event loop, hardly writes to the memory that it shares with
the zygote, and so costs a tenth of a starter. The starter itself is its child: it does all that there is to do for a
job, can leave the running job to its keeper (it *rests*), and is forked anew when something happens. To everybody else
the two are one: the starter's process id is the keeper's, and when either is gone without a word, so is the other.

A keeper is a subreaper, so a job's processes become its own when their starter is gone; it collects them, and keeps how
they ended. While the starter rests it looks at the job as often as a starter would: it tells what the job uses, and
wakes the starter when the job has ended, is out of memory or in the way of the machine's disk, or calls by chirp. Its
startd wakes it by sending a socket for the new starter's connection:

    startd -> keeper    {"wake": true}          with a descriptor: the channel of a starter
    keeper -> startd    {"wake": "why"}         a starter is wanted
                        {"used": [...]}         what the job uses, and what else is to be told: see `Used`, `Look.extra`
                        {"free": true}          its starter has ended, with all that was its; it can have another
    starter -> keeper   {"rests": Look}         with descriptors: the job's state, the listeners of chirp; then it ends
    keeper -> starter   {"ended": {pid: status}, "collected": [...]}

When the startd is gone, a starter is forked that evicts the job, as one that was awake would have. A keeper whose
starter has ended well is asked for the next one, like a zygote: to fork it from here costs no more than from there, and
the keeper itself is forked once and not for each claim.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from daemons.base.linux import become_subreaper, children_of, descendants, end_with_parent, name_process
from daemons.host import tree
from daemons.host.cgroup import ControlGroup
from daemons.host.processes import Ended, ended_by, look
from daemons.host.sandbox import GivenUp, disk_usage
from daemons.process.zygote import Birth
from daemons.starter.rest.kept import NOTHING, RESTS, Kept, Look, Used, hear, say
from pool.execute.cgroup import CgroupLimits, Trees
from pool.execute.scratch import next_look_s, reserve_bytes

BeStarter = Callable[[Birth, Kept], None]


class Keeper:
    """The loop: with a starter, and without."""

    def __init__(self, birth: Birth, be_starter: BeStarter) -> None:
        self._birth, self._be_starter = birth, be_starter
        self._startd = socket.socket(fileno=birth.descriptors[0])
        self._wakeup, self._wakeup_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._starter = 0
        self._line: socket.socket | None = None
        self._status = 0
        """How the starter has ended, once there is none."""
        self._look: Look | None = None
        self._used: list[Any] = []
        self._state = -1
        self._listeners: list[int] = []
        self._ended: dict[int, int] = {}
        self._collected = NOTHING
        self._told_to_end = False

    def serve(self) -> int:
        """Until nobody wants a starter of it any more, or one has ended badly: its exit status."""
        become_subreaper()
        name_process("condor_keeper")
        # The collector writes to every object that it looks at, and a page that is written is shared no more.
        gc.disable()
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        # The handlers do nothing: that a signal came is a byte in the pipe, and wakes the poll.
        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, lambda *_: None)
        channel: socket.socket | None = self._birth.channel
        while True:
            self._fork(channel)
            if self._until_it_rests():
                channel = self._until_woken()
                continue
            if self._status == 0 and children_of(os.getpid()):
                return 1  # the job's, of which the starter did not know: the end of this one lets them be found
            if self._status or not _said(self._startd, {"free": True}):
                return self._status
            channel = self._until_hired()
            if channel is None:
                return 0

    # ---- with a starter

    def _fork(self, channel: socket.socket | None) -> None:
        """A starter on this channel to its startd; None: that is gone."""
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept = Kept(os.getpid(), theirs, self._state, self._used, self._ended, self._collected, self._listeners)
        kept.is_orphan, kept.is_to_leave = channel is None, self._told_to_end
        pid = os.fork()
        if pid == 0:
            _be_child(self, channel, kept)
        self._starter = pid
        # What the starter has now is its own; held open here as well it would outlive the starter.
        theirs.close()
        if channel is not None:
            channel.close()
        for fd in (*self._listeners, self._state):
            if fd >= 0:
                os.close(fd)
        self._listeners, self._state, self._ended, self._told_to_end = [], -1, {}, False

    def _until_it_rests(self) -> bool:
        """Collect who ends, until it is the starter; whether it rests."""
        assert self._line is not None
        while self._starter:
            self._wait([self._wakeup], None)
            for _ in range(self._heard_term()):
                os.kill(self._starter, signal.SIGTERM)
            self._collect()
        line, self._line = self._line, None
        with line:
            if self._status != RESTS:
                return False
            word, descriptors = hear(line)
        if "rests" not in word:
            self._status = 1
            return False
        seen = Look(*word["rests"])
        if self._look is not None and seen.activation != self._look.activation:
            self._ended, self._collected = {}, NOTHING  # what the job before has used is none of this one's
        self._look = seen
        self._state, *self._listeners = descriptors
        self._collected = self._collected.plus(Ended(*seen.collected))  # type: ignore[arg-type]
        if seen.ended is not None:
            self._ended[seen.pid] = seen.ended
        return True

    def _until_hired(self) -> socket.socket | None:
        """The channel of the next claim's starter; None when there will be none."""
        self._look, self._used, self._ended, self._collected = None, [], {}, NOTHING
        while True:
            ready = self._wait([self._wakeup, self._startd.fileno(), self._birth.life], None)
            if self._heard_term() or self._birth.life in ready:
                return None
            self._collect()
            if self._startd.fileno() in ready:
                _, descriptors = hear(self._startd)
                return socket.socket(fileno=descriptors[0]) if descriptors else None

    def _collect(self) -> None:
        """Whoever has ended; the starter hears of those that were not its own children."""
        news: dict[int, int] = {}
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self._starter:
                self._starter = 0
                self._status = max(os.waitstatus_to_exitcode(status), 0) or (1 if status else 0)
            else:
                news[pid] = status
                self._collected = self._collected.plus(ended_by(usage))
        self._ended.update(news)
        if news and self._starter and self._line is not None:
            _said(self._line, {"ended": news, "collected": self._collected})

    # ---- without

    def _until_woken(self) -> socket.socket | None:
        """Wait for something to happen; the channel of the next starter, None when its startd is gone."""
        assert self._look is not None
        job = _RestingJob(self._look, lambda: bool(self._wait(watched, 0.0)))
        watched = [self._wakeup, self._startd.fileno(), self._birth.life, *self._listeners, *job.descriptors]
        asked = False
        try:
            while True:
                why = "the job has ended" if self._look.pid in self._ended else job.trouble()
                why = "it was told to end" if self._told_to_end else why
                if why and not asked:
                    asked = True
                    if not _said(self._startd, {"wake": why}):
                        return None
                ready = self._wait(watched, None if asked else job.next_look_s())
                self._told_to_end = bool(self._heard_term()) or self._told_to_end
                self._collect()
                if self._startd.fileno() in ready:
                    word, descriptors = hear(self._startd)
                    if not word:
                        return None
                    return socket.socket(fileno=descriptors[0])
                if self._birth.life in ready:
                    return None
                if ready.intersection(self._listeners) and not asked:
                    watched = [fd for fd in watched if fd not in self._listeners]
                    asked = True
                    _said(self._startd, {"wake": "the job calls"})
                if not asked and (told := job.look(self._collected)) is not None:
                    seen = self._look
                    _said(self._startd, {"used": told, "extra": seen.extra, "activation": seen.activation})
        finally:
            self._used = job.used()
            job.close()

    def _wait(self, descriptors: list[int], timeout_s: float | None) -> set[int]:
        poll = select.poll()
        for fd in descriptors:
            poll.register(fd, select.POLLIN)
        return {fd for fd, _ in poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000)}

    def _heard_term(self) -> int:
        """How often it was told to end since this was asked."""
        try:
            return os.read(self._wakeup, 4096).count(signal.SIGTERM)
        except BlockingIOError:
            return 0


class _RestingJob:
    """The job, as its keeper looks at it."""

    def __init__(self, how: Look, is_wanted: Callable[[], bool]) -> None:
        self._how = how
        self._is_wanted = is_wanted
        """Whether there is something better to do than to measure."""
        trees = Trees(how.tree_version, tuple((name, path) for name, path in how.tree_mounts))
        self._group = ControlGroup(trees, how.group, counts_cache=how.counts_cache)
        if self._group.works:
            self._group.take_over(how.group_before, CgroupLimits(memory=how.memory_limit))
        self._usage = Used(*how.used).usage()
        oom = self._group.oom_descriptor()
        self.descriptors = [] if oom is None else [oom]
        polled = how.memory_limit and not self._group.limits_memory
        pauses = {
            self._tell: how.tell_s,
            self._see: how.see_s,
            self._check_memory: how.memory_poll_s if polled else 0.0,
            self._check_disk: how.disk_s,
        }
        self._pauses = {what: pause for what, pause in pauses.items() if pause}
        self._due = {what: time.monotonic() + pause for what, pause in self._pauses.items()}
        self._trouble = ""
        self._told: list[Any] | None = None
        self._collected = NOTHING

    def trouble(self) -> str:
        """Why its starter is wanted; empty while nothing is wrong."""
        return "the job is out of memory" if self._group.works and self._group.oom_killed() else self._trouble

    def next_look_s(self) -> float:
        """When it is to be looked at again, from now."""
        return min(self._due.values()) - time.monotonic()

    def look(self, collected: Ended) -> list[Any] | None:
        """Do what is due; what is to be told of the job, if that is."""
        self._collected, self._told, now = collected, None, time.monotonic()
        for what, due in self._due.items():
            if now >= due:
                # What a job does to its sandbox must not cost it its keeper.
                with suppress(OSError):
                    what()
                self._due[what] = now + self._pauses[what]
        return self._told

    def _see(self) -> None:
        self._usage = self._usage.seen(look(descendants(os.getpid()), self._collected, self._group))

    def _tell(self) -> None:
        self._see()
        with suppress(GivenUp):
            self._usage = self._usage.measured(*disk_usage(self._how.sandbox, give_up=self._is_wanted))
        self._told = self.used()

    def _check_memory(self) -> None:
        limit = self._how.memory_limit
        if tree.memory(descendants(os.getpid()), limit) > limit:
            self._trouble = "the job has too much memory"

    def _check_disk(self) -> None:
        system = os.statvfs(self._how.sandbox)
        free, size = system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize
        left = free - reserve_bytes(self._how.reserved_disk_mb, size)
        if left < 0:
            self._trouble = "the machine's disk is nearly full"
        self._pauses[self._check_disk] = next_look_s(left)

    def used(self) -> list[Any]:
        """What it has used so far."""
        return list(Used.of(self._usage))

    def close(self) -> None:
        """Give back what it took to look."""
        self._group.close()


def _be_child(keeper: Keeper, channel: socket.socket | None, kept: Kept) -> NoReturn:
    """The starter's process, just forked."""
    code = 1
    try:
        # A keeper that is killed takes its starter along: nobody would hear of what the keeper collects.
        end_with_parent()
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        name_process("condor_starter")
        os.close(keeper._wakeup)
        os.close(keeper._wakeup_writer)
        keeper._startd.close()
        if keeper._line is not None:
            keeper._line.close()
        gc.enable()
        birth = keeper._birth
        ends = channel or _closed()
        keeper._be_starter(Birth(birth.kind, birth.payload, ends, birth.life), kept)
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _closed() -> socket.socket:
    ours, theirs = socket.socketpair()
    theirs.close()
    return ours


def _said(to: socket.socket, word: dict[str, Any]) -> bool:
    """Whether there was anybody to hear it."""
    try:
        say(to, word)
    except OSError:
        return False
    return True
