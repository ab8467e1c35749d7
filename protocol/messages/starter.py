"""What a startd and its starter say to each other, on the socket pair that the starter was born with.

The pair lasts as long as both of them live, so that nothing is lost on it before one of them ends. What is a request
here but RunJob goes as a notice: its receiver does it, or has nothing to do, and nobody waits for an answer.
"""

from __future__ import annotations

from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.messages.common import StopHow
from protocol.wire.message import Done, Message, Record, Request

# ---- to the starter


class StarterSlot(Record):
    """The slot that a starter works for, as far as it is not like the host's other slots.

    A starter is forked before anybody knows whose it will be, so this comes with its jobs.
    """

    name: str
    group: str = ""  # its jobs' control group; empty: there are none
    log_path: str = ""  # empty: standard error
    fallback_account: str = "nobody"
    cpu_affinity: list[int] = []


class RunJob(Request[Done], tag="starter.run_job"):
    """Run one job (see startd.ActivateClaim); answered at once. A starter runs one job at a time, one claim's only.

    Without a `shadow_address` the job is the machine's own: nobody but its startd hears of it.
    """

    slot: StarterSlot
    activation: str
    job_id: JobId
    job_ad: ClassAd
    slot_ad: ClassAd
    """What has changed of it since the starter was told of it last; at first, the whole."""
    shadow_address: str
    ticket: str
    agent_address: str = ""
    agent_ticket: str = ""
    lease_s: float = 2400.0
    slot_lacks: list[str] = []
    """The attributes that the slot's ad has no more."""
    early: bool = False
    """The schedd does not know yet that it has the slot (startd.EarlyOrder): it says how the job's ad is by then."""


class MeetSchedd(Request[Done], tag="starter.meet_schedd"):
    """A claim is asked for that will be the starter's: connect to its schedd, so that the first job need not wait.

    Without an address: it was refused, and the connection is to be closed.
    """

    shadow_address: str = ""
    ticket: str = ""


class KnowSlot(Request[Done], tag="starter.know_slot"):
    """The claim was granted, and the starter is its slot's: what of the slot's ad is news, as in RunJob."""

    slot_ad: ClassAd
    slot_lacks: list[str] = []


class StopJob(Request[Done], tag="starter.stop_job"):
    """End the running job: with its kill signal and vacate time, or at once. It is then reported as EVICTED."""

    activation: str
    how: StopHow
    reason: str = ""
    vacate_s: float | None = None
    cause: str = ""  # what the schedd does to the job: "hold", "remove", or nothing
    hold_code: int = 0
    hold_subcode: int = 0
    transfer: bool = False
    """Its output is sent as if it had ended by itself."""


class SuspendJob(Request[Done], tag="starter.suspend_job"):
    """Freeze the job."""

    activation: str


class CheckpointJob(Request[Done], tag="starter.checkpoint_job"):
    """Send a job that wants it (WantCheckpointSignal) the signal at which it makes a checkpoint."""

    activation: str


class DeviceUse(Request[Done], tag="starter.device_use"):
    """What the startd's monitors say that the job has used of its devices so far: GPUsAverageUsage and the like."""

    activation: str
    ad: ClassAd


class ContinueJob(Request[Done], tag="starter.continue_job"):
    """Thaw the job."""

    activation: str


class WakeUp(Request[Done], tag="starter.wake_up"):
    """Be there: a starter that rests hears this, as any order, when there is one again."""


class LeaveNow(Request[Done], tag="starter.leave"):
    """The claim is over: end when nothing runs."""


# ---- to the startd


class JobInfo(Message, tag="startd.job_info"):
    """What the running job uses: attributes for the slot's policy and ad, and the disk that its sandbox takes now."""

    activation: str
    ad: ClassAd
    sandbox_kib: int = 0


class MayRest(Request[Done], tag="startd.may_rest"):
    """The job only runs: the starter ends now, and comes back when something happens. Refused while it has orders."""

    activation: str


class GoesOn(Record):
    """Whether a job may be started again in its slot; when not, why."""

    why_not: str = ""


class MayGoOn(Request[GoesOn], tag="startd.may_go_on"):
    """The program has ended to have its checkpoint kept, and would be started again."""

    activation: str


class HomesServer(Record):
    """The process that serves a job's files."""

    pid: int


class ServeHomes(Request[HomesServer], tag="startd.serve_homes"):
    """The job has its files where they are: have a process forked that serves them, and hears more at `door`.

    That is the name of an abstract socket on which the starter listens. The process knows its starter by the account.
    """

    activation: str
    door: bytes


class StarterAwake(Message, tag="startd.starter_awake"):
    """It has the job again, and hears orders; first on a new connection."""

    activation: str


class EngineTrouble(Message, tag="startd.engine_trouble"):
    """The container engine does not do what it has to: no job that needs it should come."""

    activation: str
    reason: str


class VmStart(Message, tag="startd.vm_start"):
    """How the start of a virtual machine went: what this machine has against it, or nothing where it runs."""

    activation: str
    problem: str = ""


class ImageTrouble(Message, tag="startd.image_trouble"):
    """An image of Apptainer or Singularity did not run: the image may be at fault, or the machine's program."""

    activation: str
    reason: str


class ActivationOver(Request[Done], tag="startd.activation_over"):
    """The schedd has the result (or the lease ran out): the sandbox is gone, the starter can take the next job."""

    activation: str
    reported: bool = True
    reason: str = ""
    ran_s: float | None = None  # how long its program ran; None when it was never started
    received: int = 0  # bytes of files, for it and from it
    sent: int = 0
