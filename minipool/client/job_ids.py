"""Job ids in ads, and as the words of a command line: `12` is a cluster and also its first job, `12.3` one job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pool.base.errors import UserError
from pool.base.ids import JobId, named_jobs, names_jobs

if TYPE_CHECKING:
    from pool.classad import ClassAd


def of_ad(ad: ClassAd) -> JobId:
    """The job that the ad is of."""
    return JobId(ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0))


def one_job(word: str) -> JobId | None:
    """The job of this id; None when the word is no id."""
    try:
        return JobId.parse(word if "." in word else f"{word}.0")
    except UserError:
        return None


def clause(word: str) -> str:
    """The jobs that a word names (a user's when it is no id), as HTCondor's expression for them."""
    named = named_jobs(word)
    if named is None:
        from pool.classad import quote

        return f"Owner == {quote(word)}"
    cluster, proc = named
    return f"ClusterId == {cluster}" if proc is None else f"(ClusterId == {cluster} && ProcId == {proc})"


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The ids of jobs and clusters among the words, and the others: names of users."""
    return [word for word in words if names_jobs(word)], [word for word in words if not names_jobs(word)]
