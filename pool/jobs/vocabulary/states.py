"""The states of a job, and what leads from one to another: every legal move is a row of MOVES.

Whether a job is matched to a slot right now is not a state: a job that was put on hold or removed while it ran keeps
its execution until the slot says that it is over, and cannot start elsewhere before.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final

from pool.base.errors import PoolError


class JobStatus(IntEnum):
    """JobStatus, with HTCondor's numbers."""

    IDLE = 1
    RUNNING = 2
    REMOVED = 3
    COMPLETED = 4
    HELD = 5
    TRANSFERRING_OUTPUT = 6
    SUSPENDED = 7


class JobEvent(Enum):
    """What can happen to a job."""

    START = "start"
    """A slot was claimed for it and asked to run it."""
    SUSPEND = "suspend"
    CONTINUE = "continue"
    TRANSFER_OUTPUT = "transfer output"
    REQUEUE = "requeue"
    """Its execution ended, and it shall run again."""
    HOLD = "hold"
    RELEASE = "release"
    REMOVE = "remove"
    COMPLETE = "complete"


class IllegalJobMove(PoolError):
    """Something was to happen to a job that cannot happen in its state."""


_S, _E = JobStatus, JobEvent

MOVES: Final[Mapping[tuple[JobStatus, JobEvent], JobStatus]] = {
    (_S.IDLE, _E.START): _S.RUNNING,
    (_S.IDLE, _E.HOLD): _S.HELD,
    (_S.IDLE, _E.REMOVE): _S.REMOVED,
    (_S.IDLE, _E.COMPLETE): _S.COMPLETED,  # a job with `noop_job = true` never runs
    (_S.RUNNING, _E.SUSPEND): _S.SUSPENDED,
    (_S.RUNNING, _E.TRANSFER_OUTPUT): _S.TRANSFERRING_OUTPUT,
    (_S.RUNNING, _E.REQUEUE): _S.IDLE,
    (_S.RUNNING, _E.HOLD): _S.HELD,
    (_S.RUNNING, _E.REMOVE): _S.REMOVED,
    (_S.RUNNING, _E.COMPLETE): _S.COMPLETED,
    (_S.SUSPENDED, _E.CONTINUE): _S.RUNNING,
    (_S.SUSPENDED, _E.REQUEUE): _S.IDLE,
    (_S.SUSPENDED, _E.HOLD): _S.HELD,
    (_S.SUSPENDED, _E.REMOVE): _S.REMOVED,
    (_S.SUSPENDED, _E.COMPLETE): _S.COMPLETED,
    (_S.TRANSFERRING_OUTPUT, _E.REQUEUE): _S.IDLE,
    (_S.TRANSFERRING_OUTPUT, _E.HOLD): _S.HELD,
    (_S.TRANSFERRING_OUTPUT, _E.REMOVE): _S.REMOVED,
    (_S.TRANSFERRING_OUTPUT, _E.COMPLETE): _S.COMPLETED,
    (_S.HELD, _E.RELEASE): _S.IDLE,
    (_S.HELD, _E.REMOVE): _S.REMOVED,
    (_S.COMPLETED, _E.REMOVE): _S.REMOVED,  # it stayed in the queue because of LeaveJobInQueue
}

EXECUTING: Final = frozenset({_S.RUNNING, _S.SUSPENDED, _S.TRANSFERRING_OUTPUT})
"""The states of a job whose execution nobody has called off."""

OVER: Final = frozenset({_S.COMPLETED, _S.REMOVED})
"""The states that a job can only leave by leaving the queue."""


def step(status: JobStatus, event: JobEvent) -> JobStatus:
    """The state after `event`; IllegalMove when it cannot happen now."""
    try:
        return MOVES[status, event]
    except KeyError:
        raise IllegalJobMove(f"a job that is {status.name.lower()} cannot {event.value}") from None


def allowed(status: JobStatus, event: JobEvent) -> bool:
    """Whether `event` can happen to a job in this state."""
    return (status, event) in MOVES
