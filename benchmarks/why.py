"""Why jobs do not run, asked of a large pool: `pool why` and `condor_q -better-analyze` beside `condor_version`.

The slots are synthetic, like those of the suite `collector`; a real negotiator knows them. One job suits none of them,
one suits all and is kept back by a concurrency limit. Then all slots are in use, and nobody has to make way. The slots'
ads do not change between questions, so that the first question is told apart from those after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.collector import a_slot_of_the_pool, advertise, connected, like, timed
from benchmarks.measure import Figure, p50
from benchmarks.pool_run import Bench, bench

SLOTS: Final = 5_000
TOOLS: Final = 7
KNOBS: Final = {"NUM_CPUS": "1", "START": "False", "LICENSE_LIMIT": "0"}
JOB: Final = "executable = /bin/true\nconcurrency_limits = license\nrequirements = {requirements}\nqueue\n"
JOBS: Final = {
    "suits no slot": "TARGET.Memory >= 99999999",
    "suits all, a limit keeps it back": "TARGET.Memory >= 1",
    "calls functions": 'TARGET.Memory >= 1 && regexp("pool", TARGET.Machine) && size(split(TARGET.Name, "@")) == 2',
}
HELD: Final = {"State": "Claimed", "Activity": "Busy", "RemoteOwner": "bob@here", "RemoteUser": "bob@here"}


def figures() -> Iterator[Figure]:
    """The suite."""
    with bench(KNOBS) as pool, connected(pool) as peer:
        model = pool.until(lambda: a_slot_of_the_pool(peer), "the pool's own slot")
        model["Start"] = True
        slots = [like(model, number) for number in range(SLOTS)]
        advertise(peer, slots, 1)
        version = p50([timed(lambda: pool.tool("condor_version", cwd=pool.home)) for _ in range(TOOLS)])
        yield Figure("condor_version, to compare", version, "s", f"median of {TOOLS} runs")
        for name, requirements in JOBS.items():
            cluster = pool.submit(JOB.format(requirements=requirements), cwd=pool.home)
            yield from _questions(pool, cluster, name, version)
        for slot in slots:
            slot.update(HELD)
        advertise(peer, slots, 2)
        free = "executable = /bin/true\nrequirements = TARGET.Memory >= 1\nqueue\n"
        cluster = pool.submit(free, cwd=pool.home)
        yield from _questions(pool, cluster, "suits all, which are in use", version, seen=f"{SLOTS} slots in use")


def _questions(
    pool: Bench, cluster: int, name: str, version: float, *, seen: str = f"Of {SLOTS + 1} slots"
) -> Iterator[Figure]:
    """`seen`: what the answer says once the negotiator has taken in what was advertised; it is busy till then."""
    job = f"{cluster}.0"
    better = partial(pool.tool, "condor_q", "-better-analyze", job, cwd=pool.home)
    pool.until(lambda: seen in better(), "all slots at the negotiator")
    for tool, ask in (("pool why", partial(pool.tool, "pool", "why", job, cwd=pool.home)), ("-better-analyze", better)):
        took = p50([timed(ask) for _ in range(TOOLS)])
        how = f"of {SLOTS} slots, median of {TOOLS} runs, {took / version:.0f} times condor_version"
        yield Figure(f"{tool} of a job that {name}", took, "s", how, "< 0.3")
