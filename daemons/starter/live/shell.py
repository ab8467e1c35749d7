"""Shells in a running job's surroundings, for its owner: what condor_ssh_to_job and interactive jobs use.

A shell is one more process of the job: in its control group and its namespaces, with its account, environment,
directory and limits. It has a terminal of its own, or pipes. It ends with the connection of whoever uses it, and a job
does not end before its shells, unless it has to leave. In a container it is the engine that runs it; into an image of
Apptainer's that has a user namespace the account goes by itself, with nsenter.

Rules: what is printed goes out as fast as its reader takes it, and what was printed last is not lost with the shell's
end; programs of interactive jobs find a directory in the sandbox as long as a shell is open.

Source: HTCondor's manual pages condor_ssh_to_job and condor_submit (-interactive), and "Starting an interactive shell
next to a running job on a remote machine". There an sshd runs beside the job; here no machine needs one.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

import trio
from trio.lowlevel import FdStream

from daemons.base.linux import descendants, never_gain_privileges, status_fields
from daemons.base.log import Log
from daemons.base.sync import Signal
from daemons.host import namespaces
from daemons.host.account import acting_as, become
from daemons.host.cgroup import ControlGroup
from daemons.host.processes import Processes, WatchedChild
from daemons.starter.launch.body import Scene
from daemons.starter.launch.container_engine import attach
from daemons.starter.launch.fork import quieten_oom_and_signals
from daemons.starter.launch.spawn import JOB_UMASK, handled_signals, soft_limits
from pool.base.errors import UserError
from protocol.messages.live import SHELL_CHUNK_BYTES, NotRunning, OpenShell, ShellOutput
from protocol.rpc.service import SendItem

SHELLS_MAX: Final = 16
INITS: Final = ("docker-init", "podman-init", "catatonit")
"""What engines put before the job's program (DOCKER_RUN_UNDER_INIT)."""
LAST_SHELL: Final = "/bin/sh"
BEST_SHELL: Final = "command -v bash > /dev/null && exec bash -l; exec sh -l"
"""The shell in an image, as far as it has one."""
IMAGE_LOOKS: Final = 400
LOOK_PAUSE_S: Final = 0.05
"""How often, and at which distance, a shell looks for the image of a job that has just begun."""
NSENTER: Final = ("/usr/bin/nsenter", "/bin/nsenter")
_ENTER: Final = {"user": "-U", "mnt": "-m", "ipc": "-i", "uts": "-u", "net": "-n", "pid": "-p"}
LAST_WORDS_S: Final = 0.3
"""How long after the shell's end its output is waited for, where somebody else holds the terminal open."""
MARK: Final = ".condor_ssh_to_job_{}"
"""The directory in the sandbox that is there while a shell is; programs of interactive jobs look for it."""


@dataclass
class _Shell:
    """One shell: its process, and this side's ends of its terminal or pipes."""

    watched: WatchedChild
    typed: FdStream
    printed: FdStream
    errors: FdStream | None
    is_terminal: bool
    mark: str
    turn: trio.Lock = field(default_factory=trio.Lock)

    def close(self) -> None:
        """Hang up."""
        for stream in (self.typed, self.printed, self.errors):
            if stream is not None:
                stream.close()


