"""A full thin pool closes the machine, and its slots say why; when there is room again, so do they."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from daemons.startd.machine import thin_pool
from daemons.startd.machine.disk_limits import FoundLimits
from daemons.startd.main import Startd
from pool.execute.scratch import ScratchKind, Store
from pool.execute.thin_pool import PoolUse
from tests.daemons.startd.schedd import Bench, a_bench, a_job


async def test_slots_take_no_jobs_while_it_is_full(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = PoolUse(20.0, 1.0)
    monkeypatch.setattr(thin_pool, "pool_use", lambda group, pool: use)
    made = Startd.__init__

    def with_pool(self: Startd, *args: object) -> None:
        made(self, *args)  # type: ignore[arg-type]  # the same arguments
        self.disk = FoundLimits(Store(ScratchKind.LVM, "vg", "pool"))

    monkeypatch.setattr(Startd, "__init__", with_pool)
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RequestCpus=1))
        assert held.answer.granted
        use = PoolUse(96.0, 1.0)
        ad = await until_reason(bench, "the thin pool vg/pool is full (data 96.0 %, metadata 1.0 %)")
        assert ad["Requirements"] is False or str(ad["Requirements"]) == "false"
        assert not (await schedd.claim(await bench.offer(), a_job(RequestCpus=1))).answer.granted
        assert not (await schedd.run(held)).started
        use = PoolUse(50.0, 1.0)
        await until_reason(bench, "")
        assert (await schedd.claim(await bench.offer(), a_job(RequestCpus=1))).answer.granted


async def until_reason(bench: Bench, reason: str) -> dict[str, object]:
    with trio.fail_after(600):
        while (ad := (await bench.ads())["slot1"]).get("ScratchOfflineReason", "") != reason:
            await trio.sleep(1)
    return dict(ad.items())
