"""How a job learns which pieces of custom resources are its own: environment variables, GPUs first of all.

Each resource gives _CONDOR_Assigned<name>; ENVIRONMENT_FOR_Assigned<name> names further variables, each perhaps with a
substitution that makes of an id what a library wants to read: `CUDA_VISIBLE_DEVICES=/CUDA//`. A slot without pieces
of a resource that has such variables sets them to ENVIRONMENT_VALUE_FOR_UnAssigned<name>, so that the library finds
no device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from pool.base.errors import ConfigError
from pool.classad import ClassAd, expr

FOR: Final = "ENVIRONMENT_FOR_Assigned"
UNASSIGNED: Final = "ENVIRONMENT_VALUE_FOR_UnAssigned"
SETS_NVIDIA: Final = "AUTO_SET_NVIDIA_VISIBLE_DEVICES"
DEFAULTS: Final[Mapping[str, str]] = {
    f"{FOR}GPUs": "GPU_DEVICE_ORDINAL=/(CUDA|OCL)//  CUDA_VISIBLE_DEVICES=/CUDA//",
    f"{UNASSIGNED}GPUs": "10000",
}
"""The knobs of GPUs, which need none to be set."""

_CUDA: Final = "CUDA_VISIBLE_DEVICES"
_UUIDS: Final = expr(
    'join(",",evalInEachContext(regexp("^MIG-",DeviceUuid) ? DeviceUuid : strcat("GPU-",DeviceUuid),AvailableGPUs))'
)


def assigned_environment(slot: ClassAd, knobs: Mapping[str, str] = DEFAULTS) -> dict[str, str]:
    """The variables for a job in this slot; `knobs` by name are those that are not empty."""
    known = {name.lower(): text for name, text in knobs.items()}
    environment: dict[str, str] = {}
    for resource in (slot.eval_str("MachineResources") or "").split():
        assigned = slot.eval_str(f"Assigned{resource}") or None
        wanted = known.get(f"{FOR}{resource}".lower(), "")
        if assigned is None and not wanted:
            continue
        value = assigned if assigned is not None else known.get(f"{UNASSIGNED}{resource}".lower(), "")
        ids = [one.strip() for one in value.split(",") if one.strip()]
        for name, change in variables(wanted, f"{FOR}{resource}"):
            environment[name] = ",".join(change(one) for one in ids)
        environment[f"_CONDOR_Assigned{resource}"] = value
        if resource.lower() == "gpus" and known.get(SETS_NVIDIA.lower(), "true").lower() != "false":
            environment.update(_nvidia(slot))
    return environment


class _Substitution:
    """One variable's change to each id."""

    def __init__(self, pattern: str, replacement: str, knob: str) -> None:
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{knob}: /{pattern}/ is not a regular expression: {error}") from None
        self._replacement = re.sub(r"\\(\d)|\$(\d)", lambda found: rf"\g<{found[1] or found[2]}>", replacement)

    def __call__(self, one: str) -> str:
        return self._pattern.sub(self._replacement, one, count=1)


@cache
def variables(text: str, knob: str) -> tuple[tuple[str, _Substitution], ...]:
    """The variables that ENVIRONMENT_FOR_Assigned<name> names, and what each does to an id."""
    return tuple(_variables(text, knob))


def _variables(text: str, knob: str) -> Iterator[tuple[str, _Substitution]]:
    rest = text.strip().strip('"')
    while rest := rest.lstrip(", \t"):
        found = re.match(r"([A-Za-z_]\w*)", rest)
        if found is None:
            raise ConfigError(f"{knob} = {text}: {rest} does not begin with a variable", expected="NAME=/regex/text/")
        name, rest = found[1], rest[found.end() :]
        pattern, replacement = ("CUDA", "") if name == _CUDA else ("^", "")
        if rest.startswith("="):
            parts = rest[2:].split(rest[1:2], 2) if len(rest) > 1 else []
            if len(parts) < 3:
                raise ConfigError(f"{knob} = {text}: the substitution of {name} does not end", expected="/regex/text/")
            pattern, replacement, rest = parts
        yield name, _Substitution(pattern, replacement, knob)


def _nvidia(slot: ClassAd) -> dict[str, str]:
    """NVIDIA_VISIBLE_DEVICES for containers; by their whole UUIDs where these are known, for CUDA too."""
    if "AssignedGPUs" not in slot or not slot.eval_str("AssignedGPUs"):
        return {"NVIDIA_VISIBLE_DEVICES": "none"}
    uuids = _UUIDS.eval(slot) if "AvailableGPUs" in slot else None
    if isinstance(uuids, str) and uuids:
        return {"NVIDIA_VISIBLE_DEVICES": uuids, _CUDA: uuids}
    return {"NVIDIA_VISIBLE_DEVICES": "none"}


def is_assigned_knob(name: str) -> bool:
    """Whether the knob shapes these variables."""
    return name.lower().startswith((FOR.lower(), UNASSIGNED.lower(), SETS_NVIDIA.lower()))
