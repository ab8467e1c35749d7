"""Files on their way: with the ticket of its activation, a starter fetches the input and pushes the output.

A tool moves files in the same way: into a job's spool directory before the job may run, and out of it afterwards.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from daemons.agent.bounds import Bounds
from daemons.agent.checkpoints import Checkpoints
from daemons.agent.streams import read_piece, write_piece
from daemons.agent.trusted_path import NotOpened, check_unnamed
from daemons.agent.turns import Transfer, Turns
from daemons.faults import fault
from daemons.file_stream import acceptable, receive_files, send_files
from pool.classad import ClassAd
from pool.errors import PeerError, UserError
from pool.execute.checkpoint_cleanup import is_at_url
from pool.execute.transfer import INPUT_LISTS, Destinations, InputItem, input_items
from pool.jobs.codes import HoldCode
from pool.jobs.spool import outputs
from protocol.authorize import Level
from protocol.bulk import RunSync
from protocol.file_list import FileTrouble, regular, still_to_move, with_small, write_small
from protocol.gather import Gathered, gather
from protocol.message import DONE, Done, replace
from protocol.messages.agent import (
    CloseTransfer,
    FetchInput,
    FileEntry,
    InputFiles,
    InputTaken,
    OpenTransfer,
    OutputStored,
    Partial,
    PushOutput,
    PushTaken,
    ReadStream,
    Stored,
    StreamPiece,
    Trouble,
    WriteStream,
)
from protocol.placement import Placement
from protocol.rpc import Peer
from protocol.security import Security
from protocol.service import Service

AT_ONCE_MAX: Final = 64
"""How many files are moved to their places without a thread, which takes longer than a few of them."""

log = logging.getLogger("agent.transfer")


class NotOpen(PeerError):
    """No files move for this activation: it is over, or the schedd has not (yet) said that they do."""


@dataclass
class _Activation:
    """One execution of a job, as far as its files go."""

    digest: str
    label: str
    """What its ticket is called: by its claim, or by the activation itself."""
    job: ClassAd
    bounds: Bounds
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
        return self.use == "run" and not self.spool and not any(self.job.eval_str(name) for name in INPUT_LISTS)

    def items(self) -> tuple[list[InputItem], list[InputItem]]:
        """What is sent, and which of that comes from a checkpoint. Blocks."""
        if self.use == "stage_in":
            raise UserError("this job's files come in; none are fetched")
        if self.use == "stage_out":
            found = {entry.name: entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(self.spool)}
            return [InputItem(os.path.join(self.spool, name), name) for name in outputs(self.job, found)], []
        restored = Checkpoints(self.spool).items() if self.spool else []
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


def _all(name: str) -> bool:
    return True


@dataclass(frozen=True)
class _Push:
    """Files on their way here; those of a checkpoint to `staging`."""

    placement: Placement
    files: list[FileEntry]
    bounds: Bounds
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


class Transfers:
    """The transfers that are allowed now."""

    def __init__(
        self,
        security: Security,
        nursery: trio.Nursery,
        *,
        host: str,
        identity: str,
        turns: Turns | None = None,
        remaps_make_directories: bool = True,
    ) -> None:
        self._remaps_make_directories = remaps_make_directories
        self._security, self._nursery = security, nursery
        self._turns = turns or Turns(nursery)
        self._host, self._identity = host, identity
        self._activations: dict[str, _Activation] = {}

    def add_to(self, schedd: Service, starters: Service) -> None:
        """Answer the schedd on its service, and starters on theirs."""
        schedd.on(OpenTransfer, self.open)
        schedd.on(CloseTransfer, self.close)
        starters.on(FetchInput, self.fetch, stops_with_caller=True)
        starters.on(InputTaken, self._turns.taken)
        starters.on(PushOutput, self.push, stops_with_caller=True)
        starters.on(OutputStored, self.stored)
        starters.on(WriteStream, self.write)
        starters.on(ReadStream, self.read)

    # ---- from the schedd

    def open(self, _peer: Peer, request: OpenTransfer) -> Done:
        """Let a starter in; asked again (after a restart of the schedd) it changes nothing."""
        known = self._activations.get(request.activation)
        if known is None or known.digest != request.digest:
            self._forget(request.activation)
            label = request.claim or request.activation
            self._activations[request.activation] = _Activation(
                request.digest,
                label,
                request.job_ad,
                Bounds(request.directories),
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
        known = self._activations.pop(name, None)
        if known is not None:
            if not any(other.digest == known.digest for other in self._activations.values()):
                self._security.tickets.revoke(known.digest)
            if known.push is not None:
                known.push.cancel()
            if known.kept is not None:
                known.kept.abandon()

    # ---- from starters

    def _of(self, peer: Peer, name: str) -> _Activation:
        """The activation, if it is this peer's."""
        known = self._activations.get(name)
        if known is None or peer.ticket != known.label:
            raise NotOpen(f"no files move for activation {name}")
        return known

    def job_of(self, peer: Peer, name: str) -> tuple[ClassAd, Bounds]:
        """The job of an activation, and where its files may be, for who has its ticket."""
        activation = self._of(peer, name)
        return activation.job, activation.bounds

    async def fetch(self, peer: Peer, request: FetchInput) -> InputFiles:
        """List the input; its bytes follow the answer (nothing is awaited between their start and its end)."""
        activation = self._of(peer, request.activation)
        try:
            if activation.is_quickly_gathered:
                gathered, restored = activation.gather()
            else:
                gathered, restored = await trio.to_thread.run_sync(activation.gather)
        except UserError as error:
            return InputFiles(files=[], trouble=self._input_trouble(str(error), errno.EINVAL))
        except NotOpened as error:
            return InputFiles(files=[], trouble=self._input_trouble(error.said, error.errno or errno.EPERM))
        except OSError as error:
            number = error.errno or errno.EIO
            said = f"reading from file {error.filename}: (errno {number}) {os.strerror(number)}"
            return InputFiles(files=[], trouble=self._input_trouble(said, number))
        if (excess := over(activation.input_max_mb, gathered.entries, "upload")) is not None:
            trouble = self._input_trouble(excess, 0, HoldCode.MAX_TRANSFER_INPUT_SIZE_EXCEEDED)
            return InputFiles(files=[], trouble=trouble)
        sources, bounds = gathered.sources, activation.bounds

        def open_file(entry: FileEntry) -> int:
            fault("agent.input_file")
            return os.open(bounds.real(sources[entry.name]), os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)

        entries = with_small(gathered.entries, open_file)
        have = acceptable({one.name: one for one in request.have}, entries) if request.have else {}
        if regular(entries):
            size = sum(entry.size - start for entry, start in still_to_move(entries, have))
            transfer = await self._turns.take(peer, request.activation, upload=True, size=size)
            hands_over = peer.reaches(request.process)
            self._nursery.start_soon(self._send, transfer, entries, open_file, have, hands_over)
        return InputFiles(files=entries, have=have, restored=restored)

    async def _send(
        self,
        transfer: Transfer,
        entries: list[FileEntry],
        open_file: Callable[[FileEntry], int],
        have: dict[str, int],
        hands_over: bool,
    ) -> None:
        peer = transfer.peer
        try:
            trouble = await send_files(peer, entries, open_file, transfer.run_sync, have=have, hands_over=hands_over)
            if hands_over:
                await transfer.taken()
        except PeerError as error:
            log.warning("input for %s: %s", peer, error)
        else:
            if trouble is not None:
                log.warning("input for %s: %s", peer, trouble)
        finally:
            self._turns.give_back(transfer)

    async def push(self, peer: Peer, request: PushOutput) -> PushTaken:
        """Take these files; the answer goes out before the first of them comes, and when it is their turn."""
        activation = self._of(peer, request.activation)
        limit_mb = -1 if request.checkpoint else activation.output_max_mb
        files = within(limit_mb, request.files)
        size = sum(entry.size for entry in regular(files))
        transfer = await self._turns.take(peer, request.activation, upload=False, size=size)
        try:
            activation = self._of(peer, request.activation)
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
            open_files=peer.reaches(request.process) and peer.take_files(),
            allowed=None if push.excess is None else {one.name: one.size for one in files},
        )

    def _planned(
        self, activation: _Activation, request: PushOutput, files: list[FileEntry], excess: str | None
    ) -> _Push:
        """Where everything goes, and what of it is there from an attempt that was cut off."""
        mark = request.activation[:40].replace("/", "_")
        staging, have = "", acceptable(activation.came, files)
        if request.checkpoint:
            if not activation.spool:
                raise PeerError("this job keeps no checkpoints")
            staging, have = Checkpoints(activation.spool).begin(mark), {}
        make_way = activation.may_make_way(staging, allowed=self._remaps_make_directories)
        placement = Placement(activation.where(staging), f"{mark}.part", may_make_way=make_way, begun=frozenset(have))
        placement.plan(files)
        for entry in files:
            if have.get(entry.name) == entry.size:
                placement.adopt(entry)
        if activation.kept is not None:
            activation.kept.abandon(keep=have)
        activation.came, activation.kept = {}, None
        named = Destinations(activation.job).names if activation.use == "run" and not staging else _all
        since = activation.job.eval_float("QDate", 0.0)
        return _Push(placement, files, activation.bounds, staging, have, excess, named, since)

    async def _receive(
        self, peer: Peer, activation: _Activation, scope: trio.CancelScope, push: _Push, transfer: Transfer
    ) -> None:
        arrived, came = activation.arrived, activation.came
        try:
            with scope:
                activation.stored = Stored(trouble=await self._take(peer, activation, push, came, transfer.run_sync))
        except PeerError as error:
            log.warning("output from %s: %s", peer, error)
            if not push.staging:
                self._keep(activation, push, came)
        finally:
            self._turns.give_back(transfer)
            if activation.kept is not push.placement:
                push.placement.abandon()
                came.clear()  # nothing is left beside: all is in its place, or given up
            arrived.set()

    def _keep(self, activation: _Activation, push: _Push, came: dict[str, Partial]) -> None:
        """The connection was cut: what has come waits for the next attempt."""
        for entry in push.files:
            if push.have.get(entry.name) == entry.size:
                came[entry.name] = Partial(name=entry.name, have=entry.size, size=entry.size, mtime=entry.mtime)
            elif entry.name in came and not push.placement.is_beside(entry):
                del came[entry.name]
        if any(one.mtime for one in came.values()):
            activation.kept = push.placement

    async def _take(
        self, peer: Peer, activation: _Activation, push: _Push, came: dict[str, Partial], run_sync: RunSync
    ) -> Trouble | None:
        """All files of a push; the trouble, if there is any."""
        trouble = await self._place(peer, push, came, run_sync)
        if trouble is None and push.excess is not None:
            return self._output_trouble(push.excess, 0, HoldCode.MAX_TRANSFER_OUTPUT_SIZE_EXCEEDED)
        if trouble is None and push.staging:
            try:
                job_ad = activation.job.long() if is_at_url(activation.job) else ""
                await trio.to_thread.run_sync(Checkpoints(activation.spool, job_ad).commit, push.staging)
            except OSError as error:
                number = error.errno or errno.EIO
                return self._output_trouble(f"writing the manifest of a checkpoint: {os.strerror(number)}", number)
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
                if len(files) > AT_ONCE_MAX:
                    await trio.to_thread.run_sync(placement.finish)
                else:
                    placement.finish()
            except FileTrouble as error:
                trouble = error
        return None if trouble is None else self._output_trouble(str(trouble), trouble.number)

    async def stored(self, peer: Peer, request: OutputStored) -> Stored:
        """Answer once the files are in place."""
        activation = self._of(peer, request.activation)
        await activation.arrived.wait()
        fault("agent.output_placed")
        if activation.stored is None:
            raise PeerError("the output did not arrive whole")
        return activation.stored

    # ---- streams

    async def write(self, peer: Peer, request: WriteStream) -> Done:
        """A piece of the job's output, while it runs."""
        job, bounds = self.job_of(peer, request.activation)
        await trio.to_thread.run_sync(write_piece, job, bounds, request)
        return DONE

    async def read(self, peer: Peer, request: ReadStream) -> StreamPiece:
        """A piece of the job's input, while it runs."""
        job, bounds = self.job_of(peer, request.activation)
        piece: StreamPiece = await trio.to_thread.run_sync(read_piece, job, bounds, request)
        return piece

    # ---- in words

    def _input_trouble(self, details: str, number: int, code: HoldCode = HoldCode.TRANSFER_INPUT_ERROR) -> Trouble:
        reason = f"Transfer input files failure at access point {self._host} while sending files. Details: {details}"
        return Trouble(reason=reason, hold_code=code, hold_subcode=number)

    def _output_trouble(self, details: str, number: int, code: HoldCode = HoldCode.TRANSFER_OUTPUT_ERROR) -> Trouble:
        reason = f"Transfer output files failure at access point {self._host} while receiving files. Details: {details}"
        return Trouble(reason=reason, hold_code=code, hold_subcode=number)


def within(limit_mb: int, entries: list[FileEntry]) -> list[FileEntry]:
    """What of these files a limit lets through (-1: all): the first ones, and the beginning of one at most."""
    left = limit_mb << 20
    if limit_mb < 0 or sum(entry.size for entry in entries if entry.kind == "file") <= left:
        return entries
    kept: list[FileEntry] = []
    for entry in entries:
        if entry.kind != "file" or entry.size <= left:
            kept.append(entry)
            left -= entry.size
        elif left > 0:
            kept.append(replace(entry, size=left, data=None if entry.data is None else entry.data[:left]))
            left = 0
    return kept


def over(limit_mb: int, entries: list[FileEntry], direction: str) -> str | None:
    """What is said when these files are larger than is allowed (-1: they may be any size); it names the first such."""
    total = 0
    for entry in entries:
        total += entry.size if entry.kind == "file" else 0
        if 0 <= limit_mb << 20 < total:
            size = f"max={limit_mb} MB, this file={entry.size >> 20} MB"
            return f"sending file {entry.name}: max total {direction} bytes exceeded ({size})"
    return None
