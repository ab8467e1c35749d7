"""Which machines are drained, and which drains are called off."""

from __future__ import annotations

from random import Random

import pytest

from pool.base.errors import ConfigError
from pool.classad import ClassAd, expr
from pool.config import load_config
from pool.defrag.plan import DefragPlan, decide
from pool.defrag.policy import DefragPolicy
from pool.defrag.rate import Due
from pool.slots.drain import HowFast
from tests.pool.defrag.seen import MINE, NAME, NOW, a_machine, a_policy, a_survey

BY_HAND = {"Draining": True, "DrainReason": '"new disk"', "DrainingRequestId": '"1.1"'}
BY_DEFRAG = {"Draining": True, "DrainReason": f'"{MINE["DrainReason"]}"', "DrainingRequestId": '"1.1"'}


def plan(*ads: ClassAd, due: int = 1, **knobs: object) -> DefragPlan:
    policy = a_policy(**knobs)
    return decide(a_survey(policy, *ads), policy, Due(due, float(due)), Random(1))


def drained(found: DefragPlan) -> list[str]:
    """The machines that drain when each startd does as it is told."""
    return [slot.startd for slot in found.candidates[: found.wanted]]


def cancelled(found: DefragPlan) -> list[str]:
    return [slot.startd for slot in found.cancel]


def test_the_cheapest_machine_is_drained_first() -> None:
    ads = [a_machine(f"e{cost}", ExpectedMachineGracefulDrainingBadput=cost) for cost in (300, 100, 200)]
    found = plan(*ads, due=2)
    assert drained(found) == ["e100", "e200"]
    assert [slot.startd for slot in found.candidates] == ["e100", "e200", "e300"]


def test_a_rank_of_ones_own_decides_and_what_is_no_number_counts_as_nothing() -> None:
    ads = [a_machine("low", Order=-1), a_machine("text", Order='"x"'), a_machine("none"), a_machine("high", Order=2.5)]
    order = [slot.startd for slot in plan(*ads, RANK="Order").candidates]
    assert (order[0], set(order[1:3]), order[3]) == ("high", {"text", "none"}, "low")


def test_equals_are_taken_by_chance() -> None:
    policy = a_policy()
    seen = a_survey(policy, *(a_machine(f"e{number}") for number in range(8)))
    firsts = {decide(seen, policy, Due(1, 1.0), Random(seed)).candidates[0].startd for seed in range(40)}
    assert len(firsts) > 3


def test_whole_offline_and_draining_machines_are_left_alone() -> None:
    ads = [
        a_machine("whole", free=8),
        a_machine("offline", Offline=True),
        a_machine("static", PartitionableSlot=False),
        a_machine("by-hand", **BY_HAND),
        a_machine("mine", **BY_DEFRAG),
        a_machine("other"),
    ]
    assert drained(plan(*ads, due=9)) == ["other"]


def test_the_requirements_narrow_the_choice() -> None:
    ads = [a_machine("e1", NumDynamicSlots=1), a_machine("e2", NumDynamicSlots=2), a_machine("e3")]
    assert drained(plan(*ads, due=9, REQUIREMENTS="NumDynamicSlots > 1")) == ["e2"]
    assert plan(*ads, REQUIREMENTS="false").why == "no machine meets DEFRAG_REQUIREMENTS"


def test_a_machine_is_one_startd_with_the_rank_of_its_best_slot() -> None:
    ads = [
        a_machine("e1", ExpectedMachineGracefulDrainingBadput=500),
        a_machine("e1", Name='"slot2@e1"', ExpectedMachineGracefulDrainingBadput=100),
        a_machine("e2", ExpectedMachineGracefulDrainingBadput=200),
    ]
    assert [slot.name for slot in plan(*ads, due=3).candidates] == ["slot2@e1", "slot1@e2"]
    one_is_whole = a_machine("e1", Name='"slot3@e1"', free=8)
    assert drained(plan(*ads, one_is_whole, due=3)) == ["e2"]


@pytest.mark.parametrize(
    ("knobs", "whole", "draining", "why"),
    [
        ({"MAX_WHOLE_MACHINES": 2}, 2, 0, "2 machines are whole, and DEFRAG_MAX_WHOLE_MACHINES is 2"),
        ({"MAX_WHOLE_MACHINES": 0}, 0, 0, "0 machines are whole, and DEFRAG_MAX_WHOLE_MACHINES is 0"),
        ({"MAX_WHOLE_MACHINES": 3}, 2, 0, ""),
        ({"MAX_CONCURRENT_DRAINING": 2}, 0, 2, "2 machines are draining, and DEFRAG_MAX_CONCURRENT_DRAINING is 2"),
        ({"MAX_CONCURRENT_DRAINING": 0}, 0, 0, "0 machines are draining, and DEFRAG_MAX_CONCURRENT_DRAINING is 0"),
        ({"MAX_CONCURRENT_DRAINING": 3}, 0, 2, ""),
        ({"DRAINING_MACHINES_PER_HOUR": 0}, 0, 0, "DEFRAG_DRAINING_MACHINES_PER_HOUR is 0"),
    ],
)
def test_limits_stop_further_drains(knobs: dict[str, object], whole: int, draining: int, why: str) -> None:
    ads = [a_machine("e")]
    ads += [a_machine(f"w{number}", free=8) for number in range(whole)]
    ads += [a_machine(f"d{number}", **BY_DEFRAG) for number in range(draining)]
    found = plan(*ads, **knobs)
    assert (found.why, drained(found)) == (why, [] if why else ["e"])


