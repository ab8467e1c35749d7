"""Output on its way: a starter pushes what its job has made, or a checkpoint; a tool fills a spool directory likewise.

Rules: files come beside their places and are moved there together, so that nothing is replaced by half of what was to
come. A connection that is cut costs what was on its way: the next attempt of the same activation goes on from what is
there. The push is answered before its files come; whether they are in place, `OutputStored` asks. Nothing that the
job's description does not name takes the place of a file that was there before the job. Where output goes is decided
in `pool/files/transfer.py`.

Source: HTCondor's manual, "Submitting Jobs Without a Shared File System" (transfer_output_files and its kin).
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import trio

from daemons.agent.activations import JobFiles, OpenActivations
from daemons.agent.bounds import DirectoryBounds
from daemons.agent.checkpoints import SpooledCheckpoints
from daemons.agent.trouble import output_trouble, over, within
from daemons.agent.trusted_path import NotOpened, check_unnamed
from daemons.agent.turns import AgentTurns, TurnTransfer
from daemons.base.faults import fault
from pool.base.errors import PeerError
from pool.files.checkpoint_cleanup import is_at_url
from pool.files.transfer import Destinations
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.files.bulk import RunSync
from protocol.files.file_list import FileTrouble, regular, write_small
from protocol.files.file_stream import acceptable, receive_files
from protocol.files.placement import Placement
from protocol.messages.agent import (
    FileEntry,
    OutputStored,
    Partial,
    PushOutput,
    PushTaken,
    Stored,
    Trouble,
)
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer

log = logging.getLogger("agent.outputs")


def _all(name: str) -> bool:
    return True


@dataclass(frozen=True)
class _Push:
    """Files on their way here; those of a checkpoint to `staging`."""

    placement: Placement
    files: list[FileEntry]
    bounds: DirectoryBounds
    staging: str = ""
    have: dict[str, int] = field(default_factory=dict)
    excess: str | None = None
    """What is said of the output that is not among these files: there was too much."""
    named: Callable[[str], bool] = lambda name: True
    """Whether the job's description names this output."""
    since: float = 0.0
    """When the job came into being."""

    def check(self, entry: FileEntry) -> None:
        """NotOpened when the agent may not put it where it would go."""
        place = self.placement.places[entry.name]
        self.bounds.real(place)
        if not self.named(entry.name):
            check_unnamed(place, self.since)


