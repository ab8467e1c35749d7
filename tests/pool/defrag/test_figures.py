"""What the defragmenter's ad shows."""

from __future__ import annotations

from typing import Any

import pytest

from pool.classad import ClassAd
from pool.defrag.figures import LOOKS_RECENT, Arrivals, DefragStatistics
from tests.pool.defrag.seen import NOW, a_machine, a_policy, a_survey
from tests.pool.defrag.test_plan import BY_DEFRAG

POLICY = a_policy()


def whole(host: str) -> ClassAd:
    return a_machine(host, free=8)


def draining(host: str) -> ClassAd:
    return a_machine(host, **BY_DEFRAG)


def looks(*pools: list[ClassAd], every_s: float = 600.0) -> Arrivals:
    arrivals = Arrivals()
    for number, ads in enumerate(pools):
        arrivals.look(a_survey(POLICY, *ads), NOW + number * every_s)
    return arrivals


def test_machines_that_were_whole_before_have_not_arrived() -> None:
    found = looks([whole("a"), whole("b")], [whole("a"), whole("b")])
    assert (found.count, found.mean, found.deviation) == (0, 0.0, 0.0)


def test_a_machine_arrives_once_whole_or_claimed_at_once() -> None:
    seen_whole = looks([whole("z")], [whole("z"), draining("a")], [whole("z"), whole("a")])
    claimed_at_once = looks([whole("z")], [whole("z"), draining("a")], [whole("z"), a_machine("a", free=0)])
    assert seen_whole.count == claimed_at_once.count == 1
    assert seen_whole.mean == claimed_at_once.mean == pytest.approx(1 / 1200)


def test_the_mean_is_machines_a_second_over_all_arrivals() -> None:
    found = looks([whole("z")], [whole("z"), whole("a")], [whole("z"), whole("a"), whole("b"), whole("c")])
    assert found.count == 3
    assert found.mean == pytest.approx(3 / (600 + 2 * 600))
    # The first arrival is the mean itself; of two in 600 s it was 3 in 1800 s.
    assert found.deviation == pytest.approx(((2 / 600 - 3 / 1800) ** 2 / 3) ** 0.5)


def test_costs_are_parts_of_the_time_of_all_cores() -> None:
    told: dict[str, Any] = {"DaemonStartTime": 1000, "LastHeardFrom": 11_000}
    ads = [
        a_machine("a", TotalMachineDrainingBadput=8000, **told),
        a_machine("b", TotalMachineDrainingUnclaimedTime=4000, **told),
        a_machine("c", **told),  # it has never drained
        a_machine("a", DynamicSlot=True, PartitionableSlot=False, TotalMachineDrainingBadput=8000, **told),
        a_machine("d", TotalMachineDrainingBadput=8000, DaemonStartTime=0, LastHeardFrom=5),
    ]
    seen = a_survey(POLICY, *ads)
    assert seen.badput == pytest.approx(8000 / 10_000 / 16)
    assert seen.unclaimed == pytest.approx(4000 / 10_000 / 16)


def test_the_ad_has_totals_peaks_and_what_is_recent() -> None:
    statistics = DefragStatistics(NOW)
    statistics.look(a_survey(POLICY, whole("a"), whole("b"), draining("c")), NOW)
    statistics.drained("slot1@d", POLICY, NOW + 1, worked=True)
    statistics.drained("slot1@e", POLICY, NOW + 2, worked=False)
    statistics.cancelled("slot1@c", NOW + 3)
    statistics.look(a_survey(POLICY, whole("a")), NOW + 600)
    shown = ClassAd(statistics.attributes(POLICY, NOW + 700))
    assert {name: shown[name] for name in shown if not name.endswith("List")} == {
        "DrainSuccesses": 1,
        "DrainFailures": 1,
        "RecentDrainSuccesses": 1,
        "RecentDrainFailures": 1,
        "MachinesDraining": 0,
        "MachinesDrainingPeak": 1,
        "WholeMachines": 1,
        "WholeMachinesPeak": 2,
        "AvgDrainingBadput": 0.0,
        "AvgDrainingUnclaimed": 0.0,
        "DrainedMachines": 1,
        "MeanDrainedArrival": pytest.approx(1 / 600),
        "MeanDrainedArrivalSD": 0.0,
        "StatsLifetime": 700,
        "RecentStatsLifetime": 700,
    }
    drains, cancels = shown["RecentDrainsList"], shown["RecentCancelsList"]
    assert [(one["when"] - NOW, one["who"], one["what"]) for one in drains] == [
        (2, "slot1@e", "graceful"),
        (1, "slot1@d", "graceful"),
    ]
    assert [(one["when"] - NOW, one["who"]) for one in cancels] == [(3, "slot1@c")]


def test_what_is_recent_goes_after_ten_looks_and_the_lists_have_ten() -> None:
    statistics = DefragStatistics(NOW)
    for number in range(12):
        statistics.drained(f"slot1@e{number}", POLICY, NOW, worked=True)
    for number in range(LOOKS_RECENT):
        statistics.look(a_survey(POLICY), NOW + 600 * number)
    shown = statistics.attributes(POLICY, NOW + 100_000)
    assert (shown["DrainSuccesses"], shown["RecentDrainSuccesses"]) == (12, 0)
    assert shown["RecentStatsLifetime"] == LOOKS_RECENT * 600
    assert [one["who"] for one in shown["RecentDrainsList"]][:2] == ["slot1@e11", "slot1@e10"]
    assert len(shown["RecentDrainsList"]) == 10
