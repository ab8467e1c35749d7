"""What is known of containers that may outlive their starter, and how they are removed when it is gone.

A starter writes a small file into RUN/containers before it asks the engine for a container, and removes it when the
container is removed. A container is no descendant of its starter: without that file nobody would find it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from daemons.host.engine import ask, is_gone
from daemons.host.tree import start_ticks
from pool.containers.engine import EngineError

REMOVAL_S: Final = 20.0
"""How long an engine may take to remove a container whose starter is gone."""
APPEARS_S: Final = 2.0
"""For so long after its program has died an engine may still make the container that it was asked for."""
PAUSE_S: Final = 0.2


@dataclass(frozen=True)
class ContainerRecord:
    """A container that there may be. `made`: the engine has said so. `pid`, `started`: its first process, if known."""

    name: str
    program: Sequence[str]
    starter_pid: int
    made: bool = False
    pid: int = 0
    started: int | None = None


class ContainerRecords:
    """The records of one host's starters."""

    def __init__(self, run_dir: str | os.PathLike[str]) -> None:
        self._directory = Path(run_dir) / "containers"

    def write(self, record: ContainerRecord) -> None:
        """From now on the container is found."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(record)
        # Whole or not at all: a record that is cut short would leave its container to nobody.
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(record)))
        fresh.replace(file)

    def forget(self, record: ContainerRecord) -> None:
        """It is removed."""
        self._file(record).unlink(missing_ok=True)

    def remove_left(self, starter_pid: int) -> list[str]:
        """Remove the containers of a starter that is gone; what could not be removed, in words. Blocks."""
        problems: list[str] = []
        for file in sorted(self._directory.glob(f"{starter_pid}.*.json")):
            record = _read(file)
            if record is not None and (problem := remove(record)):
                problems.append(problem)
            else:
                file.unlink(missing_ok=True)
        return problems

    def starters(self) -> set[int]:
        """The starters that have records."""
        return {int(file.name.partition(".")[0]) for file in self._directory.glob("*.json")}

    def _file(self, record: ContainerRecord) -> Path:
        return self._directory / f"{record.starter_pid}.{record.name}.json"


def remove(record: ContainerRecord) -> str:
    """Remove a container, whatever it does; what went wrong, in words. Its processes end though the engine hangs."""
    end_processes(record)
    deadline = time.monotonic() + APPEARS_S
    try:
        while True:
            answer = ask(record.program, "rm", "-f", "-v", record.name, timeout_s=REMOVAL_S)
            if answer.good and not is_gone(answer):
                return ""
            if not answer.good and not is_gone(answer):
                return f"the container {record.name}: {answer.stderr.strip()}"
            if record.made or time.monotonic() > deadline:
                return ""
            time.sleep(PAUSE_S)
    except EngineError as error:
        return f"the container {record.name}: {error}"


def end_processes(record: ContainerRecord) -> None:
    """Kill a container's first process, with which all of its processes end."""
    # By its start as well: the number alone may be another process's by now.
    if record.pid and record.started is not None and start_ticks(record.pid) == record.started:
        try:
            os.kill(record.pid, signal.SIGKILL)
        except OSError:
            pass


def _read(file: Path) -> ContainerRecord | None:
    try:
        return ContainerRecord(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
