"""Situations in which a job does not run, for its expressions or its state, and the sentences that `pool why` prints.

What share, priority, quotas, limits and preemption come to is in `tests/daemons/negotiator/test_reasons.py`.
"""

from __future__ import annotations

import pytest

from minipool.cli.queue_tools.q_analyze import report
from minipool.cli.queue_tools.why import explain
from pool.classad import ClassAd, expr
from pool.explaining.analysis import Analysis
from pool.explaining.explain import analyze
from tests.pool.explaining.test_explain import a_job, a_slot

MEND = "When that is mended: condor_release; to give it up: condor_rm."


class APool:
    """What `pool why` asks of a pool."""

    def __init__(self, slots: list[ClassAd], limit: list[str]) -> None:
        self._slots, self._limit = slots, limit

    def explained(self, job: ClassAd) -> tuple[Analysis, list[str]]:
        return analyze(job, self._slots), []

    def limit(self) -> list[str]:
        return self._limit


def said(*slots: ClassAd, extra: str = "", limit: str = "", **job: object) -> list[str]:
    pool = APool(list(slots), [limit] if limit else [])
    return explain(pool, a_job(extra, **{"JobStatus": 1, **job}))  # type: ignore[arg-type]


def waits(*slots: ClassAd, extra: str = "", limit: str = "", **job: object) -> list[str]:
    first, *rest = said(*slots, extra=extra, limit=limit, **job)
    assert first == "It waits."
    return rest


STATIC = {"PartitionableSlot": False, "State": "Claimed"}
WAITS = {
    "no slots": (waits(), ["The pool has no slots."]),
    "memory": (
        waits(a_slot(), RequestMemory=99999),
        ["No slot meets the condition TARGET.Memory >= RequestMemory; the best of Memory is 8192."],
    ),
    "system": (waits(a_slot(OpSys="WINDOWS")), ['No slot meets the condition TARGET.OpSys == "LINUX".']),
    "architecture": (waits(a_slot(Arch="aarch64")), ['No slot meets the condition TARGET.Arch == "X86_64".']),
    "a word that no slot has": (
        waits(a_slot(), extra="(TARGET.HasLaser) && "), ["No slot meets the condition TARGET.HasLaser."]
    ),
    "conditions that exclude each other": (
        waits(
            a_slot(HasDocker=True, HasJava=False),
            a_slot(HasDocker=False, HasJava=True),
            extra="(TARGET.HasDocker == true) && (TARGET.HasJava == true) && ",
        ),
        [
            "Each of these is true for some slot, but for none all of them:"
            " TARGET.HasDocker == true, TARGET.HasJava == true.",
            "Without TARGET.HasDocker == true, 1 slot would suit.",
        ],
    ),
    "an owner's START": (
        waits(a_slot(Start=expr('TARGET.Owner == "bob"'))),
        ["1 slot refuses the job.", '1 slot: TARGET.Owner == "bob" does not hold for the job.'],
    ),
    "more cores than a machine has": (
        waits(a_slot(), RequestCpus=64),
        [
            "1 slot refuses the job.",
            "1 slot: TARGET.RequestCpus <= MY.Cpus does not hold for the job.",
            "With a smaller RequestCpus (it is 64), 1 slot would suit; the largest has 4.",
        ],
    ),
    "cores that others use": (
        waits(a_slot(Cpus=0)), ["1 slot would match, but other jobs are using them now: the job waits."]
    ),
    "memory that others use": (
        waits(a_slot(Memory=10)), ["1 slot would match, but other jobs are using them now: the job waits."]
    ),
    "a static slot that is in use": (
        waits(a_slot(**STATIC)),
        [
            "1 slot would match, but other jobs are using them now: the job waits until they end, or have to give way."
        ],
    ),
    "a machine that sleeps": (waits(a_slot(Offline=True)), ["1 slot would match, but its machine is asleep."]),
    "a request that is no amount": (
        waits(a_slot(), RequestCpus=-1.5),
        [
            "1 slot would match, but cannot give what the job asks for:"
            " the job's RequestCpus is -1.5 (expected an amount of 0 or more)."
        ],
    ),
    "MAX_JOBS_RUNNING": (waits(a_slot(), limit="No more."), ["No more."]),
    "the local universe": (
        waits(JobUniverse=12),
        ["It runs at the access point, as soon as START_LOCAL_UNIVERSE and its own Requirements hold there."],
    ),
    "a shadow that failed": (
        waits(JobUniverse=12, NumShadowExceptions=2, LastShadowException="it broke")[:1],
        ["It could not be run 2 times; the last time: it broke"],
    ),
    "room for it": (waits(a_slot()), ["1 of 1 slots meet its conditions and have room for it."]),
    "on hold": (
        said(JobStatus=5, HoldReason="no such file", HoldReasonCode=12, HoldReasonSubCode=2),
        ["It is on hold: no such file (code 12, subcode 2).", MEND],
    ),
    "suspended": (
        said(JobStatus=7, RemoteHost="slot1@ep1"), ["It is suspended on slot1@ep1; condor_continue wakes it."]
    ),
    "removed": (said(JobStatus=3, RemoveReason="by its user"), ["It was removed: by its user."]),
}  # fmt: skip


@pytest.mark.parametrize("name", WAITS)
def test_what_keeps_a_job_from_running_is_named(name: str) -> None:
    found, expected = WAITS[name]
    assert found == expected


def test_better_analyze_repeats_what_the_negotiator_says_of_a_job_that_waits() -> None:
    reasons = ["The ceiling of alice@pool.test allows no more than 1."]
    assert f"\nThe negotiator says:\n   {reasons[0]}\n" in report(a_job(JobStatus=1), [a_slot()], reasons)
    assert "The negotiator says" not in report(a_job(JobStatus=2), [a_slot()], reasons)


def test_better_analyze_ends_its_advice_with_the_change_that_helps_most() -> None:
    said = report(a_job(JobStatus=1, RequestMemory=99999), [a_slot(), a_slot(OpSys="WINDOWS")])
    assert said.partition("WARNING:  Be advised:\n")[2] == (
        "   No machines matched the job's constraints\n"
        "   Without TARGET.Memory >= RequestMemory (RequestMemory is 99999), 1 slot would suit; the largest has 8192.\n\n"
    )
    refused = report(a_job(JobStatus=1, RequestCpus=64), [a_slot()])
    assert refused.partition("WARNING:  Be advised:\n")[2] == (
        "   Job did not match any machines' constraints\n"
        "   1 slot: TARGET.RequestCpus <= MY.Cpus does not hold for the job.\n"
        "   With a smaller RequestCpus (it is 64), 1 slot would suit; the largest has 4.\n\n"
    )
    assert "would suit" not in report(a_job(JobStatus=1), [a_slot()])
