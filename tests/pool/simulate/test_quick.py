"""A run without what cannot change anything comes to the same as one that holds every cycle over all that waits."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from pool.simulate.engine import Outcome, simulate
from pool.simulate.machines import read_machines
from tests.pool.simulate.test_simulate import a_job, a_machine, a_policy, a_workload

KNOBS: tuple[dict[str, str], ...] = (
    {},
    {"CLAIM_WORKLIFE": "0"},
    {"CLAIM_WORKLIFE": "-1", "NEGOTIATOR_MIN_INTERVAL": "60"},
    {"NEGOTIATOR_POST_JOB_RANK": "Cpus", "PRIORITY_HALFLIFE": "500", "CLAIM_WORKLIFE": "100"},
    {"NEGOTIATOR_DEPTH_FIRST": "true", "CLAIM_WORKLIFE": "0"},
    {"GROUP_NAMES": "physics", "GROUP_QUOTA_physics": "5", "GROUP_ACCEPT_SURPLUS": "true", "CLAIM_WORKLIFE": "0"},
    {"sw_LIMIT": "2", "CLAIM_WORKLIFE": "0"},
)
WANTS = (
    "TARGET.Cpus >= RequestCpus && TARGET.Memory >= RequestMemory",
    'TARGET.Machine != "m1"',
    "TARGET.Cpus >= RequestCpus && TARGET.HasGPU =!= true",
)
RANKS = ("0.0", "TARGET.Memory", 'ifThenElse(TARGET.Machine == "m2", 10, -TARGET.Cpus)')


def some_jobs(rng: random.Random, count: int) -> Iterable[str]:
    for number in range(count):
        more: dict[str, object] = {"JobPrio": rng.choice((0, 0, 0, 5)), "Requirements": rng.choice(WANTS)}
        more["Rank"] = rng.choice(RANKS)
        if rng.random() < 0.2:
            more["AccountingGroup"] = '"physics.ann"'
        if rng.random() < 0.1:
            more["ConcurrencyLimits"] = '"sw"'
        at, runs = 1000 + rng.randrange(3000), rng.randrange(1, 600)
        yield a_job(number, rng.choice(("ann", "bob", "cy")), at=at, runs=runs, cpus=rng.choice((1, 1, 2, 4)), **more)


def what_happened(outcome: Outcome) -> object:
    runs = [(run.job.id, run.started_at, run.ended_at, run.weight) for run in outcome.runs]
    return runs, [job.id for job in outcome.left], outcome.starved, outcome.cycles


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("knobs", KNOBS, ids=lambda knobs: ",".join(knobs) or "default")
def test_a_quick_run_comes_to_the_same(knobs: dict[str, str], seed: int) -> None:
    rng = random.Random(seed)
    limits = "sw_LIMIT" in knobs
    jobs = [job if limits else job.replace('ConcurrencyLimits = "sw"\n', "") for job in some_jobs(rng, 150)]
    whole = a_machine("w", 4, PartitionableSlot="false", Memory=512)
    text = "".join(a_machine(f"m{number}", cpus) for number, cpus in enumerate((4, 2, 4))) + whole
    slots = read_machines(text.splitlines(), file="machines")
    workload, policy = a_workload(jobs), a_policy(**knobs)
    quick, plain = (simulate(workload, slots, policy, quick=quick) for quick in (True, False))
    assert what_happened(quick) == what_happened(plain)
    assert len(quick.runs) == 150
