"""What policies decide, with HTCondor's order, codes and words."""

from __future__ import annotations

import pytest

from pool.classad import UNDEFINED, ClassAd, expr
from pool.jobs import policy
from pool.jobs.policy import Decision, PolicyAction, SystemPolicy, system_policy
from pool.jobs.vocabulary.states import JobStatus

NOW = 1_700_000_000.0
S = JobStatus
NOTHING = SystemPolicy()


def a_job(**attributes: object) -> ClassAd:
    return ClassAd({"ClusterId": 1, "ProcId": 0, "QDate": int(NOW) - 100, **attributes})


class Knobs(dict[str, str]):
    def __missing__(self, name: str) -> None:
        return None


def test_a_job_without_policy_is_left_alone() -> None:
    for status in JobStatus:
        assert policy.periodic(a_job(), status, NOW, NOTHING) is None


@pytest.mark.parametrize(
    ("attributes", "status", "expected"),
    [
        ({"PeriodicHold": expr("QDate > 5")}, S.IDLE, (PolicyAction.HOLD, 3, 0)),
        ({"PeriodicHold": expr("QDate > 5"), "PeriodicHoldSubCode": 42}, S.RUNNING, (PolicyAction.HOLD, 3, 42)),
        ({"PeriodicHold": True}, S.HELD, None),
        ({"PeriodicHold": UNDEFINED}, S.IDLE, None),
        ({"PeriodicHold": expr("NoSuch > 3")}, S.IDLE, None),
        ({"PeriodicHold": "true"}, S.IDLE, None),
        ({"PeriodicHold": 2}, S.IDLE, (PolicyAction.HOLD, 3, 0)),
        ({"PeriodicRelease": True, "HoldReasonCode": 3}, S.HELD, (PolicyAction.RELEASE, 3, 0)),
        ({"PeriodicRelease": True, "HoldReasonCode": 1}, S.HELD, None),
        ({"PeriodicRelease": True}, S.IDLE, None),
        ({"PeriodicRemove": True}, S.HELD, (PolicyAction.REMOVE, 3, 0)),
        ({"PeriodicRemove": True}, S.REMOVED, None),
        ({"PeriodicVacate": True}, S.RUNNING, (PolicyAction.VACATE, 1000, 0)),
        ({"PeriodicVacate": True}, S.IDLE, None),
        ({"PeriodicVacate": True, "PeriodicHold": True}, S.RUNNING, (PolicyAction.VACATE, 1000, 0)),
        ({"PeriodicHold": True, "PeriodicRemove": True}, S.IDLE, (PolicyAction.HOLD, 3, 0)),
        ({"TimerRemove": int(NOW) - 1}, S.IDLE, (PolicyAction.REMOVE, 0, 0)),
        ({"TimerRemove": int(NOW) + 1}, S.IDLE, None),
        ({"TimerRemove": int(NOW) - 1, "PeriodicHold": True}, S.IDLE, (PolicyAction.REMOVE, 0, 0)),
        ({"AllowedJobDuration": 60, "ShadowBday": int(NOW) - 60}, S.RUNNING, (PolicyAction.HOLD, 46, 0)),
        ({"AllowedJobDuration": 60, "ShadowBday": int(NOW) - 59}, S.RUNNING, None),
        ({"AllowedJobDuration": 60, "ShadowBday": int(NOW) - 60}, S.IDLE, None),
        (
            {
                "AllowedExecuteDuration": 60,
                "ShadowBday": int(NOW) - 90,
                "JobCurrentStartExecutingDate": int(NOW) - 61,
            },
            S.SUSPENDED,
            (PolicyAction.HOLD, 47, 0),
        ),
        (
            {
                "AllowedExecuteDuration": 60,
                "ShadowBday": int(NOW) - 10,
                "JobCurrentStartExecutingDate": int(NOW) - 600,
            },
            S.RUNNING,
            None,
        ),
    ],
)
def test_periodic_policy(
    attributes: dict[str, object], status: JobStatus, expected: tuple[PolicyAction, int, int] | None
) -> None:
    decision = policy.periodic(a_job(**attributes), status, NOW, NOTHING)
    assert (None if decision is None else (decision.action, decision.code, decision.subcode)) == expected


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, PolicyAction.COMPLETE),
        ({"OnExitRemove": True}, PolicyAction.COMPLETE),
        ({"OnExitRemove": UNDEFINED}, PolicyAction.COMPLETE),
        ({"OnExitRemove": expr("ExitCode == 0")}, PolicyAction.REQUEUE),
        ({"OnExitHold": expr("ExitCode == 3")}, PolicyAction.HOLD),
        ({"OnExitHold": expr("ExitCode == 3"), "OnExitRemove": False}, PolicyAction.HOLD),
        ({"PeriodicRemove": True, "OnExitHold": True}, PolicyAction.REMOVE),
        ({"PeriodicVacate": True}, PolicyAction.COMPLETE),
    ],
)
def test_exit_policy(attributes: dict[str, object], expected: PolicyAction) -> None:
    ad = a_job(ExitBySignal=False, ExitCode=3, **attributes)
    assert policy.on_exit(ad, S.RUNNING, NOW, NOTHING).action is expected


