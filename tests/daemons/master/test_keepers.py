"""The master's keepers: one for each daemon, whatever is ordered while the host starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import trio
from trio.testing import MockClock

from daemons.master.main import Master
from daemons.process.children import SpawnError
from protocol.messages.master import DaemonsOn
from protocol.rpc.endpoints import Peer
from tests.daemons.one_host import NoChildren, one_host


class NoneNow(NoChildren):
    """It cannot fork just now."""

    async def fork(self, kind: str, payload: Any = b"", descriptors: Any = ()) -> Any:
        raise SpawnError("no process more")


async def test_orders_that_come_while_the_host_starts_make_no_second_daemon(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with one_host(tmp_path, overrides={"MASTER_BACKOFF_CONSTANT": "1000"}, zygote=NoneNow) as host:
        start = await host.start("collector")  # any daemon's will do
        start.config = start.config.with_overrides({"DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR"})
        async with trio.open_nursery() as nursery:
            master, made = Master(start), []
            nursery.start_soon(nursery.start, master.run)
            for _ in range(20):
                await trio.lowlevel.checkpoint()
                if master._tasks is not None:
                    nursery.start_soon(master.on, cast(Peer, None), DaemonsOn(daemons=[]))
                made.append({name: id(keeper) for name, keeper in master._keepers.items()})
            first = {name: one for seen in reversed(made) for name, one in seen.items()}
            assert made[-1] == first  # none was ever replaced
            nursery.cancel_scope.cancel()
