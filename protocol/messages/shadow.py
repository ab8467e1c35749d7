"""What a starter tells the shadow task of its job, on its own connection with the activation's ticket.

A shadow is a task of the schedd's, so the messages go there: it begins with StarterReady and ends with JobEnded, which
the starter repeats until it is acknowledged.
"""

from __future__ import annotations

from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.jobs.vocabulary.endings import Ending
from protocol.wire.message import Done, Message, Record, Request


class GoAhead(Record):
    """The job may run. `job_ad`: the job as it is with this slot, for a starter that was to hear of that."""

    job_ad: ClassAd | None = None


class StarterReady(Request[GoAhead], tag="schedd.starter_ready"):
    """The starter of an activation is here, for the first time or after a lost connection.

    `wants_job`: it was ordered early, and has not heard yet how the job's ad is since the slot was granted.
    """

    job_id: JobId
    activation: str
    starter_address: str = ""
    wants_job: bool = False


class StarterRests(Request[Done], tag="schedd.starter_rests"):
    """The job only runs: its starter closes this connection, and comes back when its startd wakes it."""

    job_id: JobId
    activation: str


class JobExecuting(Request[Done], tag="schedd.job_executing"):
    """The program was started at `at` (wall clock, seconds)."""

    job_id: JobId
    activation: str
    at: float
    ad: ClassAd


class JobUpdate(Message, tag="schedd.job_update"):
    """Usage so far: job attributes to set (ImageSize, ResidentSetSize, MemoryUsage, RemoteUserCpu ...)."""

    job_id: JobId
    activation: str
    ad: ClassAd


class JobNotice(Message, tag="schedd.job_notice"):
    """A sentence for the job's log, from the machine that runs it."""

    job_id: JobId
    activation: str
    message: str


class JobAttribute(Record):
    """An expression as text."""

    text: str


class ReadJobAttribute(Request[JobAttribute], tag="schedd.read_job_attribute"):
    """What an attribute of the running job is in the queue; UNDEFINED when it has none."""

    job_id: JobId
    activation: str
    name: str


class SetJobAttributes(Request[Done], tag="schedd.set_job_attributes"):
    """The running job sets attributes (name -> expression text) of its own ad."""

    job_id: JobId
    activation: str
    assignments: dict[str, str]


class WriteToLog(Request[Done], tag="schedd.write_to_log"):
    """The running job has something to say in its log."""

    job_id: JobId
    activation: str
    text: str


class JobEnded(Request[Done], tag="schedd.job_ended"):
    """The activation is over and its output delivered; repeated until answered, so it is idempotent.

    Answered when the result is durable; then the starter may forget it. `executing` is what was not said before the
    end of a short job.
    """

    job_id: JobId
    activation: str
    ending: Ending
    at: float
    reason: str = ""
    ad: ClassAd
    executing: JobExecuting | None = None
    checkpointed: bool = False
    """The program was written down as it left, and that is kept."""
