"""condor_run: a shell command as a job; its output and its exit status are the tool's own."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from types import FrameType
from typing import IO, Final

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import Tool, run
from minipool.cli.log_tools.log_reader import ABORTED, TERMINATED, LogEntry, LogReader
from minipool.client.session import Session
from pool.base.errors import PoolError, UserError

TOOL = Tool(
    "condor_run",
    "Run a shell command as a job, wait for it, and print what it printed.",
    '[-u UNIVERSE] [-getenv] [-a SUBMIT-COMMAND]... "SHELL COMMAND"',
    (
        Opt("help", 1, says="show this"),
        Opt("getenv", 1, says="give the job this environment"),
        Opt("universe", 1, 1, "UNIVERSE", "the job's universe (vanilla)"),
        Opt("a", 1, 1, "COMMAND", "a further line of the submit description; may be repeated"),
    ),
    stop_at_word=True,
    notes="The environment variables CONDOR_ARCH, CONDOR_OPSYS and CONDOR_REQUIREMENTS say where the job may run.",
)

_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_FILES: Final = ("run", "log", "out", "error")
_POLL_S: Final = 0.05
_RETURNED = re.compile(r"termination \(return value (\d+)\)")
_KILLED = re.compile(r"termination \(signal (\d+)\)")


class Killed(Exception):
    """A signal asked this process to end."""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_run."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if not parsed.words:
        raise UsageError("")
    files = {name: f".condor_{name}.{os.getpid()}" for name in _FILES}
    try:
        with _signals():
            _write_program(files["run"], parsed.words)
            status = _run_job("\n".join(description(parsed, files, os.environ)) + "\n", files)
        for name, stream in (("out", sys.stdout), ("error", sys.stderr)):
            _copy(files[name], stream)
        return status
    except Killed as error:
        raise UserError(f"Killed by SIG{signal.Signals(int(str(error))).name.removeprefix('SIG')}.") from None
    finally:
        for path in files.values():
            with suppress(OSError):
                os.unlink(path)


@contextmanager
def _signals() -> Iterator[None]:
    def killed(number: int, frame: FrameType | None) -> None:
        raise Killed(str(number))

    # Whoever ends condor_run wants the job gone, too, and the files that it made here.
    before = [signal.signal(number, killed) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)


def _write_program(path: str, words: Sequence[str]) -> None:
    shell = os.environ.get("SHELL", "/bin/sh")
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"#!{shell}\n{' '.join(words)}\n")
        os.chmod(path, 0o700)
    except OSError as error:
        raise UserError(f"Can't create temporary (CMD) file in current directory: {error.strerror}") from None


def description(parsed: Parsed, files: dict[str, str], env: Mapping[str, str]) -> Iterator[str]:
    """The lines of the submit description."""
    yield f"universe = {parsed.value('universe', 'vanilla')}"
    yield f"executable = {files['run']}"
    yield "notification = NEVER"
    yield f"log = {files['log']}"
    yield f"output = {files['out']}"
    yield f"error = {files['error']}"
    if parsed.has("getenv"):
        yield "getenv = True"
    parts = [env["CONDOR_REQUIREMENTS"]] if env.get("CONDOR_REQUIREMENTS") else []
    names = (("CONDOR_ARCH", "Arch"), ("CONDOR_OPSYS", "OpSys"))
    wanted = [(name, env[key]) for key, name in names if key in env]
    if wanted:
        from pool.classad import quote

        parts += [f"{name} == {quote(text)}" for name, text in wanted]
    if parts:
        yield f"requirements = {' && '.join(parts)}"
    yield from parsed.values("a")
    yield "queue"


def _run_job(text: str, files: dict[str, str]) -> int:
    """Submit it and wait for its end; whoever is killed meanwhile takes the job out of the queue."""
    from minipool.client.submission import queue_text

    session = Session.open()
    cluster = queue_text(session, text, file="condor_run").cluster
    try:
        return _wait(files["log"], cluster)
    except (Killed, KeyboardInterrupt):
        _remove(session, cluster)
        raise


def _remove(session: Session, cluster: int) -> None:
    from protocol.messages.schedd import Action, ActOnJobs, Selection

    with suppress(PoolError), session.daemon("schedd") as peer:
        peer.call(ActOnJobs(select=Selection(ids=[str(cluster)]), action=Action.REMOVE, reason=None, subcode=0))


def _wait(path: str, cluster: int) -> int:
    try:
        log = LogReader(path)
    except OSError as error:
        raise UserError(f"Failed to open the job's log file: {error.strerror}") from None
    with closing(log):
        while True:
            for event in log.new_events():
                # Process ids come again: an earlier run's log may lie here, with another cluster's events.
                if event.cluster == cluster and event.number in (TERMINATED, ABORTED):
                    return _status(event)
            time.sleep(_POLL_S)


def _status(event: LogEntry) -> int:
    if event.number == ABORTED:
        sys.stderr.write("The job was aborted.\n")
        return 1
    killed = _KILLED.search(event.text)
    if killed:
        sys.stderr.write(f"Condor job killed by signal {killed[1]}.\n")
        # As a shell tells of a signal, where HTCondor's exits with 0.
        return 128 + int(killed[1])
    returned = _RETURNED.search(event.text)
    return int(returned[1]) if returned else 1


def _copy(path: str, stream: IO[str]) -> None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            while piece := file.read(1 << 16):
                stream.write(piece)
    except OSError as error:
        raise UserError(f"Failed to open job {stream.name} file: {error.strerror}") from None
