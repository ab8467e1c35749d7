"""Several hosts of one pool on this machine: each its own master, name, loopback address, directory and keys.

They are set up as an administrator does it: the central manager by its configuration, every other host by `pool join`
with a token that the central manager made. Ports are free ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.whole.real_pool import RealPool, pool_directory

DOMAIN = "hosts.test"
SETTINGS = {"MASTER_BACKOFF_CONSTANT": "0", "ALL_DEBUG": "D_FULLDEBUG", "SHARED_PORT_PORT": "0"}


class Host(RealPool):
    """One host; `tool` runs as this process, or within `as_user` as another account."""

    def __init__(self, directory: Path, name: str, address: str) -> None:
        super().__init__(directory, {})
        self.name, self.address = f"{name}.{DOMAIN}", address

    def own(self) -> dict[str, str]:
        """What this host's configuration says that no other's does."""
        return {**SETTINGS, "NETWORK_HOSTNAME": self.name, "NETWORK_INTERFACE": self.address}

    def be_central(self, knobs: Mapping[str, str]) -> None:
        """Write the configuration of a central manager, and start it."""
        lines = {
            "LOCAL_DIR": str(self.directory),
            **self.own(),
            "CONDOR_HOST": self.name,
            "UID_DOMAIN": DOMAIN,
            "DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR",
            **knobs,
        }
        (self.directory / "config").write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
        self.start()

    def where(self) -> str:
        """HOST:PORT, as one would type it."""
        first = (self.run_dir / "master.address").read_text().splitlines()[0]
        return first.strip("<>").partition("?")[0]

    def join(self, central: Host, duty: str, knobs: Mapping[str, str]) -> None:
        """Become a host of the central manager's pool, and start."""
        self.join_with(central, central.tool("pool", "token", "create", "--for", duty), knobs)
        self.start()

    def join_with(self, central: Host, word: str, knobs: Mapping[str, str] | None = None) -> None:
        """`pool join` alone, with whatever word; a refusal is an AssertionError that shows what was said."""
        settings = [part for item in {**self.own(), **(knobs or {})}.items() for part in ("-c", "=".join(item))]
        self.tool("pool", "join", central.where(), "--dir", str(self.directory), *settings, text=word)

    @contextmanager
    def as_user(self, name: str) -> Iterator[None]:
        """Tools run as that account for the time of the block (where this process may do so)."""
        self.user = name
        try:
            yield
        finally:
            self.user = None


H = TypeVar("H", bound=Host)


@contextmanager
def new_host(name: str, address: str) -> Iterator[Host]:
    """A host that is not set up yet; at the end nothing of it is left."""
    with new_host_of(Host, name, address) as host:
        yield host


@contextmanager
def new_host_of(kind: type[H], name: str, address: str) -> Iterator[H]:
    """The same, of a kind."""
    with pool_directory() as directory:
        host = kind(directory, name, address)
        try:
            yield host
            if host.master is not None:
                host.stop()
        finally:
            host.kill()


class Hosts:
    """A central manager, an access point and two execute nodes."""

    def __init__(self, central: Host, submit: Host, execute: list[Host]) -> None:
        self.central, self.submit, self.execute = central, submit, execute

    def all(self) -> list[Host]:
        """Every host."""
        return [self.central, self.submit, *self.execute]


@contextmanager
def four_hosts(central_knobs: Mapping[str, str] | None = None, **knobs: str) -> Iterator[Hosts]:
    """Four hosts that have found each other; keywords are knobs of the execute nodes."""
    with ExitStack() as stack:
        central, submit, *execute = (
            stack.enter_context(new_host(name, f"127.0.0.{last}"))
            for name, last in (("central", 2), ("submit", 3), ("execute1", 4), ("execute2", 5))
        )
        central.be_central(central_knobs or {})
        submit.join(central, "submit", {})
        for node in execute:
            node.join(central, "execute", knobs)
        names = {node.name for node in execute}
        central.until(lambda: {ad["Machine"] for ad in central.slots()} == names, "the slots of both nodes")
        yield Hosts(central, submit, execute)
