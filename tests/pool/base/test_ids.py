"""The names of jobs and claims."""

from __future__ import annotations

import pytest

from pool.base.errors import UserError
from pool.base.ids import ClaimId, JobId, is_number, named_jobs, names_jobs


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("12", (12, None)),
        ("12.3", (12, 3)),
        ("012.0", (12, 0)),
        *((text, None) for text in ("", ".", "12.", ".3", "12.3.4", "-1", "1 2", "²", "12.²", "ann", "9" * 10)),
    ],
)
def test_a_cluster_or_a_job_is_named_by_plain_digits(text: str, named: tuple[int, int | None] | None) -> None:
    assert named_jobs(text) == named
    assert names_jobs(text) is (named is not None)


@pytest.mark.parametrize("text", ["12", "12.", "²", "12.²", "9" * 5000])
def test_a_job_has_a_cluster_and_a_proc(text: str) -> None:
    with pytest.raises(UserError, match="is not a job id"):
        JobId.parse(text)
    assert str(JobId.parse("12.3")) == "12.3"


def test_a_claim_does_not_show_its_secret() -> None:
    claim = ClaimId("<1.2.3.4:5>#7#1#secret")
    assert "secret" not in repr(claim) + claim.public() + claim.digest()
    assert claim.with_secret("other").public() == claim.public()


@pytest.mark.parametrize("text", ["1" * 5000, "\u00b2", "1_0", "", "-1"])
def test_what_is_no_number(text: str) -> None:
    assert not is_number(text)
