"""Two thousand messages, frames and ads that no client would send, by everybody who can reach a daemon, cost nobody anything."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from protocol.messages.common import Ping
from protocol.rpc import blocking
from protocol.security.credentials import Security
from tests.attacks.actors import ATTACKER, needs_accounts, run_as
from tests.whole.real_pool import RealPool, real_pool

pytestmark = needs_accounts

DAEMONS = ("collector", "negotiator", "schedd", "startd", "master")
ACTORS = ("stranger", "user", "host", "administrator")
"""Who attacks: nobody that is known; an ordinary account; a host of the pool, by its certificate; root."""
FEW, MANY = 60, 2000
STALL_S = 1.0
"""Several times what a slow machine takes for the dearest of these messages."""
GROWTH_BYTES = 50 * 2**20


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(MASTER_BACKOFF_CEILING=1, NETWORK_INTERFACE="127.0.0.1", SHARED_PORT_PORT=0) as pool:
        yield pool


@dataclass
class Stalls:
    """Another user of a daemon, who asks it all the time; `worst_s` is how long it kept him waiting while it computed."""

    pool: RealPool
    daemon: str
    worst_s: float = 0.0
    errors: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Stalls:
        self._pid = self.pool.pid_of(self.daemon) if self.daemon != "master" else self.pool.master.pid  # type: ignore[union-attr]
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        with blocking.connect(str(self.pool.run_dir / f"{self.daemon}.sock"), Security()) as peer:
            while not self._over.wait(0.005):
                began, used = time.monotonic(), self._computed()
                try:
                    peer.call(Ping())
                except Exception as error:
                    self.errors.append(str(error))
                    return
                # A machine with other work keeps everybody waiting; what counts is what the daemon did meanwhile.
                self.worst_s = max(self.worst_s, min(time.monotonic() - began, self._computed() - used))

    def _computed(self) -> float:
        """Processor time of the daemon's main thread, in seconds."""
        return int(Path(f"/proc/{self._pid}/task/{self._pid}/schedstat").read_text().split()[0]) / 1e9

    def memory(self) -> int:
        """What the daemon has to itself, in bytes."""
        return sum(
            int(line.split()[1]) * 1024
            for line in Path(f"/proc/{self._pid}/smaps_rollup").read_text().splitlines()
            if line.startswith(("Private_Clean", "Private_Dirty"))
        )


def attack(pool: RealPool, daemon: str, actor: str, count: int, seed: int) -> dict[str, object]:
    """Have the actor send them; what the attacking program counted."""
    address = str(pool.run_dir / f"{daemon}.sock")
    if actor == "host":
        address = (pool.run_dir / f"{daemon}.address").read_text().splitlines()[0]
    program = [
        sys.executable,
        "-m",
        "tests.attacks.mutants",
        daemon,
        address,
        str(pool.directory) if actor == "host" else "-",
        str(seed),
        str(count),
    ]
    program += ["strangers"] if actor == "stranger" else []
    root = str(Path(__file__).parents[2])
    env = {**pool.env(), "PYTHONPATH": root}
    done = run_as(ATTACKER if actor in ("user", "stranger") else None, *program, env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def hold(pool: RealPool, daemon: str, actors: tuple[str, ...], count: int, seed: int = 1) -> None:
    """The daemon stays as it is: no internal error, no stall, no growth."""
    before = pool.pid_of(daemon)
    with Stalls(pool, daemon) as stalls:
        memory = stalls.memory()
        for actor in actors:
            found = attack(pool, daemon, actor, count, seed)
            assert found["internal"] == {}, f"{actor}: {found}\n{pool.logs()}"
        grown = stalls.memory() - memory
    assert pool.pid_of(daemon) == before
    assert stalls.errors == []
    assert stalls.worst_s < STALL_S
    assert grown < GROWTH_BYTES


@pytest.mark.parametrize("daemon", DAEMONS)
def test_p9_messages_that_no_client_sends_cost_nobody_else_anything(pool: RealPool, daemon: str) -> None:
    hold(pool, daemon, ACTORS, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize("daemon", DAEMONS)
def test_p9_two_thousand_of_them_cost_nobody_else_anything(pool: RealPool, daemon: str, actor: str) -> None:
    hold(pool, daemon, (actor,), MANY, seed=11)
