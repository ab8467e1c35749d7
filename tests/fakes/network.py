"""A network in memory, with named hosts, which can be slow, cut and healed from one seed.

It keeps the promises of `protocol.network.net.RealNetwork`, and the same tests hold both to them. A host's certificate and a
process's account are what the test says they are; all else is the real protocol.

    network = FakeNetwork(seed=1)
    here, there = network.host("cm", duties={"central"}), network.host("exec1", duties={"execute"})
    network.delay_s = (0.0, 0.05)
    network.cut("cm", "exec1")       # bytes are held back, connecting hangs
    network.heal("cm", "exec1")      # held bytes arrive
    network.reset("cm", "exec1")     # connections break
    network.crash("exec1")           # its connections break and nobody listens there any more
"""

from __future__ import annotations

import os
import random
from collections import deque
from dataclasses import dataclass, field

import trio

from pool.base.errors import PeerError
from protocol.network.channel import Channel, Incoming, Listener
from protocol.network.unix_socket import binding
from protocol.security.credentials import Security
from protocol.security.identity import Certificate, Credentials, Link
from protocol.wire.address import Address
from protocol.wire.message import replace

PIPE_BYTES_MAX = 256 * 1024
BACKLOG = 128
FIRST_FREE_PORT = 40_000


class FakeNetwork:
    """All hosts and everything between them."""

    def __init__(self, *, seed: int = 0, trust_domain: str = "pool.test") -> None:
        self.rng = random.Random(seed)
        self.trust_domain = trust_domain
        self.delay_s: tuple[float, float] = (0.0, 0.0)
        self.reset_chance = 0.0  # that a write breaks its connection
        self.hosts: dict[str, FakeHost] = {}
        self._listeners: dict[tuple[str, str], FakeListener] = {}
        self._cut: set[frozenset[str]] = set()
        self._changed = trio.Event()
        self._wires: list[Wire] = []
        self._ports = FIRST_FREE_PORT

    def host(self, name: str, *, duties: set[str] | frozenset[str] = frozenset()) -> FakeHost:
        """The network as one host sees it; hosts with duties have a certificate."""
        if name not in self.hosts:
            self.hosts[name] = FakeHost(self, name, frozenset(duties))
        return self.hosts[name]

    def cut(self, one: str, other: str | None = None) -> None:
        """Hold back everything between two hosts, or between one and all others."""
        for name in [other] if other else [name for name in self.hosts if name != one]:
            self._cut.add(frozenset({one, name}))
        self._change()

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Let through again what was cut: between two hosts, around one, or everywhere."""
        self._cut = {
            pair for pair in self._cut if not ((one is None or one in pair) and (other is None or other in pair))
        }
        self._change()

    def reset(self, one: str, other: str | None = None) -> None:
        """Break the connections between two hosts, or all of one."""
        for wire in self._wires:
            if one in wire.hosts and (other is None or other in wire.hosts):
                wire.break_()

    def crash(self, name: str) -> None:
        """The host is gone: its connections break, and nobody listens there."""
        self.reset(name)
        for key, listener in list(self._listeners.items()):
            if listener.host == name:
                listener.closed = True
                listener.arrivals.close()
                del self._listeners[key]

    def is_cut(self, hosts: frozenset[str]) -> bool:
        """Whether nothing passes between two hosts now."""
        return hosts in self._cut

    async def until_changed(self) -> None:
        """Wait for the next cut or heal."""
        await self._changed.wait()

    def _change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        for wire in self._wires:
            wire.wake()


@dataclass
class FakeHost:
    """The `protocol.network.net.Network` of one host; `uid` is the account that its processes appear to run as."""

    network: FakeNetwork
    name: str
    duties: frozenset[str]
    uid: int = field(default_factory=os.geteuid)

    def as_user(self, uid: int) -> FakeHost:
        """The same host, for a process of another account."""
        return FakeHost(self.network, self.name, self.duties, uid)

    @property
    def certificate(self) -> Certificate | None:
        """What this host shows."""
        if not self.duties:
            return None
        names = (self.name, self.name.partition(".")[0])
        return Certificate(host=self.name, names=names, duties=self.duties, trust_domain=self.network.trust_domain)

    async def connect(self, address: Address, security: Security) -> Channel:
        """A channel to whoever listens there."""
        network = self.network
        target = self.name if address.is_unix else address.alias if address.alias in network.hosts else address.host
        hosts = frozenset({self.name, target})
        while network.is_cut(hosts):
            await network.until_changed()
        await trio.sleep(network.rng.uniform(*network.delay_s))
        listener = network._listeners.get((target, _key(address)))
        if listener is None and not address.is_unix and not address.sock:
            listener = network._listeners.get((target, _key(replace(address, sock="collector"))))
        if listener is None or (not address.is_unix and target not in network.hosts):
            raise PeerError(f"cannot connect to {address}: Connection refused")
        wire = Wire(network, hosts)
        network._wires.append(wire)
        client, server = wire.ends()
        ours, theirs = self._links(address, listener)
        try:
            listener.arrivals.send_nowait(_incoming(server, theirs))
        except (trio.WouldBlock, trio.ClosedResourceError, trio.BrokenResourceError):
            raise PeerError(f"cannot connect to {address}: Connection refused") from None
        await trio.lowlevel.checkpoint()
        return Channel(client, ours)

    def _links(self, address: Address, listener: FakeListener) -> tuple[Link, Link]:
        """What each side knows of the other."""
        if address.is_unix:
            ours = Credentials(pid=os.getpid(), uid=listener.uid, gid=listener.uid)
            theirs = Credentials(pid=os.getpid(), uid=self.uid, gid=self.uid)
            return (
                Link(kind="unix", label=address.path, credentials=ours, verified=True, binding=binding(self.uid)),
                Link(
                    kind="unix",
                    label=f"uid {self.uid} at {address.path}",
                    credentials=theirs,
                    verified=True,
                    binding=binding(self.uid),
                ),
            )
        server = self.network.hosts[listener.host].certificate
        shown = self.certificate is not None
        return (
            Link(
                kind="memory",
                label=str(address),
                certificate=server,
                host=listener.host,
                verified=True,
                shown=shown,
                binding=listener.host.encode(),
            ),
            Link(
                kind="memory",
                label=f"<{self.name}>",
                certificate=self.certificate,
                host=self.name,
                verified=True,
                port_name=address.sock,
                binding=listener.host.encode(),
            ),
        )

    async def listen(self, address: Address) -> Listener:
        """Listen at a path or a port of this host."""
        if not address.is_unix and address.port == 0:
            self.network._ports += 1
            address = replace(address, port=self.network._ports)
        key = (self.name, _key(address))
        if key in self.network._listeners:
            raise OSError(98, "Address already in use")
        listener = FakeListener(self.network, self.name, address, self.uid)
        self.network._listeners[key] = listener
        await trio.lowlevel.checkpoint()
        return listener

    async def listen_shared(self, run: str, address: Address) -> Listener:
        """The same: in memory every port is shared."""
        return await self.listen(address)

    async def share_port(
        self, address: Address, run: str, *, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Nothing has to be passed on."""
        if address.port == 0:
            self.network._ports += 1
            address = replace(address, port=self.network._ports)
        task_status.started(address)
        await trio.sleep_forever()


