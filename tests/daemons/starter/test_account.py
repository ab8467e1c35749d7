"""As whom a job runs that says of its user what it likes."""

from __future__ import annotations

import os

import pytest

from daemons.starter.account import account_for
from pool.classad import ClassAd

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as others")


@pytest.mark.parametrize(
    ("user", "runs_as"),
    [
        ("daemon@pool.test", "daemon"),
        ("daemon@POOL.test", "daemon"),
        ("daemon@elsewhere.test", "nobody"),
        ("daemon", "nobody"),
        ("daemon@", "nobody"),
        ("", "nobody"),
        (None, "nobody"),
    ],
)
@pytest.mark.parametrize("soft", [False, True])
def test_only_a_user_of_this_domain_has_his_account(user: str | None, runs_as: str, soft: bool) -> None:
    job = ClassAd({"Owner": "daemon", **({} if user is None else {"User": user})})
    assert account_for(job, uid_domain="pool.test", fallback="nobody", soft_uid_domain=soft).name == runs_as


def test_no_domain_is_no_domain_to_agree_on() -> None:
    job = ClassAd({"Owner": "daemon", "User": "daemon@"})
    assert account_for(job, uid_domain="", fallback="nobody").name == "nobody"
