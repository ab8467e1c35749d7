from __future__ import annotations

import pytest

from pool.base.errors import PeerError
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.files.spool import fetched_to, job_of, outputs, spool_path, spooled, spooled_items

JOB = ClassAd(
    {
        "Cmd": "/home/u/bin/prog", "Iwd": "/home/u", "In": "data/numbers", "Out": "_condor_stdout", "Err": "err",
        "TransferInput": "a/seed, tree/, https://x/y, /etc/motd", "TransferPlugins": "oak=lib/oak.py",
        "TransferOutputRemaps": "_condor_stdout=logs/out;b=oak://c/b;d\\=x=e", "SUBMIT_UserLog": "/home/u/logs/log",
    }
)  # fmt: skip


def _after() -> ClassAd:
    ad = JOB.copy()
    ad.update(spooled(JOB, "/spool/x", 1000.5))
    return ad


def test_each_job_has_a_directory_of_its_own_that_names_it() -> None:
    path = spool_path("/spool", JobId(12345, 7))
    assert path == "/spool/2345/7/cluster12345.proc7.subproc0"
    assert job_of(path.rpartition("/")[2]) == JobId(12345, 7)
    assert job_of("local_univ_execute") is None


def test_the_input_is_sent_under_its_names_in_the_sandbox() -> None:
    items = {item.name: item.source for item in spooled_items(JOB)}
    assert items == {
        "prog": "/home/u/bin/prog", "numbers": "/home/u/data/numbers", "oak.py": "/home/u/lib/oak.py",
        "seed": "/home/u/a/seed", "tree": "/home/u/tree", "motd": "/etc/motd",
    }  # fmt: skip


def test_a_spooled_jobs_ad_speaks_of_the_spool_and_remembers_what_was_said() -> None:
    ad = _after()
    assert ad["Iwd"] == "/spool/x"
    assert ad["SUBMIT_Iwd"] == "/home/u"
    assert (ad["Cmd"], ad["SUBMIT_Cmd"]) == ("prog", "/home/u/bin/prog")
    assert ad["In"] == "numbers"
    assert ad["TransferInput"] == "seed,tree/,https://x/y,motd"
    assert ad["TransferPlugins"] == "oak=oak.py"
    assert ad["TransferOutputRemaps"] == "b=oak://c/b"
    assert ad["UserLog"] == "log"
    assert ad["StageInFinish"] == 1000


def test_what_came_after_the_input_is_output() -> None:
    found = {"prog": 999.0, "seed": 999.0, "numbers": 1000.6, "new": 1.0, "tree": 3.0, ".new.part": 1.0,
             "_condor_checkpoint_0001": 2000.0}  # fmt: skip
    assert outputs(_after(), found) == ["new", "numbers"]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("_condor_stdout", "/home/u/logs/out"),
        ("err", "/home/u/err"),
        ("d=x", "/home/u/e"),
        ("d=x/y", "/home/u/e/y"),
        ("log", "/home/u/logs/log"),
        ("sub/x", "/home/u/sub/x"),
    ],
)
def test_what_is_fetched_goes_where_its_user_said(name: str, place: str) -> None:
    assert fetched_to(_after())(name) == place


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", ""])
def test_an_access_point_names_no_place_outside(name: str) -> None:
    with pytest.raises(PeerError):
        fetched_to(_after())(name)
