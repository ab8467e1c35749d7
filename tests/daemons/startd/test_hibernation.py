"""When a machine is put to sleep, and how long it then stays awake: clock and program are the test's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from daemons.base.sync import Signal
from daemons.startd.machine.sleep_ability import SleepAbility
from daemons.startd.owner.hibernation import AWAKE_S, Hibernation
from pool.classad import ClassAd
from pool.power.states import SleepState
from pool.slots.state_machine import State

from .test_inventory import configured

CHECK_S = 300.0


class Slept:
    """A program that put the machine to sleep, and is over."""

    pid, returncode = 4711, 0
    stdin = stdout = stderr = None

    async def wait(self) -> int:
        return self.returncode


class Recorder:
    """Starts such programs, and keeps when, and with which last word."""

    def __init__(self) -> None:
        self.started: list[tuple[float, str]] = []

    async def start(self, argv: Sequence[str], **_options: Any) -> Slept:
        self.started.append((trio.current_time(), argv[-1]))
        return Slept()


class FewSlots(list[Any]):
    """Slots in these states; the startd's own table can do more."""

    asleep = SleepState.NONE


async def _done(*_: object) -> None: ...


def a_machine(place: Path, states: Sequence[State], hibernate: str) -> tuple[Hibernation, Recorder, list[str]]:
    """Its parts as far as they are asked; what it starts, and what it says."""
    spawner, said = Recorder(), list[str]()
    start: Any = SimpleNamespace(
        config=configured(place, f"HIBERNATE = {hibernate}", f"HIBERNATE_CHECK_INTERVAL = {CHECK_S:g}"),
        log=SimpleNamespace(always=lambda text, **_: said.append(text)),
        adverts=SimpleNamespace(has_all=_done),
        world=SimpleNamespace(spawner=spawner),
    )
    slots = FewSlots(
        SimpleNamespace(name=f"slot{number}", number=number, state=SimpleNamespace(state=state))
        for number, state in enumerate(states, 1)
    )
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731
    ads: Any = SimpleNamespace(refresh=nothing, for_policy=lambda slot: ClassAd({"SlotID": slot.number}))
    moves: Any = SimpleNamespace(stopping=False, evaluate_all=nothing)
    publisher: Any = SimpleNamespace(all_changed=nothing, put_now=nothing)
    ability = SleepAbility(("power_state",), frozenset({SleepState.S3, SleepState.S4}), 0x20, 0x20)
    parts: Any = (start, ability, slots, ads, moves, publisher, Signal())
    return Hibernation(*parts), spawner, said


async def run_for(machine: Hibernation, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await machine.run()


async def test_a_machine_that_was_woken_stays_awake_for_an_hour(tmp_path: Path, autojump_clock: object) -> None:
    machine, spawner, said = a_machine(tmp_path, [State.UNCLAIMED], '"RAM"')
    began = trio.current_time()
    await run_for(machine, CHECK_S + AWAKE_S + 1)
    first, second = spawner.started
    assert (first[0] - began, second[0] - first[0]) == pytest.approx((CHECK_S, AWAKE_S), abs=1)
    assert [word for _, word in spawner.started] == ["S3", "S3"]
    assert "This machine is awake again, from S3." in said


@pytest.mark.parametrize("state", [State.CLAIMED, State.MATCHED, State.PREEMPTING])
async def test_one_slot_that_is_taken_keeps_the_machine_awake(
    tmp_path: Path, autojump_clock: object, state: State
) -> None:
    machine, spawner, _ = a_machine(tmp_path, [State.UNCLAIMED, state, State.OWNER], '"RAM"')
    await run_for(machine, 10 * CHECK_S)
    assert spawner.started == []


async def test_slots_that_differ_go_into_the_deepest_state(tmp_path: Path, autojump_clock: object) -> None:
    wanted = 'ifThenElse(SlotID == 2, "DISK", "RAM")'
    machine, spawner, _ = a_machine(tmp_path, [State.UNCLAIMED, State.OWNER], wanted)
    await run_for(machine, CHECK_S + 1)
    assert [word for _, word in spawner.started] == ["S4"]