def test_no_more_drain_at_once_than_may() -> None:
    ads = [*(a_machine(f"e{number}") for number in range(5)), a_machine("d", **BY_DEFRAG)]
    assert len(drained(plan(*ads, due=4, MAX_CONCURRENT_DRAINING=3))) == 2
    assert len(drained(plan(*ads, due=4))) == 4


def test_a_drain_by_hand_counts_for_nothing() -> None:
    ads = [a_machine("e"), a_machine("d", **BY_HAND), a_machine("w", free=8, **BY_HAND)]
    policy = a_policy()
    seen = a_survey(policy, *ads)
    assert (seen.draining, seen.whole) == (frozenset(), frozenset())
    assert drained(plan(*ads, MAX_CONCURRENT_DRAINING=1, MAX_WHOLE_MACHINES=1)) == ["e"]


def test_nothing_is_due() -> None:
    assert plan(a_machine("e"), due=0).why == "0.000 machines are due in the next 600 s"


# ---- calling off


def test_a_drain_that_has_made_its_machine_whole_is_called_off_by_its_id() -> None:
    ads = [a_machine("done", free=8, **BY_DEFRAG), a_machine("going", **BY_DEFRAG)]
    found = plan(*ads)
    assert [(slot.startd, slot.drain_id) for slot in found.cancel] == [("done", "1.1")]


def test_a_drain_by_hand_or_of_another_defragmenter_is_not_called_off() -> None:
    other = BY_DEFRAG | {"DrainReason": '"Defrag other@cm"'}
    assert cancelled(plan(a_machine("e1", free=8, **BY_HAND), a_machine("e2", free=8, **other))) == []


def test_drains_are_called_off_whenever_that_is_said_also_when_none_is_due() -> None:
    ads = [a_machine("half", free=4, **BY_DEFRAG), a_machine("less", free=3, **BY_DEFRAG)]
    wanted = {"CANCEL_REQUIREMENTS": "Cpus >= 4", "DRAINING_MACHINES_PER_HOUR": 0}
    assert cancelled(plan(*ads, due=0, **wanted)) == ["half"]
    assert cancelled(plan(a_machine("whole", free=8, **BY_DEFRAG), CANCEL_REQUIREMENTS="false")) == []


def test_a_machine_whose_drain_is_called_off_is_not_drained_in_the_same_look() -> None:
    half_free = a_machine("e1", free=4, **BY_DEFRAG)
    second = a_machine("e1", Name='"slot2@e1"')
    assert drained(plan(half_free, second, due=2, CANCEL_REQUIREMENTS="Cpus == 4")) == []


# ---- what a startd is asked to make sure of


@pytest.mark.parametrize("schedule", ["graceful", "quick", "fast"])
def test_a_drain_may_not_have_become_dear_before_the_startd_hears_of_it(schedule: str) -> None:
    policy = a_policy(DRAINING_SCHEDULE=schedule)
    ad = a_machine("e1")
    (slot,) = a_survey(policy, ad).slots
    assert policy.schedule is HowFast[schedule.upper()]
    which = "Graceful" if schedule == "graceful" else "Quick"
    assert (slot.completion_at - NOW, slot.badput) == ((600, 100) if schedule == "graceful" else (10, 1000))
    check = expr(slot.check)
    assert check.eval(ad) is True
    ad[f"ExpectedMachine{which}DrainingBadput"] = int(1.25 * slot.badput) + 1200
    assert check.eval(ad) is True
    ad[f"ExpectedMachine{which}DrainingBadput"] = int(1.25 * slot.badput) + 1201
    assert check.eval(ad) is False
    ad = a_machine("e1")
    ad[f"ExpectedMachine{which}DrainingCompletion"] = slot.completion_at + 1201
    assert check.eval(ad) is False


def test_an_idle_machine_may_be_drained_however_old_its_ad_is() -> None:
    (slot,) = a_survey(a_policy(), a_machine("e1", ExpectedMachineGracefulDrainingCompletion=int(NOW) - 5000)).slots
    assert slot.completion_at == NOW


# ---- the policy


def test_the_manuals_name_of_the_schedule_and_htcondors_are_one_knob() -> None:
    assert a_policy().schedule is HowFast.GRACEFUL
    assert a_policy(SCHEDULE="quick").schedule is HowFast.QUICK
    assert a_policy(SCHEDULE="quick", DRAINING_SCHEDULE="Fast").schedule is HowFast.FAST


def test_a_schedule_that_does_not_exist_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("defrag") / "config"
    file.write_text("DEFRAG_INTERVAL = 60\nDEFRAG_SCHEDULE = slow\n")
    with pytest.raises(ConfigError, match=r'"slow" is no way to drain \(there are graceful, quick, fast\)'):
        DefragPolicy.read(load_config([str(file)], environ={}, subsystem="DEFRAG"), NAME)


def test_the_cancel_requirements_follow_what_a_whole_machine_is() -> None:
    eight_gb_free = a_machine("e1", Memory=9000, **BY_DEFRAG)
    assert cancelled(plan(eight_gb_free, WHOLE_MACHINE_EXPR="Memory >= 8192")) == ["e1"]
