"""What becomes of a parallel job for which a negotiator has no slots: who leaves for it, and whether others pass it.

Source: HTCondor manual, "Preemption with Dedicated Jobs" (SCHEDD_PREEMPTION_REQUIREMENTS, SCHEDD_PREEMPTION_RANK), and
DEDICATED_SCHEDULER_USE_FIFO; that a job which no machine can run is passed, its source (dedicated_scheduler.cpp).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pool.base.words import split_list
from pool.classad import ClassAd, Expr, accepts
from pool.classad.values.truth import is_true
from pool.config import Config

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class DedicatedRules:
    """The knobs. Nobody has to leave unless `requirements` and `rank` are both there.

    `is_fifo`: a job that has some of its slots keeps them while it waits for the others. `waits_for_files`: of those
    whose files are still being spooled, too.
    """

    requirements: Expr | None
    rank: Expr | None
    is_fifo: bool
    waits_for_files: bool = False

    @classmethod
    def read(cls, config: Config) -> DedicatedRules:
        """From the configuration."""
        return cls(
            config.expr("SCHEDD_PREEMPTION_REQUIREMENTS"),
            config.expr("SCHEDD_PREEMPTION_RANK"),
            config.bool("DEDICATED_SCHEDULER_USE_FIFO"),
            config.bool("DEDICATED_SCHEDULER_WAIT_FOR_SPOOLER"),
        )


@dataclass(frozen=True)
class RunningNode(Generic[T]):
    """A node of a parallel job that runs: which job's, that job's ad, and the slot's."""

    of: T
    job: ClassAd
    slot: ClassAd

    def seen(self) -> ClassAd:
        """The slot, and what it does not say itself of the job."""
        said = {name: value for name, value in self.job.items() if name not in self.slot}
        return ClassAd(said, parent=self.slot)


@dataclass(frozen=True)
class Lacks:
    """That many slots a proc of the job lacks that has too few."""

    job: ClassAd
    count: int


def who_leaves(rules: DedicatedRules, lacks: Sequence[Lacks], nodes: Iterable[RunningNode[T]]) -> list[T]:
    """The running jobs whose slots are all that is lacking, those of the highest rank; none where they are too few."""
    if rules.requirements is None or rules.rank is None:
        return []
    left, chosen = list(nodes), dict[T, None]()
    for one in lacks:
        ranked = _ranked(rules.requirements, rules.rank, one.job, left)
        if len(ranked) < one.count:
            return []
        for node in ranked[: one.count]:
            left.remove(node)
            chosen[node.of] = None
    return list(chosen)


def _ranked(requirements: Expr, rank: Expr, job: ClassAd, nodes: Sequence[RunningNode[T]]) -> list[RunningNode[T]]:
    found = []
    for node in nodes:
        slot = node.seen()
        if is_true(requirements.eval(slot, job)) and accepts(job, node.slot) and accepts(node.slot, job):
            value = rank.eval(slot, job)
            if isinstance(value, bool | int | float):  # one that is no number makes no candidate
                found.append((float(value), node))
    return [node for _, node in sorted(found, key=lambda one: one[0], reverse=True)]


def is_possible(jobs: Sequence[ClassAd], slots: Sequence[ClassAd]) -> bool:
    """Whether each proc could run on one of the machines of these slots, were the machine empty."""
    machines = [_empty(slot) for slot in slots]
    return all(any(accepts(job, slot) and accepts(slot, job) for slot in machines) for job in jobs)


def _empty(slot: ClassAd) -> ClassAd:
    """The slot's machine as a slot of its own."""
    whole = slot.copy()
    for name in split_list(slot.eval_str("MachineResources") or "Cpus Memory Disk"):
        total = slot.get(f"Total{name}")
        if total is not None:
            whole[name] = total
    return whole