class Outputs:
    """Takes what jobs have made."""

    def __init__(
        self,
        activations: OpenActivations,
        turns: AgentTurns,
        nursery: trio.Nursery,
        *,
        host: str,
        remaps_make_directories: bool = True,
    ) -> None:
        self._activations, self._turns, self._nursery, self._host = activations, turns, nursery, host
        self._remaps_make_directories = remaps_make_directories

    def answers(self) -> list[Answer]:
        """What starters say of their output."""
        return [answer(PushOutput, self.push, stops_with_caller=True), answer(OutputStored, self.stored)]

    async def push(self, peer: Peer, request: PushOutput) -> PushTaken:
        """Take these files; the answer goes out before the first of them comes, and when it is their turn."""
        activation = self._activations.of(peer, request.activation)
        limit_mb = -1 if request.checkpoint else activation.output_max_mb
        files = within(limit_mb, request.files)
        size = sum(entry.size for entry in regular(files))
        transfer = await self._turns.take(peer, request.activation, upload=False, size=size)
        try:
            activation = self._activations.of(peer, request.activation)
            await activation.quiet()
            push = self._planned(activation, request, files, over(limit_mb, request.files, "download"))
        except BaseException:
            self._turns.give_back(transfer)
            raise
        activation.stored, activation.arrived = None, trio.Event()
        activation.push = trio.CancelScope()
        self._nursery.start_soon(self._receive, peer, activation, activation.push, push, transfer)
        return PushTaken(
            have=push.have,
            open_files=peer.bulk.reaches(request.process) and peer.bulk.take_files(),
            allowed=None if push.excess is None else {one.name: one.size for one in files},
        )

    def _planned(self, activation: JobFiles, request: PushOutput, files: list[FileEntry], excess: str | None) -> _Push:
        """Where everything goes, and what of it is there from an attempt that was cut off."""
        mark = request.activation[:40].replace("/", "_")
        staging, have = "", acceptable(activation.came, files)
        if request.checkpoint:
            if not activation.spool:
                raise PeerError("this job keeps no checkpoints")
            staging, have = SpooledCheckpoints(activation.spool).begin(mark), {}
        make_way = activation.may_make_way(staging, allowed=self._remaps_make_directories)
        placement = Placement(activation.where(staging), f"{mark}.part", may_make_way=make_way, begun=frozenset(have))
        placement.plan(files)
        for entry in files:
            if have.get(entry.name) == entry.size:
                placement.adopt(entry)
        if activation.kept is not None:
            activation.kept.abandon(keep=have)
        # What was kept is this push's now: a later failure must not find it twice.
        activation.came, activation.kept = {}, None
        named = Destinations(activation.job).names if activation.use == "run" and not staging else _all
        since = activation.job.eval_float("QDate", 0.0)
        return _Push(placement, files, activation.bounds, staging, have, excess, named, since)

    async def _receive(
        self, peer: Peer, activation: JobFiles, scope: trio.CancelScope, push: _Push, transfer: TurnTransfer
    ) -> None:
        arrived, came = activation.arrived, activation.came
        try:
            with scope:
                activation.stored = Stored(trouble=await self._take(peer, activation, push, came, transfer.run_sync))
        except PeerError as error:
            log.warning("output from %s: %s", peer, error)
            if not push.staging:
                self._keep(activation, push, came)
        except Exception as error:
            # The nursery is the agent's own, which serves other jobs too. The job is told, and held: another attempt
            # would fail in the same way.
            log.exception("output from %s", peer)
            trouble = output_trouble(self._host, f"the file agent failed: {error!r}", errno.EIO)
            activation.stored = Stored(trouble=trouble)
        finally:
            self._turns.give_back(transfer)
            if activation.kept is not push.placement:
                push.placement.abandon()
                came.clear()  # nothing is left beside: all is in its place, or given up
            arrived.set()

    def _keep(self, activation: JobFiles, push: _Push, came: dict[str, Partial]) -> None:
        """The connection was cut: what has come waits for the next attempt."""
        for entry in push.files:
            if push.have.get(entry.name) == entry.size:
                came[entry.name] = Partial(name=entry.name, have=entry.size, size=entry.size, mtime=entry.mtime)
            elif entry.name in came and not push.placement.is_beside(entry):
                del came[entry.name]
        if any(one.mtime for one in came.values()):
            activation.kept = push.placement

    async def _take(
        self, peer: Peer, activation: JobFiles, push: _Push, came: dict[str, Partial], run_sync: RunSync
    ) -> Trouble | None:
        """All files of a push; the trouble, if there is any."""
        trouble = await self._place(peer, push, came, run_sync)
        if trouble is None and push.excess is not None:
            return output_trouble(self._host, push.excess, 0, HoldCode.MAX_TRANSFER_OUTPUT_SIZE_EXCEEDED)
        # The manifest last: a checkpoint is one only when all of its files are there.
        if trouble is None and push.staging:
            try:
                job_ad = activation.job.long() if is_at_url(activation.job) else ""
                await trio.to_thread.run_sync(SpooledCheckpoints(activation.spool, job_ad).commit, push.staging)
            except OSError as error:
                number = error.errno or errno.EIO
                return output_trouble(
                    self._host, f"writing the manifest of a checkpoint: {os.strerror(number)}", number
                )
        return trouble

    async def _place(self, peer: Peer, push: _Push, came: dict[str, Partial], run_sync: RunSync) -> Trouble | None:
        """Put everything in its place; the trouble, if there is any. Nothing is replaced then."""
        placement, files = push.placement, push.files
        trouble: FileTrouble | None = None

        def open_place(entry: FileEntry) -> int:
            fault("agent.output_file")
            push.check(entry)
            return placement.open(entry)

        for entry in files:
            try:
                push.check(entry)
                if entry.kind == "dir":
                    placement.directory(entry)
                elif entry.kind == "link":
                    placement.link(entry)
            except NotOpened as error:
                number = error.errno or errno.EPERM
                trouble = trouble or FileTrouble("writing to file", entry.name, number, error.said)
            except OSError as error:
                trouble = trouble or FileTrouble("creating directory", entry.name, error.errno or errno.EIO)
        if any(entry.data for entry in files):
            said = await trio.to_thread.run_sync(write_small, files, open_place)
        else:  # empty ones at most: nothing that could take long
            said = write_small(files, open_place)
        trouble = trouble or said
        piece = partial(fault, "agent.output_piece")
        said = await receive_files(peer, files, open_place, run_sync, have=push.have, came=came, after_piece=piece)
        trouble = trouble or said
        fault("agent.output_came")
        if trouble is None:
            try:
                if placement.takes_long:
                    await trio.to_thread.run_sync(placement.finish)
                else:
                    placement.finish()
            except FileTrouble as error:
                trouble = error
        return None if trouble is None else output_trouble(self._host, str(trouble), trouble.number)

    async def stored(self, peer: Peer, request: OutputStored) -> Stored:
        """Answer once the files are in place."""
        activation = self._activations.of(peer, request.activation)
        await activation.arrived.wait()
        fault("agent.output_placed")
        if activation.stored is None:
            raise PeerError("the output did not arrive whole")
        return activation.stored
