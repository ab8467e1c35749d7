"""Jobs that look alike to every slot.

Two jobs are of one autocluster when they agree in all *significant* attributes: those that jobs' Requirements and Rank
read, those that slots read of jobs, unless REMOVE_SIGNIFICANT_ATTRIBUTES has them, and those of
ADD_SIGNIFICANT_ATTRIBUTES. When a slot is met that reads one more, all that waits is sorted anew (`generation`;
`pool/jobs/waiting/groups.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from pool.classad import UNDEFINED, ClassAd, Expr, Member
from pool.classad.eval.expression import node_of
from pool.classad.eval.readings import Readings
from pool.classad.eval.references import reads
from pool.classad.values.attrs import SCOPE_NAMES
from pool.classad.values.kept import Kept
from pool.classad.values.value import PLAIN
from pool.jobs.queue.cluster import Cluster, Job, any_may_have
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.vocabulary.own_attributes import MADE_UP

ALWAYS: Final = frozenset(
    name.lower()
    for name in (
        "RequestCpus",
        "RequestDisk",
        "RequestGPUs",
        "RequestMemory",
        "ConcurrencyLimits",
        "FlockTo",
        "Rank",
        "Requirements",
        "NiceUser",
        "AccountingGroup",
        "JobUniverse",
        "JobLeaseDuration",
    )
)
"""What matters whether anybody refers to it or not."""

NOT_ANNOUNCED: Final = frozenset({"args", "arguments", "env", "environment", "submitevent", "transferinput"})
"""Attributes that can be long and are no use to a negotiator, unless they are significant."""

STEADY: Final = frozenset(
    {
        *(
            "ifthenelse",
            "isundefined",
            "iserror",
            "isboolean",
            "isinteger",
            "isreal",
            "isstring",
            "int",
            "real",
            "string",
        ),
        *(
            "min",
            "max",
            "floor",
            "ceiling",
            "round",
            "quantize",
            "strcat",
            "substr",
            "size",
            "tolower",
            "toupper",
            "strcmp",
        ),
        *("stricmp", "regexp", "member", "stringlistmember", "stringlistimember", "stringlistsize", "split"),
        *("versioncmp", "versiongt", "versionge", "versionlt", "versionle", "versioneq", "versioninrange"),
    }
)
"""Functions whose answer never changes."""

FOLLOWED_MAX: Final = 4
"""How often an expression may lead from one ad of a match to the other."""
SLOT_NAMES_MAX: Final = 1000
"""How many attributes are significant for slots alone, also for such that are gone; a negotiator tells of fewer."""
NUMBERS_BYTES_MAX: Final = 64 << 20
"""Of what jobs have looked like. Jobs that look as others did whom that has forgotten get another number than they."""
_BYTES_EACH: Final = 500
SLOT_EXPRESSIONS: Final = ("Requirements", "Start", "Rank", "WithinResourceLimits")


class Autoclusters:
    """Gives each job the number of its autocluster."""

    def __init__(self, queue: JobQueue, added: Iterable[str] = (), removed: Iterable[str] = ()) -> None:
        self._queue = queue
        self._added, self._removed = _lower(added), _lower(removed)
        self._significant: set[str] = set((ALWAYS | self._added) - self._removed)
        self._of_slots: set[str] = set()
        """What is significant for slots alone."""
        self.generation = 1
        self._numbers: Kept[tuple[object, ...], int] = Kept(NUMBERS_BYTES_MAX)
        self._jobs, self._slots = Readings("Requirements", "Rank"), Readings(*SLOT_EXPRESSIONS)
        self._next = 1

    def configure(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """ADD_SIGNIFICANT_ATTRIBUTES and REMOVE_SIGNIFICANT_ATTRIBUTES say this now."""
        before = self._added, self._removed
        self._added, self._removed = _lower(added), _lower(removed)
        if (self._added, self._removed) != before:
            kept = self._significant - before[0]
            self._significant = (kept | ALWAYS | self._added) - self._removed
            self._sort_anew()

    @property
    def significant(self) -> frozenset[str]:
        """The significant attributes, in lower case."""
        return frozenset(self._significant)

    def shown(self) -> str:
        """AutoClusterAttrs, as job ads show it."""
        return ",".join(sorted(self._significant))

    def learn_slot(self, slot: ClassAd) -> bool:
        """Take in what a slot's policy reads of jobs; whether that is news, so that all must be sorted anew."""
        return self.learn_names(self._slots.of(slot).theirs)

    def learn_names(self, names: Iterable[str]) -> bool:
        """A slot reads these, or a negotiator: all that it reads by now; whether that is news, as above."""
        read = _lower(names) - self._removed
        new = self._news(read)
        if len(self._of_slots) + len(new) > SLOT_NAMES_MAX:  # most of them are of slots that are gone
            self._significant -= self._of_slots
            self._of_slots.clear()
            new = self._news(read)
        self._of_slots |= new
        return self._add(new)

    def number_of(self, job: Job) -> int:
        """The autocluster of a job."""
        number = self.number_of_cluster(job.cluster)
        if not self._differs(job):
            return number
        ad = self._queue.ad(job)
        self._learn_job(ad)
        return self._number(ad)

    def may_differ(self, jobs: Iterable[Job]) -> bool:
        """Whether one of these jobs of a cluster may be of another autocluster than the cluster itself."""
        if not MADE_UP.isdisjoint(self._significant):
            return True
        return any_may_have(jobs, self._significant)

    def number_of_cluster(self, cluster: Cluster) -> int:
        """The autocluster of those jobs of a cluster that do not differ from it."""
        if cluster.autocluster is None or cluster.autocluster[0] != self.generation:
            self._learn_job(cluster.ad)
            cluster.autocluster = (self.generation, self._number(cluster.ad))
        return cluster.autocluster[1]

    def _differs(self, job: Job) -> bool:
        """Whether the job has a significant attribute of its own; rather too often than too seldom."""
        if not MADE_UP.isdisjoint(self._significant):
            return True
        if job.live_ad is not None:  # what was just changed is not packed yet
            return not self._significant.isdisjoint(job.live_ad.attrs)
        return job.may_have(self._significant)

    def _learn_job(self, ad: ClassAd) -> None:
        reading = self._jobs.of(ad)
        read = reading.own | reading.lacking  # what the cluster lacks, one of its jobs may have, or get as it runs
        self._of_slots -= read
        self._add(self._news(read))

    def _news(self, names: Set[str]) -> Set[str]:
        return names - self._significant - SCOPE_NAMES

    def _add(self, new: Set[str]) -> bool:
        if not new:
            return False
        self._significant |= new
        self._sort_anew()
        return True

    def _sort_anew(self) -> None:
        self.generation += 1
        self._numbers = Kept(NUMBERS_BYTES_MAX)

    def _number(self, ad: ClassAd) -> int:
        key = tuple(_key(ad.get(name)) for name in sorted(self._significant))
        number = self._numbers.find(key)
        if number is None:
            number = self._next
            self._next += 1
            self._numbers.put(key, number, _BYTES_EACH + sum(len(one) for one in key if isinstance(one, str)))
        return number

    def representative(self, ad: ClassAd) -> ClassAd:
        """What the negotiator is told of a job: its ad less what no slot could care about."""
        hidden = NOT_ANNOUNCED - self._significant
        return ad.project(name for name in ad if name.lower() not in hidden)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def is_timeless(job: ClassAd, slot: ClassAd) -> bool:
    """Whether job and slot think of each other for ever what they think now: nothing that they read moves."""
    return all(_is_steady(job, name, slot) for name in ("Requirements", "ConcurrencyLimits")) and all(
        _is_steady(slot, name, job) for name in ("Requirements", "Rank")
    )


def _is_steady(ad: ClassAd, name: str, other: ClassAd, depth: int = FOLLOWED_MAX) -> bool:
    """Whether an attribute of an ad, and what it reads of the other ad, says always the same."""
    value = ad.get(name, UNDEFINED)
    if type(value) in PLAIN:
        return True
    names, calls = reads(node_of(value), ad.attrs)
    if not depth or "currenttime" in names or not calls <= STEADY:
        return False
    return all(_is_steady(other, read, ad, depth - 1) for read in names)


def _key(value: Member | None) -> object:
    if isinstance(value, Expr):
        return value.text
    if isinstance(value, bool | float):
        return (type(value).__name__, value)
    return value if isinstance(value, int | str | None) else str(value)
