"""Work that a slot has fetched for itself: what its ad must say, and what is added so that a starter can run it."""

from __future__ import annotations

from typing import Final

from pool.base.errors import UserError
from pool.base.ids import JobId
from pool.base.words import split_list
from pool.classad import ClassAd, parse_long
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import Universe

FETCHED_JOB: Final = JobId(1, 0)
"""What fetched work is called in logs."""

REQUESTS: Final = ("RequestCpus", "RequestMemory", "RequestDisk")


class BadWork(UserError):
    """A FETCH_WORK hook has printed something that cannot be run."""


def read_work(text: str) -> ClassAd | None:
    """The job in a hook's output; None when there is no work. ClassAdError names the line that is no attribute."""
    if not text.strip():
        return None
    ad = parse_long(text, file="output")
    return ad if len(ad) else None


def complete(job: ClassAd, keyword: str, *, partitionable: bool, as_root: bool, uid_domain: str) -> ClassAd:
    """The job with what a starter needs besides; BadWork when something required is missing.

    Its owner is a user of this machine's `uid_domain` unless the hook names another: the hook is the machine's own.
    """
    if not job.eval_str("Cmd"):
        raise BadWork("the fetched work has no Cmd")
    owner = job.eval_str("Owner") or (job.eval_str("User") or "").partition("@")[0] or job.eval_str("OsUser") or ""
    if as_root and not owner:
        raise BadWork("the fetched work has no Owner, and this startd is root's")
    # From a partitionable slot something is carved, and a guess would give away the whole machine or too little of it.
    missing = [name for name in REQUESTS if partitionable and job.eval_int(name) is None]
    if missing:
        raise BadWork(f"the fetched work has no {', '.join(missing)}, and the slot is partitionable")
    ad = job.flat()
    universe = ad.eval_int("JobUniverse", Universe.VANILLA)
    if universe == Universe.JAVA:
        ad["JarFiles"] = ",".join(split_list(ad.eval_str("JarFiles")))
    elif universe != Universe.VANILLA:
        raise BadWork(
            f"fetched work cannot be of universe {universe}", expected=f"{Universe.VANILLA} or {Universe.JAVA}"
        )
    if owner:
        ad["Owner"] = owner
        if "@" not in (ad.eval_str("User") or ""):
            ad["User"] = f"{owner}@{uid_domain}"
    ad["HookKeyword"] = keyword
    # No access point is behind this job: all of it is on the machine already.
    ad["TransferExecutable"] = False
    for name, value in (
        ("MyType", "Job"),
        ("JobUniverse", Universe.VANILLA),
        ("ClusterId", FETCHED_JOB.cluster),
        ("ProcId", FETCHED_JOB.proc),
        ("JobStatus", int(JobStatus.RUNNING)),
        ("ShouldTransferFiles", "NO"),
    ):
        # The hook's own words win; only what a starter cannot do without is added.
        ad.setdefault(name, value)
    return ad


def log_path(job: ClassAd, directory: str) -> str:
    """Where the starter writes the job's own log; empty: nowhere."""
    name = job.eval_str("StarterUserLog") or ""
    if not name:
        return ""
    return name if name.startswith("/") else f"{(job.eval_str('Iwd') or directory).rstrip('/')}/{name}"
