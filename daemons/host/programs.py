"""Programs that a site hooks in: given an ad on standard input, read to their end, killed when they take too long.

Output is taken as it comes, and what lies in the pipes when the program ends is read then, so nobody waits for what its
own children may still write. A program lives in a session of its own; killing it kills that.

Source: HTCondor's manual, "Configuration for Execution Points": "Hooks"; "HTCondor Hooks Configuration Options".
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import trio

from daemons.base.writing import write_all
from daemons.daemon_core.world import Process, Spawner
from daemons.host.tree import marked, send
from pool.base.errors import PoolError
from pool.base.ids import is_number
from pool.config import Config

OUTPUT_BYTES_MAX: Final = 4 * 1024 * 1024
"""What a program writes beyond this is dropped."""
_CHUNK: Final = 16384
_PIECES_IN_PIPE: Final = 65536 // _CHUNK


KILLED_S: Final = 10.0
"""How long a program that was killed may take to be gone; one that hangs in the kernel is left to it."""
MARK: Final = "_CONDOR_PROGRAM_OF"
"""The variable by which a daemon knows the programs of its earlier life, which nobody reads any more."""


class ProgramError(PoolError):
    """A program was not started."""


class Pipe:
    """What a program writes, handed to `taken` in pieces."""

    def __init__(self, taken: Callable[[bytes], None]) -> None:
        self._taken = taken
        # Our end is read without blocking; the program's is an ordinary one, as programs expect.
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reader, False)

    def started(self) -> None:
        """The program has its end; this process needs it no more."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    async def run(self) -> None:
        """Read until nobody writes any more."""
        while True:
            await trio.lowlevel.wait_readable(self._reader)
            if not self._take_piece():
                return

    def drain(self) -> None:
        """Read what lies in the pipe; not what somebody may go on to write, who holds nobody up."""
        # As much as a pipe can hold: what comes beyond that is written after the program's end, by somebody else.
        for _ in range(_PIECES_IN_PIPE):
            if not self._take_piece():
                return

    def _take_piece(self) -> bool:
        """Hand on a piece of what is there; whether more may come."""
        try:
            piece = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return True
        if piece:
            self._taken(piece)
        return bool(piece)

    def close(self) -> None:
        """Let go of both ends."""
        self.started()
        if self._reader >= 0:
            trio.lowlevel.notify_closing(self._reader)
            os.close(self._reader)
            self._reader = -1


class Bounded:
    """The first OUTPUT_BYTES_MAX bytes of an output."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._left = OUTPUT_BYTES_MAX

    def take(self, piece: bytes) -> None:
        """More output."""
        if self._left > 0:
            self._pieces.append(piece[: self._left])
            self._left -= len(piece)

    def text(self) -> str:
        """All of it."""
        return b"".join(self._pieces).decode("utf-8", "replace")


@dataclass(frozen=True)
class Finished:
    """How a program ended: its exit status, or the negative number of the signal that ended it."""

    status: int
    stdout: str
    stderr: str
    timed_out: bool = False

    def __str__(self) -> str:
        if self.timed_out:
            return "took too long"
        return f"exited with status {self.status}" if self.status >= 0 else f"died of signal {-self.status}"


def refusal(path: str) -> str:
    """Why a program is not to be run on anybody's behalf: what everybody can write is nobody's word. Empty: it may."""
    try:
        if not os.path.isabs(path):
            return f"{path} is not a full path"
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) or not mode & 0o111:
            return f"{path} is not a program"
        # HTCondor refuses such hooks too: anybody could have them do anything as the job's owner.
        if mode & stat.S_IWOTH:
            return f"{path} is world-writable"
        directory = os.path.dirname(path)
        if os.stat(directory).st_mode & stat.S_IWOTH:
            return f"{directory} is a world-writable directory"
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""


def daemons_identity(config: Config) -> dict[str, Any]:
    """As whom a daemon runs a site's programs: as itself; as CONDOR_IDS where it is root and that is set."""
    ids = config.str("CONDOR_IDS", default="")
    if os.geteuid() != 0 or not ids:
        return {}
    uid, _, gid = ids.partition(".")
    if not is_number(uid) or not is_number(gid):
        raise config.error("CONDOR_IDS", f"CONDOR_IDS = {ids} is not two numbers (expected UID.GID)")
    return {"user": int(uid), "group": int(gid), "extra_groups": []}


