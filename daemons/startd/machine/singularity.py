"""Whether this machine runs images of Apptainer or Singularity: tried at the start, and whenever there is a reason.

The program says its version, and then really runs two images that need no registry: a directory and an image file, each
with a program of a few bytes that exits with a status of its own. They are tried as the account that jobs have.

Source: HTCondor's manual, "Configuration for Execution Points": "Apptainer and Singularity Support"; the knobs
SINGULARITY*.
"""

from __future__ import annotations

import os
import platform
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

from daemons.base.log import Log
from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.world import RealSpawner, Spawner
from daemons.host.child_settings import singularity_program
from daemons.host.programs import Finished, ProgramError, run_program
from daemons.startd.machine.findings import Findings
from pool.base.errors import PoolError
from pool.config import Config
from pool.containers.engine import EITHERS
from pool.containers.probe_image import PROGRAM, STATUS, namespace_program, program
from pool.containers.singularity import COLOURS, containment, helpers_path

PAUSE_S: Final = 60.0
"""How long one look counts, whatever fails; then a program that failed, or that an image has failed with, is tried."""
PATIENCE_S: Final = 120.0
"""For the program's version."""
NAMESPACE_PROGRAM: Final = "/get_user_ns"
OWN_IMAGE: Final = "exit_37.sif"
"""The name of an image file to test with, below LIBEXEC, where the program cannot make one."""
_DIRECTORIES: Final = ("dev", "proc", "sys", "tmp", "var", "var/tmp", "etc", "home")
"""What the program mounts something on, and some of its kinds do not make."""

Facts = dict[str, bool | str]


class SingularityError(PoolError):
    """The program is there, and does not work."""


class SingularityWatch:
    """One startd's eye on the program."""

    def __init__(self, start: DaemonStart, found: Findings) -> None:
        self._start, self._found = start, found
        self._facts: Facts = {}
        self._again, self._doubts = Signal(), Signal()

    def reconfigured(self) -> None:
        """Look again, as the configuration says now."""
        self._again.fire()
        self._doubts.fire()

    def trouble(self, reason: str) -> None:
        """A job's image did not run. Most often that is the image's fault, so a look that is not old still counts."""
        self._start.log.full("An image did not run", reason=reason)
        self._doubts.fire()

    async def run(self) -> None:
        """Try it, tell the pool, and wait for a reason to try again."""
        start = self._start
        if not isinstance(start.world.spawner, RealSpawner):
            return
        while True:
            again, doubt = self._again.next(), self._doubts.next()
            self._tell(await look(start.config, start.world.spawner, start.log))
            await self._until_doubtful(again, doubt)

    async def _until_doubtful(self, again: trio.Event, doubt: trio.Event) -> None:
        """Until it is reconfigured, or it is time for a program that failed, or that an image has failed with."""
        with trio.move_on_after(PAUSE_S):
            await again.wait()
            return
        if self._facts.get("HasSingularity") is not False:
            await doubt.wait()

    def _tell(self, facts: Facts) -> None:
        """The slots say what was found, and no longer what was; the log says it when it is another."""
        if facts and facts != self._facts:
            able = "cannot" if facts.get("HasSingularity") is False else "can"
            said = {"version": facts.get("SingularityVersion"), "reason": facts.get("SingularityOfflineReason")}
            said = {name: value for name, value in said.items() if value}
            self._start.log.always(f"Images of Singularity {able} be run", **said)
        gone = {name: "" if isinstance(value, str) else False for name, value in self._facts.items()}
        self._facts = facts
        if told := {**gone, **facts}:
            if self._found.known.get("HasDocker") is True:  # which runs containers too
                told |= EITHERS
            self._found.learn(told)


async def look(config: Config, spawner: Spawner, log: Log) -> Facts:
    """What the machine's ads say of it; nothing where there is no such program."""
    name = singularity_program(config)
    if not name:
        return {}
    trial = Trial(config, spawner, name)
    try:
        version = await trial.version()
    except SingularityError as error:
        return {"HasSingularity": False, "SingularityOfflineReason": str(error)}
    facts: Facts = {"SingularityVersion": version}
    try:
        facts |= await trial.facts(log)
    except (SingularityError, OSError) as error:
        facts |= {"HasSingularity": False, "SingularityOfflineReason": str(error)}
    return facts


