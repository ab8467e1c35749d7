"""The job's ad as update and exit hooks read it: with how the job is, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from pool.classad import ClassAd
from pool.execute.exit import Exited


@dataclass(frozen=True)
class Executed:
    """A job's program: its process, when it was started (wall clock), and how it ended."""

    pid: int
    started_at: float
    end: Exited | None = None


def running_job(job: ClassAd, usage: ClassAd, executed: Executed, state: str) -> ClassAd:
    """The job with what it uses; `state` is Running or Suspended."""
    ad = job.flat()
    ad.update(usage)
    ad["JobState"] = state
    ad["JobPid"] = executed.pid
    ad["JobStartDate"] = int(executed.started_at)
    # Always there, also before anything was measured.
    ad.setdefault("ImageSize", 0)
    return ad


def ended_job(job: ClassAd, usage: ClassAd, executed: Executed, now: float, reason: str) -> ClassAd:
    """The job with its results; without a `reason` from elsewhere its own end says why it is over."""
    ad = running_job(job, usage, executed, "Exited")
    if executed.end is not None:
        ad.update(executed.end.ad())
    ad["JobDuration"] = max(0.0, round(now - executed.started_at, 3))
    ad["ExitReason"] = reason or _words(executed.end)
    return ad


def _words(end: Exited | None) -> str:
    if end is None:
        return "unknown"
    return f"died on signal {end.signal}" if end.signal is not None else f"exited normally with status {end.code}"
