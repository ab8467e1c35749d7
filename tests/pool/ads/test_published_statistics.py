"""Which statistics an ad shows, by the lists of STATISTICS_TO_PUBLISH."""

from __future__ import annotations

import pytest

from pool.ads.published_statistics import collection_of, parse
from pool.base.errors import UserError
from pool.classad import ClassAd

AD = ClassAd(
    {
        "Name": "x",
        "JobsStarted": 7,
        "JobsExited": 0,
        "RecentJobsStarted": 2,
        "LoopLagP99": 0.5,
        "TransferQueueNumUploading": 3,
        "TotalRunningJobs": 0,
    }
)
CASES = (
    ("SCHEDD:2", "JobsStarted JobsExited RecentJobsStarted"),
    ("schedd", "JobsStarted RecentJobsStarted"),
    ("SCHEDD:1Z", "JobsStarted JobsExited RecentJobsStarted"),
    ("Scheduler:1!R", "JobsStarted"),
    ("SCHEDD:1!L", "RecentJobsStarted"),
    ("SCHEDD:0", ""),
    ("NONE", ""),
    ("ALL:2", "JobsStarted JobsExited RecentJobsStarted LoopLagP99 TransferQueueNumUploading"),
    ("ALL:0", ""),
    ("DEFAULT:1, SCHEDD:0", "LoopLagP99 TransferQueueNumUploading"),
    ("DC:2 TRANSFER:1", "LoopLagP99 TransferQueueNumUploading"),
    ("DAEMONCORE:1RDZL", "LoopLagP99"),
    ("DC:1R!R", "LoopLagP99"),
)


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_a_list_chooses_the_statistics_and_leaves_the_rest_alone(text: str, shown: str) -> None:
    assert set(parse(text).shown(AD)) == {"Name", "TotalRunningJobs", *shown.split()}


def test_a_list_that_cannot_be_read_is_refused_by_its_item() -> None:
    with pytest.raises(UserError, match="'SCHEDD:X' is not a set of statistics"):
        parse("DC:1, SCHEDD:X")


def test_recent_statistics_belong_to_the_collection_of_their_name() -> None:
    assert (collection_of("RecentJobsStarted"), collection_of("Memory")) == ("SCHEDD", None)
