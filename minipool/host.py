"""Starting and stopping a host's daemons, as `pool up` and `pool down` do; also for demonstrations and tests."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time

from minipool.session import Session
from pool.errors import PeerError, UserError
from pool.execute.enforcement import ATTRIBUTES
from pool.hints import TYPE_CHECKING, Callable, Final, Iterator, Mapping, Sequence

if TYPE_CHECKING:
    from pool.classad import ClassAd

READY_S: Final = 60.0
STOP_S: Final = 120.0
_POLL_S: Final = 0.02
_HEAD = "# Made by `pool up`, which keeps its -c and --config in run/up.config. What you add below wins over those.\n"


class HostError(UserError):
    """The pool could not be started or stopped."""


def prepare(directory: str, files: Sequence[str], settings: Mapping[str, str]) -> None:
    """Write DIR/config when it is missing, and what this start adds into DIR/run/up.config; all processes read both."""
    run = os.path.join(directory, "run")
    os.makedirs(run, exist_ok=True)
    config = os.path.join(directory, "config")
    if not os.path.exists(config):
        lines = [_HEAD, f"LOCAL_DIR = {directory}\n", "include ifexist : $(LOCAL_DIR)/run/up.config\n"]
        _write(config, "".join(lines))
    added = [f"include : {os.path.abspath(file)}\n" for file in files]
    added += [f"{key} = {value}\n" for key, value in settings.items()]
    _write(os.path.join(run, "up.config"), "".join(added))


def _write(path: str, text: str) -> None:
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def master_pid(run_dir: str) -> int | None:
    """The process id of the master that holds these directories; None when none runs."""
    import fcntl

    try:
        with open(os.path.join(run_dir, "master.pid")) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdigit() else None
    except OSError:
        return None
    return None  # nobody holds the lock: the file was left behind


def start(directory: str, arguments: Sequence[str] = (), *, environ: Mapping[str, str] | None = None) -> int:
    """Start a master for the directory, detached, and return its process id once the daemons are ready."""
    run_dir = os.path.join(directory, "run")
    try:
        os.unlink(os.path.join(run_dir, "ready"))
    except FileNotFoundError:
        pass
    with tempfile.TemporaryFile() as said:
        master = subprocess.Popen(
            [sys.executable, "-m", "daemons", "master", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd="/",
            env=dict(os.environ if environ is None else environ),
            start_new_session=True,
        )
        deadline = time.monotonic() + READY_S
        while not os.path.exists(os.path.join(run_dir, "ready")):
            if master.poll() is not None:
                said.seek(0)
                raise HostError(f"The pool did not start: {_last_words(said.read(), directory)}")
            if time.monotonic() > deadline:
                raise HostError(f"The pool is not ready after {READY_S:.0f} s; see the logs in {directory}/log")
            time.sleep(_POLL_S)
    return master.pid


def _last_words(said: bytes, directory: str) -> str:
    text = said.decode(errors="replace").strip()
    if text:
        return text[-2000:]
    return f"the master ended without a word; see {directory}/log/MasterLog"


def wait_for_slots(session: Session, seconds: float = READY_S) -> list[ClassAd]:
    """Wait until the collector has this host's slots; their names, and how jobs are held to their limits."""
    from pool.classad import quote

    host = session.config.str("FULL_HOSTNAME")
    deadline = time.monotonic() + seconds
    while True:
        try:
            slots = session.query("Machine", constraint=f"Machine == {quote(host)}", projection=["Name", *ATTRIBUTES])
        except PeerError:
            slots = []
        if slots or time.monotonic() > deadline:
            return slots
        time.sleep(_POLL_S)


def stop(session: Session, how: str = "graceful", seconds: float = STOP_S) -> bool:
    """Stop the host's daemons and wait until the master is gone; False when none ran."""
    pid = master_pid(session.run_dir)
    if pid is None:
        return False
    _ask_to_stop(session, pid, how)
    deadline = time.monotonic() + seconds
    while master_pid(session.run_dir) == pid:
        if how != "peaceful" and time.monotonic() > deadline:
            raise HostError(
                f"The master (pid {pid}) still runs after {seconds:.0f} s; see its MasterLog, or: pool down -fast"
            )
        time.sleep(_POLL_S)
    return True


def _ask_to_stop(session: Session, pid: int, how: str) -> None:
    from protocol.messages.common import Stop, StopHow

    try:
        with session.daemon("master") as peer:
            peer.call(Stop(how=StopHow(how)))
            return
    except PeerError as error:
        trouble = error
    try:  # a master that does not answer still heeds a signal
        os.kill(pid, signal.SIGQUIT if how == "fast" else signal.SIGTERM)
    except PermissionError:
        raise HostError(f"The pool belongs to another account, and its master says: {trouble}") from None
    except ProcessLookupError:
        pass


def unreachable(paths: Sequence[str]) -> Iterator[str]:
    """For each path that other accounts cannot reach: a sentence that says which directory is in the way."""
    for path in paths:
        for parent in _parents(os.path.realpath(path)):
            try:
                mode = os.stat(parent).st_mode
            except OSError:
                continue
            if not mode & stat.S_IXOTH:
                bits = f"{stat.S_IMODE(mode):04o}"
                yield f"{path} cannot be reached by other accounts: {parent} has mode {bits} (chmod o+x {parent})"
                break


def _parents(path: str) -> Iterator[str]:
    at = path if os.path.isdir(path) else os.path.dirname(path)
    chain = [at]
    while at != "/":
        at = os.path.dirname(at)
        chain.append(at)
    return reversed(chain)


def job_paths(execute: str) -> list[str]:
    """What every account that runs jobs has to reach: the sandboxes, the interpreter and the installed packages."""
    package = os.path.dirname(os.path.abspath(__file__))
    return [execute, sys.executable, os.path.dirname(package)]


def until(what: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
