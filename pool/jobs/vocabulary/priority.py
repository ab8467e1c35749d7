"""Which of a user's jobs goes first: five numbers of its ad, one after another, of which the higher counts.

Source: HTCondor manual, "Job ClassAd Attributes" (PreJobPrio1, PreJobPrio2, JobPrio, PostJobPrio1, PostJobPrio2).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from pool.classad import ClassAd

PRIO: Final = "JobPrio"
AROUND: Final = ("PreJobPrio1", "PreJobPrio2", "PostJobPrio1", "PostJobPrio2")
"""What few jobs have."""
AROUND_KEYS: Final = frozenset(name.lower() for name in AROUND)
KEYS: Final = AROUND_KEYS | {PRIO.lower()}


class Priority(NamedTuple):
    """A job's; the highest goes first, and of equal ones the job with the lowest id."""

    pre1: int = 0
    pre2: int = 0
    prio: int = 0
    post1: int = 0
    post2: int = 0


@lru_cache(maxsize=1 << 16)
def _one(pre1: int, pre2: int, prio: int, post1: int, post2: int) -> Priority:
    """The same object for equal numbers: a queue may have a million jobs."""
    return Priority(pre1, pre2, prio, post1, post2)


def with_prio(prio: int) -> Priority:
    """That of a job which has JobPrio alone."""
    return _one(0, 0, prio, 0, 0)


def priority_of(ad: ClassAd) -> Priority:
    """What a job's ad says; what is no integer there counts as 0."""
    pre1, pre2, post1, post2 = (ad.eval_int(name, 0) if name in ad else 0 for name in AROUND)
    return _one(pre1, pre2, ad.eval_int(PRIO, 0), post1, post2)


ORDINARY: Final = with_prio(0)
