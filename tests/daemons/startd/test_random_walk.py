"""Whatever the owner's expressions say from moment to moment, and whatever schedds and administrators do meanwhile: a
slot is somewhere on the diagram, the machine promises no more than it has (P7), and the owner's word holds (P8).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from pool.slots.provision import detect
from pool.slots.provision.detect import Look
from pool.slots.state_machine import MOVES
from protocol.messages.common import StopHow
from protocol.messages.startd import CancelDrain, ContinueClaim, DrainMachine, MatchMade, SuspendClaim, VacateSlots
from protocol.rpc.endpoints import RemoteError
from tests.daemons.startd.schedd import Bench, FakeSchedd, Held, a_bench, a_job
from tests.own_attributes import own

STEPS = 60
VACATE_S, RETIREMENT_S, KILLING_S = 20, 60, 10
PAIRS = {f"{move.end[0]}/{move.end[1]}" for move in MOVES} | {"Owner/Idle"}
BITS = ("IS_OWNER", "START", "WANT_SUSPEND", "SUSPEND", "CONTINUE", "PREEMPT", "WANT_VACATE", "KILL")
KNOBS = {
    **{name: f"(ClockMin & {1 << at}) != 0" for at, name in enumerate(BITS)},
    "RANK": "TARGET.Loved ?: 0",
    "MAXJOBRETIREMENTTIME": str(RETIREMENT_S),
    "MachineMaxVacateTime": str(VACATE_S),
    "KILLING_TIMEOUT": str(KILLING_S),
    "POLLING_INTERVAL": "5",
}
CALM = sum(1 << BITS.index(name) for name in ("START", "CONTINUE", "WANT_VACATE"))
WEIGHTS = {
    "mood": 6, "claim": 8, "run": 3, "release": 1, "freeze": 2, "thaw": 2, "vacate": 0.5, "drain": 0.5, "cancel": 2, "match": 1,
}  # fmt: skip


@dataclass
class Walk:
    """One walk: the owner's mood, and who holds what."""

    bench: Bench
    schedd: FakeSchedd
    rng: random.Random
    mood: int = CALM

    def __post_init__(self) -> None:
        self.held: list[Held] = []

    def look(self, *_: object) -> Look:
        return Look(0.0, 10_000, 10_000, self.mood, 1)

    def says(self, name: str) -> bool:
        return bool(self.mood & 1 << BITS.index(name))

    async def step(self) -> None:
        what = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        held = self.rng.choice(self.held) if self.held else None
        match what:
            case "mood":
                self.mood = CALM if self.rng.random() < 0.5 else self.mood ^ 1 << self.rng.randrange(len(BITS))
            case "claim":
                with trio.move_on_after(1):
                    await self.claim()
            case "run" if held is not None:
                await self.run(held)
            case "release" if held is not None:
                self.held.remove(held)
                await self.schedd.release(held, self.rng.choice([*StopHow]))
            case "freeze" if held is not None:
                await self.schedd.peer.call(SuspendClaim(claim_id=held.claim_id))
            case "thaw" if held is not None:
                await self.schedd.peer.call(ContinueClaim(claim_id=held.claim_id))
            case "match":
                await self.match()
            case "vacate":
                await self.schedd.peer.call(VacateSlots(how=self.rng.choice([StopHow.FAST, StopHow.GRACEFUL])))
            case "drain":
                await self.drain(
                    DrainMachine(
                        how_fast=self.rng.choice([0, 10, 20]), on_completion=self.rng.choice(["nothing", "resume"])
                    )
                )
            case "cancel":
                await self.drain(CancelDrain())
        await trio.sleep(self.rng.choice([0, 1, 6, 15]))
        await self.check()

    async def drain(self, order: DrainMachine | CancelDrain) -> None:
        try:
            await self.schedd.peer.call(order)
        except RemoteError:
            pass  # it drains already, or does not

    async def claim(self) -> None:
        slot = self.rng.choice(sorted(await self.bench.ads()))
        offers = await self.bench.offers(slot)
        if offers:
            job = a_job(
                RequestCpus=self.rng.choice([1, 2]),
                **own(Loved=self.rng.choice([0, 5])),
                LeavesIn=self.rng.choice([0, 10, 10_000]),
                RunsFor=self.rng.choice([30, 200, 10_000]),
            )
            held = await self.schedd.claim(offers[0], job, lease_s=1e6)
            if held.answer.granted:
                self.held.append(held)
                await self.run(held)

    async def match(self) -> None:
        offers = await self.bench.offers(self.rng.choice(sorted(await self.bench.ads())))
        if offers:
            await self.schedd.peer.call(MatchMade(claim_ids=offers[:1]))

    async def run(self, held: Held) -> None:
        with trio.move_on_after(8):
            answer = await self.schedd.run(held)
            draining = any("Draining" in ad for ad in (await self.bench.ads()).values())
            assert not answer.started or self.says("START") or draining, "P8: a job started while START was false"

    async def check(self) -> None:
        found = await self.bench.ads()
        for name, ad in found.items():
            assert f"{ad['State']}/{ad['Activity']}" in PAIRS, name
        for resource in ("Cpus", "Memory", "Disk"):
            parts = [ad.eval_float(resource, 0.0) for ad in found.values()]
            assert min(parts) >= 0, f"P7: {resource}"
            assert sum(parts) == found["slot1"].eval_float(f"TotalSlot{resource}"), f"P7: {resource} {parts}"


@pytest.mark.parametrize("seed", [0, 5, 9])
async def test_p7_p8_a_random_walk_over_policy_values_stays_on_the_diagram(
    seed: int, tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_bench(tmp_path, **KNOBS) as bench, bench.schedd() as schedd:
        walk = Walk(bench, schedd, random.Random(seed))
        monkeypatch.setattr(detect, "look", walk.look)
        for _ in range(STEPS):
            await walk.step()
        walk.mood = 1 << BITS.index("PREEMPT") | 1 << BITS.index("WANT_VACATE")
        await trio.sleep(RETIREMENT_S + VACATE_S + KILLING_S + 30)
        busy = [name for name, ad in (await bench.ads()).items() if ad["State"] in ("Claimed", "Preempting")]
        assert busy == [], "P8: PREEMPT is true, and jobs stay"
        assert not any(starter.job is not None and not starter.ended.is_set() for starter in bench.farm.starters)