class FakeListener:
    """Where connections to one address arrive."""

    def __init__(self, network: FakeNetwork, host: str, address: Address, uid: int) -> None:
        self.address = address
        self.host = host
        self.uid = uid
        self.closed = False
        self.arrivals, self._accepted = trio.open_memory_channel[Incoming](BACKLOG)
        self._network = network

    async def accept(self) -> Incoming:
        """The next connection."""
        if self.closed:
            raise trio.ClosedResourceError
        try:
            return await self._accepted.receive()
        except trio.EndOfChannel:
            raise trio.ClosedResourceError from None

    async def aclose(self) -> None:
        """Stop listening."""
        self.closed = True
        self.arrivals.close()
        self._accepted.close()
        if self._network._listeners.get((self.host, _key(self.address))) is self:
            del self._network._listeners[self.host, _key(self.address)]
        await trio.lowlevel.checkpoint()


class Wire:
    """One connection: two pipes that break together."""

    def __init__(self, network: FakeNetwork, hosts: frozenset[str]) -> None:
        self.network = network
        self.hosts = hosts
        self.pipes = (Pipe(self), Pipe(self))
        self.broken = False

    def ends(self) -> tuple[FakeStream, FakeStream]:
        """Both ends' streams."""
        return FakeStream(*self.pipes), FakeStream(*reversed(self.pipes))

    def break_(self) -> None:
        """Nothing passes any more, and both sides notice."""
        self.broken = True
        self.wake()
        self.forget()

    def forget(self) -> None:
        """No fault can reach it now."""
        if self in self.network._wires:
            self.network._wires.remove(self)

    def wake(self) -> None:
        """Have everybody who waits look again."""
        for pipe in self.pipes:
            pipe.wake()


