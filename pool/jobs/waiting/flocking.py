"""Which further pools a submitter's jobs are offered to: the pools in their order, and each submitter's flock level.

A submitter of level n is known to the first n pools besides the home one. The level grows by FLOCK_INCREMENT when the
last of those has had no slot for a job, or has said nothing for long; it falls back to a pool's place when that
pool has taken the last job that waited, and never below MIN_FLOCK_LEVEL.

HTCondor's manual: grid-computing/connecting-pools-with-flocking, admin-manual/configuration/schedd (FLOCK_TO).
Source: negotiationFinished and JobCanFlock of HTCondor's schedd.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pool.base.words import split_list
from pool.classad import ClassAd

QUIET_INTERVALS: int = 2
"""So many SCHEDD_INTERVALs without a word from the last pool that was asked, and the next one is asked as well."""


@dataclass(frozen=True, slots=True)
class FlockPool:
    """Another pool: its collector, by which it goes, and its negotiator."""

    name: str
    negotiator: str


@dataclass(frozen=True, slots=True)
class FlockRules:
    """The further pools, in order of preference, and how soon they are asked."""

    pools: tuple[FlockPool, ...] = ()
    increment: int = 1
    least: int = 0
    by_default: bool = True
    trouble: str = ""
    """Why there are none though some are named."""

    @classmethod
    def of(
        cls, collectors: list[str], negotiators: list[str], increment: int, least: int, by_default: bool
    ) -> FlockRules:
        """From the lists of the configuration; of different lengths they make no pools."""
        if negotiators and len(negotiators) != len(collectors):
            trouble = "FLOCK_COLLECTOR_HOSTS and FLOCK_NEGOTIATOR_HOSTS are not of the same length: no jobs flock"
            return cls(trouble=trouble)
        pools = tuple(map(FlockPool, collectors, negotiators or collectors))
        return cls(pools, max(1, increment), min(max(0, least), len(pools)), by_default)

    def may_flock(self, job: ClassAd, pool: str) -> bool:
        """Whether the job may run in that pool; "" is the home pool, where every job may."""
        if not pool or (self.by_default and any(one.name == pool for one in self.pools)):
            return True
        named = {name.casefold() for name in split_list(job.eval_str("FlockTo", ""))}
        return pool.casefold() in named or ("default" in named and any(one.name == pool for one in self.pools))


@dataclass(slots=True)
class _Standing:
    level: int
    heard_at: float


@dataclass(slots=True)
class FlockLevels:
    """The level of each submitter; level 0 is the home pool. Other rules count as soon as they are set."""

    rules: FlockRules
    _standing: dict[str, _Standing] = field(default_factory=dict)

    def level(self, submitter: str) -> int:
        """How many of the further pools hear of the submitter's jobs."""
        found = self._standing.get(submitter)
        if found is None:
            return self.rules.least
        return min(max(found.level, self.rules.least), len(self.rules.pools))  # there may be fewer than there were

    def all(self) -> dict[str, int]:
        """The levels of those who have had another than the least."""
        return {name: self.level(name) for name in self._standing}

    def highest(self, submitters: Iterable[str]) -> int:
        """How many pools hear of one of these."""
        return max(map(self.level, submitters), default=self.rules.least)

    def unsatisfied(self, submitter: str, level: int, now: float) -> bool:
        """The pool of this level had no slot for a job: whether the submitter's level is another now."""
        before = self.level(submitter)
        if before != level:  # the last pool that was asked decides, and has not spoken
            return False
        self._set(submitter, level + self.rules.increment, now)
        return self.level(submitter) != before

    def satisfied(self, submitter: str, level: int, now: float) -> bool:
        """The pool of this level took the last job that waited: whether the submitter's level is another now."""
        before = self.level(submitter)
        self._set(submitter, min(before, level), now)
        return self.level(submitter) != before

    def quiet(self, submitters: Iterable[str], now: float, patience_s: float) -> list[str]:
        """Of those whose jobs wait, whom no pool has answered for so long; their levels have grown."""
        waiting = set(submitters)
        for name in self._standing.keys() - waiting:
            if self._standing[name].level <= self.rules.least:
                del self._standing[name]
        grown = []
        for name in waiting:
            standing = self._standing.setdefault(name, _Standing(self.rules.least, now))
            if now - standing.heard_at > patience_s and self.unsatisfied(name, self.level(name), now):
                grown.append(name)
        return grown

    def _set(self, submitter: str, level: int, now: float) -> None:
        most = len(self.rules.pools)
        self._standing[submitter] = _Standing(max(self.rules.least, min(level, most)), now)
