"""What becomes of a daemon: every row of the table, and the waits in between."""

from __future__ import annotations

import pytest

from pool.hosts.supervision import MasterEffect, ProcessEvent, ProcessState, RestartBackoff, Supervised, step

B = RestartBackoff(constant_s=9.0, factor=2.0, ceiling_s=60.0, recover_s=300.0)


def falls(times: int, *, ran_s: float) -> list[float]:
    """The waits after so many falls in a row."""
    daemon, now, waits = Supervised("schedd"), 0.0, []
    daemon, _ = step(daemon, ProcessEvent.START, now=now, backoff=B)
    for _ in range(times):
        now += ran_s
        daemon, effects = step(daemon, ProcessEvent.EXITED, now=now, backoff=B)
        assert effects == (MasterEffect.WAKE_WHEN_DUE,)
        waits.append(daemon.due_at - now)
        now = daemon.due_at
        daemon, effects = step(daemon, ProcessEvent.DUE, now=now, backoff=B)
        assert effects == (MasterEffect.SPAWN,)
    return waits


def test_each_fall_in_a_row_waits_longer_up_to_the_ceiling() -> None:
    assert falls(8, ran_s=1) == [10, 11, 13, 17, 25, 41, 60, 60]


def test_a_daemon_that_ran_long_enough_counts_as_well_again() -> None:
    assert falls(3, ran_s=301) == [10, 10, 10]


@pytest.mark.parametrize(("ran_s", "waits"), [(299, [10, 11]), (300, [10, 10])])
def test_well_again_is_who_ran_for_recover_s_since_its_last_start(ran_s: float, waits: list[float]) -> None:
    assert falls(2, ran_s=ran_s) == waits


def test_a_start_by_hand_forgets_earlier_falls_and_a_start_when_due_does_not() -> None:
    fallen = Supervised("schedd", ProcessState.BACKOFF, restarts=3)
    for event, restarts in ((ProcessEvent.START, 0), (ProcessEvent.DUE, 3)):
        started, effects = step(fallen, event, now=70, backoff=B)
        assert effects == (MasterEffect.SPAWN,)
        assert (started.state, started.started_at, started.restarts) == (ProcessState.STARTING, 70, restarts)


@pytest.mark.parametrize("state", [ProcessState.STARTING, ProcessState.RUNNING])
def test_a_daemon_that_is_told_to_stop_stays_stopped(state: ProcessState) -> None:
    daemon = Supervised("schedd", state)
    daemon, effects = step(daemon, ProcessEvent.STOP, now=0, backoff=B)
    assert effects == (MasterEffect.ASK_TO_STOP,)
    daemon, effects = step(daemon, ProcessEvent.EXITED, now=1, backoff=B)
    assert (daemon.state, effects) == (ProcessState.STOPPED, ())
    assert step(daemon, ProcessEvent.DUE, now=2, backoff=B) == (daemon, ())


def test_a_start_while_it_stops_is_not_forgotten_and_a_stop_after_it_is_heeded() -> None:
    stopping = Supervised("schedd", ProcessState.STOPPING)
    again, _ = step(stopping, ProcessEvent.START, now=0, backoff=B)
    started, effects = step(again, ProcessEvent.EXITED, now=1, backoff=B)
    assert (started, effects) == (Supervised("schedd", ProcessState.STARTING, started_at=1), (MasterEffect.SPAWN,))
    off, _ = step(again, ProcessEvent.STOP, now=0, backoff=B)
    assert step(off, ProcessEvent.EXITED, now=1, backoff=B)[0].state is ProcessState.STOPPED


def test_late_and_repeated_events_change_nothing() -> None:
    for state in ProcessState:
        for event in ProcessEvent:
            daemon = Supervised("schedd", state)
            after, effects = step(daemon, event, now=0, backoff=B)
            if not effects and after.state is state:
                assert after.restarts == daemon.restarts


def test_a_wait_is_never_beyond_the_ceiling_however_often_it_fell() -> None:
    assert B.delay(10_000) == 60.0
