"""Start a job's program without copying this process: what nearly every job takes.

A fork copies this process's page tables, and both sides pay for each page that they touch afterwards; that cost more
than all else in a short job. Here the starter itself takes on what the job is to have (account, directory, limits,
control group), for the moment in which the C library starts the program in a child that borrows this process's memory,
and takes it off again. Nothing is awaited meanwhile. Whatever is unusual or fails is left to `launch.py`, which forks
and can tell what went wrong.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from daemons.starter import namespaces
from daemons.starter.account import Account, standing_in_for
from daemons.starter.cgroup import Group
from daemons.starter.first_process import FirstProcess
from daemons.starter.terms import USUAL, Terms
from pool.execute.plan import NULL, Plan

OOM_SCORE: Final = b"800"
"""The kernel takes jobs before daemons when the machine runs out of memory (HTCondor's value)."""
JOB_UMASK: Final = 0o022
SIGNALS: Final = tuple(
    int(signum) for signum in signal.valid_signals() if signum not in (signal.SIGKILL, signal.SIGSTOP, 32, 33)
)
"""All that can be set; 32 and 33 are the C library's own."""

_Action = tuple[int, int, str, int, int] | tuple[int, int, int]


class Spawner:
    """What a starter keeps between its jobs: where it is at home, and how the kernel rates it when memory is short."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._home = -1
        self._oom: tuple[int, bytes] | None = None

    def close(self) -> None:
        """Let go of both; the next job has them opened again."""
        if self._home >= 0:
            os.close(self._home)
            self._home = -1
        if self._oom is not None:
            os.close(self._oom[0])
            self._oom = None

    def spawn(self, plan: Plan, account: Account, terms: Terms = USUAL) -> tuple[int, FirstProcess | None] | None:
        """The process of the job, whose program was executed, and the first one of its pid namespace, if it has one.

        None when this way cannot tell or do it.
        """
        try:
            with (
                self._rated_as_a_job(),
                self.group.inside(),
                self._apart(terms, account) as first,
                standing_in_for(account),
                self._at(plan.directory),
                limited(plan.rlimits),
                bound_to(terms.cpus),
            ):
                return self._execute(plan), first
        except (OSError, ValueError):  # ValueError: a null character, which no program can be given
            return None

    def _execute(self, plan: Plan) -> int:
        return os.posix_spawn(
            plan.program,
            plan.argv,
            plan.environment,
            file_actions=_file_actions(plan),
            setsid=True,
            setsigmask=(),
            setsigdef=SIGNALS,
        )

    def _apart(self, terms: Terms, account: Account) -> AbstractContextManager[FirstProcess | None]:
        if self._home < 0:
            self._home = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return namespaces.inside(terms.isolation, account) if terms.isolation.wanted else nullcontext()

    @contextmanager
    def _at(self, directory: str) -> Iterator[None]:
        os.chdir(directory)
        try:
            yield
        finally:
            os.fchdir(self._home)

    @contextmanager
    def _rated_as_a_job(self) -> Iterator[None]:
        """A child has its parent's rating, and not every starter may change another process's."""
        if self._oom is None:
            fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._oom = (fd, os.read(fd, 16).strip())
        fd, own = self._oom
        os.pwrite(fd, OOM_SCORE, 0)
        try:
            yield
        finally:
            os.pwrite(fd, own, 0)


@contextmanager
def bound_to(cpus: tuple[int, ...]) -> Iterator[None]:
    """This thread, and what it makes, runs on those cpus only inside the `with`; none: wherever it may."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def limited(rlimits: Mapping[str, int]) -> Iterator[None]:
    """The job's soft limits hold inside the `with`."""
    before = soft_limits(rlimits)
    try:
        yield
    finally:
        for kind, pair in before:
            resource.setrlimit(kind, pair)


def soft_limits(rlimits: Mapping[str, int]) -> list[tuple[int, tuple[int, int]]]:
    """Set soft limits; what exceeds the hard limit stops there. What was there before, where that was different."""
    before: list[tuple[int, tuple[int, int]]] = []
    for name, wanted in rlimits.items():
        kind: int = getattr(resource, f"RLIMIT_{name}")
        was, hard = resource.getrlimit(kind)
        soft = hard if wanted < 0 else wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            if soft != was:
                resource.setrlimit(kind, (soft, hard))
                before.append((kind, (was, hard)))
        except (OSError, ValueError):
            continue
    return before


def _file_actions(plan: Plan) -> list[_Action]:
    """How the standard files are opened; OSError when one of them might keep this process waiting, as a pipe does."""
    if not all(map(_opens_at_once, {plan.stdin, plan.stdout, plan.stderr})):
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    flags = output_flags(plan)
    actions: list[_Action] = [
        (os.POSIX_SPAWN_OPEN, 0, plan.stdin, os.O_RDONLY | os.O_NOCTTY, 0),
        (os.POSIX_SPAWN_OPEN, 1, plan.stdout, flags, 0o666),
    ]
    if plan.stderr == plan.stdout:
        actions.append((os.POSIX_SPAWN_DUP2, 1, 2))
    else:
        actions.append((os.POSIX_SPAWN_OPEN, 2, plan.stderr, flags, 0o666))
    return actions


def output_flags(plan: Plan) -> int:
    """How standard output and error are opened."""
    return os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | (os.O_APPEND if plan.append_output else os.O_TRUNC)


def _opens_at_once(path: str) -> bool:
    if path == NULL:
        return True
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # it is made, or whoever opens it is told why not
        return True
