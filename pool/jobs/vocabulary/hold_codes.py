"""HTCondor's reason codes: why a job is on hold (below 1000), or why it had to leave its slot (1000 and more)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class HoldCode(IntEnum):
    """HoldReasonCode."""

    UNSPECIFIED = 0
    USER_REQUEST = 1
    JOB_POLICY = 3
    CORRUPTED_CREDENTIAL = 4
    JOB_POLICY_UNDEFINED = 5
    FAILED_TO_CREATE_PROCESS = 6
    UNABLE_TO_OPEN_OUTPUT = 7
    UNABLE_TO_OPEN_INPUT = 8
    TRANSFER_OUTPUT_ERROR = 12
    TRANSFER_INPUT_ERROR = 13
    IWD_ERROR = 14
    SUBMITTED_ON_HOLD = 15
    SPOOLING_INPUT = 16
    HOOK_PREPARE_JOB_FAILURE = 19
    MISSED_DEFERRED_EXECUTION_TIME = 20
    STARTD_HELD_JOB = 21
    UNABLE_TO_INIT_USER_LOG = 22
    FAILED_TO_ACCESS_USER_ACCOUNT = 23
    INVALID_CRON_SETTINGS = 25
    SYSTEM_POLICY = 26
    SYSTEM_POLICY_UNDEFINED = 27
    MAX_TRANSFER_INPUT_SIZE_EXCEEDED = 32
    MAX_TRANSFER_OUTPUT_SIZE_EXCEEDED = 33
    JOB_OUT_OF_RESOURCES = 34
    INVALID_DOCKER_IMAGE = 35
    FAILED_TO_CHECKPOINT = 36
    SINGULARITY_TEST_FAILED = 45
    JOB_DURATION_EXCEEDED = 46
    JOB_EXECUTE_EXCEEDED = 47
    HOOK_SHADOW_PREPARE_JOB_FAILURE = 48
    CANNOT_SWITCH_PRIMARY_GROUP = 49
    EXPRESSION_TOO_COSTLY = 900
    """Ours alone: one of the job's expressions takes more processor time than an evaluation may."""


class VacateCode(IntEnum):
    """VacateReasonCode."""

    JOB_POLICY = 1000
    SYSTEM_POLICY = 1001
    SHADOW_EXCEPTION = 1002
    JOB_NOT_STARTED = 1003
    USER_VACATE_JOB = 1004
    JOB_SHOULD_REQUEUE = 1005
    FAILED_TO_ACTIVATE_CLAIM = 1006
    STARTER_ERROR = 1007
    RECONNECT_FAILED = 1008
    CLAIM_DEACTIVATED = 1009
    STARTD_VACATE_COMMAND = 1010
    STARTD_PREEMPT_EXPRESSION = 1011
    STARTD_SHUTDOWN = 1013
    STARTD_DRAINING = 1014
    STARTD_RELEASE_COMMAND = 1017
    STARTD_PREEMPTING_CLAIM_RANK = 1018
    STARTD_PREEMPTING_CLAIM_USER_PRIO = 1019
    SCHEDD_VACATE = 1022
    JOB_REMOVED = 1023


_VACATE_NAMES: Final = {VacateCode.JOB_POLICY: "JobPolicyVacate", VacateCode.SYSTEM_POLICY: "SystemPolicyVacate"}
_HOLD_NAMES: Final = {
    HoldCode.IWD_ERROR: "IwdError",
    HoldCode.JOB_OUT_OF_RESOURCES: "JobOutOfResources",
}

NOT_A_SYSTEM_HOLD: Final = frozenset({HoldCode.USER_REQUEST, HoldCode.JOB_POLICY, HoldCode.SUBMITTED_ON_HOLD})
"""The holds that NumSystemHolds does not count."""


def hold_code_name(code: int) -> str:
    """The code's name in NumHoldsByReason: `SubmittedOnHold` for 15."""
    try:
        known = HoldCode(code)
    except ValueError:
        return "Unspecified"
    return _HOLD_NAMES.get(known) or "".join(word.capitalize() for word in known.name.split("_"))


def vacate_code_name(code: int) -> str:
    """The code's name in NumVacatesByReason: `StartdDraining` for 1014."""
    try:
        known = VacateCode(code)
    except ValueError:
        return hold_code_name(code)
    return _VACATE_NAMES.get(known) or "".join(word.capitalize() for word in known.name.split("_"))


def means_hold(code: int, subcode: int) -> bool:
    """Whether a job that failed with this code is put on hold; otherwise it runs again."""
    return 0 < code < 1000 and subcode > -1000


_VACATE_WORDS: Final = (
    ("drain", VacateCode.STARTD_DRAINING),
    ("shut", VacateCode.STARTD_SHUTDOWN),
    ("preempt expression", VacateCode.STARTD_PREEMPT_EXPRESSION),
    ("preempted for a higher ranked", VacateCode.STARTD_PREEMPTING_CLAIM_RANK),
    ("preempted", VacateCode.STARTD_PREEMPTING_CLAIM_USER_PRIO),
    ("vacate", VacateCode.STARTD_VACATE_COMMAND),
    ("release", VacateCode.STARTD_RELEASE_COMMAND),
)


def vacate_code(reason: str) -> VacateCode:
    """The code for what a startd says when it has a job leave."""
    said = reason.lower()
    for word, code in _VACATE_WORDS:
        if word in said:
            return code
    return VacateCode.CLAIM_DEACTIVATED
