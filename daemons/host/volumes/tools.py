"""Runs the system's programs that make and remove file systems, as root, and tells in words what they could not do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

from daemons.host.volumes.volume import ScratchError

TIMEOUT_S: Final = 120.0
_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
_SAID_MAX: Final = 300


def find(program: str) -> str | None:
    """Where a program of the system is; None when it is not installed."""
    return shutil.which(program, path=_PATH)


def missing(*programs: str) -> str:
    """Which of these are not installed, in words; empty when all are."""
    absent = [program for program in programs if find(program) is None]
    return f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed" if absent else ""


def run(argv: Sequence[str], sandbox: str = "", *, given: bytes = b"") -> str:
    """What the program prints; ScratchError when it fails.

    It carries the mark of the sandbox that it works for, so that whoever sweeps after a killed starter ends it first.
    """
    path = find(argv[0])
    if path is None:
        raise ScratchError(f"{argv[0]} is not installed")
    # Their words are read here: in no other language than this.
    environment = {"PATH": _PATH, "LC_ALL": "C"}
    if not os.path.exists("/run/udev/control"):  # nobody makes device nodes but the programs themselves
        environment["DM_DISABLE_UDEV"] = "1"
    if sandbox:
        environment["_CONDOR_SCRATCH_DIR"] = sandbox
    try:
        done = subprocess.run(
            [path, *argv[1:]],
            input=given,
            capture_output=True,
            env=environment,
            cwd="/",
            timeout=TIMEOUT_S,
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        raise ScratchError(f"{argv[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ScratchError(f"{argv[0]} did not end within {TIMEOUT_S:g} s") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).decode(errors="replace").split())[-_SAID_MAX:]
        raise ScratchError(f"{argv[0]} ended with status {done.returncode}: {said}")
    return done.stdout.decode(errors="replace")
