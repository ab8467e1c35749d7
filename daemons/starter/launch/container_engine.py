"""The container engine, asked by its program from within the starter's loop; and the images that it keeps for users.

Rules: an image that one user has pulled is not another's to run, unless DOCKER_TRUST_LOCAL_IMAGES is true, so each
user's images have a name of their own; of those the ones that were not used for the longest make room for others
(DOCKER_IMAGE_CACHE_SIZE).

Source: HTCondor's manual, "Docker Universe Applications", "Container Universe Jobs" and the DOCKER_* knobs.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from typing import Any, Final

from daemons.base.log import Log
from daemons.host import engine
from daemons.host.account import own_account
from daemons.host.engine import ANSWER_S, ProgramOutput
from daemons.host.helpers import HelperSpawner
from daemons.host.processes import Processes, WatchedChild
from daemons.host.programs import ProgramError, run_program
from daemons.starter.report.result import HoldJob
from pool.base.ids import is_number
from pool.classad import ClassAd
from pool.containers.answers import (
    cannot_pull,
    in_one_line,
    runs_on,
    wrong_architecture,
)
from pool.containers.engine import EngineError, is_true, knob
from pool.containers.image import LIST_FORMAT, OURS, TAGGED_FORMAT, own_name, real_name, stored_images, to_remove

ALIVE_S: Final = 10.0
"""How long an engine may take to say whether it is there."""
SHORT_S: Final = 30.0
"""How long it may take to send a signal or to remove a container."""


class Engine:
    """The engine's program, asked from within the starter's loop."""

    def __init__(self, program: Sequence[str], processes: Processes, log: Log) -> None:
        self.program = list(program)
        self._spawner = HelperSpawner(processes, own_account())
        self._log = log

    async def ask(self, *words: str, timeout_s: float = math.inf, text: str = "") -> ProgramOutput:
        """Have it do something, with this text to read; EngineError when it cannot be started or takes too long."""
        try:
            end = await run_program(
                self._spawner,
                [*self.program, *words],
                environment=engine.environment(),
                directory="/",
                timeout_s=timeout_s,
                text=text,
            )
        except ProgramError as error:
            raise EngineError(str(error)) from None
        if end.timed_out:
            raise EngineError(f"{self.program[-1]} {words[0]} did not answer within {timeout_s:g} s")
        if end.status:
            self._log.full("The engine refuses", command=words[0], said=in_one_line(end.stderr))
        return ProgramOutput(end.status, end.stdout, end.stderr)

    async def must_live(self, otherwise: str) -> None:
        """EngineError with this reason when the engine does not answer at all."""
        answer = await self.ask("version", timeout_s=ALIVE_S)
        if not answer.good:
            raise EngineError(f"{otherwise}: {in_one_line(answer.stderr)}")


def attach(processes: Processes, argv: Sequence[str], files: tuple[int, int, int], **options: Any) -> WatchedChild:
    """Start the engine's program with these standard files, for as long as what it is attached to; OSError."""
    stdin, stdout, stderr = files
    return processes.start(
        argv,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=engine.environment(),
        cwd="/",
        start_new_session=True,
        **options,
    )


class Images:
    """The images for one job."""

    def __init__(self, engine: Engine, job: ClassAd, knobs: Mapping[str, str], log: Log) -> None:
        self._engine, self._job, self._knobs, self._log = engine, job, knobs, log

    async def have(self, image: str) -> None:
        """Pull the image unless this user has it here, and note that it is used."""
        own = self._own_name(image)
        answer = await self._engine.ask(
            "image", "inspect", "--format", "{{.Architecture}}", own or image, timeout_s=ANSWER_S
        )
        if not answer.good:
            await self._engine.must_live("the engine does not answer")
            answer = await self._pull(image)
        if not is_true(knob(self._knobs, "DOCKER_SKIP_IMAGE_ARCH_CHECK"), default=False) and not runs_on(
            answer.stdout, platform.machine()
        ):
            raise HoldJob(wrong_architecture(image, answer.stdout.strip(), platform.machine()))
        if own:
            # The tag is this user's right to the image, and its time says when it was used last.
            await self._engine.ask("tag", image, own, timeout_s=SHORT_S)

    def _own_name(self, image: str) -> str:
        """Under which name this user's image is kept; empty where everybody may use what is there."""
        if is_true(knob(self._knobs, "DOCKER_TRUST_LOCAL_IMAGES"), default=False):
            return ""
        return own_name(image, self._job.eval_str("User") or self._job.eval_str("Owner") or "unknown")

    async def _pull(self, image: str) -> ProgramOutput:
        await self._make_room()
        self._log.always("The image is pulled", image=image)
        pulled = await self._engine.ask("pull", "-q", image)
        if not pulled.good:
            await self._engine.must_live("the engine went away")
            raise HoldJob(cannot_pull(image, pulled.stderr))
        return await self._engine.ask("image", "inspect", "--format", "{{.Architecture}}", image, timeout_s=ANSWER_S)

    async def _make_room(self) -> None:
        """Remove the images of ours that were not used for the longest, so that one more is not too many."""
        keep = knob(self._knobs, "DOCKER_IMAGE_CACHE_SIZE").strip()
        listed = await self._engine.ask("images", "--format", LIST_FORMAT, timeout_s=ANSWER_S)
        found = [image for image in stored_images(listed.stdout) if image.name.startswith(OURS)]
        if not listed.good or len({image.id for image in found}) < (int(keep) if is_number(keep) else 8):
            return
        ids = sorted({image.id for image in found})
        times = await self._engine.ask("inspect", "--format", TAGGED_FORMAT, *ids, timeout_s=ANSWER_S)
        for image in to_remove(
            stored_images(listed.stdout, times.stdout if times.good else ""), int(keep) if is_number(keep) else 8
        ):
            if (await self._engine.ask("rmi", image.name, timeout_s=SHORT_S)).good:
                await self._engine.ask("rmi", real_name(image.name), timeout_s=SHORT_S)
                self._log.always("An image has made room", image=real_name(image.name))
