"""As whom a job runs that says of its user what it likes."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from daemons.host.account import Account, NotInGroup, account_for, with_primary_group
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


BECOME = """
import os
from daemons.host.account import Account, become
os.setgroups([0, 4, 6])
become(Account("somebody", 65533, 65532, (65531, 65532), None))
print(os.getresuid(), os.getresgid(), sorted(os.getgroups()))
for back in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):
    try:
        back()
        print("there is a way back")
    except PermissionError:
        pass
"""


def test_who_becomes_an_account_keeps_nothing_of_roots_and_has_no_way_back() -> None:
    said = subprocess.run([sys.executable, "-c", BECOME], capture_output=True, text=True, check=True).stdout
    assert said == "(65533, 65533, 65533) (65532, 65532, 65532) [65531, 65532]\n"


def test_a_job_may_choose_its_first_group_among_its_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {"science": 700, "staff": 701, "root": 0}
    monkeypatch.setattr(grp, "getgrnam", lambda name: SimpleNamespace(gr_gid=groups[name]))
    somebody = Account("ann", os.getuid() + 1, 600, (600, 700), None)
    assert with_primary_group(somebody, "science") == replace(somebody, gid=700)
    for name in ("staff", "root", "nosuch"):
        with pytest.raises(NotInGroup, match="primary_unix_group: "):
            with_primary_group(somebody, name)
    own = replace(somebody, uid=os.getuid())
    with pytest.raises(NotInGroup, match="without root's rights"):
        with_primary_group(own, "science")


@pytest.mark.parametrize("owner", ["\u00b2", "\u0663\u0663"])
def test_a_number_in_another_script_is_no_account(owner: str) -> None:
    job = ClassAd({"Owner": owner, "User": f"{owner}@pool.test"})
    assert account_for(job, uid_domain="pool.test", fallback="nobody", soft_uid_domain=True).name == "nobody"
