"""Runs the program PREEN every PREEN_INTERVAL, which tidies the directories of this host's daemons."""

from __future__ import annotations

import os
import shlex
from typing import Final

import trio

from daemons.daemon_core.run import DaemonStart
from daemons.host.programs import run_program
from pool.base.errors import PoolError
from pool.config import Config

PATIENCE_S: Final = 3600.0
LOOK_S: Final = 60.0
"""How often it is seen whether the configuration wants something else now."""


async def preen_now_and_then(start: DaemonStart) -> None:
    """Run it for the first time when the daemons have been up for one interval."""
    due = trio.current_time() + _interval_s(start)
    while True:
        if (left_s := due - trio.current_time()) > 0:
            await trio.sleep(min(LOOK_S, left_s))
            # The interval may be shorter after a reconfiguration; a longer one counts from the next run on.
            due = min(due, trio.current_time() + _interval_s(start))
            continue
        due = trio.current_time() + _interval_s(start)
        if program := start.config.path("PREEN"):
            await _run(start, program)


def _interval_s(start: DaemonStart) -> float:
    return max(1.0, start.config.seconds("PREEN_INTERVAL"))


def _arguments(config: Config) -> list[str]:
    text = config.str("PREEN_ARGS")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise config.error("PREEN_ARGS", f"PREEN_ARGS = {text} cannot be read: {error}") from None


async def _run(start: DaemonStart, program: str) -> None:
    try:
        argv = [program, *_arguments(start.config)]
        end = await run_program(
            start.world.spawner, argv, environment={**os.environ, **start.world.env}, timeout_s=PATIENCE_S
        )
    except PoolError as error:
        start.log.always(f"PREEN: {error}")
        return
    start.log.full(f"{argv[0]} {end}")
    for line in (end.stdout + end.stderr).splitlines():
        start.log.always(f"PREEN: {line}")
    if end.status or end.timed_out:
        start.log.always(f"PREEN: {argv[0]} {end}")
