"""Which devices of the machine a container gets with the GPUs of its slot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pool.base.words import split_list

CONTROL: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_PLAIN: Final = "CUDA"


def device_numbers(texts: Iterable[str]) -> dict[str, int]:
    """GPUs by their UUID, with the number of their device, out of the driver's `information` files."""
    found = {}
    for text in texts:
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
        number = fields.get("Device Minor", "")
        if number.isdigit() and (uuid := fields.get("GPU UUID")):
            found[uuid] = int(number)
    return found


def gpu_devices(assigned: str, numbers: Mapping[str, int], *, everything: bool = False) -> list[str]:
    """The device files for AssignedGPUs (`CUDA0`, or `GPU-` and the beginning of a UUID); with `everything` all."""
    devices = list(CONTROL)
    for gpu in (word.strip() for word in assigned.split(",")):
        if gpu.startswith(_PLAIN) and gpu[len(_PLAIN) :].isdigit():
            devices.append(f"/dev/nvidia{gpu[len(_PLAIN) :]}")
            continue
        for uuid, number in numbers.items():
            if gpu and (everything or uuid.startswith(gpu)):
                devices.append(f"/dev/nvidia{number}")
                if not everything:
                    break
    return list(dict.fromkeys(devices))


def others_gpus(present: Iterable[str], assigned: str, numbers: Mapping[str, int]) -> tuple[str, ...]:
    """Of the GPUs' device files those that are not this slot's; none where it is not known which are."""
    own = gpu_devices(assigned, numbers)
    wanted = split_list(assigned)
    if len(own) - len(CONTROL) != len(wanted):
        return ()
    return tuple(sorted(path for path in present if path not in own))
