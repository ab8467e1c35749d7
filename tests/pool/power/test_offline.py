"""The ad of a slot whose machine sleeps."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.power.offline import first_slot, noted, offline_ad
from pool.power.states import SleepState


def test_a_sleeping_slot_looks_as_a_job_would_find_it() -> None:
    slot = ClassAd(
        {
            "Name": "slot1@n",
            "State": "Owner",
            "Activity": "Idle",
            "KeyboardIdle": 7,
            "LoadAvg": 0.9,
            "HibernationLevel": 0,
            "HibernationState": "NONE",
            "CpuIsBusy": True,
            "Memory": 512,
            "Start": expr("KeyboardIdle > 600"),
        }
    )
    ad = offline_ad(slot, SleepState.S3)
    assert (ad["Offline"], ad["State"], ad["Activity"], ad["Memory"]) == (True, "Unclaimed", "Idle", 512)
    assert (ad["HibernationLevel"], ad["HibernationState"], ad["LoadAvg"], ad["CpuIsBusy"]) == (3, "S3", 0.0, False)
    assert ad.eval("Start") is True
    assert slot["State"] == "Owner"


def test_a_sleeping_slot_is_idle_since_the_beginning_of_time_as_in_htcondor() -> None:
    """So condor_status shows a time since 1970, and a job may ask for slots that have been idle for however long."""
    ad = offline_ad(ClassAd({"EnteredCurrentActivity": 5, "MyCurrentTime": 1_700_000_000}), SleepState.S3)
    assert (ad["EnteredCurrentActivity"], ad["EnteredCurrentState"], ad["MyCurrentTime"]) == (0, 0, 1_700_000_000)


def test_what_was_noted_of_an_offline_slot_stays() -> None:
    ad = ClassAd(
        {"Name": "slot1@n", "MachineLastMatchTime": 5, "slot2_MachineLastMatchTime": 6, "MachineMatchCount": 1}
    )
    assert noted(ad) == {"MachineLastMatchTime": 5, "slot2_MachineLastMatchTime": 6, "MachineMatchCount": 1}


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("slot3@n", "slot1@n"),
        ("slot12@n", "slot1@n"),
        ("glide4@n.org", "glide1@n.org"),
        ("slot2_1@n", "slot1@n"),
        ("slot1@n", ""),
        ("n.org", ""),
    ],
)
def test_the_first_slot_hears_of_the_others(name: str, first: str) -> None:
    assert first_slot(name) == first
