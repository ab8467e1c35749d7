"""Daemons' real mains, many of them, in one trio process: a network in memory, a virtual clock, threads in place.

async with one_host(tmp_path, network) as host:
    collector = await host.start("collector")
    negotiator = await host.start("negotiator")
    async with host.connected("collector") as peer: ...
    await host.stop("negotiator")
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from daemons.base.log import Log
from daemons.daemon_core import run
from daemons.daemon_core.log_file import LOG_NAMES
from daemons.daemon_core.run import DaemonMain, DaemonStart
from daemons.daemon_core.source import ConfigSource
from daemons.daemon_core.world import InPlace, World
from pool.classad import ClassAd
from pool.classad.values import environment
from protocol.messages.collector import QueryAds
from protocol.messages.common import StopHow
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.wire.address import Address
from tests.fakes.network import FakeHost, FakeNetwork

EPOCH = 1_700_000_000.0


class NoPrograms:
    """A spawner for tests in which no program is started."""

    async def start(self, argv: Sequence[str], **options: Any) -> Any:
        raise AssertionError(f"a test without processes wanted to start {argv}")


class NoChildren:
    """A zygote for tests in which nothing is forked."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.kinds = kinds

    async def fork(self, kind: str, payload: Any = b"", descriptors: Any = ()) -> Any:
        raise AssertionError(f"a test without processes wanted to fork a {kind}")

    async def kill_strays(self) -> int:
        return 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()


def a_world(network: FakeHost, *, seed: int = 0, zygote: Any = NoChildren) -> World:
    """A world on trio's clock: wall time is EPOCH plus what `trio.current_time()` says."""
    return World(
        wall=lambda: EPOCH + trio.current_time(),
        rng=random.Random(seed),
        network=network,
        spawner=NoPrograms(),
        threads=InPlace(),
        env={},
        zygote=zygote,
    )


class OneHost:
    """One host of the simulated pool, its LOCAL_DIR and its daemons."""

    def __init__(
        self, nursery: trio.Nursery, directory: Path, network: FakeHost, overrides: Mapping[str, str], world: World
    ) -> None:
        self.directory, self.network, self.world = directory, network, world
        self.daemons: dict[str, DaemonStart] = {}
        self._nursery = nursery
        self._ended: dict[str, trio.Event] = {}
        self._scopes: dict[str, trio.CancelScope] = {}
        self.source = ConfigSource(
            str(directory),
            (),
            {
                "NETWORK_HOSTNAME": network.name,
                "FULL_HOSTNAME": network.name,
                "UID_DOMAIN": network.network.trust_domain,
                "TRUST_DOMAIN": network.network.trust_domain,
                "CONDOR_HOST": network.name,
                "ALL_DEBUG": "D_FULLDEBUG",
                **overrides,
            },
        )
        for name in ("log", "spool", "execute", "run", "keys"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    async def start(
        self, name: str, main: DaemonMain | None = None, *, port: int = 9618, local_name: str = ""
    ) -> DaemonStart:
        """Start a daemon (again), or one of several with a local name, by which it is known then; returns when it is ready."""
        kind, name = name, local_name or name
        log = Log(
            self.directory / "log" / (f"{local_name}Log" if local_name else LOG_NAMES[kind.upper()]),
            level="D_ALL",
            wall=self.world.wall,
        )
        address = Address.tcp(self.network.name, port, alias=self.network.name) if self.network.duties else ""
        start = DaemonStart(kind, self.source, self.world, log=log, port_address=str(address), local_name=local_name)
        self.daemons[name] = start
        self._ended[name] = trio.Event()
        self._scopes[name] = trio.CancelScope()
        ready = trio.Event()

        async def say_ready() -> None:
            ready.set()

        async def live() -> None:
            try:
                with self._scopes[name]:
                    await run.host(start, main or run.load_main(kind), ready=say_ready)
            finally:
                log.close()
            self._ended[name].set()

        self._nursery.start_soon(live)
        await ready.wait()
        return start

    async def stop(self, name: str, how: StopHow = StopHow.GRACEFUL) -> None:
        """Stop a daemon, and wait until it has ended."""
        self.daemons[name].stop(how)
        await self._ended[name].wait()

    async def kill(self, name: str) -> None:
        """Have a daemon end without another word, as far as a task can."""
        self._scopes[name].cancel()
        await self._ended[name].wait()

    @property
    def security(self) -> Security:
        """What a tool of this host's owner has."""
        return Security(
            SecuritySettings(
                trust_domain=self.network.network.trust_domain, uid_domain=self.network.network.trust_domain
            )
        )

    @asynccontextmanager
    async def connected(self, name: str, **options: Any) -> AsyncGenerator[Peer, None]:
        """A connection to a daemon, as the pool's owner on this host."""
        address = Address.unix(str(self.directory / "run" / f"{name}.sock"))
        options.setdefault("security", self.security)
        async with endpoints.connected(address, network=self.network, **options) as peer:
            yield peer

    async def query(self, ad_type: str, constraint: str | None = None) -> list[ClassAd]:
        """Ads that the collector has."""
        async with self.connected("collector") as peer:
            async with peer.stream(QueryAds(ad_type=ad_type, constraint=constraint)) as batches:
                return [ad async for batch in batches for ad in batch.ads]

    async def until_known(self, ad_type: str, constraint: str | None = None, *, count: int = 1) -> list[ClassAd]:
        """Wait until the collector has that many such ads."""
        while len(found := await self.query(ad_type, constraint)) < count:
            await trio.sleep(0.05)
        return found


@asynccontextmanager
async def one_host(
    directory: Path,
    network: FakeHost | None = None,
    *,
    overrides: Mapping[str, str] | None = None,
    seed: int = 0,
    zygote: Any = NoChildren,
) -> AsyncIterator[OneHost]:
    """A host for the time of the block; its daemons are cancelled at the end."""
    host = network or FakeNetwork(seed=seed).host("cm.pool.test", duties={"central", "submit", "execute"})
    world = a_world(host, seed=seed, zygote=zygote)
    environment.install(clock=world.wall, rng=world.rng)
    async with trio.open_nursery() as nursery:
        yield OneHost(nursery, directory, host, overrides or {}, world)
        nursery.cancel_scope.cancel()
    said = "\n".join(path.read_text() for path in (directory / "log").iterdir())
    assert re.findall(r"The task \S+ has failed.*", said) == []  # the daemon goes on, but it is a fault of its
