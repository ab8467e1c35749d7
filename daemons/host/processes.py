"""The processes below this starter: collecting those that end, sampling the living, ending them all.

Everything the job ever started is below the starter, which is a subreaper; a control group, where there is one, is a
second way to the same processes, and the only way to freeze them all at once.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from daemons.base.killing import kill, until_nobody_is_left
from daemons.base.linux import children_of, descendants, ended_children, is_zombie
from daemons.host import tree
from daemons.host.cgroup import ControlGroup
from daemons.host.first_process import FirstProcess
from daemons.host.tracking import NOBODY_ELSE, Tracking
from pool.execute.usage import RUSAGE_BLOCK, DiskTraffic, UsageSample

NAMESPACE_END_S: Final = 0.25


class WatchedChild:
    """A child whose end is waited for."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended = trio.Event()
        self.status = 0


class Ended(NamedTuple):
    """What processes of a job have used that have ended: seconds, and blocks of RUSAGE_BLOCK bytes."""

    user_s: float = 0.0
    system_s: float = 0.0
    read: int = 0
    written: int = 0

    def plus(self, more: Ended) -> Ended:
        """Both together."""
        return Ended(
            self.user_s + more.user_s, self.system_s + more.system_s, self.read + more.read, self.written + more.written
        )

    def without(self, before: Ended) -> Ended:
        """What has come since."""
        return self.plus(Ended(-before.user_s, -before.system_s, -before.read, -before.written))


def ended_by(usage: resource.struct_rusage) -> Ended:
    """As the kernel says it."""
    return Ended(usage.ru_utime, usage.ru_stime, usage.ru_inblock, usage.ru_oublock)


def look(pids: Iterable[int], ended: Ended, group: ControlGroup) -> UsageSample:
    """What a job uses now: by its processes, and better by its control group, which forgets nobody."""
    seen = tree.sample(pids)
    user, system = seen.user_s + ended.user_s, seen.system_s + ended.system_s
    traffic = DiskTraffic(
        seen.traffic.read + ended.read * RUSAGE_BLOCK, seen.traffic.written + ended.written * RUSAGE_BLOCK
    )
    grouped = group.sample()
    if grouped is None:
        return UsageSample(seen.image, seen.resident, user, system, seen.processes, traffic)
    # A group's clock may be coarser than that of its processes: the larger figure has seen more.
    return UsageSample(
        seen.image,
        max(seen.resident, grouped.resident),
        max(user, grouped.user_s),
        max(system, grouped.system_s),
        seen.processes,
        traffic.or_more(grouped.traffic),
    )