@dataclass
class Trial:
    """One look at the program: what it is asked, and what it said last of its failures."""

    config: Config
    spawner: Spawner
    program: str
    complaint: str = ""
    own_pids: bool = True
    identity: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if os.geteuid() == 0:
            self.identity = _identity(self.config.str("NOBODY_USER"))

    async def version(self) -> str:
        """What the program calls itself."""
        end = await self._asked("--version", timeout_s=PATIENCE_S)
        said = end.stdout.strip().partition("\n")[0]
        if end.status or end.timed_out or not said:
            raise SingularityError(f"'{self.program} --version' {end}")
        return said

    async def facts(self, log: Log) -> Facts:
        """What it can run; SingularityError when that is nothing."""
        code = program(platform.machine())
        given = self.config.path("SINGULARITY_TEST_SANDBOX")
        if code is None and not given:
            log.always("Nothing to test Singularity with on such a machine", machine=platform.machine())
            return {"HasSingularity": True, **EITHERS, "HasSIF": True, "HasSandboxImage": True}
        with _sandbox(self.config.path("EXECUTE"), code or b"", self.identity) as place:
            sandbox = given or str(place / "sandbox")
            runs_directories = await self._runs(sandbox) is not None
            made = await self._made_image(place, sandbox)
            unmade = "" if made else f"no image file could be made of one: {self.complaint}"
            own = os.path.join(self.config.path("LIBEXEC"), OWN_IMAGE)
            file = own if _is_there(own) else made
            runs_files = await self._runs(file) is not None if file else runs_directories
            if not runs_directories and not runs_files:
                reason = "Neither an image directory nor an image file could be run"
                raise SingularityError(f"{reason}: {self.complaint}" if self.complaint else reason)
            facts: Facts = {"HasSingularity": True, "HasContainer": True, "HasPidNamespaces": self.own_pids}
            # An image that comes from a registry is made into an image file, and that is run.
            facts["HasDockerURL"] = fetches = bool(made) and runs_files
            if not fetches:
                reason = f"Images of registries cannot be run: {unmade or self.complaint}"
                facts["SingularityOfflineReason"] = reason
            if runs_files:
                facts["HasSIF"] = True
            if runs_directories:
                facts["HasSandboxImage"] = True
                facts |= await self._namespaces(sandbox)
            return facts

    async def _runs(self, image: str, command: str = PROGRAM) -> Finished | None:
        """The end of the command in the image, with processes of its own and else without; None when neither worked."""
        said = self.config.str("SINGULARITY_USE_PID_NAMESPACES").strip().lower()
        # Inside another container /proc often cannot be mounted again, and only an image without processes of its own
        # runs.
        either = (self.own_pids, False) if said == "auto" else (self.config.bool("SINGULARITY_USE_PID_NAMESPACES"),)
        for own_pids in dict.fromkeys(either):
            end = await self._asked("exec", *containment(own_pids), image, command)
            if end.status == STATUS:
                self.own_pids = own_pids
                return end
            self.complaint = _last_line(end) or str(end)
        return None

    async def _made_image(self, place: Path, sandbox: str) -> str:
        """An image file that the program makes of the directory; empty when it does not."""
        made = str(place / OWN_IMAGE)
        end = await self._asked("build", made, sandbox)
        if end.status == 0 and _is_there(made):
            return made
        self.complaint = _last_line(end) or str(end)
        return ""

    async def _namespaces(self, sandbox: str) -> Facts:
        """Whether the program makes user namespaces (or is set-user-id instead); nothing where that cannot be seen."""
        end = await self._runs(sandbox, NAMESPACE_PROGRAM) if _is_there(sandbox + NAMESPACE_PROGRAM) else None
        if end is None or not end.stdout.startswith("user:["):
            return {}
        return {"SingularityUserNamespaces": end.stdout.strip() != os.readlink("/proc/self/ns/user")}

    async def _asked(self, *words: str, timeout_s: float = 0.0) -> Finished:
        """How it ended; one that cannot be started has a status of its own."""
        try:
            return await run_program(
                self.spawner,
                [self.program, *words],
                environment={"PATH": helpers_path(self.program)},
                directory="/",
                timeout_s=timeout_s or self.config.seconds("SINGULARITY_TEST_SANDBOX_TIMEOUT"),
                **self.identity,
            )
        except ProgramError as error:
            raise SingularityError(str(error)) from None


def _identity(account: str) -> dict[str, Any]:
    """As the account that jobs have whose owners have none here."""
    try:
        entry = pwd.getpwnam(account)
    except KeyError:
        return {}
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@contextmanager
def _sandbox(execute: str, code: bytes, identity: dict[str, Any]) -> Iterator[Path]:
    """A place for images where those of jobs will be: `sandbox` in it is one, as a directory."""
    place = Path(execute) / "singularity_test"
    shutil.rmtree(place, ignore_errors=True)  # an earlier life's
    try:
        root = place / "sandbox"
        for name in _DIRECTORIES:
            (root / name).mkdir(parents=True, exist_ok=True)
        found = {PROGRAM: code, NAMESPACE_PROGRAM: namespace_program(platform.machine())}
        for name, content in found.items():
            if content:
                path = Path(f"{root}{name}")
                path.write_bytes(content)
                path.chmod(0o755)
        for path in (place, root, *(root / name for name in _DIRECTORIES)):
            path.chmod(0o755)
        if identity:
            os.chown(place, identity["user"], identity["group"])  # who makes the image file there
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _is_there(path: str) -> bool:
    return os.path.exists(path)


def _last_line(end: Finished) -> str:
    lines = [COLOURS.sub("", line).strip() for line in f"{end.stdout}\n{end.stderr}".splitlines()]
    return next((line for line in reversed(lines) if line), "")
