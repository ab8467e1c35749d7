"""What tools and file agents tell a schedd; new jobs come by `submit`. Negotiators and startds tell it
`offers`, starters `shadow`.

It does what HTCondor's tools and daemons ask of a condor_schedd (manual pages man-pages/condor_submit, condor_q,
condor_qedit and condor_rm; "The Negotiation Cycle" of admin-manual/cm-configuration). The rules:

    many in pieces    jobs are shown as streams, so that no message grows with the queue
"""

from __future__ import annotations

from enum import StrEnum

from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.messages.common import AdBatch
from protocol.wire.message import Done, Message, Record, Request, StreamRequest

# ---- tools and the Python API


class Selection(Record):
    """Which jobs: by id (`12` a cluster, `12.3` a job), by owner, by constraint, or all; the union of ids and users."""

    ids: list[str] = []
    users: list[str] = []
    constraint: str | None = None
    all: bool = False


class SpoolOpened(Record):
    """The user's file agent, and the ticket for it: each job's files move under the name `spool-CLUSTER.PROC`."""

    address: str
    ticket: str


class OpenSpool(Request[SpoolOpened], tag="schedd.open_spool"):
    """The input of these jobs, submitted with `hold_for_spool`, is about to come (agent.PushOutput, OutputStored)."""

    jobs: list[JobId]


class CloseSpool(Request[Done], tag="schedd.close_spool"):
    """All input of these jobs is stored: they may run now. Or `failed`: they never will, and are removed."""

    jobs: list[JobId]
    failed: str = ""


class SpooledJobs(Record):
    """Jobs with output to fetch (agent.FetchInput), and the way to it; `ads` are chunks of job ads."""

    address: str = ""
    ticket: str = ""
    ads: list[bytes] = []


class FetchSpool(Request[SpooledJobs], tag="schedd.fetch_spool"):
    """The selected jobs of the caller's whose files are kept here."""

    select: Selection


class SpoolFetched(Request[Done], tag="schedd.spool_fetched"):
    """The files of these jobs have arrived: those that are over need not stay for them."""

    jobs: list[JobId]


class QueryJobs(StreamRequest[AdBatch], tag="schedd.query_jobs"):
    """Effective job ads (cluster attributes merged in), in order of id. `projection` empty: all attributes.

    `factories`: instead of jobs, the ads of clusters that make their jobs one after another.
    `job_sets`: instead of jobs, the ads of job sets.
    `tables`: jobs that look alike may come as tables.
    """

    select: Selection
    projection: list[str] = []
    limit: int | None = None
    factories: bool = False
    job_sets: bool = False
    tables: bool = False


class QueryUsers(Request[AdBatch], tag="schedd.query_users"):
    """The ads of users who have jobs here, or for whom something is set. `users` empty: all.

    `projects`: instead of users, the projects (ProjectName) that have jobs here or for which something is set.
    """

    users: list[str] = []
    constraint: str | None = None
    projects: bool = False


class UserAction(StrEnum):
    """What is done to a user."""

    ADD = "add"
    REMOVE = "remove"
    ENABLE = "enable"
    DISABLE = "disable"
    EDIT = "edit"


class SetUsers(Request[Done], tag="schedd.set_users"):
    """Do one thing to users; those who are disabled cannot submit. For those who may manage everybody's jobs.

    `attributes` are the expressions that EDIT sets in their ads. `projects`: the names are those of projects.
    """

    users: list[str]
    action: UserAction
    reason: str = ""
    attributes: dict[str, str] = {}
    projects: bool = False


class OwnerCount(Record):
    """How many jobs of an owner are in a state; `scheduler`: those of the scheduler universe, counted apart."""

    owner: str
    status: int
    count: int
    scheduler: bool = False


class JobCounts(Record):
    """All jobs of a queue, counted."""

    counts: list[OwnerCount] = []


class CountJobs(Request[JobCounts], tag="schedd.count_jobs"):
    """The totals under condor_q's tables, without a look at each job."""


class QueryHistory(StreamRequest[AdBatch], tag="schedd.query_history"):
    """Ads of jobs that left the queue, newest first unless `forwards`; `since` (expression or id) ends the search.

    `kinds`: instead of finished jobs, records of executions of these kinds (EPOCH, INPUT, OUTPUT, CHECKPOINT).
    `scan_limit`: how many ads are looked at.
    """

    select: Selection
    projection: list[str] = []
    limit: int | None = None
    forwards: bool = False
    since: str | None = None
    kinds: list[str] = []
    scan_limit: int | None = None


class JobDelta(Record):
    """A job's change: the attributes that are new or different (all at first), or that it left the queue."""

    job_id: JobId
    ad: ClassAd
    left: bool = False


class JobsChanged(Record):
    """Changes of one commit. `synced`: what was there at the start has now been sent."""

    deltas: list[JobDelta] = []
    synced: bool = False


class WatchJobs(StreamRequest[JobsChanged], tag="schedd.watch_jobs"):
    """The selected jobs now, then every durable change of them; JobDelta.left brings the final ad."""

    select: Selection
    projection: list[str] = []


class Action(StrEnum):
    """What can be done to jobs."""

    REMOVE = "remove"
    REMOVE_TRANSFER = "remove_transfer"
    """The output that a running job has so far comes back first."""
    REMOVE_X = "remove_x"
    HOLD = "hold"
    RELEASE = "release"
    SUSPEND = "suspend"
    CONTINUE = "continue"
    VACATE = "vacate"
    VACATE_FAST = "vacate_fast"


class Outcome(StrEnum):
    """What became of an action on one job (HTCondor's action results)."""

    DONE = "done"
    NOT_FOUND = "not_found"
    BAD_STATUS = "bad_status"
    ALREADY_DONE = "already_done"
    PERMISSION_DENIED = "permission_denied"
    LIMIT_EXCEEDED = "limit_exceeded"


class ActResult(Record):
    """One job's outcome; `status` is its JobStatus afterwards (0: none)."""

    job_id: JobId
    outcome: Outcome
    status: int = 0


class ActResults(Record):
    """Every selected job's outcome, by id."""

    results: list[ActResult]


class ActOnJobs(Request[ActResults], tag="schedd.act"):
    """Do `action` to the selected jobs; durable when answered. `reason` goes into the ad and the event log."""

    select: Selection
    action: Action
    reason: str | None = None
    subcode: int = 0


class EditJobs(Request[ActResults], tag="schedd.edit"):
    """Set attributes (name -> expression text) of the selected jobs (`condor_qedit`, `condor_prio`)."""

    select: Selection
    assignments: dict[str, str]


class RunNow(Request[Done], tag="schedd.run_now"):
    """Vacate the running jobs `instead_of` fast, and give their slots to the idle `job` (`condor_now`).

    Answered when the jobs were told to leave; `job` starts when they have. Several slots are made into one.
    """

    job: JobId
    instead_of: list[JobId]


class Reschedule(Request[Done], tag="schedd.reschedule"):
    """Ask the negotiator for a cycle now."""


# ---- a user's file agent, on the socket pair that it was born with


class AskTurn(Message, tag="schedd.ask_turn"):
    """Files of this activation want to move; `agent.TurnGiven` says when. `turn` is the agent's name for it.

    `upload`: input, from the access point to the job.
    """

    turn: str
    activation: str
    upload: bool
    size: int


class EndTurn(Message, tag="schedd.end_turn"):
    """They have moved, or will not."""

    turn: str


class TransferReport(Message, tag="schedd.transfer_report"):
    """What an activation's files have cost since the last report: bytes, and seconds spent with files and network."""

    activation: str
    amounts: dict[str, float]
