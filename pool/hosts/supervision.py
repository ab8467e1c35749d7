"""What becomes of a daemon that its master supervises: every legal move is a row of MOVES.

    Stopped --START--> Starting --READY--> Running
    Starting, Running --EXITED--> Backoff --DUE--> Starting      (it was to go on running)
    Starting, Running --STOP--> Stopping --EXITED--> Stopped     (or Starting, when START came meanwhile)

The n-th restart in a row waits c + k ** n seconds, at most the ceiling; a daemon that ran for the recover time counts
as well again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Final


class ProcessState(StrEnum):
    """Where a daemon stands in its master's eyes; the names are what `condor_who` shows."""

    STOPPED = "Stopped"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    BACKOFF = "Backoff"


class ProcessEvent(Enum):
    """What happened, or was asked for."""

    START = "start"
    READY = "ready"
    EXITED = "exited"
    STOP = "stop"
    DUE = "due"


class MasterEffect(Enum):
    """What the master must now do."""

    SPAWN = "spawn"
    ASK_TO_STOP = "ask to stop"
    WAKE_WHEN_DUE = "wake when due"


@dataclass(frozen=True, slots=True)
class RestartBackoff:
    """MASTER_BACKOFF_CONSTANT, MASTER_BACKOFF_FACTOR, MASTER_BACKOFF_CEILING and MASTER_RECOVER_FACTOR."""

    constant_s: float = 9.0
    factor: float = 2.0
    ceiling_s: float = 3600.0
    recover_s: float = 300.0

    def delay(self, restarts: int) -> float:
        """How long restart number `restarts` (from 0) waits."""
        try:
            return float(min(self.constant_s + self.factor**restarts, self.ceiling_s))
        except OverflowError:
            return self.ceiling_s


@dataclass(frozen=True, slots=True)
class Supervised:
    """One daemon: its state, what it should come to, and how often it fell."""

    name: str
    state: ProcessState = ProcessState.STOPPED
    again: bool = False  # start it once it has stopped
    restarts: int = 0  # in a row
    started_at: float = 0.0
    due_at: float = 0.0


_S, _E = ProcessState, ProcessEvent

MOVES: Final[Mapping[tuple[ProcessState, ProcessEvent], tuple[ProcessState, tuple[MasterEffect, ...]]]] = {
    (_S.STOPPED, _E.START): (_S.STARTING, (MasterEffect.SPAWN,)),
    (_S.STARTING, _E.READY): (_S.RUNNING, ()),
    (_S.STARTING, _E.EXITED): (_S.BACKOFF, (MasterEffect.WAKE_WHEN_DUE,)),
    (_S.STARTING, _E.STOP): (_S.STOPPING, (MasterEffect.ASK_TO_STOP,)),
    (_S.RUNNING, _E.EXITED): (_S.BACKOFF, (MasterEffect.WAKE_WHEN_DUE,)),
    (_S.RUNNING, _E.STOP): (_S.STOPPING, (MasterEffect.ASK_TO_STOP,)),
    (_S.STOPPING, _E.EXITED): (_S.STOPPED, ()),
    (_S.STOPPING, _E.STOP): (_S.STOPPING, (MasterEffect.ASK_TO_STOP,)),  # a graceful stop may become a fast one
    (_S.BACKOFF, _E.START): (_S.STARTING, (MasterEffect.SPAWN,)),
    (_S.BACKOFF, _E.DUE): (_S.STARTING, (MasterEffect.SPAWN,)),
    (_S.BACKOFF, _E.STOP): (_S.STOPPED, ()),
}


def step(
    daemon: Supervised, event: ProcessEvent, *, now: float, backoff: RestartBackoff
) -> tuple[Supervised, tuple[MasterEffect, ...]]:
    """The daemon after `event`, and what to do. What has no row changes nothing: all of it may come twice or late."""
    # No row: it depends on what was asked before, and must not start while the old process has its port.
    if daemon.state is ProcessState.STOPPING and event is ProcessEvent.START:
        return replace(daemon, again=True), ()
    if daemon.state is ProcessState.STOPPING and event is ProcessEvent.EXITED and daemon.again:
        fresh = replace(daemon, state=ProcessState.STARTING, again=False, restarts=0, started_at=now)
        return fresh, (MasterEffect.SPAWN,)
    move = MOVES.get((daemon.state, event))
    if move is None:
        return daemon, ()
    state, effects = move
    after = replace(daemon, state=state, again=False)
    if state is ProcessState.BACKOFF:
        # Judged when it falls: how long it has run well is known only then.
        restarts = 0 if now - daemon.started_at >= backoff.recover_s else daemon.restarts
        after = replace(after, restarts=restarts + 1, due_at=now + backoff.delay(restarts))
    elif MasterEffect.SPAWN in effects:
        after = replace(after, started_at=now, restarts=0 if event is ProcessEvent.START else daemon.restarts)
    return after, effects
