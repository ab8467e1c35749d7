"""The container engine's program: with which environment it runs, and how it is asked where nothing else goes on.

Asking blocks, for a while that is always bounded: call it from a worker thread. The starter, which has a loop to keep
going, asks through `daemons/starter/launch/container_engine.py`.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pool.containers.engine import EngineError

ANSWER_S: Final = 120.0
"""How long an engine may think; one that takes longer hangs."""


@dataclass(frozen=True)
class ProgramOutput:
    """What the program said: its exit status, standard output and standard error."""

    status: int
    stdout: str
    stderr: str

    @property
    def good(self) -> bool:
        """Whether it did what it was asked for."""
        return self.status == 0


def environment() -> dict[str, str]:
    """The program's environment: this process's, with the home of the account that it runs as."""
    environment = dict(os.environ)
    # docker and podman read ~/.docker and ~/.config; HOME may be that of whoever started the pool.
    environment.pop("HOME", None)
    try:
        environment["HOME"] = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        pass
    return environment


def ask(program: Sequence[str], *words: str, data: bytes = b"", timeout_s: float = ANSWER_S) -> ProgramOutput:
    """Run the program; EngineError when it cannot be started or does not answer in time."""
    try:
        done = subprocess.run(
            [*program, *words],
            input=data,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env=environment(),
            cwd="/",
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"{program[-1]} {words[0]} did not answer within {timeout_s:g} s") from None
    except OSError as error:
        raise EngineError(f"{program[-1]} cannot be started: {error.strerror}") from None
    return ProgramOutput(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def is_gone(answer: ProgramOutput) -> bool:
    """Whether the engine says that there is no such container, which is what a removal wants."""
    return "no such container" in answer.stderr.lower() or "no container with name" in answer.stderr.lower()
