"""Hosts that have a network each, on this machine: namespaces on a bridge, whose ports can be cut. Root only."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.whole.hosts import Host

_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def why_not() -> str:
    """Why there can be no such network here; empty where there can be one."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    if shutil.which("ip") is None:
        return "ip (iproute2) is not installed"
    try:
        with network():
            pass
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces with a bridge here: {error}"
    return ""


class Network:
    """A bridge in a namespace of its own, in which this thread is meanwhile."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        _check(_libc.unshare(_NEWNET))
        self._hub = _own()
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "bridge0", "type", "bridge")
        _ip("link", "set", "bridge0", "up")

    def add(self, address: str) -> None:
        """A host of this address."""
        port = _port(address)
        try:
            _check(_libc.unshare(_NEWNET))
            place = self._places[address] = _own()
            hub = f"/proc/{os.getpid()}/fd/{self._hub}"
            _ip("link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", hub, keep=(self._hub,))
            _ip("address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("link", "set", device, "up")
        finally:
            _enter(self._hub)
        assert place
        _ip("link", "set", port, "master", "bridge0", "up")

    @contextmanager
    def plugged(self, name: str) -> Iterator[None]:
        """Within the block there is a port of this name for a virtual machine."""
        _ip("tuntap", "add", name, "mode", "tap")
        try:
            _ip("link", "set", name, "master", "bridge0", "up")
            yield
        finally:
            _ip("link", "delete", name)

    @contextmanager
    def at(self, address: str) -> Iterator[None]:
        """Within the block this thread, and what it starts, is at that host."""
        _enter(self._places[address])
        try:
            yield
        finally:
            _enter(self._hub)

    @contextmanager
    def parted(self, *addresses: str) -> Iterator[None]:
        """Within the block nothing passes between these; all others reach each of them."""
        self._isolate(addresses, "on")
        try:
            yield
        finally:
            self._isolate(addresses, "off")

    @contextmanager
    def unplugged(self, address: str) -> Iterator[None]:
        """Within the block nothing reaches that host, and nothing comes from it."""
        _ip("link", "set", _port(address), "down")
        try:
            yield
        finally:
            _ip("link", "set", _port(address), "up")

    def _isolate(self, addresses: tuple[str, ...], how: str) -> None:
        for address in addresses:
            _ip("link", "set", _port(address), "type", "bridge_slave", "isolated", how)

    def close(self) -> None:
        """Let go of all namespaces, which end with their last process."""
        for place in (*self._places.values(), self._hub):
            os.close(place)


@contextmanager
def network() -> Iterator[Network]:
    """A network for the time of the block; at its end this thread is where it was."""
    home = _own()
    try:
        made = Network()
        try:
            yield made
        finally:
            _enter(home)
            made.close()
    finally:
        os.close(home)


class NetworkHost(Host):
    """A host of a network: its daemons and tools are there."""

    network: Network

    def start(self, *, wait: bool = True) -> None:
        """Start the master there."""
        with self.network.at(self.address):
            super().start(wait=wait)

    def tool(self, *argv: str, cwd: Path | None = None, check: bool = True, text: str | None = None) -> str:
        """Run one of our programs there."""
        with self.network.at(self.address):
            return super().tool(*argv, cwd=cwd, check=check, text=text)


def _port(address: str) -> str:
    return f"port{address.rpartition('.')[2]}"


def _own() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _enter(place: int) -> None:
    _check(_libc.setns(place, _NEWNET))


def _check(status: int) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*words: str, keep: tuple[int, ...] = ()) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, pass_fds=keep)
