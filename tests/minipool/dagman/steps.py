"""The steps of condor_dagman at which a test may kill it: those where it opens, writes, renames or removes a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol


class HasSteps(Protocol):
    """What is told each step by its name, and knows how often a node's jobs have run."""

    def step(self, name: str) -> None: ...
    def run_of(self, node: str) -> str: ...


class StepsAtCalls:
    """The os module, and the function open, for those who write files that last: each call is between two steps."""

    def __init__(self, world: HasSteps) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _between(self, name: str, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        self._world.step(f"{name}: not yet")
        done = function(*args, **more)
        self._world.step(f"{name}: done")
        return done

    def open_text(self, path: str, mode: str = "r", **more: Any) -> Any:
        if mode == "r":
            return open(path, mode, **more)
        return self._between(f"open {os.path.basename(path)} ({mode})", open, path, mode, **more)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        number: int = self._between(f"open {os.path.basename(path)}", os.open, path, flags, mode)
        return number

    def write(self, file: int, data: bytes) -> int:
        event, _, node = data.decode().partition(" ")[0], *data.decode().partition("DAG Node: ")[1:]
        run = self._world.run_of(node.split("\n")[0])
        number: int = self._between(f"write event {event} of {run}", os.write, file, data)
        return number

    def pwrite(self, file: int, data: bytes, at: int) -> int:
        number: int = self._between(f"pwrite {data!r}", os.pwrite, file, data, at)
        return number

    def ftruncate(self, file: int, size: int) -> None:
        self._between("ftruncate", os.ftruncate, file, size)

    def unlink(self, path: str) -> None:
        self._between(f"unlink {path}", os.unlink, path)

    def replace(self, source: str, target: str) -> None:
        self._between(f"replace {target}", os.replace, source, target)