class Shells:
    """The shells of one job."""

    def __init__(self, processes: Processes, group: ControlGroup, log: Log) -> None:
        self._processes, self._group, self._log = processes, group, log
        self._open: dict[str, _Shell] = {}
        self._closed = Signal()
        self.last_status: int | None = None
        """The wait status of the shell that ended last."""

    # ---- for the job

    @property
    def any(self) -> bool:
        """Whether a shell is open."""
        return bool(self._open)

    async def all_closed(self) -> None:
        """Wait until no shell is open."""
        await self._closed.until(lambda: not self._open)

    # ---- for whoever uses them

    async def serve(self, scene: Scene, request: OpenShell, send: SendItem[ShellOutput]) -> None:
        """Run one shell, and send what it prints; to leave this is to hang up."""
        if len(self._open) >= SHELLS_MAX or request.shell in self._open:
            raise UserError(f"Job {request.job_id} has {len(self._open)} shells already.")
        image = await _image(scene)
        pids = _pids_in_image(image) if image else _pids(scene)
        shell = self._start(scene, request, pids, image)
        self._open[request.shell] = shell
        self._log.always("A shell is opened in the job", job=request.job_id, pid=shell.watched.pid)
        try:
            await send(ShellOutput(slot=scene.slot.eval_str("Name") or "", pids=pids))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pump, shell, shell.printed, lambda data: ShellOutput(data=data), send)
                if shell.errors is not None:
                    nursery.start_soon(_pump, shell, shell.errors, lambda data: ShellOutput(error=data), send)
                await shell.watched.ended.wait()
            self.last_status = shell.watched.status
            await send(ShellOutput(status=shell.watched.status))
        finally:
            self._close(scene, request, shell)

    def _close(self, scene: Scene, request: OpenShell, shell: _Shell) -> None:
        shell.close()
        if not shell.watched.ended.is_set():
            with suppress(ProcessLookupError):
                os.killpg(shell.watched.pid, signal.SIGHUP)
                # A stopped program would hear SIGHUP only when it is let go on.
                os.killpg(shell.watched.pid, signal.SIGCONT)
        with acting_as(scene.account), suppress(OSError):
            os.rmdir(shell.mark)
        del self._open[request.shell]
        if not self._open:
            self._closed.fire()
            if scene.job.eval_bool("InteractiveJob", False):  # its program only waits for this
                with suppress(ProcessLookupError):
                    os.kill(scene.pid, signal.SIGTERM)
        self._log.always("The shell is closed", job=request.job_id, pid=shell.watched.pid)

    async def feed(self, name: str, data: bytes, *, over: bool) -> None:
        """Type something; returns when the shell has taken it."""
        shell = self._named(name)
        async with shell.turn:
            # A terminal has no end of file but this character.
            if over and shell.is_terminal:
                data += b"\x04"
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # it has closed its input, or is gone
                await shell.typed.send_all(data)
            if over and not shell.is_terminal:
                shell.typed.close()

    def resize(self, name: str, rows: int, columns: int) -> None:
        """The terminal has another size; its foreground processes get SIGWINCH."""
        shell = self._named(name)
        if shell.is_terminal:
            _set_size(shell.typed.fileno(), rows, columns)

    def _named(self, name: str) -> _Shell:
        if name not in self._open:
            raise NotRunning("The shell has ended.")
        return self._open[name]

    # ---- beginning

    def _start(self, scene: Scene, request: OpenShell, pids: Sequence[int], image: int) -> _Shell:
        is_terminal = bool(request.terminal)
        ours, theirs = _terminal(scene, request) if is_terminal else _pipes()
        try:
            mark = _make_mark(scene)
            if scene.entrance:
                watched = _enter(self._processes, scene, request, pids, theirs)
            else:
                surroundings = _environment(scene, request, pids, inside=bool(image))
                words = _words_into(image, request) if image else _words(request)
                pid = _fork(scene, words, surroundings, theirs, self._group.entrances(), image)
                watched = self._processes.watch(pid)
        except BaseException:
            for fd in set(ours) - {-1}:
                os.close(fd)
            raise
        finally:
            for fd in set(theirs):
                os.close(fd)
        typed, printed, errors = ours
        reads = FdStream(printed)
        return _Shell(
            watched,
            reads if typed == printed else FdStream(typed),
            reads,
            FdStream(errors) if errors >= 0 else None,
            is_terminal,
            mark,
        )


def _terminal(scene: Scene, request: OpenShell) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """A new terminal that is the account's: our end, and the shell's."""
    master, slave = os.openpty()
    if scene.account.switches:
        os.fchown(slave, scene.account.uid, -1)
    if request.rows and request.columns:
        _set_size(master, request.rows, request.columns)
    return (master, master, -1), (slave, slave, slave)


def _pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    (stdin, typed), (printed, stdout), (errors, stderr) = (os.pipe2(os.O_CLOEXEC) for _ in range(3))
    return (typed, printed, errors), (stdin, stdout, stderr)


def _set_size(fd: int, rows: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0))


def _make_mark(scene: Scene) -> str:
    with acting_as(scene.account):
        for number in range(1, SHELLS_MAX + 2):
            path = os.path.join(scene.sandbox, MARK.format(number))
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
                return path
    raise UserError("there are too many shells")


def _words(request: OpenShell) -> list[tuple[str, list[str]]]:
    """The programs to try, each with its words: a login shell, or one that runs the command."""
    shells = [shell for shell in request.shells if shell.startswith("/")]
    found = []
    for shell in (*shells, LAST_SHELL):
        name = os.path.basename(shell)
        found.append((shell, [name, "-c", request.command] if request.command else [f"-{name}"]))
    return found


def _environment(scene: Scene, request: OpenShell, pids: Sequence[int], *, inside: bool) -> dict[str, str]:
    """The job's, and what tells a shell where it is."""
    plan = scene.plan
    jobs = plan.inside if inside and plan.inside is not None else plan.environment
    environment = {
        "HOME": jobs.get("_CONDOR_SCRATCH_DIR", scene.sandbox),
        "_CONDOR_JOB_IWD": plan.directory,
        **jobs,
        "_CONDOR_JOB_PIDS": " ".join(map(str, pids)),
        "_CONDOR_SLOT_NAME": scene.slot.eval_str("Name") or "",
    }
    if request.terminal:
        environment["TERM"] = request.terminal
    return environment


def _pids(scene: Scene) -> list[int]:
    """The job's processes, its program first, by the numbers that they have where the job is."""
    pids = [scene.pid, *sorted(descendants(scene.pid) - {scene.pid})]
    if not scene.terms.isolation.processes and not scene.entrance:
        return pids
    if len(pids) > 1 and status_fields(pids[0]).get("Name", [""])[0] in INITS:
        pids = pids[1:]
    inside = [numbers for pid in pids if (numbers := status_fields(pid).get("NSpid"))]
    return [int(numbers[-1]) for numbers in inside]  # the last is that of the innermost namespace


