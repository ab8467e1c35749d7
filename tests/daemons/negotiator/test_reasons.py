"""Situations of share, priority, quota, limit and preemption: what the negotiator says of a job after a real cycle.

The sentences are those that `pool why` prints. What expressions and states of jobs come to is in
`tests/minipool/cli/test_why_sentences.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from pool.classad import expr
from protocol.messages.collector import AdUpdate
from protocol.messages.negotiator import ResourceRequest, SetPriority, SubmitterHolds
from tests.daemons.negotiator.test_explaining import ask
from tests.daemons.negotiator.test_negotiator import a_pool, a_schedd, a_slot, publish, wants
from tests.daemons.one_host import OneHost

Clock = trio.testing.MockClock
ALICE, BOB, CAROL = "alice@pool.test", "bob@pool.test", "carol@pool.test"
IN_A, OTHER_IN_A = "group_a.alice@pool.test", "group_a.bob@pool.test"


def held(by: str, name: str = "slot1@ep1", **attributes: object) -> AdUpdate:
    """A static slot in which a job runs."""
    given = {"Rank": 0.0, "CurrentRank": 0.0, "RetirementTimeRemaining": 0, **attributes}
    return a_slot(name, State="Claimed", RemoteOwner=by, RemoteUser=by, **given)


def free(count: int = 1) -> tuple[AdUpdate, ...]:
    return tuple(a_slot(f"slot1@free{number}") for number in range(1, count + 1))


@dataclass(frozen=True)
class Situation:
    """`others` is what schedds want beside the job that is asked about."""

    says: tuple[str, ...]
    slots: tuple[AdUpdate, ...] = ()
    others: tuple[ResourceRequest, ...] = ()
    knobs: Mapping[str, str] = field(default_factory=dict)
    accounts: tuple[tuple[str, str, float], ...] = ()
    submitter: str = ALICE
    job: Mapping[str, object] = field(default_factory=dict)

    def holds(self) -> dict[str, str]:
        found = ((one.ad.eval_str("Name", ""), one.ad.eval_str("RemoteOwner", "")) for one in self.slots)
        return {name: holder for name, holder in found if holder}


def of_limit(name: str, amount: str, **knobs: str) -> Situation:
    """Bob's jobs, who comes first, have all that there is."""
    return Situation(
        (f"Concurrency limit {amount}.",),
        free(3),
        (wants(BOB, ConcurrencyLimits=name, number=2),),
        knobs,
        ((BOB, "PriorityFactor", 1.0),),
        job={"ConcurrencyLimits": name},
    )


def of_group(said: str, use: int, **knobs: str) -> Situation:
    """Somebody of alice's group has `use` slots, and others are free."""
    slots = tuple(held(OTHER_IN_A, f"slot1@ep{number}") for number in range(use))
    return Situation((said,), (*slots, *free(2)), knobs={"GROUP_NAMES": "group_a", **knobs}, submitter=IN_A)


def of_preemption(why: str, slot: Mapping[str, object] | None = None, **knobs: str) -> Situation:
    """Bob has the one slot, and does not make way."""
    return Situation(
        (
            f"1 slot in use would suit it, but nobody has to make way: {why}."
            " In use are 1 slot by bob@pool.test (effective priority 1000).",
            "alice@pool.test has 0 slots at effective priority 500; lower is better.",
        ),
        (held(BOB, **(slot or {})),),
        knobs=knobs,
        accounts=((ALICE, "PriorityFactor", 1000.0), (BOB, "PriorityFactor", 2000.0)),
    )


def came_first(
    said: str, *others: ResourceRequest, accounts: tuple[tuple[str, str, float], ...] = (), has: int = 0
) -> Situation:
    """There are as many free slots as others want; alice `has` some in the end."""
    count = sum(one.count for one in others)
    return Situation(
        (
            f"In the last minute other jobs came first, by priority and share: {said}."
            f" alice@pool.test has {has} slot{'' if has == 1 else 's'} at effective priority 500; lower is better.",
        ),
        free(count),
        others,
        accounts=((ALICE, "PriorityFactor", 1000.0), *accounts),
    )


