"""What a startd counts, what draining would cost, and what an administrator may change."""

from __future__ import annotations

import tracemalloc

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.slots.counters import MachineStatistics, Preempted
from pool.slots.draining import DrainingCost, RunningJob, expected_draining
from pool.slots.overrides import overridden


def test_jobs_are_counted_since_the_start_and_for_twenty_minutes() -> None:
    counts = MachineStatistics()
    for at in (0.0, 100.0, 1000.0):
        counts.started(at)
    counts.preempted(Preempted.RANK, 50.0)
    counts.preempted(Preempted.OTHER, 1150.0)
    shown = counts.attributes(1200.0)
    assert (shown["JobStarts"], shown["RecentJobStarts"]) == (3, 2)
    assert (shown["JobPreemptions"], shown["RecentJobPreemptions"]) == (2, 2)
    assert (shown["JobRankPreemptions"], shown["JobUserPrioPreemptions"]) == (1, 0)
    assert counts.attributes(2300.0)["RecentJobPreemptions"] == 1
    assert "JobBusyTimeAvg" not in shown


def test_how_long_jobs_took_is_averaged() -> None:
    counts = MachineStatistics()
    counts.ended(10.0, 100.0)
    counts.ended(30.0, 1500.0)
    shown = counts.attributes(1600.0)
    assert [shown[f"JobBusyTime{name}"] for name in ("Avg", "Count", "Max", "Min")] == [20.0, 2, 30.0, 10.0]
    assert [shown[f"RecentJobBusyTime{name}"] for name in ("Avg", "Count")] == [30.0, 1]
    assert "RecentJobBusyTimeAvg" not in counts.attributes(9000.0)


def test_what_is_remembered_does_not_grow_with_what_happens() -> None:
    counts = MachineStatistics()
    tracemalloc.start()
    try:
        for number in range(10_000):
            now = 0.02 * number
            counts.claim_asked(now)
            counts.activation_asked(now)
            counts.started(now)
            counts.ended(1.0, now)
            counts.ran(1.0, now, received=1, sent=1)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert counts.attributes(now)["RecentJobStarts"] == 10_000
    assert size < 50_000


def test_what_starters_have_said_of_their_jobs() -> None:
    counts = MachineStatistics()
    nothing = counts.attributes(0.0)
    assert "JobDurationCount" not in nothing
    assert [nothing[f"{kind}Transfer{way}MB"] for kind in ("Avg", "Total") for way in ("Input", "Output")] == [0] * 4
    counts.ran(10.0, 100.0, received=3 << 20, sent=0)
    counts.ran(None, 200.0, received=1 << 20, sent=0)  # its input came, and it never ran
    shown = counts.attributes(300.0)
    assert [shown[f"JobDuration{name}"] for name in ("Avg", "Count", "Max", "Min")] == [10.0, 1, 10.0, 10.0]
    assert (shown["AvgTransferInputMB"], shown["TotalTransferInputMB"], shown["TotalTransferOutputMB"]) == (2, 4, 0)
    assert "RecentJobDurationCount" not in counts.attributes(1400.0)


def test_claims_and_jobs_are_counted_as_they_are_asked_for() -> None:
    counts = MachineStatistics()
    for at in (0.0, 1.0, 1300.0):
        counts.claim_asked(at)
    counts.activation_asked(5.0)
    shown = counts.attributes(1400.0)
    assert [shown[name] for name in ("ClaimRequests", "RecentClaimRequests")] == [3, 1]
    assert [shown[name] for name in ("ActivationRequests", "RecentActivationRequests")] == [1, 0]


def test_draining_has_cost_the_run_time_that_was_lost_and_the_cores_that_nobody_used() -> None:
    cost = DrainingCost()
    cost.look(0.0, 1000.0)
    assert cost.attributes() == {}
    cost.look(2.0, 1005.0)  # slots have just become free: not before the next look is it known for how long
    cost.look(4.0, 1010.0)
    cost.look(4.0, 1020.0)
    cost.look(0.0, 1030.0)
    cost.evicted(2.0, 100.0)
    assert cost.attributes() == {"TotalMachineDrainingBadput": 200, "TotalMachineDrainingUnclaimedTime": 50}


def test_draining_costs_what_jobs_have_run_and_gracefully_what_they_still_would() -> None:
    jobs = [RunningJob(2, ran_s=100, retirement_left_s=50, vacate_s=10), RunningJob(1, 30, 0, 600)]
    assert expected_draining(jobs, 1000.0) == {
        "ExpectedMachineGracefulDrainingBadput": 330,
        "ExpectedMachineGracefulDrainingCompletion": 1600,
        "ExpectedMachineQuickDrainingBadput": 230,
        "ExpectedMachineQuickDrainingCompletion": 1600,
    }
    assert set(expected_draining([], 7.0).values()) == {0, 7}


def test_changed_attributes_add_up_and_the_vm_universe_goes_and_comes() -> None:
    made = overridden({"A": 1}, ClassAd({"a": 2, "HasVM": False}), now=5.0)
    assert made == {
        "a": 2,
        "HasVM": False,
        "OfflineUniverses": ["VM", 13],
        "VMOfflineTime": 5,
        "VMOfflineReason": "condor_update_machine_ad",
    }
    assert overridden(made, ClassAd({"HasVM": True}), now=6.0) == {"a": 2, "HasVM": True}


def test_what_a_slot_is_cannot_be_changed() -> None:
    with pytest.raises(UserError, match="Name, state cannot be changed"):
        overridden({}, ClassAd({"Name": "x", "state": "Owner", "Fine": 1}), now=0.0)
