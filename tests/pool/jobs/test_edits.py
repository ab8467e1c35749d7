"""What may be changed in a job, by whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.base.errors import SubmitError, UserError
from pool.classad import ClassAd
from pool.config import load_config
from pool.jobs.edits import EditRules, edit_rules
from pool.jobs.vocabulary.own_attributes import SCHEDDS, is_no_starters
from pool.submit.commands import COMMANDS


def rules(tmp_path: Path, *lines: str) -> EditRules:
    (tmp_path / "config").write_text("\n".join(["PROTECTED_JOB_ATTRS = Group", *lines]) + "\n")
    return edit_rules(load_config([str(tmp_path / "config")], environ={}))


@pytest.mark.parametrize(
    ("name", "plain", "super_user"),
    [
        ("JobPrio", True, True),
        ("Owner", False, False),
        ("JobUniverse", False, False),
        ("project", False, False),
        ("GROUP", False, True),
        ("TotalSubmitProcs", False, False),
        ("Badge", False, False),
        ("JobStatus", False, False),
    ],
)
def test_who_may_change_what(tmp_path: Path, name: str, plain: bool, super_user: bool) -> None:
    found = rules(tmp_path, "IMMUTABLE_JOB_ATTRS = Project", "SECURE_JOB_ATTRS = Badge")
    for is_super, may in ((False, plain), (True, super_user)):
        if may:
            found.check([name], super_user=is_super)
        else:
            with pytest.raises(UserError, match=f'attribute "{name}" is not allowed'):
                found.check([name], super_user=is_super)


def test_what_only_the_schedd_sets_is_taken_out_of_new_jobs_or_refused(tmp_path: Path) -> None:
    ad = ClassAd({"Badge": "gold", "Cmd": "/x"})
    assert rules(tmp_path, "SECURE_JOB_ATTRS = BADGE").submitted(ad, ClassAd()) == ["Badge"]
    assert list(ad) == ["Cmd"]
    strict = rules(tmp_path, "SECURE_JOB_ATTRS = badge", "IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS = false")
    with pytest.raises(SubmitError, match="secure attribute badge"):
        strict.submitted(ClassAd({"Badge": "gold"}), ClassAd())


def test_a_starter_reports_use_and_nothing_of_whose_the_job_is_or_what_it_runs(tmp_path: Path) -> None:
    told = ClassAd(
        {
            "ImageSize": 5,
            "MemoryUsage": 1,
            "GPUsUsage": 0.5,
            "owner": "bob",
            "OsUser": "bob",
            "AccountingGroup": "bob",
            "Badge": "gold",
            "Project": "x",
            "Group": "g",
            "Cmd": "/bin/sh",
            "UserLog": "/home/ann/.profile",
            "Odd": ["a\0b"],
        }
    )
    found = rules(tmp_path, "IMMUTABLE_JOB_ATTRS = Project", "SECURE_JOB_ATTRS = Badge").reported(told)
    assert sorted(found) == ["GPUsUsage", "ImageSize", "MemoryUsage"]


def test_what_the_submit_language_sets_is_no_report_of_an_execute_host() -> None:
    said = {one.attribute.lower() for one in COMMANDS if one.attribute}
    measured = {"imagesize", "diskusage"}  # begun by the submitter, and gone on with by who sees the job run
    names = {name.replace("<service>", "web").replace("<name>", "x") for name in said} - measured
    assert {name for name in names - SCHEDDS if not is_no_starters(name)} == set()
