"""What one message costs: a call and its answer, and a notice, between two processes, over a unix socket and over TLS.

CPU is that of both processes together, in short rounds, of which the median is taken: a machine that does other things
changes its speed meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import trio

from benchmarks.measure import Figure, p50
from pool.base.ids import JobId
from protocol.network.net import RealNetwork
from protocol.rpc.endpoints import Peer, connected, serve
from protocol.rpc.service import Service, answer
from protocol.security import keys
from protocol.security.credentials import Security
from protocol.security.needs import Need
from protocol.wire.address import Address
from protocol.wire.message import DONE, Done, Message, Record, Request, replace
from tests.protocol.echo import DOMAIN, a_security

CALLS: Final = 500
ROUNDS: Final = 31
AT_ONCE: Final = 20
HOST: Final = "cm.pool.test"


class Asked(Request[Done], tag="bench.asked"):
    """A request as short as most that starters make; answered where it is read."""

    job_id: JobId
    activation: str
    address: str = ""


class Pondered(Request[Done], tag="bench.pondered"):
    """The same, answered by a task."""

    job_id: JobId
    activation: str
    address: str = ""


class Noted(Message, tag="bench.noted"):
    """The same, not answered."""

    job_id: JobId
    activation: str
    address: str = ""


class Seconds(Record):
    """How much CPU a process has used."""

    cpu: float


class Used(Request[Seconds], tag="bench.used"):
    """Asked before and after a round."""


WORDS: Final = {"job_id": JobId(1, 0), "activation": "0123456789abcdef"}
Round = Callable[[Peer], Awaitable[None]]


def figures() -> Iterator[Figure]:
    """CPU for each message, by its kind and the way that it goes."""
    with tempfile.TemporaryDirectory() as directory:
        keys.make_pool_keys(Path(directory), host=HOST, trust_domain=DOMAIN)
        for way, aim in (("unix", "<= 60"), ("tls", "")):
            for what, taken in _measured(directory, way).items():
                how = f"both processes, {ROUNDS} rounds of {CALLS}; the least {min(taken) * 1e6:.0f}"
                yield Figure(f"{what}, {way}", p50(taken) * 1e6, "us of CPU", how, aim if what == "a call" else "")


def _measured(directory: str, way: str) -> dict[str, list[float]]:
    """The seconds of each round, for one message."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.rpc", directory, way], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        address = Address.parse(child.stdout.readline().decode().strip())
        taken = trio.run(_asked, directory, address)
        child.terminate()
    return taken


async def _asked(directory: str, address: Address) -> dict[str, list[float]]:
    rounds: dict[str, Round] = {
        "a call": _calls,
        "a call that a task answers": _pondered,
        f"a call, {AT_ONCE} at once": _calls_at_once,
        "a notice": _notices,
    }
    taken: dict[str, list[float]] = {what: [] for what in rounds}
    async with connected(address, security=_security(directory)) as peer:
        for _ in range(ROUNDS + 1):
            for what, one in rounds.items():
                before = await _cpu(peer)
                await one(peer)
                taken[what].append((await _cpu(peer) - before) / CALLS)
    return {what: seconds[1:] for what, seconds in taken.items()}


async def _cpu(peer: Peer) -> float:
    return time.process_time() + (await peer.call(Used())).cpu


async def _calls(peer: Peer) -> None:
    for _ in range(CALLS):
        await peer.call(Asked(**WORDS))


async def _pondered(peer: Peer) -> None:
    for _ in range(CALLS):
        await peer.call(Pondered(**WORDS))


async def _notices(peer: Peer) -> None:
    for _ in range(CALLS):
        await peer.notify(Noted(**WORDS))


async def _calls_at_once(peer: Peer) -> None:
    async def some() -> None:
        for _ in range(CALLS // AT_ONCE):
            await peer.call(Asked(**WORDS))

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(some)


# ---- the other process


def _security(directory: str) -> Security:
    return a_security(keys=directory, ca_files=(os.path.join(directory, "ca.pem"),))


async def _ponder(_peer: Peer, _request: Pondered) -> Done:
    return DONE


async def _answer(directory: str, way: str) -> None:
    service = Service("bench", {message.tag: Need() for message in (Asked, Pondered, Noted, Used)})
    service.offer(
        [
            answer(Asked, lambda _peer, _request: DONE),
            answer(Pondered, _ponder),
            answer(Noted, lambda _peer, _message: None),
            answer(Used, lambda _peer, _request: Seconds(cpu=time.process_time())),
        ]
    )
    where = Address.unix(os.path.join(directory, "bench.sock")) if way == "unix" else Address.tcp("127.0.0.1", 0)
    listener = await RealNetwork().listen(where)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, service, [listener], security=_security(directory)))
        print(listener.address if way == "unix" else replace(listener.address, alias=HOST), flush=True)


if __name__ == "__main__":
    trio.run(_answer, *sys.argv[1:])
