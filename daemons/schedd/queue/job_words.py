"""What a running job says through its starter (chirp): it reads and sets attributes of its own ad, and writes its log.

A job acts for its owner: it may change what the owner may, of itself alone. Whether it does is in its ad, as submitted:
the host that it runs on may say anything with its ticket, so the rights of chirp are judged here as well.
"""

from __future__ import annotations

from daemons.schedd.core.core import Core
from daemons.schedd.execution.shadow import Shadow
from daemons.schedd.execution.starters import shadow_of
from daemons.schedd.queue.actions import Actions, read_assignments
from pool.base.errors import PeerError
from pool.execute.chirp import Right, rights_of
from pool.jobs.userlog import event_log
from protocol.messages.shadow import JobAttribute, ReadJobAttribute, SetJobAttributes, WriteToLog
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done


class JobWords:
    """The handlers."""

    def __init__(self, core: Core, actions: Actions) -> None:
        self._core, self._actions = core, actions

    def answers(self) -> list[Answer]:
        """What jobs ask through their starters."""
        return [
            answer(ReadJobAttribute, self.read),
            answer(SetJobAttributes, self.set),
            answer(WriteToLog, self.write),
        ]

    def read(self, peer: Peer, request: ReadJobAttribute) -> JobAttribute:
        """An attribute's expression, not evaluated."""
        ad = self._core.queue.ad(self._shadow(peer, request.activation)[0].job)
        return JobAttribute(text=ad.text(request.name) if request.name in ad else "UNDEFINED")

    async def set(self, peer: Peer, request: SetJobAttributes) -> Done:
        """Set attributes; durable when answered."""
        shadow, rights = self._shadow(peer, request.activation)
        values = read_assignments(request.assignments)
        settings, cluster = self._core.settings, shadow.job.cluster
        settings.edits.check_words(values, opens_files=Right.FILES in rights)
        values = settings.charging.edited(values, owner=cluster.owner, user=cluster.user)
        self._actions.set_attributes(shadow.job, values)
        await self._core.writer.durable()
        return DONE

    async def write(self, peer: Peer, request: WriteToLog) -> Done:
        """Write an event 008 to the job's log."""
        shadow, _ = self._shadow(peer, request.activation)
        self._core.write(shadow.job, event_log.Generic(request.text))
        await self._core.writer.durable()
        return DONE

    def _shadow(self, peer: Peer, activation: str) -> tuple[Shadow, frozenset[Right]]:
        """The execution, and what its job may do; PeerError for a job that has not asked to speak."""
        shadow = shadow_of(self._core, peer, activation)
        if shadow is None:
            raise PeerError(f"the execution {activation} is over")
        rights = rights_of(self._core.queue.ad(shadow.job), files=True, updates=True, delayed=True)
        # The starter has judged that already, and is not believed: it runs on somebody else's machine.
        if Right.UPDATES not in rights:
            raise PeerError(f"job {shadow.job.id} has not asked to change its ad (want_io_proxy)")
        return shadow, rights
