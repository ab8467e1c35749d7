"""Whether this machine runs images of Apptainer or Singularity: asked once, after the startd has begun."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from daemons.starter.settings import singularity_program
from daemons.world import RealSpawner
from pool.config import Config

if TYPE_CHECKING:
    from daemons.startd.main import Startd

PATIENCE_S: Final = 120.0


async def probe(startd: Startd) -> None:
    """Ask the program, and tell the pool."""
    start = startd.start
    if not isinstance(start.world.spawner, RealSpawner):
        return
    if facts := await start.world.threads.run_sync(ask, start.config):
        startd.learn(facts)


def ask(config: Config) -> dict[str, bool | str]:
    """What its ads say; nothing where there is no such program."""
    program = singularity_program(config)
    if not program:
        return {}
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"HasSingularity": False, "SingularityOfflineReason": str(error)}
    said = done.stdout.decode(errors="replace").strip().partition("\n")[0]
    if done.returncode or not said:
        reason = f"'{program} --version' exited with status {done.returncode}"
        return {"HasSingularity": False, "SingularityOfflineReason": reason}
    working = ("HasSingularity", "HasSIF", "HasSandboxImage", "HasContainer")
    return {**dict.fromkeys(working, True), "SingularityVersion": said}
