"""MAX_JOB_AD_BYTES and MAX_AD_ATTRIBUTES: what jobs may have of their own, when they come and later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from daemons.schedd.core import Core
from pool.classad import ClassAd, Member
from pool.errors import SubmitError, UserError
from pool.jobs.job_queue import Job

_NUMBERS: Final = (bool, int, float)
_ENDINGS: Final = frozenset({"exitbysignal", "exitcode", "exitsignal", "exitstatus"})


def check_new(core: Core, jobs: Sequence[Job]) -> None:
    """SubmitError when what one of these new jobs has of its own is too large."""
    largest = core.settings.ad_limits.size
    if max([len(job.packed) for job in jobs], default=0) > largest:
        job = next(job for job in jobs if len(job.packed) > largest)
        raise SubmitError(f"the ad of job {job.proc} has {len(job.packed)} bytes", expected=f"at most {largest}")


def check_growth(core: Core, job: Job, values: Mapping[str, Member]) -> None:
    """UserError when the job's own attributes would be too large with these."""
    after = ClassAd(core.queue.ad(job).own())
    after.update(values)
    core.settings.ad_limits.check(after, f"the ad of job {job.id} would be too large: it")


def taken(core: Core, job: Job, told: ClassAd) -> ClassAd:
    """What a starter reports; where the job would be too large with it, the numbers of which the job has known."""
    try:
        check_growth(core, job, told)
    except UserError as error:
        core.log.always(f"A starter's report is cut: {error}", job=str(job.id))
        known = core.queue.ad(job)
        numbers = [(name, value) for name, value in told.items() if type(value) in _NUMBERS]
        return ClassAd([(name, value) for name, value in numbers if name in known or name.lower() in _ENDINGS])
    return told
