"""What a machine's owner may say about its ads and about how long it stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from protocol.messages.common import Stop, StopHow
from protocol.rpc import endpoints
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.wire.address import Address
from protocol.wire.message import DONE
from tests.daemons.startd.schedd import a_bench, a_job
from tests.own_attributes import own


async def test_slots_show_what_is_listed_by_whatever_name(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs: dict[str, Any] = {
        "SYSTEM_STARTD_ATTRS": "Room",
        "ROOM": '"b12"',
        "STARTD_JOB_EXPRS": "Project",
        "STARTD_JOB_ATTRS": "Stage",
        "WITHIN_RESOURCE_LIMITS": "TARGET.Small =?= true",
    }
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        assert not (await schedd.claim(await bench.offer(), a_job())).answer.granted
        job = a_job(DiskUsage=7, RunsFor=1000, **own(Small=True, Project="x", Stage=2))
        held = await schedd.claim(await bench.offer(), job)
        await schedd.run(held, job)
        await bench.until_running()
        ads = await bench.ads()
        assert ads["slot1"]["Room"] == "b12"
        assert [ads["slot1_1"][name] for name in ("Project", "Stage", "DiskUsage")] == ["x", 2, 7]


async def test_a_host_that_nobody_claims_leaves_with_all_its_daemons(tmp_path: Path, autojump_clock: MockClock) -> None:
    told: list[tuple[float, StopHow]] = []
    service = Service("master", needs.MASTER)

    def stop(_peer: endpoints.Peer, asked: Stop) -> object:
        told.append((trio.current_time(), asked.how))
        return DONE

    service.offer([answer(Stop, stop)])
    async with a_bench(tmp_path, STARTD_NOCLAIM_SHUTDOWN="100") as bench, trio.open_nursery() as nursery:
        listener = await bench.host.network.listen(Address.unix(str(bench.host.directory / "run" / "master.sock")))
        await nursery.start(
            lambda task_status: endpoints.serve(
                service, [listener], security=bench.host.security, task_status=task_status
            )
        )
        async with bench.schedd() as schedd:
            held = await schedd.claim(await bench.offer())
            await trio.sleep(300)
            await schedd.release(held)
            freed_at = trio.current_time()
            while not told:
                await trio.sleep(1)
        assert told[0][1] is StopHow.GRACEFUL
        assert 90 < told[0][0] - freed_at < 130
        nursery.cancel_scope.cancel()