def test_the_reason_is_the_jobs_own_words_or_the_expression() -> None:
    ad = a_job(PeriodicHold=expr("QDate > 5"))
    decision = policy.periodic(ad, S.IDLE, NOW, NOTHING)
    assert decision is not None
    assert decision.reason == "The job attribute PeriodicHold expression 'QDate > 5' evaluated to TRUE"
    ad["PeriodicHoldReason"] = expr('strcat("too old: ", QDate)')
    assert policy.periodic(ad, S.IDLE, NOW, NOTHING) == Decision(PolicyAction.HOLD, f"too old: {int(NOW) - 100}", 3, 0)


def test_the_administrators_rules_come_after_the_jobs_own() -> None:
    system = system_policy(
        Knobs(
            {
                "SYSTEM_PERIODIC_HOLD": "ImageSize > 100",
                "SYSTEM_PERIODIC_HOLD_REASON": 'strcat("size ", ImageSize)',
                "SYSTEM_PERIODIC_HOLD_SUBCODE": "7",
                "SYSTEM_PERIODIC_HOLD_NAMES": "OLD",
                "SYSTEM_PERIODIC_HOLD_OLD": "QDate < 10",
                "SYSTEM_PERIODIC_REMOVE": "((",
                "SYSTEM_PERIODIC_RELEASE": "false",
            }
        )
    )
    assert (len(system.hold), system.remove, system.release, system.ignored) == (2, (), (), ["SYSTEM_PERIODIC_REMOVE"])
    big = a_job(ImageSize=200)
    assert policy.periodic(big, S.IDLE, NOW, system) == Decision(PolicyAction.HOLD, "size 200", 26, 7)
    old = a_job(QDate=1)
    decision = policy.periodic(old, S.IDLE, NOW, system)
    assert decision is not None
    assert decision.reason == "The system macro SYSTEM_PERIODIC_HOLD_OLD expression 'QDate < 10' evaluated to TRUE"
    own = a_job(ImageSize=200, PeriodicHold=True)
    decision = policy.periodic(own, S.IDLE, NOW, system)
    assert decision is not None
    assert decision.code == 3


def test_released_only_so_often() -> None:
    system = SystemPolicy(max_releases=2)
    ad = a_job(PeriodicRelease=True, HoldReasonCode=3, NumHolds=1)
    assert policy.periodic(ad, S.HELD, NOW, system) is not None
    ad["NumHolds"] = 2
    assert policy.periodic(ad, S.HELD, NOW, system) is None


@pytest.mark.parametrize(
    ("late_s", "more", "held"),
    [(-5, {}, False), (5, {}, True), (5, {"DeferralWindow": 60}, False), (61, {"DeferralWindow": 60}, True)],
)
def test_a_moment_that_has_passed_holds_an_idle_job(late_s: int, more: dict[str, object], held: bool) -> None:
    ad = a_job(DeferralTime=int(NOW) - late_s, **more)
    decision = policy.periodic(ad, S.IDLE, NOW, NOTHING)
    assert (decision is not None and decision.code == 20) is held
    assert policy.periodic(ad, S.RUNNING, NOW, NOTHING) is None
    assert policy.periodic(ClassAd({**ad, "CronHour": "*"}), S.IDLE, NOW, NOTHING) is None
    assert not policy.is_trivial(ad)


def test_what_can_never_do_anything_is_known() -> None:
    assert policy.is_trivial(a_job(PeriodicHold=False, PeriodicRemove=False))
    assert not policy.is_trivial(a_job(PeriodicHold=expr("QDate > 1")))
    assert not policy.is_trivial(a_job(TimerRemove=1))


@pytest.mark.parametrize("subcode", ['real("INF")', 'real("NaN")', "1e300"])
def test_a_subcode_that_is_no_integer_does_not_stop_the_policy(subcode: str) -> None:
    system = system_policy(Knobs(SYSTEM_PERIODIC_HOLD="Big > 1", SYSTEM_PERIODIC_HOLD_SUBCODE="Mine"))
    decision = policy.periodic(a_job(Big=2, Mine=expr(subcode)), S.IDLE, NOW, system)
    assert decision is not None
    assert (decision.action, decision.subcode) == (PolicyAction.HOLD, -(2**63))


def test_a_number_of_releases_is_plain_digits() -> None:
    assert system_policy(Knobs(SYSTEM_MAX_RELEASES="3")).max_releases == 3
    assert system_policy(Knobs(SYSTEM_MAX_RELEASES="²")).max_releases is None
