"""Whether this machine has Java, and which: asked once, after the startd has begun, and shown by all slots."""

from __future__ import annotations

import os
from typing import Final

from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.world import RealSpawner
from daemons.host.programs import ProgramError, run_blocking
from daemons.startd.machine.findings import Findings
from pool.config import Config
from pool.execute.java import PROBE, java_facts

PATIENCE_S: Final = 60.0


async def probe(start: DaemonStart, found: Findings) -> None:
    """Ask Java, and tell the pool."""
    if not isinstance(start.world.spawner, RealSpawner):
        return
    facts = await start.world.threads.run_sync(ask, start.config)
    if facts:
        found.learn(facts)


def ask(config: Config) -> dict[str, bool | str]:
    """What JAVA says of itself; nothing where there is none, or where it does not run."""
    program = config.str("JAVA", default="")
    if not program or not os.access(program, os.X_OK):
        return {}
    try:
        end = run_blocking([program, *PROBE], PATIENCE_S)
    except ProgramError:
        return {}
    return java_facts(end.stdout + end.stderr) if end.status == 0 else {}  # it tells its version on standard error
