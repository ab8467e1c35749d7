"""What becomes of a daemon: every row of the table, and the waits in between."""

from __future__ import annotations

import pytest

from pool.restart import Backoff, Effect, Event, State, Supervised, step

B = Backoff(constant_s=9.0, factor=2.0, ceiling_s=60.0, recover_s=300.0)


def falls(times: int, *, ran_s: float) -> list[float]:
    """The waits after so many falls in a row."""
    daemon, now, waits = Supervised("schedd"), 0.0, []
    daemon, _ = step(daemon, Event.START, now=now, backoff=B)
    for _ in range(times):
        now += ran_s
        daemon, effects = step(daemon, Event.EXITED, now=now, backoff=B)
        assert effects == (Effect.WAKE_WHEN_DUE,)
        waits.append(daemon.due_at - now)
        now = daemon.due_at
        daemon, effects = step(daemon, Event.DUE, now=now, backoff=B)
        assert effects == (Effect.SPAWN,)
    return waits


def test_each_fall_in_a_row_waits_longer_up_to_the_ceiling() -> None:
    assert falls(8, ran_s=1) == [10, 11, 13, 17, 25, 41, 60, 60]


def test_a_daemon_that_ran_long_enough_counts_as_well_again() -> None:
    assert falls(3, ran_s=301) == [10, 10, 10]


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING])
def test_a_daemon_that_is_told_to_stop_stays_stopped(state: State) -> None:
    daemon = Supervised("schedd", state)
    daemon, effects = step(daemon, Event.STOP, now=0, backoff=B)
    assert effects == (Effect.ASK_TO_STOP,)
    daemon, effects = step(daemon, Event.EXITED, now=1, backoff=B)
    assert (daemon.state, effects) == (State.STOPPED, ())
    assert step(daemon, Event.DUE, now=2, backoff=B) == (daemon, ())


def test_a_start_while_it_stops_is_not_forgotten_and_a_stop_after_it_is_heeded() -> None:
    stopping = Supervised("schedd", State.STOPPING)
    again, _ = step(stopping, Event.START, now=0, backoff=B)
    assert step(again, Event.EXITED, now=1, backoff=B)[1] == (Effect.SPAWN,)
    off, _ = step(again, Event.STOP, now=0, backoff=B)
    assert step(off, Event.EXITED, now=1, backoff=B)[0].state is State.STOPPED


def test_late_and_repeated_events_change_nothing() -> None:
    for state in State:
        for event in Event:
            daemon = Supervised("schedd", state)
            after, effects = step(daemon, event, now=0, backoff=B)
            if not effects and after.state is state:
                assert after.restarts == daemon.restarts


def test_a_wait_is_never_beyond_the_ceiling_however_often_it_fell() -> None:
    assert B.delay(10_000) == 60.0
