"""Whether jobs can run in containers on this machine: tried at the start, and whenever there is a reason to doubt it.

The engine's program is asked for its version, the engine whether it is there, and then one container is really run. A
machine whose engine fails says so in its ad (HasDocker false, DockerOfflineReason) and tries again now and then.
Containers of starters that are no more are removed here if nothing else has done it.

Source: HTCondor's manual, "Configuration for Execution Points": "Docker Universe", "Docker Image Management"; the knobs
DOCKER*.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import trio

from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.world import RealSpawner
from daemons.host import engine
from daemons.host.container_records import REMOVAL_S
from daemons.startd.machine.findings import Findings
from daemons.startd.machine.settings import execute_directories
from pool.base.errors import PoolError
from pool.base.ids import is_number
from pool.config import Config
from pool.containers.answers import in_one_line
from pool.containers.engine import (
    EXECUTE_LABEL,
    LABEL,
    STARTER_LABEL,
    EngineError,
    Version,
    offline_facts,
    program_words,
    version_of,
    with_singularity,
    working_facts,
)
from pool.containers.image import LIST_FORMAT, stored_images, total_size
from pool.containers.probe_image import PROGRAM, STATUS, archive
from pool.execute.scratch import Hide, hide_mode

if TYPE_CHECKING:
    from daemons.startd.starters.sweep import StarterRecords

OFFLINE_PAUSE_S: Final = 60.0
"""How often an engine that fails is tried again."""
TEST_S: Final = 60.0
BROKEN_VERSION: Final = "20.10.4,"
"""A release of docker that cannot do what a starter needs."""
NO_ENGINE: Final[dict[str, bool | str]] = {"HasDocker": False, "HasDockerURL": False, "HasContainer": False}


@dataclass(frozen=True)
class FoundEngine:
    """What a look at the engine has shown: attributes for the slots; nothing where there is no engine."""

    facts: dict[str, bool | str] = field(default_factory=dict)
    version: Version | None = None

    @property
    def works(self) -> bool:
        """Whether containers run."""
        return self.facts.get("HasDocker") is True

    @property
    def reason(self) -> str:
        """Why they do not."""
        return str(self.facts.get("DockerOfflineReason", ""))


class EngineWatch:
    """One startd's eye on its engine. `living` names the starters that there are, by process id."""

    def __init__(
        self, start: DaemonStart, findings: Findings, records: StarterRecords, living: Callable[[], set[int]]
    ) -> None:
        self._start, self._findings, self._records, self._living = start, findings, records, living
        self._found = FoundEngine()
        self._again = Signal()

    def reconfigured(self) -> None:
        """Look again, as the configuration says now."""
        self._again.fire()

    def trouble(self, reason: str) -> None:
        """A starter says that the engine fails: no more such jobs, until a look shows that it works."""
        self._start.log.always("The container engine fails", reason=reason)
        self._tell(FoundEngine(offline_facts(self._found.version, reason), self._found.version))
        self._again.fire()

    async def run(self) -> None:
        """Look, tell, and wait for a reason to look again."""
        start = self._start
        if not isinstance(start.world.spawner, RealSpawner):
            return
        while True:
            again = self._again.next()
            self._tell(await start.world.threads.run_sync(look, start.config))
            if self._found.works:
                await self._remove_orphans()
            await self._until_doubtful(again)

    async def _until_doubtful(self, again: trio.Event) -> None:
        """Until somebody asks for a look, or it is time for one; in between the size of the images is told."""
        if self._found.facts and not self._found.works:
            with trio.move_on_after(OFFLINE_PAUSE_S):
                await again.wait()
            return
        interval = self._start.config.seconds("DOCKER_CACHE_ADVERTISE_INTERVAL")
        while self._found.works and interval > 0 and not again.is_set():
            await self._tell_size()
            with trio.move_on_after(interval):
                await again.wait()
        await again.wait()

    def _tell(self, found: FoundEngine) -> None:
        """The slots say what was found, where that is new."""
        before, self._found = self._found, found
        if found == before:
            return
        log = self._start.log
        if found.works:
            log.always("Containers can be run", engine=found.facts["DockerVersion"])
        elif found.facts:
            log.always("Containers cannot be run", reason=found.reason)
        if found.facts or before.facts:
            no_longer = {"DockerOfflineReason": ""} if before.reason else {}
            facts = {**no_longer, **(found.facts or NO_ENGINE)}
            self._findings.learn(with_singularity(facts, self._findings.known))

    async def _tell_size(self) -> None:
        start = self._start
        size = await start.world.threads.run_sync(images_size, start.config)
        if size is not None:
            self._findings.learn({"DockerCachedImageSizeMb": size >> 20})

    async def _remove_orphans(self) -> None:
        """What starters have left while the engine was away, and what nobody has a record of."""
        start, threads = self._start, self._start.world.threads
        records = self._records
        recorded = await threads.run_sync(records.containers.starters)
        living = self._living()  # after that look: a starter that begins meanwhile may have a record already
        for pid in recorded:
            if pid not in living:
                problems = await threads.run_sync(records.clean, pid)
                problems += await threads.run_sync(records.containers.remove_left, pid)
                for problem in problems:
                    start.log.always(f"Left behind by the starter {pid}: {problem}")
        program = program_words(start.config.str("DOCKER"))
        for execute in sorted(execute_directories(start.config)):
            try:
                found = await threads.run_sync(containers, program, execute)
                living = self._living()
                orphans = [name for name, pid in found.items() if pid not in living]
                if orphans:
                    start.log.always("Containers of starters that are gone are removed", containers=" ".join(orphans))
                    await threads.run_sync(_remove, program, orphans)
            except EngineError as error:
                start.log.error("Containers of starters that are gone cannot be removed", error)


