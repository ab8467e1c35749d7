"""What starters leave behind, and that it is removed whatever ends first: them, the startd, or the machine.

Each starter has a record: a small file in RUN/starters that says where its processes, its control group and its
sandbox are to be found. It is written before the starter is given a job, and removed when nothing is left. At the
startd's start every record is swept, and every sandbox that has none.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from daemons.base.faults import fault
from daemons.host import sandbox, tree
from daemons.host.container_records import ContainerRecords
from daemons.host.volumes.found import sandboxes_with_volumes
from daemons.startd.starters.leftovers import Trace, sweep
from pool.execute.cgroup import Trees

_SANDBOX: Final = re.compile(r"dir_(\d+)\Z")


@dataclass(frozen=True)
class StarterPlace:
    """Where a starter works: its slot's execute directory and control group."""

    execute: str
    group: str = ""


class StarterRecords:
    """The records of this startd's starters. All of it blocks; call it from a worker thread where that matters."""

    def __init__(self, run_dir: Path, trees: Trees) -> None:
        self._directory = run_dir / "starters"
        self.trees = trees
        self.containers = ContainerRecords(run_dir)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, pid: int, place: StarterPlace) -> None:
        """From now on the starter's leavings can be found."""
        trace = Trace(pid, tree.start_ticks(pid), sandbox.path_of(place.execute, pid), place.group)
        file = self._file(pid)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(trace)))
        fresh.replace(file)

    def clean(
        self, pid: int, *, with_group: bool = False, search: bool = True, process_stays: bool = False
    ) -> list[str]:
        """Remove what the starter left; what could not be removed, in words.

        `with_group`: nobody has its group now. `search`: not even the starter has seen to it that its processes ended.
        `process_stays`: its keeper, whose number it had, is to live on.
        """
        trace = self._read(self._file(pid))
        if trace is None:
            return []
        if process_stays:
            trace = replace(trace, started=None)
        return self._sweep(trace if with_group else replace(trace, group=""), search=search)

    def clean_all(self, executes: list[str]) -> list[str]:
        """At the start: remove what every starter of an earlier life left, recorded or not."""
        problems: list[str] = []
        for file in sorted(self._directory.glob("*.json")):
            trace = self._read(file)
            if trace is None:
                file.unlink(missing_ok=True)
            else:
                problems += self._sweep(trace)
        for execute in executes:
            problems += self._clean_directory(execute)
        return problems

    def _clean_directory(self, execute: str) -> list[str]:
        problems: list[str] = []
        try:
            names = os.listdir(execute)
        except OSError as error:
            return [f"{execute}: {error.strerror}"]
        names += map(os.path.basename, sandboxes_with_volumes(execute))
        for name in sorted(set(names)):
            if found := _SANDBOX.match(name):
                problems += sweep(Trace(int(found[1]), None, os.path.join(execute, name)), Trees(0), self.containers)
        return problems

    def _sweep(self, trace: Trace, *, search: bool = True) -> list[str]:
        fault("startd.before_sweep")
        problems = sweep(trace, self.trees, self.containers, search=search)
        if not problems:
            self._file(trace.starter_pid).unlink(missing_ok=True)
        return problems

    def _file(self, pid: int) -> Path:
        return self._directory / f"{pid}.json"

    def _read(self, file: Path) -> Trace | None:
        """The record, or None when there is none or it was never finished."""
        try:
            raw = json.loads(file.read_text())
            return Trace(int(raw["starter_pid"]), raw["started"], str(raw["sandbox"]), str(raw["group"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
