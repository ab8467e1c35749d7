"""The submitters in the course of a cycle: what each wants still, what he holds by now, and how he stands in his group.

`Submitters` is also what preemption asks about those who hold slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pool.accounting.account_ads import GroupFigures
from pool.accounting.groups import Group
from pool.classad import Value
from pool.classad.eval.budget import Overruns
from pool.matching.candidates import Candidates
from pool.matching.snapshot import NEWCOMER, JobRequest, Snapshot, Standing

DEAR_MOST: Final = 8
"""Evaluations for one request that may cost much; one that ends for its cost counts twice."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """What is left of a request for a later turn, and why it got nothing in this one."""

    request: JobRequest
    why: str


class Submitter:
    """One submitter in the course of a cycle."""

    def __init__(self, name: str, standing: Standing, group: Group) -> None:
        self.name, self.standing, self.group = name, standing, group
        # Shares are inverse to it, and a table from elsewhere may have a zero.
        self.priority = max(standing.priority, 1e-9)
        self.use = standing.use
        self.evicted = 0.0
        """The weight of his slots that others were given in this cycle; what he holds until his jobs have left."""
        self.under = group
        """The group in whose turn he negotiates: his own, or that of those in no group."""
        self.requests: list[JobRequest] = []
        self.left = 0
        self.deferred: list[Deferred] = []
        self.candidates: Candidates | None = None
        self.overruns = Overruns(DEAR_MOST)

    def wants(self, requests: Iterable[JobRequest]) -> None:
        """These, in this order."""
        self.requests = list(requests)
        self._begin()

    def next_request(self) -> None:
        """Go on to jobs of lower priority."""
        self.requests.pop(0)
        self._begin()

    def defer(self, why: str) -> None:
        """The same; a later turn may have what this one has not."""
        self.deferred.append(Deferred(replace(self.requests[0], count=self.left), why))
        self.next_request()

    def defer_all(self, why: str) -> None:
        """Nothing more for him in this turn."""
        while self.requests:
            self.defer(why)

    def resume(self, under: Group | None) -> None:
        """A turn begins, of this group where there are groups: what was deferred is wanted again."""
        self.under = under or self.group
        self.wants([*(one.request for one in self.deferred), *self.requests])
        self.deferred.clear()

    def wanted_weight(self, *, weighted: bool) -> float:
        """What his waiting jobs ask for, by cores or by their number."""
        requests = [*self.requests, *(one.request for one in self.deferred)]
        return sum(one.count * (one.ad.eval_float("RequestCpus", 1.0) if weighted else 1.0) for one in requests)

    @property
    def is_waiting(self) -> bool:
        """Whether he has jobs that may still get a slot."""
        return bool(self.requests or self.deferred)

    def _begin(self) -> None:
        self.left = self.requests[0].count if self.requests else 0
        self.look_again()

    def look_again(self) -> None:
        """What was found for the present request counts no more."""
        self.candidates = None
        self.overruns = Overruns(DEAR_MOST)

    def __lt__(self, other: Submitter) -> bool:
        return self._place() < other._place()

    def _place(self) -> tuple[float, float, str]:
        return self.use * self.priority, self.priority, self.name


class Submitters:
    """All who hold slots or want some; `figures` are groups' of the present round."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._groups = snapshot, snapshot.settings.groups
        self._known: dict[str, Submitter] = {}
        self.figures: Mapping[str, GroupFigures] = {}
        wanted: dict[str, list[JobRequest]] = {}
        for request in snapshot.requests:
            if request.count > 0:
                wanted.setdefault(request.submitter, []).append(request)
        for name in {**dict.fromkeys(snapshot.standings), **wanted}:
            standing = snapshot.standings.get(name, NEWCOMER)
            self._known[name] = Submitter(name, standing, self._groups.of(name))
        for name, requests in wanted.items():
            if snapshot.settings.global_prios:  # stable: of equal JobPrio, each schedd's own order stays
                requests.sort(key=lambda request: -request.prio)
            self._known[name].wants(requests)

    def __iter__(self) -> Iterator[Submitter]:
        return iter(self._known.values())

    def waiting(self) -> list[Submitter]:
        """Those whose jobs wait."""
        return [one for one in self._known.values() if one.is_waiting]

    def used(self) -> dict[str, float]:
        """The weight that the submitters of each group themselves hold by now."""
        used = dict.fromkeys((group.name for group in self._groups), 0.0)
        for one in self._known.values():
            used[one.group.name] += one.use
        return used

    def evicted(self, submitter: str, weight: float) -> None:
        """Slots of his were given to somebody else."""
        if (one := self._known.get(submitter)) is not None:
            one.evicted += weight

    # ---- what preemption asks

    def priority(self, submitter: str) -> float | None:
        """The effective priority; None of somebody unknown."""
        standing = self._snapshot.standings.get(submitter)
        return None if standing is None else standing.priority

    def attributes(self, submitter: str, prefix: str) -> dict[str, Value]:
        """What PREEMPTION_REQUIREMENTS and PREEMPTION_RANK see of a submitter, with `Submitter` or `Remote` before."""
        one = self._known.get(submitter)
        seen: dict[str, Value] = {
            f"{prefix}UserResourcesInUse": 0.0 if one is None else max(0.0, one.use - one.evicted)
        }
        if (standing := self._snapshot.standings.get(submitter)) is not None:
            seen[f"{prefix}UserPrio"] = standing.priority
            if prefix == "Remote":
                seen["RemoteUserFloor"] = standing.floor
        if prefix == "Submitter":
            under = self._groups.root if one is None else one.under
            seen["SubmitterNegotiatingGroup"] = under.name
            seen["SubmitterAutoregroup"] = one is not None and under is not one.group
        if self._groups and submitter:
            group = self._groups.of(submitter)
            figures = self.figures.get(group.name, GroupFigures())
            seen |= {
                f"{prefix}Group": group.name,
                f"{prefix}GroupQuota": figures.quota.own,
                f"{prefix}GroupResourcesInUse": figures.used,
            }
        return seen
