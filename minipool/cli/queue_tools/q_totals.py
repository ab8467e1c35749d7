"""The totals under condor_q's tables: how many jobs of the query, of the user and of everybody are in which state."""

from __future__ import annotations

from collections.abc import Iterable

from pool.classad import ClassAd
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import Universe

_WORDS = (
    (JobStatus.COMPLETED, "Completed"), (JobStatus.REMOVED, "Removed"), (JobStatus.IDLE, "Idle"),
    (JobStatus.RUNNING, "Running"), (JobStatus.HELD, "Held"), (JobStatus.SUSPENDED, "Suspended"),
)  # fmt: skip
# HTCondor blanks out what it cannot count of a file, and so keeps the line's length.
_UNKNOWN_COLUMNS = 51
_SCHEDULER_WORDS = ("Completed", "Held", "Idle", "Jobs", "Removed", "Running")
NEEDS = ("Owner", "JobStatus", "JobUniverse")


class Counts:
    """Jobs by state; DAGs' own jobs (scheduler universe) are counted apart."""

    def __init__(self, ads: Iterable[ClassAd] = ()) -> None:
        self.by: dict[str, int] = {}
        for ad in ads:
            self.add_job(ad)

    def add_job(self, ad: ClassAd) -> None:
        """One more job."""
        self.add(
            ad.eval_int("JobStatus", 0), scheduler=ad.eval_int("JobUniverse", Universe.VANILLA) == Universe.SCHEDULER
        )

    def add(self, status: int, *, scheduler: bool = False, count: int = 1) -> None:
        """One more job, or several."""
        before = "Scheduler" if scheduler else ""
        # A job that sends its output still holds its slot: HTCondor's totals have no word for it.
        status = JobStatus.RUNNING if status == JobStatus.TRANSFERRING_OUTPUT else status
        for word in ("Jobs", *(word for code, word in _WORDS if code == status)):
            self.by[before + word] = self.by.get(before + word, 0) + count

    def get(self, word: str) -> int:
        """How many of a state (`Idle`, `SchedulerIdle`, `Jobs`)."""
        return self.by.get(word, 0)

    def sentence(self) -> str:
        """`2 jobs; 0 completed, ...`."""
        words = ", ".join(f"{self.get(word) + self.get('Scheduler' + word)} {word.lower()}" for _, word in _WORDS)
        return f"{self.get('Jobs') + self.get('SchedulerJobs')} jobs; {words}"


class Tally:
    """A whole queue, counted by owner."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, bool, int]] = []

    @classmethod
    def of_ads(cls, ads: Iterable[ClassAd]) -> Tally:
        """From the jobs themselves."""
        tally = cls()
        for ad in ads:
            scheduler = ad.eval_int("JobUniverse", Universe.VANILLA) == Universe.SCHEDULER
            tally.rows.append((ad.eval_str("Owner", ""), ad.eval_int("JobStatus", 0), scheduler, 1))
        return tally

    def counts(self, *owners: str) -> Counts:
        """The jobs of these owners, of all when none is named."""
        counts = Counts()
        for owner, status, scheduler, count in self.rows:
            if not owners or owner in owners:
                counts.add(status, scheduler=scheduler, count=count)
        return counts


def totals_lines(query: Counts, everybody: Counts, mine: Counts | None, me: str) -> str:
    """The lines themselves, and the empty line after them."""
    lines = [f"Total for query: {query.sentence()} \n"]
    if mine is not None:
        lines.append(f"Total for {me}: {mine.sentence()} \n")
    lines.append(f"Total for all users: {everybody.sentence()}\n")
    return "".join(lines) + "\n"


def of_a_file(counts: Counts) -> str:
    """The line of jobs out of a file, where nobody else's are known; DAGs' own jobs are not counted."""
    words = ", ".join(f"{counts.get(word)} {word.lower()}" for _, word in _WORDS)
    return f"Total for query: {counts.get('Jobs')} jobs; {words}{' ' * _UNKNOWN_COLUMNS}\n\n"


def summary_ad(query: Counts, everybody: Counts, mine: Counts, me: str, now: int) -> ClassAd:
    """The same as an ad, for `-totals -json` and its like."""
    ad = ClassAd({"MyType": "Summary", "MyName": me, "ServerTime": now, "ErrorCode": 0})
    for before, counts in (("", query), ("My", mine), ("Allusers", everybody)):
        _fill(ad, before, counts)
    return ad


def file_ad(counts: Counts) -> ClassAd:
    """The summary of jobs out of a file, where nobody else's are known."""
    ad = ClassAd({"MyType": "Summary"})
    _fill(ad, "", counts)
    return ad


def _fill(ad: ClassAd, before: str, counts: Counts) -> None:
    for word in ("Jobs", *(word for _, word in _WORDS)):
        ad[before + word] = counts.get(word)
    for word in _SCHEDULER_WORDS:
        ad[f"{before}Scheduler{word}"] = counts.get("Scheduler" + word)
