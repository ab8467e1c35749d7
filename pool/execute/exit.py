"""What the end of a job's program means: exit code, signal, or a limit that it ran into."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Final, NamedTuple

from pool.classad import ClassAd
from pool.jobs.vocabulary.hold_codes import HoldCode

OUT_OF_MEMORY = 102
OUT_OF_DISK = 104


@dataclass(frozen=True)
class Exited:
    """The program ended by itself, or by a signal."""

    code: int | None = None
    signal: int | None = None
    core_dumped: bool = False

    def ad(self) -> ClassAd:
        """The attributes that say so."""
        if self.signal is not None:
            return ClassAd({"ExitBySignal": True, "ExitSignal": self.signal, "JobCoreDumped": self.core_dumped})
        return ClassAd({"ExitBySignal": False, "ExitCode": self.code})


@dataclass(frozen=True)
class Hold:
    """The job cannot run as it is; a person must look."""

    reason: str
    code: int
    subcode: int = 0

    def ad(self) -> ClassAd:
        """The attributes that say so."""
        return ClassAd({"HoldReason": self.reason, "HoldReasonCode": self.code, "HoldReasonSubCode": self.subcode})


def exited(wait_status: int) -> Exited:
    """What a wait status says."""
    if os.WIFSIGNALED(wait_status):
        return Exited(signal=os.WTERMSIG(wait_status), core_dumped=os.WCOREDUMP(wait_status))
    return Exited(code=os.WEXITSTATUS(wait_status))


_OVER_MEMORY: Final = (
    "Job has gone over {by}memory limit of {limit} megabytes. Last measured usage: {used} megabytes.  "
    "Consider resubmitting with a higher request_memory."
)


def over_polled_memory(limit_mb: int, used_mb: int) -> Hold:
    """The job was seen to have more memory than its limit, where no control group holds it to that."""
    return Hold(_OVER_MEMORY.format(by="", limit=limit_mb, used=used_mb), HoldCode.JOB_OUT_OF_RESOURCES, OUT_OF_MEMORY)


def over_memory(limit_mb: int, used_mb: int, *, always_hold: bool = True) -> Hold | None:
    """The kernel killed a process of the job for want of memory: on hold, with what it had and what it used.

    None: it was below nine tenths of its limit, so the machine was short of memory and not the job
    (only where STARTER_ALWAYS_HOLD_ON_OOM is false).
    """
    used_mb = used_mb or limit_mb  # it grew faster than it was looked at
    if not always_hold and used_mb < 0.9 * limit_mb:
        return None
    return Hold(
        _OVER_MEMORY.format(by="cgroup ", limit=limit_mb, used=used_mb),
        HoldCode.JOB_OUT_OF_RESOURCES,
        OUT_OF_MEMORY,
    )


class Program(NamedTuple):
    """What the job's account can see of a program that was not executed: its mode (0: nothing), and how it begins."""

    mode: int = 0
    head: bytes = b""


UNSEEN = Program()


def cannot_execute(program: str, arguments: list[str], error: int, seen: Program = UNSEEN) -> Hold:
    """The program could not be started."""
    words = f" with arguments {' '.join(arguments)}" if arguments else ""
    return Hold(
        f"Failed to execute '{program}'{words}: {_why_not_executed(program, error, seen)}",
        HoldCode.FAILED_TO_CREATE_PROCESS,
        error,
    )


def _why_not_executed(program: str, error: int, seen: Program) -> str:
    said = f"(errno={error}: '{os.strerror(error)}')"
    line = seen.head.partition(b"\n")[0]
    if error == errno.ENOENT and line.startswith(b"#!"):
        interpreter = (line[2:].split() or [b""])[0].decode(errors="replace")
        windows = "; its lines end as on Windows (CR LF), which `dos2unix` mends" if line.endswith(b"\r") else ""
        return f"invalid interpreter ({interpreter}) specified on first line of script{windows} {said}"
    if error == errno.EACCES and seen.mode and not seen.mode & 0o111:
        return f"the file is not executable (chmod +x {os.path.basename(program)}) {said}"
    if error == errno.ENOEXEC and b"\0" not in seen.head and not line.startswith(b"#!"):
        return f"the file is no program of this system, and as a script it needs a first line such as #!/bin/sh {said}"
    return said


def cannot_enter(directory: str, error: int) -> Hold:
    """The job's working directory is of no use."""
    return Hold(f"Cannot access initial working directory {directory}: {os.strerror(error)}", HoldCode.IWD_ERROR, error)


def cannot_open(stream: str, path: str, error: int) -> Hold:
    """One of the standard files cannot be opened; `stream` is stdin, stdout or stderr."""
    said = {"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}[stream]
    code = HoldCode.UNABLE_TO_OPEN_INPUT if stream == "stdin" else HoldCode.UNABLE_TO_OPEN_OUTPUT
    return Hold(f"Failed to open '{path}' as {said}: {os.strerror(error)} (errno {error})", code, error)
