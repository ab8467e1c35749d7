"""`condor_watch_q -exit GROUPER,STATUS[,EXIT]`: when a watch is over before the jobs are, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from minipool.client.progress import Batch
from pool.base.errors import UserError
from pool.base.ids import is_number

GROUPERS: Final = ("all", "any", "none")
STATES: Final = ("active", "done", "idle", "held")


class ExitCondition(NamedTuple):
    """A condition: how many of the jobs, in which state, and the exit status."""

    grouper: str
    state: str
    status: int = 0

    def is_met(self, batches: Sequence[Batch]) -> bool:
        """Whether it is true of these jobs; of no jobs nothing is true."""
        total = sum(batch.total for batch in batches)
        count = sum(_count(batch, self.state) for batch in batches)
        # "None are idle" is true of no jobs at all, and would end the watch before the first is queued.
        return total > 0 and {"all": count == total, "any": count > 0, "none": count == 0}[self.grouper]


def _count(batch: Batch, state: str) -> int:
    if state == "active":
        return batch.idle + batch.running + batch.held
    return {"done": batch.done, "idle": batch.idle, "held": batch.held}[state]


def read(text: str) -> ExitCondition:
    """One condition as it was written; UserError says what would be right."""
    grouper, _, rest = text.lower().partition(",")
    state, comma, status = rest.partition(",")
    if grouper not in GROUPERS or state not in STATES or (comma and not (is_number(status) and int(status) < 256)):
        raise UserError(
            f"-exit {text} is not a condition",
            expected=f"GROUPER,JOB_STATUS[,EXIT_STATUS] with {', '.join(GROUPERS)} and {', '.join(STATES)}",
        )
    return ExitCondition(grouper, state, int(status or 0))


def status_of(conditions: Sequence[ExitCondition], batches: Sequence[Batch]) -> int | None:
    """The exit status of the first condition that is met; None while none is."""
    return next((one.status for one in conditions if one.is_met(batches)), None)
