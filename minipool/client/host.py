"""Starting and stopping a host's daemons, as `pool up` and `pool down` do; also for demonstrations and tests.

`start` returns when all daemons are ready; when one cannot run, it says why, and nothing is left running. Settings of
the first start are DIR/config, those of a later one DIR/run/up.config. `stop` returns when the master is gone. A
master is known by the lock that it holds on its pid file, not by the number in it. minipool's own.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Final

from minipool.client.session import Session
from pool.base.errors import PeerError, UserError
from pool.base.ids import is_number
from pool.execute.enforcement import ATTRIBUTES

if TYPE_CHECKING:
    from pool.classad import ClassAd

READY_S: Final = 60.0
STOP_S: Final = 120.0
_POLL_S: Final = 0.02
LOOK_S: Final = 0.25
"""How often the master is asked what has become of its daemons, while they start."""
_HEAD = """\
# Made by `pool up`, with the settings of the first start. Those of a later start are in run/up.config, until the next
# start. What you add below wins over all of them.
"""


class HostError(UserError):
    """The pool could not be started or stopped."""


def prepare(directory: str, files: Sequence[str], settings: Mapping[str, str]) -> None:
    """Write the settings of this start: into DIR/config when it is the first one, else into DIR/run/up.config."""
    run = os.path.join(directory, "run")
    added = [f"include : {os.path.abspath(file)}\n" for file in files]
    added += [f"{key} = {value}\n" for key, value in settings.items()]
    try:
        os.makedirs(run, exist_ok=True)
        if not has_started(directory):
            lines = [_HEAD, f"LOCAL_DIR = {directory}\n", *added, "include ifexist : $(LOCAL_DIR)/run/up.config\n"]
            _write(os.path.join(directory, "config"), "".join(lines))
            added = []
        _write(os.path.join(run, "up.config"), "".join(added))
    except OSError as error:
        where = error.filename or directory
        raise HostError(f"{where} cannot be made for the pool in {directory}: {error.strerror}") from None


def has_started(directory: str) -> bool:
    """Whether this is a pool's directory already."""
    return os.path.lexists(os.path.join(directory, "config"))


def forget(directory: str, *, first: bool) -> None:
    """Undo `prepare`: with these settings no pool could be started."""
    for name in ("run/up.config", *(("config",) if first else ())):
        try:
            os.unlink(os.path.join(directory, name))
        except FileNotFoundError:
            pass


def _write(path: str, text: str) -> None:
    # Whoever reads the configuration meanwhile sees the old file or the new one, never half of one.
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
                # The master holds an exclusive lock for its whole life; a number alone may by now be another process's.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if is_number(text) else None
    except OSError:
        return None
    return None  # nobody holds the lock: the file was left behind


def start(directory: str, arguments: Sequence[str] = (), *, environ: Mapping[str, str] | None = None) -> int:
    """Start a master for the directory, detached, and return its process id once the daemons are ready.

    HostError says, as soon as it is known, why a daemon cannot run; then, as after an interrupt, nothing runs.
    """
    run_dir = os.path.join(directory, "run")
    try:
        os.unlink(os.path.join(run_dir, "ready"))
    except FileNotFoundError:
        pass
    # A file and no pipe: nobody would empty a pipe after the start, and a master must not wait for that.
    with tempfile.TemporaryFile() as said:
        master = subprocess.Popen(
            [sys.executable, "-m", "daemons", "master", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            # It outlives this shell: no directory stays in use, and the terminal's signals are not for it.
            cwd="/",
            env=dict(os.environ if environ is None else environ),
            start_new_session=True,
        )
        try:
            _until_ready(master, said, directory)
        except BaseException:
            _end(master)
            raise
    return master.pid


def _until_ready(master: subprocess.Popen[bytes], said: IO[bytes], directory: str) -> None:
    run_dir = os.path.join(directory, "run")
    deadline = time.monotonic() + READY_S
    look_at = time.monotonic() + LOOK_S
    while not os.path.exists(os.path.join(run_dir, "ready")):
        if master.poll() is not None:
            said.seek(0)
            raise HostError(f"The pool did not start: {_last_words(said.read(), directory)}")
        # The file `ready` is looked for often, as it costs nothing; the master is asked seldom, since it is busy
        # starting.
        if time.monotonic() > look_at:
            look_at = time.monotonic() + LOOK_S
            if trouble := _fallen(run_dir):
                raise HostError(f"The pool did not start: {trouble}; see the logs in {directory}/log")
        if time.monotonic() > deadline:
            raise HostError(f"The pool is not ready after {READY_S:.0f} s; see the logs in {directory}/log")
        time.sleep(_POLL_S)


def _fallen(run_dir: str) -> str:
    """What the master says of a daemon that has ended instead of becoming ready; nothing while all do well."""
    from protocol.messages.master import GetDaemons
    from protocol.rpc.blocking import connect
    from protocol.security.credentials import Security

    path = os.path.join(run_dir, "master.sock")
    if not os.path.exists(path):
        return ""
    try:
        with connect(path, Security(), timeout=LOOK_S * 20) as master:
            ads = master.call(GetDaemons()).daemons
    except PeerError:
        return ""  # it is not there yet, or ends; then its own words are read
    fallen = (ad for ad in ads if ad.eval_str("State") == "Backoff" and ad.eval_str("LastExit"))
    return "; ".join(f"the {ad.eval_str('Name')} {ad.eval_str('LastExit')}" for ad in fallen)


def _end(master: subprocess.Popen[bytes]) -> None:
    """End a master that was started in vain, and with it its daemons."""
    # Fast, and not killed: a master that is killed leaves daemons behind.
    master.send_signal(signal.SIGQUIT)
    try:
        master.wait(STOP_S / 4)
    except subprocess.TimeoutExpired:
        master.kill()
        master.wait()


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


def slot_troubles(session: Session) -> list[str]:
    """Why this host's startd could not make slots that its configuration asks for; HostError when it has made none."""
    from protocol.messages.common import GetAd

    with session.daemon("startd") as startd:
        ad = startd.call(GetAd()).ad
    reasons = [str(ad.eval(name)) for name in ad if name.lower().endswith("brokenreason")]
    if reasons and not ad.eval_int("NumSlots", 0):
        raise HostError(f"The pool did not start: {'; '.join(reasons)}")
    return reasons


def stop(session: Session, how: str = "graceful", seconds: float = STOP_S) -> bool:
    """Stop the host's daemons and wait until the master is gone; False when none ran."""
    pid = master_pid(session.run_dir)
    if pid is None:
        return False
    _ask_to_stop(session, pid, how)
    deadline = time.monotonic() + seconds
    while master_pid(session.run_dir) == pid:
        # Peacefully may take as long as the longest job.
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
            # To be passed through is enough; that is what x means for a directory.
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
