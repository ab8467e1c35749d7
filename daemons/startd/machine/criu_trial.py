"""Whether CRIU can write processes down on this machine and make them again; asked at the start by doing it once.

A program that sleeps is written down and made again as a job is: as an account without rights, in a pid namespace.
What CRIU needs of a kernel, and a kernel of CRIU, changes with both; nothing but the attempt tells.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from daemons.host.account import fallback_account
from daemons.host.namespaces import can_isolate
from daemons.host.sandbox import read_as
from pool.config import Config
from pool.execute import criu

TRIAL_S: Final = 30.0
LOG_BYTES_MAX: Final = 64 * 1024
FIRST: Final = criu.RESERVED_PIDS + 1
"""The number of the trial's program."""


@dataclass(frozen=True)
class Criu:
    """`program` is empty where jobs cannot have it; `problem`: why, if a CRIU is here."""

    program: str = ""
    platform: str = ""
    problem: str = ""

    def attributes(self) -> dict[str, object]:
        """What the machine's ads say."""
        if not self.program:
            return {criu.ABILITY: False, **({criu.PROBLEM: self.problem} if self.problem else {})}
        return {criu.ABILITY: True, criu.PLATFORM: self.platform}

    def said(self) -> list[str]:
        """For the log."""
        return [f"Jobs cannot have checkpoints by CRIU: {self.problem}"] if self.problem else []


def find_criu(config: Config) -> Criu:
    """The one that CRIU names, if it works here; blocks."""
    wanted = config.str("CRIU", default="")
    found = shutil.which(wanted, path=f"{os.environ.get('PATH', '')}:{criu.PATH}") if wanted else None
    if found is None:
        return Criu(problem=f"there is no {wanted}" if wanted and config.is_set("CRIU") else "")
    if config.bool("USE_GID_PROCESS_TRACKING"):
        return Criu(problem="USE_GID_PROCESS_TRACKING gives each run another group id, which CRIU cannot exchange")
    if not can_isolate():
        return Criu(problem="it takes daemons with root's rights, which may make namespaces")
    problem = tried(found, config.path("EXECUTE"))
    return Criu(problem=problem) if problem else Criu(found, _platform(found))


def tried(program: str, execute: str) -> str:
    """Why it cannot be; nothing when it can."""
    account = fallback_account("nobody")
    own = account.uid, account.gid, account.groups
    with tempfile.TemporaryDirectory(prefix=".criu-", dir=execute) as directory:
        os.chmod(directory, 0o755)
        images = os.path.join(directory, "images")
        os.mkdir(images, 0o755)
        os.chown(images, account.uid, account.gid)
        begin = criu.without_rights(["setsid", "sleep", "600"], *own)
        script = f"""
            echo {criu.RESERVED_PIDS} > /proc/sys/kernel/ns_last_pid || exit 3
            {shlex.join(begin)} </dev/null >/dev/null 2>&1 &
            until read -r name < /proc/{FIRST}/comm && [ "$name" = sleep ]; do kill -0 {FIRST} || exit 4; done
            {shlex.join(criu.dumping(program, FIRST, images, *own))} || exit 5
            kill -9 {FIRST}; wait
            {shlex.join(criu.restoring(program, images, *own))} || exit 6
            kill -0 {FIRST} || exit 7
        """
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", script]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TRIAL_S, cwd="/",
                env={"PATH": criu.PATH},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode == 0:
            return ""
        return criu.reason(read_as(account, os.path.join(images, criu.LOG), LOG_BYTES_MAX) or done.stderr)


def _platform(program: str) -> str:
    """Where a job can go on that has been written down here."""
    kernel = os.uname()
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=False, timeout=TRIAL_S
    ).stdout
    return criu.platform(
        kernel.sysname.upper(),
        kernel.machine,
        kernel.release,
        version,
        Path("/proc/cpuinfo").read_text(errors="replace"),
        _c_library(),
    )


def _c_library() -> str:
    """A digest of the C library that programs of this machine have mapped: others of its libraries change with it."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        paths = {words[5].strip() for line in file if len(words := line.split(None, 5)) == 6}
    for path in sorted(paths):
        if os.path.basename(path).startswith(("libc.so", "libc-", "ld-musl")):
            return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return ""
