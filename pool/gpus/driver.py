"""NVIDIA's devices, where there is a driver to ask.

The bindings to its library take 3 MB of memory, in the process that all daemons of a host are forked from: they are
imported only where the library is there.
"""

from __future__ import annotations

import ctypes
from typing import Final

from pool.gpus.device import Device

LIBRARY: Final = "libnvidia-ml.so.1"
"""The one that the bindings load, found as the dynamic linker finds it."""


def devices() -> list[Device]:
    """All devices of this machine; none when there is no driver."""
    try:
        # Loaded for good: the bindings find it again by its name, and ask nothing of the disk.
        ctypes.CDLL(LIBRARY)
    except OSError:
        return []
    from pool.gpus.nvml import nvidia_devices

    return nvidia_devices()
