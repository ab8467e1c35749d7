"""Which devices of the machine a container gets with the GPUs of its slot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pool.base.ids import is_number
from pool.base.words import split_list

# Without these two a CUDA program finds no driver, whichever GPUs it may see.
CONTROL: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_PLAIN: Final = "CUDA"


def device_numbers(texts: Iterable[str]) -> dict[str, int]:
    """GPUs by their UUID, with the number of their device, out of the driver's `information` files."""
    found = {}
    for text in texts:
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
        number = fields.get("Device Minor", "")
        if is_number(number) and (uuid := fields.get("GPU UUID")):
            found[uuid] = int(number)
    return found


def gpu_devices(assigned: str, numbers: Mapping[str, int], *, everything: bool = False) -> list[str]:
    """The device files for AssignedGPUs (`CUDA0`, or `GPU-` and the beginning of a UUID); with `everything` all."""
    devices, listed = list(CONTROL), split_list(assigned)
    if everything and listed:  # a slot without GPUs has none in its containers either
        devices += [f"/dev/nvidia{number}" for number in numbers.values()]
    for gpu in listed:
        if gpu.startswith(_PLAIN) and is_number(gpu[len(_PLAIN) :]):
            devices.append(f"/dev/nvidia{gpu[len(_PLAIN) :]}")
        elif (number := next((number for uuid, number in numbers.items() if uuid.startswith(gpu)), None)) is not None:
            devices.append(f"/dev/nvidia{number}")
    return list(dict.fromkeys(devices))


def others_gpus(present: Iterable[str], assigned: str, numbers: Mapping[str, int]) -> tuple[str, ...]:
    """Of the GPUs' device files those that are not this slot's; none where it is not known which are."""
    own = gpu_devices(assigned, numbers)
    wanted = split_list(assigned)
    # Rather none hidden than one of its own: a job that misses a GPU fails, one that sees others' is only rude.
    if len(own) - len(CONTROL) != len(wanted):
        return ()
    # Of what is there: a mask over a device file that does not exist cannot be mounted.
    return tuple(sorted(path for path in present if path not in own))
