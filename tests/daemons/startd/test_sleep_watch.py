"""A machine that has slept, whoever sent it to sleep: leases and cron jobs count that time too."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from daemons.startd.owner.sleep_watch import SleepWatch
from pool.slots.lease import Lease


@dataclass(frozen=True)
class Claim:
    lease: Lease


FAR, HERE = SimpleNamespace(uid=None), SimpleNamespace(uid=0)


def a_slot(peer: object, claim: Claim | None) -> Any:
    return SimpleNamespace(peer=peer, claim=claim)


def test_what_was_slept_counts_for_leases_and_cron_jobs() -> None:
    claimed, free = a_slot(FAR, Claim(Lease(100.0, 60.0))), a_slot(None, None)
    of_this_machine = a_slot(HERE, Claim(Lease(100.0, 60.0)))
    said, moved, told, asleep = list[str](), list[object](), list[float](), [50.0]
    start: Any = SimpleNamespace(log=SimpleNamespace(always=said.append))
    moves: Any = SimpleNamespace(lease_changed=moved.append)
    slots: Any = [claimed, free, of_this_machine]
    crons: Any = [SimpleNamespace(slept=told.append)]
    watch = SleepWatch(start, slots, moves, crons, clock=lambda: asleep[0])
    watch.look()
    asleep[0] += 0.4
    watch.look()
    assert (said, moved, told) == ([], [], [])
    asleep[0] += 7200.0
    watch.look()
    assert said == ["This machine has slept for 7200 s."]
    assert (moved, told) == ([claimed], [7200.0])
    assert claimed.claim.lease.is_over(now=101.0)
    assert not of_this_machine.claim.lease.is_over(now=101.0), "its schedd has slept as well"
    watch.look()
    assert told == [7200.0], "once"