async def _image(scene: Scene) -> int:
    """The first process in the image of Apptainer's that the job was put into; 0 where its account cannot enter it."""
    # With rights of its own the program makes namespaces that are root's.
    if scene.plan.inside is None or not scene.slot.eval_bool("SingularityUserNamespaces", False):
        return 0
    # Nobody tells that the program has got so far.
    for _ in range(IMAGE_LOOKS):
        if (found := namespaces.image_process(scene.pid)) is not None and _pids_in_image(found):
            return found
        await trio.sleep(LOOK_PAUSE_S)
    raise NotRunning("The job's image is not there yet.")


def _pids_in_image(first: int) -> list[int]:
    inside = [numbers for pid in (first, *sorted(descendants(first))) if (numbers := status_fields(pid).get("NSpid"))]
    # Number 1 is Apptainer's own, where the image has processes of its own.
    return [int(numbers[-1]) for numbers in inside if numbers[-1] != "1"]


def _words_into(image: int, request: OpenShell) -> list[tuple[str, list[str]]]:
    """The shell in the job's image, entered with no other rights than the account's."""
    kinds = [_ENTER[kind] for kind in namespaces.account_namespaces(image)]
    command = request.command or BEST_SHELL
    script = f'cd "$_CONDOR_JOB_IWD"; {command}'
    words = ["nsenter", "--preserve-credentials", f"--target={image}", *kinds, "--root", LAST_SHELL, "-c", script]
    return [(path, words) for path in NSENTER]


def _enter(
    processes: Processes, scene: Scene, request: OpenShell, pids: Sequence[int], fds: tuple[int, int, int]
) -> WatchedChild:
    """Have the engine run the shell in the job's container; the image has /bin/sh, and bash perhaps."""
    told = {"_CONDOR_JOB_PIDS": " ".join(map(str, pids)), "_CONDOR_SLOT_NAME": scene.slot.eval_str("Name") or ""}
    if request.terminal:
        told["TERM"] = request.terminal
    variables = [word for name, value in told.items() for word in ("-e", f"{name}={value}")]
    command = request.command or BEST_SHELL
    terminal = ["-t"] if request.terminal else []
    argv = [*scene.entrance, *terminal, *variables, scene.container, LAST_SHELL, "-c", command]
    return attach(processes, argv, fds, preexec_fn=_take_terminal if request.terminal else None)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _fork(
    scene: Scene,
    programs: Sequence[tuple[str, list[str]]],
    environment: Mapping[str, str],
    fds: tuple[int, int, int],
    entrances: Sequence[int],
    image: int,
) -> int:
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    words = [(os.fsencode(path), [os.fsencode(word) for word in argv]) for path, argv in programs]
    handled = handled_signals()
    with namespaces.joined(image or scene.pid, scene.terms.isolation, image=bool(image)):
        pid = os.fork()
        if pid == 0:
            _child(scene, words, encoded, fds, entrances, handled)
    return pid


def _child(
    scene: Scene,
    programs: Sequence[tuple[bytes, list[bytes]]],
    environment: Mapping[bytes, bytes],
    fds: tuple[int, int, int],
    entrances: Sequence[int],
    handled: list[int],
) -> NoReturn:
    """Become the shell; never returns. What fails is said on its standard error."""
    try:
        os.setsid()
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        for entrance in entrances:
            os.write(entrance, b"0")
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        quieten_oom_and_signals(handled)
        account, terms = scene.account, scene.terms
        if terms.isolation.homes or scene.plan.inside is not None:
            never_gain_privileges()
        if terms.nice:
            os.nice(terms.nice)
        if terms.cpus:
            os.sched_setaffinity(0, terms.cpus)
        soft_limits(scene.plan.rlimits)
        if terms.group_id:
            account = replace(account, groups=(*account.groups, terms.group_id))
        become(account)
        os.umask(JOB_UMASK)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.chdir(scene.plan.directory)
        for path, argv in programs:
            with suppress(OSError):
                os.execve(path, argv, environment)
        os.write(2, b"None of the shells can be executed here.\n")
    except OSError as error:
        os.write(2, f"The shell cannot be started: {error}\n".encode(errors="replace"))
    finally:
        os._exit(127)


# ---- moving bytes


async def _pump(
    shell: _Shell, stream: FdStream, item: Callable[[bytes], ShellOutput], send: SendItem[ShellOutput]
) -> None:
    """Send what comes out of one of its ends, until nobody writes any more, or a moment after the shell's end."""
    while data := await _printed(shell.watched.ended, stream):
        await send(item(data))


async def _printed(ended: trio.Event, stream: FdStream) -> bytes:
    """What comes next; nothing when nobody has the other end open, or the shell has ended and none comes any more."""
    data = b""
    async with trio.open_nursery() as race:
        race.start_soon(_give_up_after, ended, race.cancel_scope)
        with suppress(trio.BrokenResourceError):  # nobody has the terminal open any more
            data = bytes(await stream.receive_some(SHELL_CHUNK_BYTES))
        race.cancel_scope.cancel()
    return data


async def _give_up_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    await trio.sleep(LAST_WORDS_S)
    scope.cancel()
