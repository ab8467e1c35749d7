"""A real pool for a test: the master and all its daemons as processes, in a directory of its own, on free ports.

    with real_pool(NUM_CPUS=4) as pool:
        cluster = pool.submit("executable = /bin/sleep\narguments = 1\nqueue 3\n")
        pool.until_done(cluster)

At the end of the block the pool is stopped, and nothing of it may be left: no process, no socket, no sandbox. Waiting
is for states, with deadlines that a loaded machine keeps.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pool.classad import ClassAd, parse_longs
from tests.warm_process import SLOWER
from tests.whole.warm_masters import MARK, WarmMaster, masters

T = TypeVar("T")

DEADLINE_S = 90.0 * SLOWER
POLL_S = 0.05
DEFAULTS = {"MASTER_BACKOFF_CONSTANT": "0", "ALL_DEBUG": "D_FULLDEBUG", "NUM_CPUS": "2", "DOCKER": ""}
if "COVERAGE_FILE" in os.environ:  # `make coverage`: daemons that may write in few directories write their data too
    DEFAULTS["TMP_DIR"] = os.path.dirname(os.environ["COVERAGE_FILE"])


class NotInTime(AssertionError):
    """What was waited for did not come."""


class RealPool:
    """One host's processes. `owner`: whose the daemons are; `user`: whom tools run as (None: as this process)."""

    program: Sequence[str] = ("-m", "daemons")
    """What the interpreter runs as the master."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str], user: str | None = None, owner: str | None = None
    ) -> None:
        self.directory, self.settings, self.user, self.owner = directory, dict(settings), user, owner
        self.mark = uuid.uuid4().hex
        self.master: subprocess.Popen[bytes] | WarmMaster | None = None
        self.run_dir = directory / "run"

    # ---- the master

    def start(self, *, wait: bool = True) -> None:
        """Start the master; returns when all daemons are up."""
        words = ["master", "--dir", str(self.directory)]
        for name, value in self.settings.items():
            words += ["-c", f"{name}={value}"]
        (self.run_dir / "ready").unlink(missing_ok=True)  # what a killed master left
        with open(self.directory / "master.err", "ab") as errors:
            warm = masters() if self.owner is None and self.program is RealPool.program else None
            forked = warm.start(words, self.env(), errors.fileno()) if warm is not None else None
            self.master = forked or self._execute(words, errors.fileno())
        if wait:
            self.until(self._is_up, "the pool to be up")

    def _execute(self, words: Sequence[str], errors: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, *self.program, *words],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env=self.env(),
            start_new_session=True,
            **as_account(self.owner),
        )

    def _is_up(self) -> bool:
        assert self.master is not None
        if self.master.poll() is not None:
            raise AssertionError(f"the master ended with status {self.master.returncode}\n{self.logs()}")
        return (self.run_dir / "ready").exists()

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop the master and wait for its end; then nothing of the pool is left."""
        assert self.master is not None
        self.master.send_signal(how)
        try:
            status = self.master.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise NotInTime(f"the master did not stop\n{self.logs()}") from None
        assert status == 0, f"the master ended with status {status}\n{self.logs()}"
        self.master = None
        self.assert_nothing_left()

    def kill(self) -> None:
        """End whatever of the pool still runs."""
        if self.master is not None:
            if self.master.poll() is None:
                self.master.kill()
            self.master.wait()
            self.master = None
        deadline = time.monotonic() + DEADLINE_S / 3
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for pid in left:
            with _gone_is_fine():
                os.kill(pid, signal.SIGKILL)
        self.until(lambda: not self.processes(), "the end of what was killed")

    def restart_of(self, daemon: str) -> None:
        """Kill a daemon with SIGKILL; returns when the master has it up again."""
        before = self.pid_of(daemon)
        assert before, f"there is no {daemon}"
        os.kill(before, signal.SIGKILL)
        self.until(lambda: self.pid_of(daemon) not in (0, before), f"another {daemon}")

    def pid_of(self, daemon: str) -> int:
        """The running daemon's process; 0 while there is none."""
        from protocol.messages.master import GetDaemons
        from protocol.rpc.blocking import connect

        with connect(str(self.run_dir / "master.sock"), self._security()) as peer:
            for ad in peer.call(GetDaemons()).daemons:
                if ad["Name"] == daemon and ad["State"] == "Running":
                    return ad.eval_int("Pid", 0)
        return 0

    def _security(self) -> Any:
        from protocol.security.credentials import Security

        return Security()

    def place(self, name: str) -> Path:
        """A new directory that every account may write to; another one when a test runs again."""
        place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))
        place.chmod(0o777)
        return place

    # ---- tools

    def env(self) -> dict[str, str]:
        """The environment of daemons and tools: this pool's, no configuration from elsewhere, output buffered as users have it."""
        ours = ("_CONDOR", "CONDOR", "PYTHONUNBUFFERED")
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(ours)}
        return {**kept, "POOL_DIR": str(self.directory), MARK: self.mark}

    def tool(self, *argv: str, cwd: Path | None = None, check: bool = True, text: str | None = None) -> str:
        """Run one of our programs; its standard output. With `check`, a failure shows what it said."""
        program = Path(sys.executable).with_name(argv[0])
        try:
            found = subprocess.run(
                [str(program), *argv[1:]],
                cwd=cwd or self.directory,
                env=self.env(),
                input=text or "",
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=False,
                **as_account(self.user),
            )
        except subprocess.TimeoutExpired as error:
            raise NotInTime(f"{' '.join(argv)}: {error}\n{error.stdout!r} {error.stderr!r}\n{self.logs()}") from None
        if check and found.returncode != 0:
            raise AssertionError(
                f"{' '.join(argv)}: status {found.returncode}\n{found.stdout}{found.stderr}{self.logs()}"
            )
        return found.stdout

    def submit(self, description: str, *, cwd: Path | None = None, options: Sequence[str] = ()) -> int:
        """Queue jobs; the cluster."""
        said = self.tool("condor_submit", *options, cwd=cwd, text=description)
        found = re.search(r"submitted to cluster (\d+)", said)
        assert found is not None, said
        return int(found[1])

    def jobs(self, *select: str) -> list[ClassAd]:
        """The queue's ads."""
        return list(parse_longs(self.tool("condor_q", "-allusers", "-long", *select).splitlines()))

    def history(self, *select: str) -> list[ClassAd]:
        """Ads of jobs that left the queue."""
        return list(parse_longs(self.tool("condor_history", "-long", *select).splitlines()))

    def slots(self) -> list[ClassAd]:
        """The collector's machine ads."""
        return list(parse_longs(self.tool("condor_status", "-long").splitlines()))

    def machine(self) -> ClassAd:
        """The ad of the pool's one partitionable slot; beside it may be a job's dynamic slot, for a moment after the job too."""
        (ad,) = parse_longs(self.tool("condor_status", "-long", "-constraint", "PartitionableSlot").splitlines())
        return ad

    # ---- waiting

    def until(self, condition: Callable[[], T], what: str, *, deadline_s: float = DEADLINE_S) -> T:
        """Wait for a state; NotInTime shows the logs."""
        deadline = time.monotonic() + deadline_s
        while True:
            began = time.monotonic()
            if found := condition():
                return found
            if (now := time.monotonic()) > deadline:
                raise NotInTime(f"waited in vain for {what}\n{self.logs()}")
            # As long as it took to look: tools that look all the time take the processor from what is waited for.
            time.sleep(max(POLL_S, now - began))

    def until_done(self, cluster: int) -> list[ClassAd]:
        """Wait until all jobs of the cluster left the queue; their ads."""
        self.until_gone(cluster)
        return self.history(str(cluster))

    def until_gone(self, cluster: int) -> None:
        """Wait until all jobs of the cluster left the queue."""
        self.until(lambda: not (self.statuses(cluster) or self.jobs(str(cluster))), f"the end of cluster {cluster}")

    def until_status(self, cluster: int, status: int, *, count: int = 1) -> list[ClassAd]:
        """Wait until that many jobs of the cluster have this JobStatus."""

        def there() -> list[ClassAd]:
            known = self.statuses(cluster)
            if known is not None and known.count(status) < count:
                return []
            found = [ad for ad in self.jobs(str(cluster)) if ad.eval_int("JobStatus") == status]
            return found if len(found) >= count else []

        return self.until(there, f"{count} jobs of cluster {cluster} with status {status}")

    def statuses(self, cluster: int) -> list[int] | None:
        """JobStatus of the cluster's jobs: waiting so costs no start of a tool each time. None: only a tool is told."""
        from pool.base.errors import PoolError
        from protocol.messages.schedd import QueryJobs, Selection
        from protocol.rpc.blocking import connect

        asked = QueryJobs(select=Selection(ids=[str(cluster)]), projection=["JobStatus"])
        try:
            with connect(str(self.run_dir / "schedd.sock"), self._security()) as peer:
                return [ad.eval_int("JobStatus", 0) for batch in peer.stream(asked) for ad in batch.ads]
        except PoolError:
            return None

    # ---- what is left

    def processes(self) -> list[int]:
        """Processes that carry this pool's mark, or work in its directory."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        if pid == os.getpid():
            return False
        try:
            if f"{MARK}={self.mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return True
            return os.readlink(f"/proc/{pid}/cwd").startswith(f"{self.directory}/")
        except OSError:
            return False

    def assert_nothing_left(self) -> None:
        """No process, no socket, no sandbox."""
        self.until(lambda: not self.processes(), f"the end of processes {self.processes()}", deadline_s=30)
        names = sorted(path.name for path in self.run_dir.iterdir() if path.suffix in (".sock", ".port", ".address"))
        assert names == [], f"left in RUN: {names}\n{self.logs()}"
        assert not (self.run_dir / "ready").exists()
        assert not (self.run_dir / "master.pid").exists()
        for sandboxes in (self.directory / "execute", self.directory / "spool" / "local_univ_execute"):
            left = sorted(path.name for path in sandboxes.iterdir()) if sandboxes.is_dir() else []
            assert left == [], f"left in {sandboxes.name}"

    def failed_tasks(self) -> list[str]:
        """What the logs say of tasks that have failed: the daemons go on, but it is a fault of theirs."""
        texts = (path.read_text(errors="replace") for path in (self.directory / "log").glob("*Log*") if path.is_file())
        return re.findall(r"The task \S+ has failed.*", "\n".join(texts))

    def logs(self, lines: int = 60) -> str:
        """The end of each log."""
        texts = []
        for path in [self.directory / "master.err", *sorted((self.directory / "log").glob("*Log*"))]:
            if path.is_file():
                tail = path.read_text(errors="replace").splitlines()[-lines:]
                texts.append("\n".join([f"==> {path.name}", *tail]))
        return "\n".join(texts)


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except ProcessLookupError:
        pass


def as_account(name: str | None) -> dict[str, Any]:
    """What makes a subprocess another account's; nothing for None, and for tests that are not root's."""
    if name is None or os.geteuid() != 0:
        return {}
    account = pwd.getpwnam(name)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


@contextmanager
def pool_directory(owner: str | None = None) -> Iterator[Path]:
    """A directory with a short name that every account can reach."""
    directory = Path(tempfile.mkdtemp(prefix="pool-", dir="/tmp"))
    directory.chmod(0o755)
    if owner is not None and os.geteuid() == 0:
        shutil.chown(directory, owner)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def real_pool(
    *,
    user: str | None = "nobody",
    owner: str | None = None,
    start: bool = True,
    may_fail: bool = False,
    **settings: object,
) -> Iterator[RealPool]:
    """A pool for the time of the block; keywords are knobs. `may_fail`: a task of a daemon may, since the test sees to it."""
    with pool_directory(owner) as directory:
        knobs = {**DEFAULTS, **{name: str(value) for name, value in settings.items()}}
        pool = RealPool(directory, knobs, user, owner)
        if start:
            pool.start()
        try:
            yield pool
            if pool.master is not None:
                pool.stop()
            assert may_fail or not (failed := pool.failed_tasks()), f"{failed}\n{pool.logs()}"
        finally:
            pool.kill()
