"""condor_qsub: submit a job that is described in the style of PBS or SGE."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.options import Opt
from minipool.cli.entry.tool import Tool, usage
from pool.base.errors import PoolError, SubmitError, UserError
from pool.base.ids import is_number

if TYPE_CHECKING:
    from pool.submit.qsub import Wishes

TOOL = Tool(
    "condor_qsub",
    "Submit a job that is described in the style of PBS or SGE.",
    "[options] [COMMANDFILE [WORD...]]",
    (
        Opt("a", 1, 1, "[[[[CC]YY]MM]DD]hhmm[.SS]", "start at this time"),
        Opt("A", 1, 1, "GROUP", "the accounting group"),
        Opt("b", 1, 1, "y|n", "y: the command is a program, and no script with options in it"),
        Opt("condor-keep-files", 3, says="keep the submit description, and say where it is"),
        Opt("cwd", 3, says="run in this directory"),
        Opt("d", 1, 1, "DIRECTORY", "run there; also -wd"),
        Opt("e", 1, 1, "FILE", "standard error (NAME.eCLUSTER)"),
        Opt("f", 1, 1, "FILE", "read options from this file's #PBS and #$ lines"),
        Opt("h", 1, says="submit on hold"),
        Opt("help", 4, says="show this"),
        Opt("hold_jid", 6, 1, "CLUSTER,...", "hold until these jobs have ended, and none with exit code 100"),
        Opt("i", 1, 1, "FILE", "standard input"),
        Opt("j", 1, 1, "oe|n", "oe: one file for standard output and error"),
        Opt("l", 1, 1, "NAME=VALUE,...", "resources: mem, file, procs, nodes, host, arch, opsys"),
        Opt("m", 1, 1, "a|e|n", "mail on failure, at the end, or never"),
        Opt("M", 1, 1, "ADDRESS", "where mail goes"),
        Opt("N", 1, 1, "NAME", "the job's name"),
        Opt("o", 1, 1, "FILE", "standard output (NAME.oCLUSTER)"),
        Opt("p", 1, 1, "N", "the priority"),
        Opt("print", 5, says="print the submit description"),
        Opt("r", 1, 1, "y|n", "n: never run it a second time"),
        Opt("S", 1, 1, "SHELL", "the shell that runs the command file"),
        Opt("t", 1, 1, "START[-STOP[:STEP]]", "an array of jobs"),
        Opt("test", 4, says="submit nothing"),
        Opt("v", 1, 1, "NAME[=VALUE],...", "variables of the environment"),
        Opt("V", 1, says="this whole environment"),
        Opt("version", 7, says="show the version"),
        Opt("W", 1, 1, "stagein=...,stageout=...", "files to transfer"),
    ),
)

_SENTINEL: Final = """\
universe = local
executable = /bin/sh
transfer_executable = false
arguments = "-c '{script}'"
getenv = true
queue
"""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_qsub."""
    from pool.submit.qsub import read_wishes

    try:
        wishes = read_wishes(argv)
        if wishes.has("help"):
            sys.stdout.write(usage(TOOL))
            return 0
        if wishes.has("version"):
            from pool.base.version import CONDOR_VERSION

            sys.stdout.write(f"{CONDOR_VERSION}\n")
            return 0
        return _submit(wishes)
    except PoolError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _submit(wishes: Wishes) -> int:
    from minipool.client.session import Session
    from minipool.client.submission import queue_text, read_plan
    from pool.submit.qsub import description, is_binary, job_name, place_of

    if not wishes.words:
        wishes.words = [_from_stdin(wishes.value("N"))]
        wishes.options.setdefault("N", ["STDIN"])
    # A program of machine code has no `#PBS` lines to be looked for.
    if not is_binary(wishes):
        wishes.add_script(_read(wishes.value("f") or wishes.words[0]))
    shell = os.environ.get("SHELL") or "/bin/sh"
    text = description(
        wishes,
        here=os.getcwd(),
        shell=shell,
        deferral=_deferral(wishes.value("a")),
        directories=[place for option in "oe" if os.path.isdir(place := place_of(wishes, option))],
    )
    if wishes.has("print"):
        sys.stdout.write(text)
    if wishes.has("condor-keep-files"):
        path = f"condor_qsub.{os.getpid()}.sub"
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        sys.stdout.write(f"{path}\n")
    session = Session.open()
    # Behind -print and -condor-keep-files: who tests wants to see the description.
    if wishes.has("test"):
        read_plan(session, text, file="condor_qsub")
        return 0
    waited_for = _clusters(wishes.value("hold_jid"))
    cluster = queue_text(session, text, file="condor_qsub").cluster
    # The sentinel comes second: it has to know which cluster it releases.
    if waited_for:
        queue_text(session, _sentinel(waited_for, cluster), file="condor_qsub")
    sys.stdout.write(f'Your job {cluster} ("{job_name(wishes)}") has been submitted\n')
    return 0


def _clusters(jobs: str) -> list[str]:
    ids = [part for part in jobs.split(",") if part]
    for id in ids:
        if not is_number(id):
            raise SubmitError(f"-hold_jid {jobs}: {id} is not the number of a cluster")
    return ids


def _sentinel(clusters: Sequence[str], held: int) -> str:
    """A job at the access point that waits for other jobs, and releases the one that waits for them."""
    # The job at the access point has no PATH that leads to this pool's tools.
    tools = os.path.dirname(os.path.abspath(sys.argv[0]))
    listed = " ".join(clusters)
    wait = f'until left=$({tools}/condor_q {listed} -af ClusterId) && test -z "$left"; do sleep 3; done'
    failed = f"$({tools}/condor_history {listed} -af ExitCode | grep -cx 100)"
    release = f"test {failed} -eq 0 && {tools}/condor_release {held}"
    # Within double quotes of the new syntax of arguments a double quote is doubled.
    return _SENTINEL.format(script=f"{wait}; {release}".replace('"', '""'))


def _from_stdin(name: str) -> str:
    """The script that is typed in becomes a file beside the user: the job reads it when it runs."""
    path = os.path.abspath(f"{name or 'STDIN'}_qsub.{os.getpid()}.{int(time.time())}")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(sys.stdin.read())
    os.chmod(path, 0o755)
    return path


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None


def _deferral(text: str) -> int | None:
    """The moment of -a; what is left out is the next that fits."""
    if not text:
        return None
    digits, dot, seconds = text.partition(".")
    if not is_number(digits) or len(digits) not in (4, 6, 8, 10, 12) or (dot and not is_number(seconds)):
        raise SubmitError(f"-a {text}: this is not [[[[CC]YY]MM]DD]hhmm[.SS]")
    now = time.localtime()
    full = time.strftime("%Y%m%d", now)[: 12 - len(digits)] + digits
    try:
        moment = time.mktime(time.strptime(full + (seconds or "00").zfill(2), "%Y%m%d%H%M%S"))
    except ValueError:
        raise SubmitError(f"-a {text}: there is no such moment") from None
    while moment < time.time() and len(digits) <= 8:  # tomorrow, next month, next year
        parts = list(time.localtime(moment))
        parts[{4: 2, 6: 1, 8: 0}[len(digits)]] += 1
        moment = time.mktime((*parts[:8], -1))  # type: ignore[arg-type]  # nine numbers, as mktime wants
    return int(moment)
