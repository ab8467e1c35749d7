"""What an engine says about a container: whether it runs, how it ended, where its ports are."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pool.containers.engine import EngineError
from pool.execute.exit import OUT_OF_MEMORY, Exited, Hold
from pool.jobs.vocabulary.hold_codes import HoldCode

INSPECT_FORMAT: Final = "{{json .State}}"
PORTS_FORMAT: Final = "{{json .NetworkSettings.Ports}}"
NEVER: Final = "0001-01-01"
"""How the engine writes the start of what has not begun."""
_IMAGES_OF: Final = {"x86_64": ("amd64",), "aarch64": ("arm64", "arm")}
"""What images for these kinds of machines are said to be for."""
_SIGNALLED: Final = 128
_SIGNALS: Final = signal.NSIG


@dataclass(frozen=True)
class Inspected:
    """A container's state."""

    pid: int = 0
    running: bool = False
    began: bool = False
    exit_code: int = 0
    out_of_memory: bool = False
    error: str = ""
    paused: bool = False


def inspected(printed: str) -> Inspected:
    """What `inspect` printed (INSPECT_FORMAT)."""
    try:
        state: dict[str, Any] = json.loads(printed)
        return Inspected(
            pid=int(state.get("Pid", 0)),
            running=bool(state["Running"]),
            # Engines differ in what follows the date: fractions of a second, a zone or none.
            began=not str(state.get("StartedAt", NEVER)).startswith(NEVER),
            exit_code=int(state.get("ExitCode", 0)),
            out_of_memory=bool(state.get("OOMKilled", False)),
            error=str(state.get("Error", "")),
            paused=bool(state.get("Paused", False)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EngineError(f"the engine says of a container {printed[:80]!r}") from None


def exit_of(code: int) -> Exited:
    """How a container's program ended: codes above 128 stand for the signal that ended it."""
    # The convention of shells and engines. A program that itself exits with 137 cannot be told from one that was
    # killed.
    if _SIGNALLED < code < _SIGNALLED + _SIGNALS:
        return Exited(signal=code - _SIGNALLED)
    return Exited(code=code)


def judged(state: Inspected, memory_mb: int) -> Exited | Hold:
    """What the end of a container means."""
    # Before the status: what the kernel kills for its memory ends by a signal as well.
    if state.out_of_memory:
        return Hold(
            f"Docker job has gone over memory limit of {memory_mb} Mb", HoldCode.JOB_OUT_OF_RESOURCES, OUT_OF_MEMORY
        )
    if state.error:
        return Hold(f"Error running docker job: {state.error}", HoldCode.FAILED_TO_CREATE_PROCESS)
    return exit_of(state.exit_code)


def cannot_pull(image: str, said: str) -> Hold:
    """The image is not to be had."""
    return Hold(f"Cannot pull image {image} {in_one_line(said)}".strip(), HoldCode.INVALID_DOCKER_IMAGE)


def cannot_create(image: str, said: str) -> Hold:
    """The container could not be made of the image."""
    return Hold(f"Cannot create a container of image {image}: {in_one_line(said)}", HoldCode.INVALID_DOCKER_IMAGE)


def cannot_start(said: str) -> Hold:
    """The container was made, and its program was not started."""
    return Hold(f"Error running docker job: {in_one_line(said)}", HoldCode.FAILED_TO_CREATE_PROCESS)


def wrong_architecture(image: str, architecture: str, machine: str) -> Hold:
    """The image's programs are for other processors."""
    return Hold(
        f"Image architecture {architecture} of {image} is not compatible with this machine ({machine})",
        HoldCode.INVALID_DOCKER_IMAGE,
    )


def runs_on(architecture: str, machine: str) -> bool:
    """Whether an image for that architecture runs here; where that cannot be told, it may."""
    found = architecture.strip()
    return found in ("", *_IMAGES_OF.get(machine, (found,)))


def in_one_line(said: str) -> str:
    """What a program said, without line breaks, at most some hundred characters."""
    return " ".join(said.split())[:500]


def host_ports(printed: str, services: Mapping[str, int]) -> dict[str, int]:
    """`<service>_HostPort` for each service whose port the engine has opened (PORTS_FORMAT)."""
    try:
        # Without any port an engine says `null`.
        opened = json.loads(printed) or {}
        by_port = {int(inner.partition("/")[0]): int(outer[0]["HostPort"]) for inner, outer in opened.items() if outer}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {}
    return {f"{name}_HostPort": by_port[port] for name, port in services.items() if port in by_port}
