"""Slots as a broken execute host may describe them, and work as a broken access point may: the negotiator goes on."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import trio
import trio.testing

from pool.classad import ClassAd, expr
from protocol.messages.collector import AdUpdate
from protocol.messages.negotiator import GetPriorities
from tests.daemons.negotiator.test_negotiator import a_pool, a_schedd, a_slot, publish, wants

Clock = trio.testing.MockClock
NAN, INFINITE = float("nan"), float("inf")

ODD_SLOTS: list[dict[str, object]] = [
    {"PartitionableSlot": True, "Cpus": NAN},
    {"PartitionableSlot": True, "Cpus": INFINITE, "Memory": INFINITE, "Disk": INFINITE},
    {"PartitionableSlot": True, "Cpus": -1, "Memory": "x"},
    {"PartitionableSlot": True, "MachineResources": "Cpus Foo", "Foo": 1e300, "AvailableFoo": [ClassAd({"Id": 5}), 3]},
    {"PartitionableSlot": True, "ConsumptionCpus": expr('real("NaN")'), "ConsumptionMemory": -5},
    {"PartitionableSlot": True, "ConsumptionCpus": 0, "ConsumptionMemory": 0, "ConsumptionDisk": 0},
    {"SlotWeight": NAN},
    {"SlotWeight": expr("1/0")},
    {"State": 5, "Activity": [1]},
    {"Requirements": 5},
    {"Cpus": expr("Cpus")},
    {"Rank": NAN, "CurrentRank": INFINITE},
    {"ConcurrencyLimits": "a:1e400,b:nan,c:-5"},
]
WEIGHTS = (NAN, INFINITE, -1e9, 1e308)


def _ids(update: AdUpdate, name: str) -> AdUpdate:
    return AdUpdate(ad=update.ad, private=ClassAd({"ClaimIds": [f"{name}-a", f"{name}-b", 5, "\udcff"]}))


@pytest.mark.parametrize("slot", range(len(ODD_SLOTS)))
async def test_an_odd_slot_costs_nobody_elses_match(tmp_path: Path, autojump_clock: Clock, slot: int) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        odd = a_slot("slot1@broken", ["odd"], **{"Memory": 10**6, **ODD_SLOTS[slot]})
        await publish(host, _ids(odd, "odd") if "PartitionableSlot" in ODD_SLOTS[slot] else odd)
        await publish(host, a_slot("slot1@good"))
        await schedd.announce(wants(count=20, Rank=expr("TARGET.Memory")))
        with trio.fail_after(1000):
            while "claim-of-slot1@good" not in schedd.offers:
                await schedd.news.wait()
        await schedd.announce(wants(number=2))
        async with host.connected("negotiator") as peer:
            assert (await peer.call(GetPriorities())).submitters


async def test_no_weight_spoils_the_accounts(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_pool(tmp_path) as host, a_schedd(host) as schedd:
        for number, weight in enumerate(WEIGHTS):
            slot = a_slot(
                f"slot{number}@broken", State="Claimed", RemoteOwner=f"user{number}@pool.test", SlotWeight=weight
            )
            await publish(host, slot)
        await publish(host, a_slot("slot9@broken", State="Claimed", RemoteOwner="odd\udcff@pool.test"))
        held = {f"slot{number}@broken": f"user{number}@pool.test" for number in range(len(WEIGHTS))}
        await schedd.announce(held={**held, "slot9@broken": "odd\udcff@pool.test"})
        await trio.sleep(3600)
        async with host.connected("negotiator") as peer:
            ads = (await peer.call(GetPriorities())).submitters
        shown = {ad.eval_str("Name"): ad.eval_float("WeightedAccumulatedUsage", NAN) for ad in ads}
        assert len([name for name in shown if name]) >= len(WEIGHTS)
        assert all(0 <= used < 1e5 for used in shown.values()), shown
        assert all(math.isfinite(ad.eval_float("Priority", NAN)) for ad in ads)
        assert "Cannot save priorities" not in "".join(
            path.read_text(errors="replace") for path in tmp_path.rglob("Negotiator*Log*")
        )
