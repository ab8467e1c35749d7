"""The GPUs of this machine, as far as jobs are kept to their own: which device file is which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pool.classad import ClassAd
from pool.containers.devices import device_numbers, others_gpus

_DRIVER: Final = Path("/proc/driver/nvidia/gpus")
_DEVICES: Final = Path("/dev")
_GPU: Final = re.compile(r"nvidia\d+")


def gpu_numbers() -> dict[str, int]:
    """By their UUIDs the numbers of their devices."""
    try:
        texts = [(place / "information").read_text() for place in sorted(_DRIVER.iterdir())]
    except OSError:
        return {}
    return device_numbers(texts)


def others_devices(slot: ClassAd) -> tuple[str, ...]:
    """The device files of GPUs that are not this slot's, on a machine that gives GPUs to slots."""
    # A machine that gives no GPUs to slots leaves them to whoever may open them.
    if not slot.eval_int("TotalGPUs"):
        return ()
    present = [
        f"/dev/{name}" for name in sorted(path.name for path in _DEVICES.glob("nvidia*")) if _GPU.fullmatch(name)
    ]
    return others_gpus(present, slot.eval_str("AssignedGPUs") or "", gpu_numbers()) if present else ()
