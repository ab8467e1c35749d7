"""Networks to run the same tests on: unix sockets, TLS through a shared port, and the one in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
import trio

from protocol.network.channel import Listener, Network
from protocol.network.net import RealNetwork
from protocol.rpc import token_checks
from protocol.security import keys
from protocol.security.credentials import Security
from protocol.wire.address import Address
from protocol.wire.message import replace
from tests.fakes.network import FakeNetwork
from tests.protocol.echo import DOMAIN, a_security

# Where a thread imported them, a clock that jumps would not wait for it.
PRELOADED = [import_module(name) for name in token_checks.MODULES]


@dataclass
class Wiring:
    """Where a service listens, and how a client of the same pool reaches it."""

    kind: str
    server: Network
    client: Network
    listener: Listener
    server_security: Security
    client_security: Security

    @property
    def address(self) -> Address:
        return self.listener.address


@pytest.fixture(scope="session")
def pool_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keys of a pool whose central manager is cm.pool.test."""
    directory = tmp_path_factory.mktemp("keys")
    keys.make_pool_keys(directory, host="cm.pool.test", trust_domain=DOMAIN)
    return directory


@pytest.fixture(params=["unix", "tls", "memory"])
async def wiring(request: pytest.FixtureRequest, tmp_path: Path, pool_keys: Path) -> AsyncIterator[Wiring]:
    """Each network in turn, with the service name `echo`."""
    async with _wired(request.param, tmp_path, pool_keys) as wired:
        yield wired


@pytest.fixture(params=["unix", "tls"])
async def real_wiring(request: pytest.FixtureRequest, tmp_path: Path, pool_keys: Path) -> AsyncIterator[Wiring]:
    """The networks on which a blocking client can wait."""
    async with _wired(request.param, tmp_path, pool_keys) as wired:
        yield wired


@asynccontextmanager
async def _wired(kind: str, directory: Path, pool_keys: Path) -> AsyncIterator[Wiring]:
    security = a_security(keys=str(pool_keys), ca_files=(str(pool_keys / "ca.pem"),))
    if kind == "memory":
        network = FakeNetwork()
        server, client = network.host("cm.pool.test", duties={"central"}), network.host("other", duties={"submit"})
        listener = await server.listen(Address.tcp("cm.pool.test", 9618, sock="echo"))
        yield Wiring(kind, server, client, listener, security, security)
        return
    real = RealNetwork()
    if kind == "unix":
        listener = await real.listen(Address.unix(str(directory / "echo.sock")))
        yield Wiring(kind, real, real, listener, security, security)
        return
    async with trio.open_nursery() as nursery:
        port = await nursery.start(partial(real.share_port, Address.tcp("127.0.0.1", 0), str(directory)))
        listener = await real.listen_shared(str(directory), replace(port, sock="echo", alias="cm.pool.test"))
        yield Wiring(kind, real, real, listener, security, security)
        nursery.cancel_scope.cancel()
