"""One attempt at a node: its jobs in the queue, how they ended, and what its scripts are told."""

from __future__ import annotations

from collections import Counter

from pool.dag.course.states import JOB_ABORTED


class Attempt:
    """What is known of a node from its start to its end; a retry begins another."""

    __slots__ = ("beyond_limit", "cluster", "codes", "error", "factory", "failed", "held", "holds", "idle", "job_value",
                 "jobs", "left", "pre_value", "sequence", "succeeded", "tries", "value")  # fmt: skip

    def __init__(self) -> None:
        self.cluster = -1
        self.jobs = 0
        self.left = 0
        """Jobs that are in the queue."""
        self.factory = False
        self.codes: dict[int, int] = {}
        """How each job ended: a code, a signal as its negative, or JOB_ABORTED."""
        self.failed = 0
        self.idle: set[int] = set()
        self.held: set[int] = set()
        self.beyond_limit = False
        """The limit of nodes was lowered below it: its jobs go, and come again."""
        self.holds = 0
        self.tries = 0
        self.succeeded = True
        """Nothing of it has failed yet (`$SUCCESS`)."""
        self.value = 0
        """The node's return value so far: of its PRE script, its first job that failed, its POST script."""
        self.pre_value = -1
        self.job_value = -1
        self.error = ""
        self.sequence = 0

    def queue(self, cluster: int, jobs: int, factory: bool) -> None:
        """These are its jobs."""
        self.cluster, self.factory = cluster, factory
        # A factory's jobs are told one by one.
        self.jobs = self.left = 0 if factory else jobs
        self.idle = set() if factory else set(range(jobs))

    @property
    def aborted(self) -> int:
        """How many of its jobs were removed."""
        return sum(code == JOB_ABORTED for code in self.codes.values())

    def exit_codes(self) -> list[int]:
        """The codes of those that ended by themselves, by job."""
        return [code for _, code in sorted(self.codes.items()) if code != JOB_ABORTED]

    def counted(self) -> list[tuple[int, int]]:
        """Each exit code, and how many jobs had it."""
        return sorted(Counter(self.exit_codes()).items())
