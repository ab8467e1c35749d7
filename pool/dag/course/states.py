"""The states of a node and of a whole graph, and the settings of a course; numbers and names are HTCondor's."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class NodeState(IntEnum):
    """Where a node is."""

    NOT_READY = 0
    READY = 1
    PRERUN = 2
    SUBMITTED = 3
    POSTRUN = 4
    DONE = 5
    ERROR = 6
    FUTILE = 7
    """A node that it waits for has failed."""


class DagStatus(IntEnum):
    """How the graph fares (DAG_Status, `$DAG_STATUS`)."""

    OK = 0
    ERROR = 1
    NODE_FAILED = 2
    ABORT = 3
    RM = 4
    CYCLE = 5
    HALTED = 6


class ExitCode(IntEnum):
    """What condor_dagman returns, unless ABORT-DAG-ON says otherwise."""

    OKAY = 0
    ERROR = 1
    ABORT = 2
    RESTART = 3
    """The schedd shall run it again."""


SUBMIT_FAILED: Final = -1001
JOB_ABORTED: Final = -1002
JOB_SKIPPED: Final = -1004
"""What stands for a job's exit code where there is none; a signal is its negative."""
SIGNAL_MAX: Final = 64
LIMIT_LOWERED: Final = "DAG Limit: Max number of submitted nodes was reached."
"""Why jobs are removed as the limit of nodes was lowered; by these words a later condor_dagman knows them, too."""
PROVISIONED: Final = 2
"""The ProvisionerState of a provisioner that has done its work."""


class Limits(NamedTuple):
    """How much goes on at once; 0: no limit. They may change while the graph runs."""

    jobs: int = 0
    """Nodes whose jobs are in the queue."""
    idle: int = 0
    """Jobs that wait to run."""
    pre: int = 0
    post: int = 0
    hold: int = 0
    submits: int = 0
    """Nodes that are submitted in each interval."""

    def within(self, bounds: Limits) -> Limits:
        """These limits, none of them above its bound; a bound of 0 is none."""
        # No limit at all is more than any bound allows.
        return Limits(*(min(own or most, most) if most else own for own, most in zip(self, bounds, strict=True)))


class Settings(NamedTuple):
    """What the command line and the configuration say of the course."""

    limits: Limits = Limits()
    always_run_post: bool = False
    depth_first: bool = False
    retry_node_first: bool = False
    retry_submit_first: bool = True
    submit_attempts: int = 6
    job_holds_max: int = 100
    """After how many holds the jobs of a node are removed; 0: never."""
    tolerance: int = 0
    """How many jobs of a node may fail, unless the node says."""
    remove_job_list: bool = True
    """A node that has failed has its other jobs removed, unless it says."""
    hold_failed_jobs: bool = False
    priority: int = 0
    """Added to that of each node."""
    enforce_new_limit: bool = False
    """Where the limit of nodes is lowered, the jobs of those beyond it are removed, and the nodes retried."""
    remove_node_jobs: bool = True
    """The jobs of nodes are removed when the graph is."""
    rescue_files: bool = True
    dag_id: int = -1
    """The cluster of condor_dagman's own job."""


class Counts(NamedTuple):
    """How many nodes are where (the table of .dagman.out, DAG_Nodes*), and jobs."""

    total: int
    done: int
    pre: int
    queued: int
    post: int
    ready: int
    unready: int
    failed: int
    futile: int
    held: int
    """Jobs on hold."""
    idle: int


class JobFigures(NamedTuple):
    """How many jobs have been submitted, and where they are."""

    submitted: int
    idle: int
    held: int
    running: int
    succeeded: int
    failed: int
