"""condor_gpu_discovery: its options, and its answer to them.

The startd asks this very function when nobody said where GPUs are to be looked for; the tool is a thin face of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pool.base.errors import UserError
from pool.base.ids import is_number
from pool.gpus import driver
from pool.gpus.device import Device, Say
from pool.gpus.hip import hip_devices
from pool.gpus.opencl import opencl_devices
from pool.gpus.report import ReportOptions, report
from pool.gpus.simulated import simulated

_SWITCHES: Final[Mapping[str, Mapping[str, object]]] = {
    "properties": {"properties": True},
    "extra": {"extra": True},
    "dynamic": {"dynamic": True},
    "mixed": {"mixed": True},
    "hetero": {"mixed": True},
    "nested": {"nested": True},
    "not-nested": {"nested": False},
    "no-nested": {"nested": False},
    "uuid": {"style": "uuid"},
    "short-uuid": {"style": "short"},
    "by-index": {"style": "index"},
    "config": {"config": True},
    "packed": {"packed": True},
    "cron": {"cron": True},
}
_OTHERS: Final = (
    "device", "tag", "prefix", "repeat", "divide", "simulate", "cuda", "hip", "opencl", "nvcuda", "cudart",
    "fix-hip-guid", "help", "verbose", "diagnostic", "dirty-environment",
)  # fmt: skip
_LEAST: Final[Mapping[str, int]] = {
    "help": 1, "properties": 1, "extra": 3, "nested": 2, "not-nested": 6, "no-nested": 5, "dynamic": 3, "cron": 4,
    "mixed": 3, "hetero": 3, "verbose": 4, "diagnostic": 4, "tag": 3, "by-index": 4, "uuid": 2, "prefix": 3,
    "device": 3, "simulate": 3, "fix-hip-guid": 7, "cudart": 6, "dirty-environment": 4,
}  # fmt: skip
"""In HTCondor's order: how many letters of an option are enough. The others are given whole."""
REPEAT_MAX: Final = 1024
_KINDS: Final = frozenset(("cuda", "hip", "opencl"))


@dataclass(frozen=True)
class GpuLibraries:
    """How to look for the devices of each kind. None from one of the latter two: there is no such library."""

    cuda: Callable[[], list[Device]] = driver.devices
    hip: Callable[[Say, int], list[Device] | None] = hip_devices
    opencl: Callable[[Say], list[Device] | None] = opencl_devices


@dataclass(frozen=True)
class DiscoveryOptions:
    """The options of one call."""

    wanted: ReportOptions = field(default_factory=ReportOptions)
    simulate: str | None = None
    kinds: frozenset[str] = frozenset()
    """Of cuda, hip and opencl those that are to be looked for; none: the first that is found."""
    fix_uuid: int = 0
    help: bool = False
    verbose: bool = False
    dirty: bool = False


def parse_options(words: Sequence[str]) -> DiscoveryOptions:
    """The options; UserError says which cannot be."""
    asked, rest = DiscoveryOptions(), list(words)
    while rest:
        word = rest.pop(0)
        option, _, value = word.lstrip("-").partition(":")
        name = _find(option) if word.startswith("-") else None
        if name is None or (value and name != "simulate"):
            raise UserError(f"option {word} is not valid")
        asked = _taken(asked, name, value, rest)
    return asked


def discover(
    asked: DiscoveryOptions, hardware: GpuLibraries, environ: Mapping[str, str], say: Say = lambda text: None
) -> list[str]:
    """What the machine has, as lines of attributes. `say` is told how the search goes."""
    found, prefix = _found(asked, hardware, say)
    wanted = replace(asked.wanted, prefix=asked.wanted.prefix or prefix)
    if asked.dirty and asked.simulate is None:
        listed = environ.get("CUDA_VISIBLE_DEVICES") or environ.get("GPU_DEVICE_ORDINAL") or ""
        visible = tuple(one.strip() for one in listed.split(",") if one.strip())
        wanted = replace(wanted, only=(*visible, *wanted.only))
    return report(found, wanted)


def _found(asked: DiscoveryOptions, hardware: GpuLibraries, say: Say) -> tuple[list[Device], str]:
    """The devices, and what ids by index begin with. OpenCL is asked last, for it shows those of the others again."""
    if asked.simulate is not None:
        if "opencl" in asked.kinds:
            raise UserError("OpenCL devices cannot be simulated", expected="-simulate without -opencl")
        return simulated(asked.simulate), "CUDA"
    kinds = asked.kinds
    found, prefix = hardware.cuda() if not kinds or "cuda" in kinds else [], "CUDA"
    say(f"{len(found)} devices of NVIDIA's")
    # Where NVIDIA's were found AMD's large library is not loaded unasked.
    if "hip" in kinds or not (kinds or found):
        hip = hardware.hip(say, asked.fix_uuid)
        if hip is not None:
            say(f"{len(hip)} devices of HIP")
            # Numbered on, as two devices of one number would be one to a slot.
            found, prefix = found + [replace(one, index=one.index + len(found)) for one in hip], "GPU"
    if not found and (not kinds or "opencl" in kinds):
        opencl = hardware.opencl(say)
        if opencl is not None:
            say(f"{len(opencl)} devices of OpenCL")
            found, prefix = opencl, "OCL"
    return found, prefix


def _find(option: str) -> str | None:
    """The option that this is, or begins; the earlier one where it may be two."""
    if option in _SWITCHES or option in _OTHERS:
        return option
    return next((name for name, least in _LEAST.items() if len(option) >= least and name.startswith(option)), None)


def _taken(asked: DiscoveryOptions, name: str, value: str, rest: list[str]) -> DiscoveryOptions:
    wanted = asked.wanted
    if name in _SWITCHES:
        return replace(asked, wanted=replace(wanted, **_SWITCHES[name]))  # type: ignore[arg-type]  # a row of the table
    match name:
        case "device":
            if not rest:
                raise UserError("-device requires an argument")
            return replace(asked, wanted=replace(wanted, only=(*wanted.only, rest.pop(0))))
        case "tag":
            return replace(asked, wanted=replace(wanted, tag=rest.pop(0))) if rest else asked
        case "prefix":
            return replace(asked, wanted=replace(wanted, prefix=rest.pop(0))) if rest else asked
        case "repeat" | "divide":
            times = _times(rest, wanted.repeat)
            return replace(asked, wanted=replace(wanted, repeat=times, divide=name == "divide"))
        case "simulate":
            return replace(asked, simulate=value)
        case "fix-hip-guid":
            return replace(asked, fix_uuid=_model(rest))
        case "help":
            return replace(asked, help=True)
        case "verbose" | "diagnostic":
            return replace(asked, verbose=True)
        case "dirty-environment":
            return replace(asked, dirty=True)
    return replace(
        asked, kinds=asked.kinds | ({name} & _KINDS)
    )  # which of NVIDIA's libraries is asked is not the user's


def _model(rest: list[str]) -> int:
    """The model of a device, in hexadecimal digits."""
    if not rest or not re.fullmatch(r"(0[xX])?[0-9A-Fa-f]{1,4}", rest[0]):
        raise UserError("-fix-hip-guid requires a hex argument", expected="a device's model, such as 74a0")
    return int(rest.pop(0), 16)


def _times(rest: list[str], before: int) -> int:
    """How often: the number that follows, else what an earlier option said, else 2."""
    if not rest or not is_number(rest[0]):
        return before if before > 1 else 2
    times = int(rest.pop(0))
    if times > REPEAT_MAX:
        raise UserError(f"a device cannot be shared by {times}", expected=f"at most {REPEAT_MAX}")
    return max(1, times)
