"""A cable from a virtual machine to a bridge of this machine: a TAP device, which goes when its descriptor is closed.

Root makes it, and hands the descriptor to whoever runs the virtual machine: that needs no rights then, and whatever
becomes of it, the kernel takes the device away.

Source: the kernel's Documentation/networking/tuntap.rst and include/uapi/linux/{if_tun,sockios}.h.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Final

TUN: Final = "/dev/net/tun"
_NAME: Final = b"vm%d"
"""The kernel puts a number into it."""
_TUNSETIFF: Final = 0x400454CA
_TAP, _NO_PACKET_INFORMATION, _VIRTIO_HEADERS = 0x0002, 0x1000, 0x4000
_SIOCGIFINDEX: Final = 0x8933
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_SIOCBRADDIF: Final = 0x89A2
_UP: Final = 1


def is_bridge(name: str) -> bool:
    """Whether there is a bridge of this name."""
    return bool(name) and "/" not in name and os.path.isdir(f"/sys/class/net/{name}/bridge")


def plugged_into(bridge: str) -> int:
    """The descriptor of a new TAP device that is a port of the bridge; OSError where that cannot be."""
    tap = os.open(TUN, os.O_RDWR | os.O_CLOEXEC)
    try:
        flags = _TAP | _NO_PACKET_INFORMATION | _VIRTIO_HEADERS
        made = fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", _NAME, flags))
        name = made[:16].rstrip(b"\0")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            (index,) = struct.unpack("16xi20x", fcntl.ioctl(asked, _SIOCGIFINDEX, struct.pack("16s24x", name)))
            fcntl.ioctl(asked, _SIOCBRADDIF, struct.pack("16si20x", bridge.encode(), index))
            (before,) = struct.unpack("16xH22x", fcntl.ioctl(asked, _SIOCGIFFLAGS, struct.pack("16s24x", name)))
            fcntl.ioctl(asked, _SIOCSIFFLAGS, struct.pack("16sH22x", name, before | _UP))
    except BaseException:
        os.close(tap)
        raise
    return tap
