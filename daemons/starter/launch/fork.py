"""Start a job's program by a fork, which becomes the job step by step and can tell which step has failed.

What `spawn.py` does not do is done here. What can fail between fork and exec is told through a pipe as (stage, errno),
so that the job's hold reason can name the file and the fault. Rules: the child touches nothing but system calls; it
leaves no descriptor, no signal disposition, no group and no limit of the starter's to the job; everything a user named
is opened after the identity has changed.

Source: HTCondor's DaemonCore::Create_Process (src/condor_daemon_core.V6/daemon_core.cpp), whose errors become the hold
reasons of the manual's table "Job ClassAd Attributes", HoldReasonCode.
"""

from __future__ import annotations

import errno
import os
import signal
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NoReturn

import trio

from daemons.base.linux import never_gain_privileges
from daemons.host import namespaces
from daemons.host.account import Account, become
from daemons.host.first_process import FirstProcess
from daemons.process.executable import HEAD_BYTES, seen
from daemons.starter.launch.spawn import JOB_UMASK, OOM_SCORE, handled_signals, output_flags, soft_limits
from daemons.starter.launch.terms import Terms
from pool.base.errors import PoolError
from pool.execute.criu import RESERVED_PIDS
from pool.execute.exit import Hold, Program, cannot_enter, cannot_execute, cannot_open
from pool.execute.plan import RunPlan

_REPORT: Final = struct.Struct("iiI")  # stage, errno, the program's mode; then how the program begins


class Stage(IntEnum):
    """Where the child was when it failed."""

    GROUP = 1
    ACCOUNT = 2
    DIRECTORY = 3
    STDIN = 4
    STDOUT = 5
    STDERR = 6
    EXECUTE = 7


class LaunchError(PoolError):
    """The program was not started."""

    def __init__(self, stage: Stage, number: int, plan: RunPlan, program: Program) -> None:
        super().__init__(f"{stage.name.lower()}: {os.strerror(number)}")
        self.stage, self.number, self.plan, self.program = stage, number, plan, program

    def hold(self) -> Hold | None:
        """Why the job is to be held; None when this machine is at fault, and another may run it."""
        plan, number = self.plan, self.number
        match self.stage:
            case Stage.DIRECTORY:
                return cannot_enter(plan.directory, number)
            case Stage.STDIN:
                return cannot_open("stdin", plan.stdin, number)
            case Stage.STDOUT:
                return cannot_open("stdout", plan.stdout, number)
            case Stage.STDERR:
                return cannot_open("stderr", plan.stderr, number)
            case Stage.EXECUTE:
                return cannot_execute(plan.program, list(plan.arguments), number, self.program)
        return None


@dataclass
class Started:
    """A child; whether it got to its program is known when `begun` returns. Without a pipe it did."""

    pid: int
    plan: RunPlan
    first: FirstProcess | None = None
    """The first process of its pid namespace, if it has one."""
    _pipe: int = -1

    async def begun(self) -> None:
        """Return when the program runs; LaunchError when it does not."""
        if self._pipe < 0:
            return
        try:
            await trio.lowlevel.wait_readable(self._pipe)
            report = os.read(self._pipe, _REPORT.size + HEAD_BYTES)
        finally:
            os.close(self._pipe)
        if report:
            stage, number, mode = _REPORT.unpack_from(report)
            raise LaunchError(Stage(stage), number, self.plan, Program(mode, report[_REPORT.size :]))


def fork(plan: RunPlan, account: Account, entrances: Sequence[int], terms: Terms) -> Started:
    """The job's process, on its way to its program; OSError or IsolationError when it cannot be made."""
    environment = {os.fsencode(k): os.fsencode(v) for k, v in plan.environment.items()}
    argv = [os.fsencode(word) for word in plan.argv]
    handled = handled_signals()
    readable, writable = os.pipe2(os.O_CLOEXEC)
    try:
        with namespaces.inside(terms.isolation, account, entrances) as first:
            if terms.isolation.place:
                namespaces.begin_pids_after(RESERVED_PIDS)
            pid = os.fork()
            if pid == 0:
                _child(plan, account, entrances, terms, argv, environment, handled, writable)
    except BaseException:
        os.close(readable)
        raise
    finally:
        os.close(writable)
    return Started(pid, plan, first, readable)


def _child(
    plan: RunPlan,
    account: Account,
    entrances: Sequence[int],
    terms: Terms,
    argv: list[bytes],
    environment: dict[bytes, bytes],
    handled: list[int],
    report: int,
) -> NoReturn:
    """Become the job; never returns."""
    stage = Stage.GROUP
    try:
        os.setsid()
        for home in terms.isolation.homes:  # else its files would be served for as long as this process waits for them
            os.close(home.device)
        for entrance in entrances:
            os.write(entrance, b"0")
        stage = Stage.ACCOUNT
        if terms.isolation.homes or terms.isolation.place:
            # Where the user decides what is mounted, a program with rights of its own would read his configuration. A
            # program that CRIU makes again has no way to more rights either, and is not to notice a difference.
            never_gain_privileges()
        quieten_oom_and_signals(handled)
        if terms.nice:
            os.nice(terms.nice)
        if terms.cpus:
            os.sched_setaffinity(0, terms.cpus)
        soft_limits(plan.rlimits)
        become(account)
        os.umask(JOB_UMASK)
        stage = Stage.DIRECTORY
        os.chdir(plan.directory)
        for stage, fd, path in (  # noqa: B007 (the report tells it)
            (Stage.STDIN, 0, plan.stdin),
            (Stage.STDOUT, 1, plan.stdout),
            (Stage.STDERR, 2, plan.stderr),
        ):
            _open_as(fd, path, plan)
        stage = Stage.EXECUTE
        report = _keep_only(report)
        os.execve(os.fsencode(plan.program), argv, environment)
    except OSError as error:
        program = seen(plan.program) if stage is Stage.EXECUTE else Program()
        os.write(report, _REPORT.pack(stage, error.errno or errno.EIO, program.mode) + program.head)
    except BaseException:
        os.write(report, _REPORT.pack(stage, errno.EINVAL, 0))
    finally:
        os._exit(127)


def quieten_oom_and_signals(handled: Sequence[int]) -> None:
    """The kernel's preference, and the signal state of a fresh program."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, OOM_SCORE)
        os.close(fd)
    except OSError:
        pass
    signal.set_wakeup_fd(-1)
    for signum in handled:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _open_as(fd: int, path: str, plan: RunPlan) -> None:
    """Open one standard file; standard error joins standard output when both are one file."""
    if fd == 2 and path == plan.stdout:
        os.dup2(1, 2)
        return
    flags = os.O_RDONLY | os.O_NOCTTY if fd == 0 else output_flags(plan)
    opened = os.open(path, flags, 0o666)
    if opened != fd:
        os.dup2(opened, fd)
        os.close(opened)
    else:
        os.set_inheritable(fd, True)


def _keep_only(report: int) -> int:
    """Close all descriptors above standard error but the report's, which ends when the program begins."""
    # Moved down, so that all above it can be closed in one call.
    if report != 3:
        os.dup2(report, 3, inheritable=False)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    return 3
