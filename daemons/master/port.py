"""The host's one TCP port: where it listens, and under which address the pool reaches it."""

from __future__ import annotations

import os
import socket
from typing import Final

from pool.config import Config
from pool.config.places import ROOT_DIR
from protocol.wire.address import Address

LOOPBACK: Final = "127.0.0.1"
_ANY: Final = ("", "*", "0.0.0.0")


def is_personal(config: Config) -> bool:
    """Whether this is a pool for one host that nobody configured a port for: it takes a free one, on the loopback."""
    if config.is_set("SHARED_PORT_PORT") or config.is_set("COLLECTOR_PORT") or config.is_set("NETWORK_INTERFACE"):
        return False
    return os.geteuid() != 0 or config.path("LOCAL_DIR") != ROOT_DIR


def port_to_open(config: Config) -> Address:
    """Where to listen; port 0 takes a free one, an empty host means all addresses of this host."""
    if is_personal(config):
        return Address.tcp(LOOPBACK, 0)
    interface = config.str("NETWORK_INTERFACE")
    return Address.tcp("" if interface in _ANY else interface, config.int("SHARED_PORT_PORT"))


def public_address(config: Config, opened: Address) -> Address:
    """The address that others use for the port that was opened."""
    name = config.str("FULL_HOSTNAME")
    host = config.str("TCP_FORWARDING_HOST") or opened.host or outward_address(name)
    return Address.tcp(host, opened.port, alias=name)


def host_names(config: Config) -> list[str]:
    """What this host may be called beside its name: for its certificate."""
    interface = config.str("NETWORK_INTERFACE")
    named = "" if interface in _ANY else interface
    names = [
        named,
        config.str("TCP_FORWARDING_HOST"),
        outward_address(config.str("FULL_HOSTNAME")),
        "localhost",
        LOOPBACK,
    ]
    return [name for name in dict.fromkeys(names) if name]


def outward_address(host: str) -> str:
    """The address that other hosts see: what the host's name stands for, or else the default route's."""
    try:
        found = [str(info[4][0]) for info in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)]
    except OSError:
        found = []
    for address in found:
        if not address.startswith("127."):
            return address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: the kernel only chooses a route
            return str(probe.getsockname()[0])
        except OSError:
            return LOOPBACK
