"""condor_gpu_discovery: its options, and its answer to them.

The startd asks this very function when nobody said where GPUs are to be looked for; the tool is a thin face of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pool.errors import UserError
from pool.gpus.device import Device
from pool.gpus.report import Wanted, report
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
    "help", "verbose", "diagnostic", "dirty-environment",
)  # fmt: skip
_LEAST: Final[Mapping[str, int]] = {
    "help": 1, "properties": 1, "extra": 3, "nested": 2, "not-nested": 6, "no-nested": 5, "dynamic": 3, "cron": 4,
    "mixed": 3, "hetero": 3, "verbose": 4, "diagnostic": 4, "tag": 3, "by-index": 4, "uuid": 2, "prefix": 3,
    "device": 3, "simulate": 3, "cudart": 6, "dirty-environment": 4,
}  # fmt: skip
"""In HTCondor's order: how many letters of an option are enough. The others are given whole."""
REPEAT_MAX: Final = 1024


@dataclass(frozen=True)
class Asked:
    """The options of one call."""

    wanted: Wanted = field(default_factory=Wanted)
    simulate: str | None = None
    libraries: frozenset[str] = frozenset()
    help: bool = False
    verbose: bool = False
    dirty: bool = False


def parse_options(words: Sequence[str]) -> Asked:
    """The options; UserError says which cannot be."""
    asked, rest = Asked(), list(words)
    while rest:
        word = rest.pop(0)
        option, _, value = word.lstrip("-").partition(":")
        name = _find(option) if word.startswith("-") else None
        if name is None or (value and name != "simulate"):
            raise UserError(f"option {word} is not valid")
        asked = _taken(asked, name, value, rest)
    return asked


def discover(asked: Asked, devices: Callable[[], list[Device]], environ: Mapping[str, str]) -> list[str]:
    """What the machine has, as lines of attributes. `devices` looks at the real hardware."""
    wanted = asked.wanted
    if asked.libraries and not asked.libraries & {"cuda", "nvcuda", "cudart"}:
        return report([], wanted)  # neither HIP nor OpenCL devices are known here
    found = devices() if asked.simulate is None else simulated(asked.simulate)
    if asked.dirty and asked.simulate is None:
        listed = environ.get("CUDA_VISIBLE_DEVICES") or environ.get("GPU_DEVICE_ORDINAL") or ""
        visible = tuple(one.strip() for one in listed.split(",") if one.strip())
        wanted = replace(wanted, only=(*visible, *wanted.only))
    return report(found, wanted)


def _find(option: str) -> str | None:
    """The option that this is, or begins; the earlier one where it may be two."""
    if option in _SWITCHES or option in _OTHERS:
        return option
    return next((name for name, least in _LEAST.items() if len(option) >= least and name.startswith(option)), None)


def _taken(asked: Asked, name: str, value: str, rest: list[str]) -> Asked:
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
        case "help":
            return replace(asked, help=True)
        case "verbose" | "diagnostic":
            return replace(asked, verbose=True)
        case "dirty-environment":
            return replace(asked, dirty=True)
    return replace(asked, libraries=asked.libraries | {name})


def _times(rest: list[str], before: int) -> int:
    """How often: the number that follows, else what an earlier option said, else 2."""
    if not rest or not rest[0].isdigit():
        return before if before > 1 else 2
    times = int(rest.pop(0))
    if times > REPEAT_MAX:
        raise UserError(f"a device cannot be shared by {times}", expected=f"at most {REPEAT_MAX}")
    return max(1, times)
