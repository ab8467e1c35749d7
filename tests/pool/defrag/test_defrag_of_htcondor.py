"""Which machines drain, and which drains are called off: what condor_defrag of HTCondor 25.14 did with the same ads.

Each line of tests/cases/defrag/looks.jsonl is a pool and a policy: the partitionable slots' ads at one look after another, and for each
of them how many machines condor_defrag counted as `draining` and as `whole`, how many it `wanted` to drain (0: none, for a reason),
which it `tried`, in this order (none of these machines answers), and whose drain it `cancelled`; then its own ad after the last look.
rates.jsonl has what it made of a rate and an interval: machines a look, more an hour, and more a day. Where `ours` says otherwise,
docs/differences.md has the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from pool.defrag.figures import DefragStatistics
from pool.defrag.plan import decide
from pool.defrag.policy import DefragPolicy
from pool.defrag.rate import Rate
from tests.pool.defrag.seen import MINE, NOW, a_machine, a_policy, a_survey

CASES: Final = Path(__file__).parents[2] / "cases" / "defrag"
LOOKS: Final = [json.loads(line) for line in (CASES / "looks.jsonl").read_text().splitlines()]
RATES: Final = [json.loads(line) for line in (CASES / "rates.jsonl").read_text().splitlines()]
INTERVAL_S: Final = 6


@pytest.mark.parametrize("case", LOOKS, ids=[case["name"] for case in LOOKS])
def test_each_look_has_the_outcome_that_it_has_with_condor_defrag(case: dict[str, Any]) -> None:
    policy = a_policy(**{"DRAINING_MACHINES_PER_HOUR": 0, "INTERVAL": INTERVAL_S, **case["config"]})
    statistics, seen = DefragStatistics(NOW), []
    for number, machines in enumerate(case["looks"]):
        seen.append(look(machines, policy, statistics, NOW + INTERVAL_S * number))
    expected = case.get("ours", case)
    assert seen == expected["seen"]
    shown = statistics.attributes(policy, NOW + INTERVAL_S * len(seen))
    assert {name: shown[name] for name in case["ad"]} == expected["ad"]


def look(
    machines: list[dict[str, Any]], policy: DefragPolicy, statistics: DefragStatistics, now: float
) -> dict[str, Any]:
    """What comes of a look at these."""
    survey = a_survey(policy, *(an_ad(**machine) for machine in machines))
    due = Rate.of(policy.machines_per_hour, policy.interval_s).due(now, now)
    plan = decide(survey, policy, due, Random(1))
    statistics.look(survey, now)
    return {
        "draining": len(survey.draining),
        "whole": len(survey.whole),
        "wanted": plan.wanted,
        "tried": [slot.startd for slot in plan.candidates],
        "cancelled": [slot.startd for slot in plan.cancel],
    }


def an_ad(Name: str, **attributes: Any) -> Any:
    ad = a_machine(Name.partition("@")[2])
    ad.update({"Name": Name, **attributes})
    if ad.get("DrainReason") == "MINE":
        ad["DrainReason"] = MINE["DrainReason"]
    return ad


@pytest.mark.parametrize("case", RATES, ids=[f"{case['per_hour']} in {case['interval']} s" for case in RATES])
def test_a_rate_comes_to_what_it_does_with_condor_defrag(case: dict[str, Any]) -> None:
    rate = Rate.of(case["per_hour"], case["interval"])
    assert [rate.each_look, rate.each_hour, rate.each_day] == case.get("ours", case["each"])
