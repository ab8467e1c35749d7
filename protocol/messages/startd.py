"""What schedds, the negotiator and administrators tell a startd.

Rules: a claim is named by its claim id, which is its capability, and a job's run by its activation; a message that
comes twice or late names what it is about, and so does no harm. Answers say in words for the user why not.
"""

from __future__ import annotations

from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.messages.common import StopHow
from protocol.wire.message import Done, Record, Request


class ClaimAnswer(Record):
    """Whether the claim is held; when not, `reason` says why in words for the user."""

    granted: bool
    reason: str = ""
    slot_name: str = ""
    slot_ad: ClassAd | None = None
    lease_s: float = 0.0
    alive_interval_s: float = 0.0


class EarlyOrder(Record):
    """The execution that a claim is asked for, as far as it is known before the claim is granted.

    A starter may be given it with the grant, and prepares it; ActivateClaim follows, and nothing runs before the schedd
    has said to the starter that it may.
    """

    activation: str
    job_id: JobId
    agent_address: str = ""
    agent_ticket: str = ""


class RequestClaim(Request[ClaimAnswer], tag="startd.request_claim"):
    """Take the slot of `claim_id` for jobs like `job_ad`; a partitionable slot carves a dynamic one for it.

    Idempotent: asked again by its holder, the answer is the same. The claim's starter may connect to `shadow_address`
    with `ticket` before it has a job, and with `early` it may have one as soon as the claim is granted. With `room`,
    the dynamic slots that offer these ids end, and the claim gets a new one out of what they leave.
    """

    claim_id: str
    job_ad: ClassAd
    schedd_name: str
    submitter: str
    lease_s: float
    alive_interval_s: float
    shadow_address: str = ""
    ticket: str = ""
    room: list[str] = []
    early: EarlyOrder | None = None


class ActivateAnswer(Record):
    """Whether a starter was set to work; when not, why, and whether the claim is still good.

    `lease_s`: how long the startd waits for a word of the schedd's while it has this job; 0: as before.
    """

    started: bool
    reason: str = ""
    claim_is_good: bool = True
    lease_s: float = 0.0


class ActivateClaim(Request[ActivateAnswer], tag="startd.activate_claim"):
    """Run this job under the claim. The starter calls `shadow_address` back with `ticket`.

    `activation` is unique to this execution; files move between the starter and `agent_address` with `agent_ticket`
    (empty address: no file moves). `concluded`: the schedd has the report of what ran under the claim before, whose
    starter may still have to clean up; this job waits for that.
    """

    claim_id: str
    activation: str
    job_id: JobId
    job_ad: ClassAd
    shadow_address: str
    ticket: str
    agent_address: str = ""
    agent_ticket: str = ""
    concluded: bool = False


class DeactivateClaim(Request[Done], tag="startd.deactivate_claim"):
    """End the claim's job, keep the claim. Its starter reports JobEnded with EVICTED as usual.

    `cause` is what the schedd does to the job: "hold", "remove", or nothing. `transfer`: its output is
    wanted all the same.
    """

    claim_id: str
    how: StopHow = StopHow.GRACEFUL
    reason: str = ""
    cause: str = ""
    transfer: bool = False


class WakeStarter(Request[Done], tag="startd.wake_starter"):
    """The starter of the claim's job shall connect to the schedd again, if it rests."""

    claim_id: str


class ReleaseClaim(Request[Done], tag="startd.release_claim"):
    """Give the slot back; a job that still runs is ended as `how` says. Sent as a notice.

    `concluded`: the schedd has the report of what ran there last, so that only its starter may still have to clean up.
    """

    claim_id: str
    how: StopHow = StopHow.GRACEFUL
    concluded: bool = False


class Alive(Record):
    """Which of the claims asked about are still held, in their order."""

    held: list[bool]


class KeepAlive(Request[Alive], tag="startd.keep_alive"):
    """Renew the leases of these claims."""

    claim_ids: list[str]


class SuspendClaim(Request[Done], tag="startd.suspend_claim"):
    """Freeze the claim's job."""

    claim_id: str


class ContinueClaim(Request[Done], tag="startd.continue_claim"):
    """Thaw the claim's job."""

    claim_id: str


class ReconnectAnswer(Record):
    """What the startd knows of a claim after its schedd was away: `activation` is the one still running, or empty."""

    held: bool
    activation: str = ""
    slot_name: str = ""
    slot_ad: ClassAd | None = None
    claim_id: str = ""  # the claim's id from now on, where one was asked for


class ReconnectClaim(Request[ReconnectAnswer], tag="startd.reconnect_claim"):
    """The schedd is back (P5): this connection now carries the claim, and its lease is renewed.

    `digest` is the SHA-256 of the id with which the claim was granted: all that a schedd keeps of it. `needs_id`: it
    was started again and has no other; the claim gets a fresh id, and the earlier one is void.
    """

    digest: str
    needs_id: bool = False
    lease_s: float
    alive_interval_s: float


class Coalesced(Record):
    """The claim that takes the place of those that were given up for it, or why there is none."""

    claim_id: str = ""
    answer: ClaimAnswer


class MatchMade(Request[Done], tag="startd.match_made"):
    """The negotiator has given these claim ids to a schedd (NEGOTIATOR_INFORM_STARTD); `over`: they will not be used.

    Ids that are unknown, or claimed already, are nothing to worry about. Idempotent.
    """

    claim_ids: list[str]
    over: bool = False


class CoalesceClaims(Request[Coalesced], tag="startd.coalesce_claims"):
    """Make one slot for `job_ad` out of the idle dynamic slots of these claims (`condor_now`); the claims end."""

    claim_ids: list[str]
    job_ad: ClassAd
    lease_s: float
    alive_interval_s: float


# ---- administrators


class DrainStarted(Record):
    """The drain goes on under this id."""

    request_id: str


class DrainMachine(Request[DrainStarted], tag="startd.drain"):
    """Take no more jobs and let those that run leave (`condor_drain`): `how_fast` 0 gracefully, 10 quickly, 20 fast.

    `on_completion`: nothing, resume, exit, restart, reconfig. `check` must hold for every slot; `start` is START
    meanwhile.
    """

    how_fast: int = 0
    on_completion: str = "nothing"
    reason: str = ""
    check: str | None = None
    start: str | None = None


class CancelDrain(Request[Done], tag="startd.cancel_drain"):
    """Take jobs again (`condor_drain -cancel`); `request_id` empty: whatever drain goes on."""

    request_id: str = ""


class VacateSlots(Request[Done], tag="startd.vacate"):
    """End the claims of these slots (empty: all), as `condor_vacate` does; the jobs go back to their queues."""

    slots: list[str] = []
    how: StopHow = StopHow.GRACEFUL


class UpdateMachineAd(Request[Done], tag="startd.update_machine_ad"):
    """Show these attributes in every slot's ad, until the startd starts again. Idempotent."""

    ad: ClassAd