def look(config: Config) -> FoundEngine:
    """What this machine's engine can do. Blocks."""
    try:
        program = program_words(config.str("DOCKER"))
        if not program or not os.access(program[-1], os.X_OK):
            return FoundEngine()
        version = version_of(engine.ask(program, "-v").stdout)
    except PoolError as error:
        return FoundEngine(offline_facts(None, str(error)))
    try:
        if config.bool("STARTD_ENFORCE_DISK_LIMITS") and hide_mode(config.str("LVM_HIDE_MOUNT")) is Hide.ALWAYS:
            raise EngineError("LVM_HIDE_MOUNT is true, and a container engine would not see a job's file system")
        # HTCondor refuses this release too, in these words.
        if BROKEN_VERSION in version.text:
            raise EngineError("Unsupported Docker Version (20.10.4) detected")
        answer = engine.ask(program, "version")
        if not answer.good:
            raise EngineError(in_one_line(answer.stderr) or f"`version` ended with status {answer.status}")
        if config.bool("DOCKER_PERFORM_TEST"):
            _try_container(config, program)
    except EngineError as error:
        return FoundEngine(offline_facts(version, str(error)), version)
    return FoundEngine(working_facts(version), version)


def _try_container(config: Config, program: Sequence[str]) -> None:
    """Run a container of the test image; EngineError when it does not do what it should."""
    name, path = config.str("DOCKER_TEST_IMAGE_NAME"), config.path("DOCKER_TEST_IMAGE_PATH")
    if path:
        answer = engine.ask(program, "load", "-i", path, timeout_s=TEST_S)
    else:
        image = archive(platform.machine())
        if image is None:
            return  # a kind of machine whose programs are not known here
        # With this process's number: two startds of a machine must not remove each other's test image.
        name = f"{name}:{os.getpid()}"
        answer = engine.ask(program, "import", "-", name, data=image, timeout_s=TEST_S)
    if not answer.good:
        raise EngineError(f"The test image cannot be loaded: {in_one_line(answer.stderr)}")
    try:
        init = ["--init"] if config.bool("DOCKER_RUN_UNDER_INIT") else []
        words = ["run", "--rm=true", f"--label={LABEL}", "--network=none", *init, name, PROGRAM]
        answer = engine.ask(program, *words, timeout_s=TEST_S)
        if answer.status != STATUS:
            said = in_one_line(answer.stderr)
            raise EngineError(f"A test container ended with status {answer.status} instead of {STATUS}: {said}")
    finally:
        engine.ask(program, "rmi", name, timeout_s=TEST_S)


def images_size(config: Config) -> int | None:
    """How many bytes our images take; None where the engine does not say. Blocks."""
    try:
        answer = engine.ask(program_words(config.str("DOCKER")), "images", "--format", LIST_FORMAT)
    except PoolError:
        return None
    return total_size(stored_images(answer.stdout)) if answer.good else None


def containers(program: Sequence[str], execute: str) -> dict[str, int]:
    """The containers of jobs whose sandboxes are there, with their starters. Blocks."""
    listed = engine.ask(program, "ps", "-a", "-q", "--filter", f"label={EXECUTE_LABEL}={execute}")
    found: dict[str, int] = {}
    for name in listed.stdout.split() if listed.good else []:
        text = engine.ask(program, "inspect", "--format", f'{{{{index .Config.Labels "{STARTER_LABEL}"}}}}', name)
        pid = text.stdout.strip()
        found[name] = int(pid) if text.good and is_number(pid) else 0
    return found


def _remove(program: Sequence[str], names: Sequence[str]) -> Any:
    return engine.ask(program, "rm", "-f", "-v", *names, timeout_s=REMOVAL_S)
