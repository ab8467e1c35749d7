"""What came of comparing a job with slots, and the sentences that it makes.

Tools read it without what makes it (`explain.py`). It does without annotations of the future, which cost what starts
often 3 ms (see docs/architecture.md).
"""

from typing import Final, NamedTuple

UNITS: Final = {"requestmemory": "mb", "requestdisk": "kb", "diskusage": "kb", "imagesize": "kb"}


class NumberedCondition(NamedTuple):
    """A condition with its number; one that joins others names them by theirs."""

    number: int
    text: str


class Attribute(NamedTuple):
    """One of the job's, as it is written, and its unit."""

    name: str
    text: str
    unit: str


class Best(NamedTuple):
    """The greatest value that slots have of an attribute, as "Memory is 8192"."""

    attribute: str
    said: str


class ConditionRow(NamedTuple):
    """A condition that decides: how many slots it is true for now, and if they were drained; None: the same for all."""

    number: int
    matched: int | None
    drained: int | None
    always: bool | None
    condition: str
    joins: bool = False  # it joins others


class Analysis(NamedTuple):
    """What came of comparing a job with slots. Counts are of slots; `attributes` are the job's that matter."""

    requirements: str
    clauses: tuple[NumberedCondition, ...]
    table: tuple[ConditionRow, ...]
    attributes: tuple[Attribute, ...]
    slots: int
    machines: int
    rejected_by_job: int
    reject_job: int
    willing: int
    if_drained: int
    best: tuple[Best, ...] = ()  # the greatest value of an attribute that too small ones are compared with
    refusals: tuple[str, ...] = ()
    takers: int = 0  # of the willing slots, those that are free and can give what the job asks for
    obstacles: tuple[str, ...] = ()
    may_drain: bool = False  # some slot is partitionable
    change: str = ""  # a sentence: what, were it alone otherwise, would make most slots suit a job that suits none

    @property
    def matches_nothing(self) -> bool:
        """Whether no slot would have the job, now or drained."""
        return self.willing == 0 and self.if_drained == 0

    def sentences(self) -> list[str]:
        """Why the job does not start, as a user reads it; nothing when some slot could take it now."""
        if not self.slots:
            return ["The pool has no slots."]
        if self.takers:
            return []
        if self.willing:
            return list(self.obstacles)
        if self.if_drained:
            return [f"{counted(self.if_drained)} would match, but other jobs are using them now: the job waits."]
        best = dict(self.best)
        said = []
        for row in self.table:
            if not row.joins and (row.matched == 0 or row.always is False):
                known = next((f"; the best of {best[name]}" for name in best if name in row.condition), "")
                said.append(f"No slot meets the condition {row.condition}{known}.")
        change = [self.change] if self.change and not said else []
        if not said and self.rejected_by_job == self.slots:
            parts = [row.condition for row in self.table if row.matched not in (None, self.slots) and not row.joins]
            said.append(f"Each of these is true for some slot, but for none all of them: {', '.join(parts)}.")
        if self.reject_job:
            said.append(f"{counted(self.reject_job)} {'refuses' if self.reject_job == 1 else 'refuse'} the job.")
            said += self.refusals
        return said + change


def counted(count: int) -> str:
    """So many slots, in words."""
    return f"{count} slot{'' if count == 1 else 's'}"
