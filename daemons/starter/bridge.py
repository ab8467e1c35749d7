"""The address at which a container on the engine's own network reaches this machine."""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import Final

LOOPBACK: Final = "127.0.0.1"
BRIDGES: Final = ("docker0", "podman0", "cni-podman0")
_SIOCGIFADDR: Final = 0x8915


def address_of(interface: str) -> str | None:
    """The IPv4 address of a network interface; None when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(asking, _SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def host_of(network: str, bridges: tuple[str, ...] = BRIDGES) -> str:
    """Where a container with this DockerNetworkType finds what listens here: on the machine's own network at the
    loopback, else at the engine's bridge."""
    if network == "host":
        return LOOPBACK
    return next((address for bridge in bridges if (address := address_of(bridge)) is not None), LOOPBACK)
