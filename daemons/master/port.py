"""The host's one TCP port: where it listens, and under which address the pool reaches it."""

from __future__ import annotations

import os
import socket
from typing import Final

import trio

from pool.config import Config
from pool.config.places import ROOT_DIR
from pool.errors import ConfigError
from protocol.address import Address

BACKLOG: Final = 1024
LOOPBACK: Final = "127.0.0.1"
_ANY: Final = ("", "*", "0.0.0.0")


def is_personal(config: Config) -> bool:
    """Whether this is a pool for one host that nobody configured a port for: it takes a free one, on the loopback."""
    if config.is_set("SHARED_PORT_PORT") or config.is_set("COLLECTOR_PORT") or config.is_set("NETWORK_INTERFACE"):
        return False
    return os.geteuid() != 0 or config.path("LOCAL_DIR") != ROOT_DIR


def open_port(config: Config) -> tuple[trio.socket.SocketType, Address]:
    """Listen; the socket, and the address that others use. ConfigError when the port is taken."""
    personal = is_personal(config)
    interface = config.str("NETWORK_INTERFACE")
    bind_to = LOOPBACK if personal else "" if interface in _ANY else interface
    port = 0 if personal else config.int("SHARED_PORT_PORT")
    raw = socket.socket(socket.AF_INET6 if ":" in bind_to else socket.AF_INET, socket.SOCK_STREAM)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        raw.bind((bind_to, port))
        raw.listen(BACKLOG)
    except OSError as error:
        raw.close()
        where = f"{bind_to or '*'}:{port}"
        raise ConfigError(
            f"cannot listen at {where}: {error.strerror}", expected="a free SHARED_PORT_PORT (0: any)"
        ) from None
    raw.setblocking(False)
    host = config.str("TCP_FORWARDING_HOST") or bind_to or outward_address(config.str("FULL_HOSTNAME"))
    address = Address.tcp(host, raw.getsockname()[1], alias=config.str("FULL_HOSTNAME"))
    return trio.socket.from_stdlib_socket(raw), address


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