BY_PRIORITY = {"PREEMPTION_REQUIREMENTS": "true"}
SITUATIONS = {
    # Limits.
    "a license is used up": of_limit("license", "license reached: 1 of 1 are in use", LICENSE_LIMIT="1"),
    "a license is withdrawn": of_limit("license", "license reached: 0 of 0 are in use", LICENSE_LIMIT="0"),
    "too few are left of several": of_limit(
        "db:3", "db reached: 3 of 5 are in use, and the job needs 3", DB_LIMIT="5"
    ),
    "the default limit": of_limit("other", "other reached: 1 of 1 are in use", CONCURRENCY_LIMIT_DEFAULT="1"),
    "the default of a set": of_limit(
        "large.sw", "large.sw reached: 1 of 1 are in use", CONCURRENCY_LIMIT_DEFAULT_LARGE="1"
    ),
    # Quotas and ceilings.
    "a quota": of_group("The quota of the group group_a allows no more than 1.", 1, GROUP_QUOTA_group_a="1"),
    "a part of the pool": of_group(
        "The quota of the group group_a allows no more than 2.", 2, GROUP_QUOTA_DYNAMIC_group_a="0.5"
    ),
    "no quota at all": of_group("The quota of the group group_a allows no more than 0.", 0, GROUP_QUOTA_group_a="0"),
    "the quota of a group above": Situation(
        ("The quota of the group group_p allows no more than 1.",),
        (held("group_p.b.bob@pool.test"), *free(2)),
        knobs={
            "GROUP_NAMES": "group_p, group_p.a, group_p.b",
            "GROUP_QUOTA_group_p": "1",
            "GROUP_QUOTA_group_p.a": "1",
            "GROUP_QUOTA_group_p.b": "1",
        },
        submitter="group_p.a.alice@pool.test",
    ),
    "a ceiling": Situation(
        ("The ceiling of alice@pool.test allows no more than 1.",),
        (held(ALICE), *free()),
        accounts=((ALICE, "Ceiling", 1.0),),
    ),
    "a ceiling of nothing": Situation(
        ("The ceiling of alice@pool.test allows no more than 0.",), free(), accounts=((ALICE, "Ceiling", 0.0),)
    ),
    # Priority and share.
    "a better priority": came_first(
        "1 slot to bob@pool.test (effective priority 50)",
        wants(BOB, 1, number=2),
        accounts=((BOB, "PriorityFactor", 100.0),),
    ),
    "two better priorities": came_first(
        "1 slot to bob@pool.test (effective priority 10), 1 slot to carol@pool.test (effective priority 20)",
        wants(BOB, 1, number=2),
        wants(CAROL, 1, number=3),
        accounts=((BOB, "PriorityFactor", 20.0), (CAROL, "PriorityFactor", 40.0)),
    ),
    "own jobs of a higher priority": came_first(
        "1 slot to alice@pool.test (effective priority 500)", wants(ALICE, 1, number=2), has=1
    ),
    "a share that is used": Situation(
        (
            "In the last minute other jobs came first, by priority and share:"
            " 1 slot to bob@pool.test (effective priority 600)."
            " alice@pool.test has 1 slot at effective priority 500; lower is better.",
        ),
        (held(ALICE, Requirements=expr("TARGET.RequestCpus > 1")), *free()),
        (wants(BOB, 1, number=2),),
        accounts=((ALICE, "PriorityFactor", 1000.0), (BOB, "PriorityFactor", 1200.0)),
    ),
    "somebody below his floor": came_first(
        "1 slot to bob@pool.test (effective priority 5000)",
        wants(BOB, 1, number=2),
        accounts=((BOB, "PriorityFactor", 10000.0), (BOB, "Floor", 1.0)),
    ),
    # Preemption.
    "no preemption": of_preemption(
        "NEGOTIATOR_CONSIDER_PREEMPTION is false", NEGOTIATOR_CONSIDER_PREEMPTION="false", **BY_PRIORITY
    ),
    "no preemption by priority": of_preemption(
        "PREEMPTION_REQUIREMENTS is false, and the slots' Rank is not higher", PREEMPTION_REQUIREMENTS="false"
    ),
    "retirement time": of_preemption(
        "the jobs have retirement time left (MaxJobRetirementTime)", {"RetirementTimeRemaining": 3600}, **BY_PRIORITY
    ),
    "an owner who prefers what runs": of_preemption(
        "the slots' Rank prefers the jobs that run", {"CurrentRank": 5.0}, **BY_PRIORITY
    ),
    "requirements of preemption": of_preemption(
        "PREEMPTION_REQUIREMENTS does not hold", PREEMPTION_REQUIREMENTS="RemoteUserPrio > SubmitterUserPrio * 3"
    ),
    # Who is served.
    "a job constraint": Situation(
        ("The negotiator's NEGOTIATOR_JOB_CONSTRAINT leaves the job out.",),
        free(),
        knobs={"NEGOTIATOR_JOB_CONSTRAINT": "RequestCpus > 1"},
    ),
    "a submitter constraint": Situation(
        ("The negotiator's NEGOTIATOR_SUBMITTER_CONSTRAINT leaves the submitter out.",),
        free(),
        knobs={"NEGOTIATOR_SUBMITTER_CONSTRAINT": 'Name == "bob@pool.test"'},
    ),
}  # fmt: skip


async def until_known(host: OneHost, slots: int) -> None:
    while (await ask(host)).analysis.slots < slots:
        await trio.sleep(0.1)


@pytest.mark.parametrize("name", SITUATIONS)
async def test_the_negotiator_names_what_keeps_a_job_back(name: str, tmp_path: Path, autojump_clock: Clock) -> None:
    one = SITUATIONS[name]
    async with a_pool(tmp_path, **one.knobs) as host, a_schedd(host) as schedd:
        assert schedd.peer is not None
        for submitter, attribute, value in one.accounts:
            await schedd.peer.call(SetPriority(submitter=submitter, attribute=attribute, value=value))
        await publish(host, *one.slots)
        await until_known(host, len(one.slots))
        for holder in one.holds().values():
            had = schedd.in_use.get(holder, SubmitterHolds(slots=0, weight=0.0))
            schedd.in_use[holder] = SubmitterHolds(slots=had.slots + 1, weight=had.weight + 1.0)
        await schedd.announce(*one.others, wants(one.submitter, **one.job), held=one.holds())
        await schedd.until_rejected()
        assert tuple((await ask(host, one.submitter, **one.job)).reasons) == one.says