def text_file(text: str) -> int:
    """A descriptor to read `text` from: no program that reads slowly, or not at all, holds anybody up."""
    # Not a pipe: it would hold 64 KiB, and this process up beyond that.
    descriptor = os.memfd_create("ad", os.MFD_CLOEXEC)
    write_all(descriptor, text.encode("utf-8", "surrogateescape"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def run_program(
    spawner: Spawner,
    argv: Sequence[str],
    *,
    text: str = "",
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
    timeout_s: float = float("inf"),
    taken: Callable[[bytes], None] | None = None,
    started: Callable[[Process], None] | None = None,
    **options: Any,
) -> Finished:
    """Run a program to its end; ProgramError when it cannot be started. Cancelled, it is killed.

    `taken` gets the output as it comes instead of the answer; `started` is told of the process.
    """
    out, err = Bounded(), Bounded()
    pipes = (Pipe(taken or out.take), Pipe(err.take))
    stdin = text_file(text)
    try:
        try:
            process = await spawner.start(
                list(argv),
                stdin=stdin,
                stdout=pipes[0].writer,
                stderr=pipes[1].writer,
                env=dict(environment) if environment is not None else None,
                cwd=directory,
                start_new_session=True,
                **options,
            )
        except OSError as error:
            raise ProgramError(f"{argv[0]} cannot be started: {error.strerror}") from None
        for pipe in pipes:
            pipe.started()
        if started is not None:
            started(process)
        timed_out = await _until_ended(process, pipes, timeout_s)
        for pipe in pipes:
            pipe.drain()
        # One that not even the kernel could end by now counts as killed: nobody waits for a disk that hangs.
        status = -signal.SIGKILL if process.returncode is None else process.returncode
        return Finished(status, out.text(), err.text(), timed_out)
    finally:
        os.close(stdin)
        for pipe in pipes:
            pipe.close()


async def _until_ended(process: Process, pipes: Sequence[Pipe], timeout_s: float) -> bool:
    """Wait for the end; whether it had to be brought about."""
    try:
        async with trio.open_nursery() as nursery:
            for pipe in pipes:
                nursery.start_soon(pipe.run)
            with trio.move_on_after(timeout_s) as patience:
                await process.wait()
            nursery.cancel_scope.cancel()
        return patience.cancelled_caught
    finally:
        if process.returncode is None:
            await _kill(process)


async def _kill(process: Process) -> None:
    kill_session(process.pid)
    with trio.move_on_after(KILLED_S, shield=True):
        await process.wait()


def run_blocking(argv: Sequence[str], limit_s: float, **options: Any) -> Finished:
    """The same for a thread that has nothing else to do: what it has printed goes into files, so that nobody waits for
    a pipe that a child of the program still holds. ProgramError when it cannot be started."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, **options
            )
        except OSError as error:
            raise ProgramError(f"cannot run {argv[0]}: {error.strerror}") from None
        timed_out = False
        try:
            child.wait(limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            kill_session(child.pid)
            child.wait()
        return Finished(child.returncode, _printed(out), _printed(err), timed_out)


def _printed(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(OUTPUT_BYTES_MAX).decode(errors="replace")


def sweep(mark: str) -> int:
    """End the programs that an earlier life of a daemon has left; how many there were. Blocks."""
    left = marked(f"{MARK}={mark}".encode()) - {os.getpid()}
    send(left, signal.SIGKILL)
    return len(left)


def kill_session(pid: int, signum: int = signal.SIGKILL) -> None:
    """Send a signal to a program that has a session of its own, and to all that is still in its group."""
    try:
        # Its group has its number, as it began a session (start_new_session).
        os.killpg(pid, signum)
    except (ProcessLookupError, PermissionError):
        pass
