"""Why a job had to leave: what a startd says of it is what its user finds as VacateReasonCode."""

from __future__ import annotations

import pytest

from daemons.startd.slots import leaving
from pool.jobs.vocabulary.hold_codes import VacateCode, vacate_code


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (leaving.WHY_RANK, VacateCode.STARTD_PREEMPTING_CLAIM_RANK),
        (leaving.WHY_PRIORITY, VacateCode.STARTD_PREEMPTING_CLAIM_USER_PRIO),
        (leaving.WHY_PREEMPT, VacateCode.STARTD_PREEMPT_EXPRESSION),
        (leaving.WHY_DRAIN, VacateCode.STARTD_DRAINING),
        (leaving.WHY_RELEASED, VacateCode.STARTD_RELEASE_COMMAND),
        ("the claim's lease ran out", VacateCode.CLAIM_DEACTIVATED),
    ],
)
def test_what_a_startd_says_has_its_code(reason: str, code: VacateCode) -> None:
    assert vacate_code(reason) is code
