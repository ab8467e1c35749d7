"""The ads of jobs under execution that are kept at hand: where many jobs run, those of the last that changed.

A job is looked at and changed often while it starts and while it ends. In between it runs, for hours perhaps, and its
row says all that its ad would.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from pool.classad import ClassAd
from pool.jobs.queue.cluster import Job

MOST: Final = 200
"""How many: an ad that is made again takes 0.1 ms, and one that is kept 1 kB."""


class AdsAtHand:
    """Those jobs, the one that was changed last at the end."""

    def __init__(self, most: int = MOST) -> None:
        self._jobs: dict[Job, None] = {}
        self._most = most

    def add(self, job: Job, ad: ClassAd) -> None:
        """An execution of the job begins."""
        job.live_ad = ad
        self._jobs[job] = None

    def written(self, job: Job) -> None:
        """The job was changed, and its row says so."""
        self._jobs.pop(job, None)
        if job.busy:
            self._jobs[job] = None
        else:
            job.live_ad = None

    def let_go(self, changed: Container[Job]) -> None:
        """Give up the ads of all but the last; those of `changed` say more than their rows."""
        while len(self._jobs) > self._most:
            job = next(iter(self._jobs))
            del self._jobs[job]
            if job.busy and job not in changed and job.cluster.jobs.get(job.proc) is job:
                job.live_ad = None
