"""What starters say, on connections that they opened with their claim's ticket: each word goes to its shadow task.

A ticket is good on the host of the claim's startd alone (`Startd.starters`).
"""

from __future__ import annotations

from daemons.base.faults import fault
from daemons.schedd.core.core import Core
from daemons.schedd.execution.shadow import Shadow
from pool.base.errors import PeerError
from pool.jobs.changes import End
from protocol.messages.shadow import GoAhead, JobEnded, JobExecuting, JobNotice, JobUpdate, StarterReady, StarterRests
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done


class NotYours(PeerError):
    """A peer spoke for an execution that its ticket is not for."""


def shadow_of(core: Core, peer: Peer, activation: str) -> Shadow | None:
    """The execution that a starter speaks for; None when it is over."""
    shadow = core.executions.shadows.get(activation)
    if shadow is not None and peer.ticket != shadow.claim.public:
        raise NotYours(f"{peer} has no ticket for this execution")
    return shadow


class Starters:
    """Handlers of what starters report. An execution that is unknown is over: its starter may forget it."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def answers(self) -> list[Answer]:
        """What starters report."""
        return [
            answer(StarterReady, self.ready),
            answer(StarterRests, self.rests),
            answer(JobExecuting, self.executing),
            answer(JobUpdate, self.update),
            answer(JobNotice, self.notice),
            answer(JobEnded, self.ended),
        ]

    def _shadow(self, peer: Peer, activation: str) -> Shadow | None:
        return shadow_of(self._core, peer, activation)

    async def ready(self, peer: Peer, request: StarterReady) -> GoAhead:
        """A starter is here, or here again; answered when the queue knows that the job was given away."""
        if request.wants_job:  # it may be here before its claim's grant
            await self._core.executions.until_known(request.activation, peer.ticket)
        shadow = self._shadow(peer, request.activation)
        if shadow is None:
            raise PeerError(f"no execution {request.activation} of job {request.job_id} is known here")
        if request.wants_job:
            await shadow.until_prepared()
        if shadow.is_given_up:
            raise PeerError(f"no execution {request.activation} of job {request.job_id} is known here")
        shadow.starter_ready(peer, request.starter_address)
        await shadow.until_durable()
        if shadow.is_given_up:
            raise PeerError(f"the execution {request.activation} of job {request.job_id} is over")
        return GoAhead(job_ad=shadow.job_ad() if request.wants_job else None)

    def rests(self, peer: Peer, request: StarterRests) -> Done:
        """The starter goes, and nothing is wrong with that."""
        shadow = self._shadow(peer, request.activation)
        if shadow is None:
            raise PeerError(f"no execution {request.activation} of job {request.job_id} is known here")
        shadow.starter_rests(peer)
        return DONE

    def executing(self, peer: Peer, request: JobExecuting) -> Done:
        """The program was started. Durable in a moment: a starter repeats it to a schedd that comes back."""
        shadow = self._shadow(peer, request.activation)
        if shadow is not None:
            shadow.executing(request.at, shadow.reported(request.ad))
            fault("schedd.job_executing")
        return DONE

    def update(self, peer: Peer, message: JobUpdate) -> None:
        """What the job uses."""
        shadow = self._shadow(peer, message.activation)
        if shadow is not None:
            shadow.update(shadow.reported(message.ad))

    def notice(self, peer: Peer, message: JobNotice) -> None:
        """A sentence for the job's log."""
        shadow = self._shadow(peer, message.activation)
        if shadow is not None:
            shadow.notice(message.message)

    async def ended(self, peer: Peer, request: JobEnded) -> Done:
        """The execution is over; answered when its result is durable and in the log."""
        shadow = self._shadow(peer, request.activation)
        if shadow is None:
            return DONE
        fault("schedd.job_ended_received")
        if request.executing is not None:
            shadow.executing(request.executing.at, shadow.reported(request.executing.ad))
        shadow.take_end(
            End(request.ending, shadow.reported(request.ad), request.reason, request.at, request.checkpointed)
        )
        await shadow.until_acknowledged()
        fault("schedd.before_end_answer")
        return DONE
