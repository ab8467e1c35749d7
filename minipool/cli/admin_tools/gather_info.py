"""condor_gather_info: what somebody who is asked for help wants to see of this host, its pool, and a job."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from minipool.client.session import Session
from pool.base.errors import UserError
from pool.base.ids import names_jobs

TOOL = Tool(
    "condor_gather_info",
    "Gather facts about this host, its pool, and a job, for whoever is asked for help.",
    "[--jobid CLUSTER.PROC] [--scratch DIRECTORY]",
    (
        HELP,
        VERSION_OPT,
        Opt("jobid", 1, 1, "CLUSTER.PROC", "gather facts about this job too, into a compressed tar file"),
        Opt("scratch", 1, 1, "DIRECTORY", "where the tar file is made (/tmp/cgi-PID)"),
    ),
    notes="Without a job, everything is written to condor-profile.txt in the current directory.",
)

COMMANDS: Final = (
    # What is missing on a host answers with an error, which is a fact too.
    "uname -a", "ps -auxww --forest", "df -h", "iptables -L", "ulimit -a", "uptime", "free", "ip addr",
)  # fmt: skip
FILES: Final = ("/etc/issue", "/etc/redhat-release", "/etc/debian_version", "/etc/hosts", "/etc/nsswitch.conf")
# Those that nearly every question is about; whoever helps asks for others.
LOGS: Final = ("MASTER_LOG", "SCHEDD_LOG", "STARTD_LOG")
COMMAND_S: Final = 60
# The end is what matters, and the file has to be sent by mail.
LOG_BYTES: Final = 4 * 1024 * 1024


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_gather_info."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    job = parsed.value("jobid")
    if parsed.words or (job is not None and not _is_job(job)):
        raise UsageError(f"{' '.join(parsed.words) or job} is not a job id (CLUSTER.PROC)")
    session = open_session(parsed)
    if job is None:
        with open("condor-profile.txt", "w", encoding="utf-8", errors="replace") as file:
            file.writelines(_profile(session))
        sys.stdout.write("condor-profile.txt\n")
        return 0
    when = time.strftime("%Y-%m-%d-%I_%M_%S%p-%Z")
    name = f"cgi-{session.user()}-jid{job}-{when}"
    scratch = parsed.value("scratch") or f"/tmp/cgi-{os.getpid()}"
    try:
        os.makedirs(scratch, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=scratch) as directory:
            _gather(session, job, directory)
            with tarfile.open(f"{name}.tar.gz", "w:gz") as archive:
                archive.add(directory, arcname=name)
        if not os.listdir(scratch):
            os.rmdir(scratch)
    except OSError as error:
        raise UserError(f"{error.filename or scratch}: {error.strerror}") from None
    sys.stdout.write(f"{name}.tar.gz\n")
    return 0


def _is_job(text: str) -> bool:
    return "." in text and names_jobs(text)


def _profile(session: Session) -> Iterator[str]:
    """The host and its installation."""
    yield f"User: {session.user()}\nHost: {os.uname().nodename}\nDate: {time.ctime()}\n"
    for command in COMMANDS:
        yield _section(command, _output(["/bin/sh", "-c", command]))
    for path in (*FILES, *(session.config.path(knob) for knob in LOGS)):
        yield _section(path, _end_of(path))
    yield _section("ls LOG", _output(["ls", "-l", session.config.path("LOG")]))
    for argv in (["version"], ["config_val", "-config"], ["config_val", "-dump", "-verbose"], ["who", "-verbose"]):
        yield _section(f"condor_{' '.join(argv)}", _tool(argv))


def _gather(session: Session, job: str, directory: str) -> None:
    """The same, and the job, each in a file of its own."""
    parts = {
        "condor-profile.txt": _profile(session),
        "job_q": iter([_tool(["q", job])]),
        "job_ad": iter([_tool(["q", "-long", job]) or _tool(["history", "-long", job])]),
        "job_ad_analysis": iter([_tool(["q", "-better-analyze", job])]),
        "job_why": iter([_tool(["why", job])]),
    }
    log = _tool(["q", job, "-af", "UserLog"]).strip() or _tool(["history", job, "-af", "UserLog"]).strip()
    if log and log != "undefined":
        parts["job_userlog_lines"] = iter([_end_of(log)])
    for name, texts in parts.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8", errors="replace") as file:
            file.writelines(texts)


def _tool(argv: Sequence[str]) -> str:
    # This very installation, whatever PATH says.
    program = f"from minipool.cli.entry.main import dispatch; import sys; sys.exit(dispatch({argv[0]!r}, sys.argv[1:]))"
    return _output([sys.executable, "-c", program, *argv[1:]])


def _output(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"({error})\n"
    return done.stdout + done.stderr


def _end_of(path: str) -> str:
    """The file, or the end of a long one."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            return file.read().decode(errors="replace")
    except OSError as error:
        return f"({error.strerror})\n"


def _section(title: str, text: str) -> str:
    return f"\n==== {title} ====\n{text}"