class Processes:
    """All children of this process are the job's; so are those of its keeper (`keep`), from when it takes one over."""

    def __init__(self) -> None:
        self._keeper = 0
        """The process below which the job is, where this one has taken it over."""
        self.taken_over: WatchedChild | None = None
        """The program of that job."""
        self._ended_elsewhere = Ended()
        self._watched: dict[int, WatchedChild] = {}
        self._around: set[int] = set()
        """Programs that this process has started around the job, such as hooks: they are not suspended with it."""
        self.tracking: Tracking = NOBODY_ELSE
        """By what else the present job's processes are known."""
        self._first: tuple[FirstProcess, WatchedChild] | None = None
        self._before = ended_by(resource.getrusage(resource.RUSAGE_CHILDREN))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Collect whoever ends."""
        with trio.open_signal_receiver(signal.SIGCHLD) as signals:
            task_status.started()
            self.reap()
            async for _ in signals:
                self.reap()

    def new_job(self) -> None:
        """What ended before does not count for the next job."""
        self._before = ended_by(resource.getrusage(resource.RUSAGE_CHILDREN))
        self._keeper, self._ended_elsewhere = 0, Ended()

    def start(self, argv: Sequence[str], **options: Any) -> WatchedChild:
        """Start a program around the job as `subprocess.Popen` does; OSError when that fails."""
        process = subprocess.Popen(list(argv), **options)
        # A Popen that is dropped unwaited goes on to wait for its number, and takes the status from whoever watches it,
        # or that of a later child with the same number. With a return code it believes that all is over.
        process.returncode = 0
        self._around.add(process.pid)
        return self.watch(process.pid)

    def watch(self, pid: int) -> WatchedChild:
        """Wait for this child; to be called before anything is awaited after its fork."""
        watched = self._watched[pid] = WatchedChild(pid)
        return watched

    def are_with(self, first: FirstProcess | None) -> None:
        """The present job's are in a pid namespace, which ends with its first process; or in none."""
        self._first = (first, self.watch(first.pid)) if first is not None else None

    def reap(self) -> None:
        """Collect every child that has ended."""
        for pid, status in ended_children():
            self._collected(pid, status)

    def _collected(self, pid: int, status: int) -> None:
        self._around.discard(pid)
        watched = self._watched.pop(pid, None)
        if watched is not None:
            watched.status = status
            watched.ended.set()

    def any(self) -> bool:
        """Whether there is any process of the job, ended ones that nobody has collected included.

        A process with no child has no descendants either, since it is a subreaper.
        """
        if self._first is not None:
            return bool(descendants(os.getpid()) - {self._first[0].pid})
        # What its keeper has collected is no child of anybody's.
        if self._keeper and set(children_of(self._keeper)) - {os.getpid()}:
            return True
        try:
            # WNOWAIT leaves whoever has ended to `reap`; ECHILD says that there is nobody at all.
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def living(self) -> set[int]:
        """The job's processes."""
        if not self.any():
            return set()
        return {pid for pid in self._below() if not is_zombie(pid)}

    def sample(self, group: ControlGroup) -> UsageSample:
        """What the job uses now."""
        return look(self._below() if self.any() else (), self.ended.plus(self._ended_elsewhere), group)

    @property
    def ended(self) -> Ended:
        """What those of the present job used that this process has collected."""
        return ended_by(resource.getrusage(resource.RUSAGE_CHILDREN)).without(self._before)

    @property
    def first_pid(self) -> int:
        """The first process of that namespace; 0: there is none."""
        return self._first[0].pid if self._first is not None else 0

    def _below(self) -> set[int]:
        """Everybody, ended ones too."""
        return descendants(self._keeper) - {os.getpid()} if self._keeper else descendants(os.getpid())

    def _all_around(self) -> set[int]:
        """The programs around the job, and what they have started."""
        return {*self._around}.union(*map(descendants, self._around))

    # ---- a job that another process has begun

    def take_over(self, keeper: int, pid: int) -> None:
        """The job whose program is process `pid`; it is the keeper's child, who says when it has ended."""
        self.new_job()
        self._keeper = keeper
        self.taken_over = self.watch(pid)

    def elsewhere(self, ended: Mapping[int, int], used: Ended) -> None:
        """The keeper has collected these, by number, with their statuses; all that it has collected have used this."""
        if self._keeper:  # else the job that the keeper has had is over
            self._ended_elsewhere = used
        for pid, status in ended.items():
            self._collected(pid, status)

    async def end_all(self, group: ControlGroup) -> None:
        """End every process of the job for good. Returns when none is left, however long that takes."""
        await self._end_namespace(group)
        await until_nobody_is_left(partial(self._kill_round, group))

    async def _kill_round(self, group: ControlGroup) -> bool:
        grouped = group.kill() if group.works else 0
        left = self.living() | self.tracking.members()
        kill(left)
        self.reap()
        return bool(left or grouped)

    async def _end_namespace(self, group: ControlGroup) -> None:
        """The kernel ends what is in a namespace; what stands still ends later, when it is let go on."""
        if self._first is None:
            return
        (first, watched), self._first = self._first, None
        first.end()
        if not group.is_frozen:
            # Usually all are gone with it, and the rounds below find nobody to kill.
            with trio.move_on_after(NAMESPACE_END_S):
                await watched.ended.wait()

    def suspend(self, group: ControlGroup) -> None:
        """Stop every process of the job."""
        if group.can_freeze:
            group.freeze(True)
        else:
            tree.stop_all(lambda: self._below() - self._all_around())

    def go_on(self) -> None:
        """Let those go on that have been stopped one by one."""
        tree.send(self.living(), signal.SIGCONT)

    def resume(self, group: ControlGroup) -> None:
        """Let them go on."""
        if group.can_freeze:
            group.freeze(False)
        else:
            tree.send(self.living(), signal.SIGCONT)
