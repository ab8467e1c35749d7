"""What the pools that jobs flock to are told of submitters, and what the ads at home say of that.

HTCondor's manual: classad-attributes/submitter-classad-attributes (FlockedJobs, RunningJobs, SubmitterTag).
Source: fill_submitter_ad of HTCondor's schedd: of a submitter without part in a pool that pool hears nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from daemons.daemon_core.adverts import Adverts
from daemons.schedd.core.core import Core
from pool.classad import ClassAd
from pool.hosts.daemon_names import kept_name
from pool.jobs.waiting.flocking import FlockPool


class FlockAds:
    """The submitters' ads at the collectors of the further pools, in their order."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.adverts: Callable[[], dict[FlockPool, Adverts]] = dict
        """Those of the pools that jobs flock to now, in their order."""
        self._known: dict[Adverts, set[str]] = {}

    def running(self) -> Counter[tuple[str, str]]:
        """How many jobs run, by pool ("" is home) and submitter."""
        return Counter((one.claim.pool, one.claim.submitter) for one in self._core.executions.shadow_of.values())

    def state(self) -> object:
        """What makes other ads when it is another."""
        levels = self._core.flock_levels
        pools = tuple(self.adverts())
        return pools, self.running() if pools else None, levels.all() if pools else None

    def publish(self, ads: Mapping[str, ClassAd]) -> None:
        """Tell each pool of its part; `ads` are the submitters' at home."""
        running = self.running()
        in_all = Counter[str]()
        for (_, submitter), count in running.items():
            in_all[submitter] += count
        known_before, self._known = self._known, {}
        for number, (pool, adverts) in enumerate(self.adverts().items(), 1):
            idle, weights = self._idle(number, pool.name)
            known = self._known[adverts] = set()
            for submitter, ad in ads.items():
                here = running[pool.name, submitter]
                if not here and not idle[submitter]:
                    continue
                held = self._core.holdings_in(pool.name).by_submitter.get(submitter)
                told = ad.flat()
                told.update(
                    RunningJobs=here,
                    FlockedJobs=in_all[submitter] - here,
                    IdleJobs=idle[submitter],
                    WeightedRunningJobs=0 if held is None else round(held.weight),
                    WeightedIdleJobs=weights[submitter],
                    SubmitterTag=pool.name,
                )
                known.add(kept_name(told))
                adverts.put(told)
            for name in known_before.get(adverts, set()) - known:
                adverts.drop("Submitter", name)

    def _idle(self, number: int, pool: str) -> tuple[Counter[str], Counter[str]]:
        """Of each submitter that this pool hears of: how many jobs wait that may go there, and their cores."""
        core, idle, weights = self._core, Counter[str](), Counter[str]()
        for group in core.waiting.groups():
            job = group.first()
            if job is None or core.flock_levels.level(group.submitter) < number:
                continue
            ad = core.queue.ad(job)
            if core.settings.flock.may_flock(ad, pool):
                idle[group.submitter] += group.count
                weights[group.submitter] += math.ceil(group.count * (ad.eval_float("RequestCpus", 1.0) or 1.0))
        return idle, weights
