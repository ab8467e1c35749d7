"""Whose files may move: one activation for each execution of a job, which its schedd opens and closes.

Whoever has the ticket of an open activation may move the files of its job, and no others. An activation says what is
sent and where what comes goes: of a job that runs (`run`); of one whose spool directory is filled (`stage_in`) or
emptied (`stage_out`) by a tool.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import trio

from daemons.agent.bounds import DirectoryBounds
from daemons.agent.checkpoints import SpooledCheckpoints
from pool.base.errors import PeerError, UserError
from pool.classad import ClassAd
from pool.files.spool import outputs
from pool.files.transfer import INPUT_LISTS, Destinations, InputItem, input_items
from protocol.files.gather import Gathered, gather
from protocol.files.placement import Placement
from protocol.messages.agent import (
    CloseTransfer,
    OpenTransfer,
    Partial,
    Stored,
)
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.security.authorize import Level
from protocol.security.credentials import Security
from protocol.wire.message import DONE, Done


class NotOpen(PeerError):
    """No files move for this activation: it is over, or the schedd has not (yet) said that they do."""


@dataclass
class JobFiles:
    """One execution of a job, as far as its files go."""

    digest: str
    label: str
    """What its ticket is called: by its claim, or by the activation itself."""
    job: ClassAd
    bounds: DirectoryBounds
    use: str = "run"
    spool: str = ""
    input_max_mb: int = -1
    output_max_mb: int = -1
    stored: Stored | None = None
    arrived: trio.Event = field(default_factory=trio.Event)
    push: trio.CancelScope | None = None
    came: dict[str, Partial] = field(default_factory=dict)
    """How far the files of a push that was cut off have come; what there is of them waits in `kept`."""
    kept: Placement | None = None

    async def quiet(self) -> None:
        """An earlier push is over: its starter has come again."""
        if self.push is not None:
            self.push.cancel()
            await self.arrived.wait()

    @property
    def is_quickly_gathered(self) -> bool:
        """Whether the list of what is sent takes no longer than starting a thread."""
        # Only a spool directory or a list of inputs makes the agent walk directories, which may be far away.
        return self.use == "run" and not self.spool and not any(self.job.eval_str(name) for name in INPUT_LISTS)

    def items(self) -> tuple[list[InputItem], list[InputItem]]:
        """What is sent, and which of that comes from a checkpoint. Blocks."""
        if self.use == "stage_in":
            raise UserError("this job's files come in; none are fetched")
        if self.use == "stage_out":
            found = {entry.name: entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(self.spool)}
            return [InputItem(os.path.join(self.spool, name), name) for name in outputs(self.job, found)], []
        restored = SpooledCheckpoints(self.spool).items() if self.spool else []
        return [*input_items(self.job), *restored], restored

    def gather(self) -> tuple[Gathered, list[str]]:
        """All files that are sent, and the names of those from a checkpoint. Blocks."""
        items, restored = self.items()
        for item in items:
            self.bounds.real(item.source)
        return gather(items), [item.name for item in restored]

    def where(self, staging: str = "") -> Callable[[str], str]:
        """Where files that come go: those of a checkpoint to `staging`."""
        if staging:
            return partial(os.path.join, staging)
        if self.use == "stage_in":
            return partial(os.path.join, self.spool)
        if self.use == "stage_out":
            raise PeerError("this job's files go out; none are taken")
        return Destinations(self.job).place

    def may_make_way(self, staging: str, *, allowed: bool) -> Callable[[str], bool]:
        """For which files directories are made: what is remapped may name new ones, where the site allows that."""
        wanted = allowed and not staging and self.use == "run"
        return Destinations(self.job).may_make_way if wanted else _makes_none


def _makes_none(name: str) -> bool:
    return False


class OpenActivations:
    """Those that are open."""

    def __init__(self, security: Security, *, identity: str) -> None:
        self._security, self._identity = security, identity
        self._open: dict[str, JobFiles] = {}
        self.when_over: list[Callable[[str], None]] = []
        """Who else has something of an activation."""

    def answers(self) -> list[Answer]:
        """What the schedd tells."""
        return [answer(OpenTransfer, self.open), answer(CloseTransfer, self.close)]

    def open(self, _peer: Peer, request: OpenTransfer) -> Done:
        """Let a starter in; asked again (after a restart of the schedd) it changes nothing."""
        known = self._open.get(request.activation)
        # Another digest is another attempt: what came under the earlier ticket must not be gone on with.
        if known is None or known.digest != request.digest:
            self._forget(request.activation)
            label = request.claim or request.activation
            self._open[request.activation] = JobFiles(
                request.digest,
                label,
                request.job_ad,
                DirectoryBounds(request.directories),
                request.use,
                request.spool,
                request.input_max_mb,
                request.output_max_mb,
            )
            self._security.tickets.add(
                request.digest, identity=self._identity, levels=[Level.READ], bearer=request.bearer, label=label
            )
        return DONE

    def close(self, _peer: Peer, request: CloseTransfer) -> Done:
        """The activation is over."""
        self._forget(request.activation)
        return DONE

    def _forget(self, name: str) -> None:
        known = self._open.pop(name, None)
        if known is not None:
            for forget in self.when_over:
                forget(name)
            # Spooled jobs of one request share a ticket: it goes with the last of them.
            if not any(other.digest == known.digest for other in self._open.values()):
                self._security.tickets.revoke(known.digest)
            if known.push is not None:
                known.push.cancel()
            if known.kept is not None:
                known.kept.abandon()

    def of(self, peer: Peer, name: str) -> JobFiles:
        """The activation, if it is this peer's."""
        known = self._open.get(name)
        if known is None or peer.ticket != known.label:
            raise NotOpen(f"no files move for activation {name}")
        return known

    def job_of(self, peer: Peer, name: str) -> tuple[ClassAd, DirectoryBounds]:
        """The job of an activation, and where its files may be, for who has its ticket."""
        activation = self.of(peer, name)
        return activation.job, activation.bounds
