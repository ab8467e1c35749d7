"""MAX_JOB_AD_BYTES, MAX_AD_ATTRIBUTES and MAX_JOB_BYTES_PER_OWNER: what jobs may have of their own,
when they come and later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from daemons.schedd.core.core import Core
from pool.ads.limits import size_of
from pool.base.errors import SubmitError, UserError
from pool.classad import ClassAd, Member
from pool.jobs.queue.cluster import Cluster, Job

_NUMBERS: Final = (bool, int, float)
_ENDINGS: Final = frozenset({"exitbysignal", "exitcode", "exitsignal", "exitstatus"})


def check_new(core: Core, cluster: Cluster, jobs: Sequence[Job], before: int = 0) -> int:
    """What these new jobs have of their own, in bytes, beside `before` of others that come with them; SubmitError when
    it is too much, of one of them or of all that their owner has.
    """
    sizes = [len(job.text) for job in jobs]
    settings, size = core.settings, sum(sizes)
    current, most = core.queue.bytes_of[cluster.owner], settings.bytes_per_owner_max
    if current + before + size > most:
        raise SubmitError(
            f"MAX_JOB_BYTES_PER_OWNER exceeded, submit failed. The jobs of {cluster.owner} have {current} bytes, "
            f"and these at least {before + size}. Limit is {most}"
        )
    largest = settings.ad_limits.size
    if max(sizes, default=0) > largest:
        job = next(job for job in jobs if len(job.text) > largest)
        raise SubmitError(f"the ad of job {job.proc} has {len(job.text)} bytes", expected=f"at most {largest}")
    return size


def check_growth(core: Core, job: Job, values: Mapping[str, Member]) -> None:
    """UserError when the job's own attributes would be too large with these."""
    ad, told, limits = core.queue.ad(job), ClassAd(values).attrs, core.settings.ad_limits
    grown = size_of(told)
    if len(ad.attrs) + len(told) > limits.attributes or size_of(ad.attrs) + grown > limits.size:
        after = ClassAd(ad.own())  # what takes the place of something else does not count twice
        after.update(values)
        limits.check(after, f"the ad of job {job.id} would be too large: it")
    owner, most = job.cluster.owner, core.settings.bytes_per_owner_max
    if core.queue.bytes_of[owner] + grown > most:
        raise UserError(f"the jobs of {owner} would have more bytes than MAX_JOB_BYTES_PER_OWNER allows: {most}")


def taken(core: Core, job: Job, told: ClassAd) -> ClassAd:
    """What a starter reports; where the job would be too large with it, the numbers of which the job has known."""
    try:
        check_growth(core, job, told)
    except UserError as error:
        core.log.always(f"A starter's report is cut: {error}", job=str(job.id))
        known = core.queue.ad(job)
        # A number takes the place of a number: the ad does not grow, and usage and exit code are not lost.
        numbers = [(name, value) for name, value in told.items() if type(value) in _NUMBERS]
        return ClassAd([(name, value) for name, value in numbers if name in known or name.lower() in _ENDINGS])
    return told