class Pipe:
    """Bytes in one direction, each write with the moment at which it arrives."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.writes: deque[tuple[float, bytes]] = deque()
        self.size = 0
        self.ended = False  # the writer closed
        self.unread = False  # the reader closed
        self.last_due = 0.0
        self._changed = trio.Event()

    def wake(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def put(self, data: bytes) -> None:
        network = self.wire.network
        if network.reset_chance and network.rng.random() < network.reset_chance:
            self.wire.break_()
        while self.size > PIPE_BYTES_MAX and not self.unread and not self.wire.broken:
            await self._changed.wait()
        if self.unread or self.wire.broken:
            raise trio.BrokenResourceError("Connection reset by peer")
        self.last_due = max(self.last_due, trio.current_time() + network.rng.uniform(*network.delay_s))
        self.writes.append((self.last_due, data))
        self.size += len(data)
        self.wake()

    async def get(self, count: int) -> bytes:
        while True:
            if self.wire.broken:
                raise trio.BrokenResourceError("Connection reset by peer")
            if self.unread:
                raise trio.ClosedResourceError
            if not self.wire.network.is_cut(self.wire.hosts):
                if self.writes and self.writes[0][0] <= trio.current_time():
                    return self._take(count)
                if not self.writes and self.ended:
                    return b""
            due = self.writes[0][0] if self.writes else float("inf")
            changed = self._changed
            with trio.move_on_at(due if due > trio.current_time() else float("inf")):
                await changed.wait()

    def _take(self, count: int) -> bytes:
        due, data = self.writes.popleft()
        if len(data) > count:
            self.writes.appendleft((due, data[count:]))
            data = data[:count]
        self.size -= len(data)
        self.wake()
        return data


class FakeStream(trio.abc.Stream):
    """One end of a wire."""

    def __init__(self, out: Pipe, into: Pipe) -> None:
        self._out, self._in = out, into
        self._closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError
        if data:
            await self._out.put(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError
        return await self._in.get(max_bytes or 65536)

    def close(self) -> None:
        """As `aclose`, at once."""
        self._closed = True
        self._out.ended = True
        self._in.unread = True
        self._out.wake()
        self._in.wake()
        if self._out.unread:
            self._out.wire.forget()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


def _key(address: Address) -> str:
    return address.path if address.is_unix else f"{address.port}/{address.sock}"


def _incoming(stream: FakeStream, link: Link) -> Incoming:
    async def open_it(_security: Security) -> Channel:
        await trio.lowlevel.checkpoint()
        return Channel(stream, link)

    uid = link.credentials.uid if link.credentials is not None else None
    return Incoming(link.label, open_it, stream.close, trio.lowlevel.checkpoint, link.label, uid)
