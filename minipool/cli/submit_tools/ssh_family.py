"""`condor_ssh_to_job -ssh sftp` and `-ssh scp`: OpenSSH's programs, for which this tool takes the place of ssh.

They start the program that -S names as they would start ssh; it runs their counterpart in the job, on pipes. Neither an
sshd nor keys are needed, but sftp-server on the machine of the job.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from pool.base.errors import UserError

PROGRAMS: Final = ("scp", "sftp")
SERVERS: Final = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/libexec/sftp-server",
    "/usr/lib/ssh/sftp-server",
)
_PROGRAM: Final = (
    "import sys; from minipool.cli.entry.main import dispatch; sys.exit(dispatch('ssh_to_job', sys.argv[1:]))"
)
_NO_SERVER: Final = "echo there is no sftp-server on this machine >&2; exit 127"


def run_over_shell(job: str, program: Sequence[str], words: Sequence[str], options: Sequence[str], marker: str) -> int:
    """Run the program, with this tool in the place of ssh; `options` say which pool and schedd, `marker` that it is."""
    name = os.path.basename(program[0])
    if name not in PROGRAMS:
        raise UserError(f"-ssh {program[0]}: only ssh, {' and '.join(PROGRAMS)} are known here")
    with tempfile.TemporaryDirectory(prefix="condor_ssh_to_job_") as directory:
        path = os.path.join(directory, "ssh")
        call = shlex.join([sys.executable, "-c", _PROGRAM, *options, marker, job])
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {call} "$@"\n')
        os.chmod(path, 0o700)
        argv = [program[0], "-S", path, *program[1:], *words]
        # sftp wants a host to connect to; which, this program in ssh's place does not ask.
        if name == "sftp" and not words:
            argv.append("remote")
        try:
            return subprocess.run(argv, check=False).returncode
        except OSError as error:
            raise UserError(f"{program[0]} cannot be run: {error.strerror}") from None


def command_of(words: Sequence[str]) -> str:
    """What ssh would have been asked to run: `[options] [--] HOST COMMAND...`; with -s, a subsystem of sshd."""
    rest, subsystem = list(words), False
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "--":
            break
        subsystem |= option == "-s"
        # Those of ssh that take a value and that scp and sftp pass on.
        if option in ("-l", "-p", "-o", "-i", "-F", "-c", "-J") and rest:
            rest.pop(0)
    command = rest[1:]
    if subsystem or command == ["sftp"]:
        tries = "; ".join(f"test -x {path} && exec {path}" for path in SERVERS)
        return f"{tries}; {_NO_SERVER}"
    return " ".join(command)
