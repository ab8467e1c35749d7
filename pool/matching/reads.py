"""Which attributes of jobs slots read, and the negotiator's own expressions.

Schedds announce jobs that are alike as one request; jobs that differ in one of these are not. A schedd learns by a
match what the slot reads, but from one that takes none of its jobs it never would. In the negotiator's expressions
names that every slot has are its own, where no scope says otherwise. Of NEGOTIATOR_JOB_CONSTRAINT all names are the
job's.

Source: HTCondor manual, "Configuration Macros" (NEGOTIATOR_JOB_CONSTRAINT, NEGOTIATOR_PRE_JOB_RANK).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from pool.classad import ClassAd, Expr
from pool.classad.eval.readings import Reading, Readings
from pool.classad.syntax.nodes import Node, Ref, Select, children
from pool.jobs.waiting.autoclusters import ALWAYS, SLOT_EXPRESSIONS

NAMES_MAX: Final = 500
"""How many attributes of jobs count because slots read them: with each, schedds have more to compare."""
_WORDS: Final = """
Activity Arch Cpus CurrentRank Disk EnteredCurrentState GPUs KFlops Machine Memory Mips MyType Name Offline
OpSys PartitionableSlot PreemptingUser Rank RemoteAutoregroup RemoteGroup RemoteGroupQuota
RemoteGroupResourcesInUse RemoteNegotiatingGroup RemoteOwner RemoteUser RemoteUserFloor RemoteUserPrio
RemoteUserResourcesInUse SlotID SlotWeight State SubmitterAutoregroup SubmitterGroup SubmitterGroupQuota
SubmitterGroupResourcesInUse SubmitterNegotiatingGroup SubmitterUserPrio SubmitterUserResourcesInUse
TotalJobRunTime
"""
"""Also what the negotiator adds when it asks PREEMPTION_REQUIREMENTS and PREEMPTION_RANK."""
_OF_SLOTS: Final = ClassAd(dict.fromkeys(_WORDS.split(), True))
_ANOTHERS: Final = frozenset(name.lower() for name in _OF_SLOTS if name.startswith("Submitter"))


def read_of_jobs(of_slots: Iterable[Expr | None], of_jobs: Expr | None) -> set[str]:
    """The names that these expressions read of jobs: some are asked of a slot about a job, one of the job itself."""
    names: set[str] = set()
    for expression in of_slots:
        if expression is not None:
            names |= {name for name in expression.references(_OF_SLOTS)[1] if name.lower() not in _ANOTHERS}
    if of_jobs is not None:
        names |= of_jobs.references()[1] | set(_named_by_my(of_jobs.node))
    return names


def _named_by_my(node: Node) -> Iterator[str]:
    if isinstance(node, Select) and isinstance(node.base, Ref) and node.base.key == "my":
        yield node.name
    for child in children(node):
        yield from _named_by_my(child)


class SlotsRead:
    """What the slots that there are read of jobs.

    What tells jobs apart in any case is left out, so that in most pools there is nothing to tell.
    """

    def __init__(self) -> None:
        self._readings = Readings(*SLOT_EXPRESSIONS)
        self._of: dict[str, Reading] = {}
        self._slots: Counter[str] = Counter()
        """How many of them read each name."""

    @property
    def names(self) -> frozenset[str]:
        """In lower case; where slots read too many, those that most of them read."""
        return frozenset(name for name, _ in self._slots.most_common(NAMES_MAX))

    def learn(self, slot: str, ad: ClassAd) -> None:
        """Take in the expressions of a slot."""
        before = self._of.get(slot)
        if before is None or not before.holds_for(ad):
            self.forget(slot)
            self._of[slot] = reading = self._readings.of(ad)
            self._slots.update(reading.theirs - ALWAYS)

    def forget(self, slot: str) -> None:
        """It is gone."""
        before = self._of.pop(slot, None)
        for name in before.theirs - ALWAYS if before is not None else ():
            self._slots[name] -= 1
            if not self._slots[name]:
                del self._slots[name]
