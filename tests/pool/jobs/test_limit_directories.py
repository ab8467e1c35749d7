"""Where a job's files may be: the site's list, the job's own, and the spool."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd
from pool.jobs.limit_directories import directories_of, is_within

OWN = ClassAd({"LimitDirectoryAccess": "/own, /other"})


def test_the_sites_list_counts_and_without_one_the_jobs() -> None:
    assert directories_of([], ClassAd(), "/spool/1") == []
    assert directories_of(["/data"], OWN, "/spool/1") == ["/data", "/spool/1"]
    assert directories_of([], OWN, "/spool/1") == ["/own", "/other", "/spool/1"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/data", True),
        ("/data/a/b", True),
        ("/database", False),
        ("/home/ann/results/x", True),
        ("/home/ann/results", True),
        ("/home/ann/other/x", False),
        ("/scratch-7/x", True),
        ("/dev/null", True),
        ("/dev/full", False),
        ("/", False),
    ],
)
def test_a_path_is_within_when_an_entry_is_its_beginning(path: str, allowed: bool) -> None:
    assert is_within(path, ["/data", "/home/*/results/", "/scratch-*"]) is allowed
