"""Keeps what the job has made: output at its end, and what it can go on from at a checkpoint.

Which files are output is decided in `pool/files/transfer.py`: those that the job names, else those that are new in the
sandbox or have changed since the job began. An agent that is lost is looked for again until the job is given up: its
result is complete only with its files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import trio

from daemons.base.faults import fault
from daemons.host.account import acting_as
from daemons.host.sandbox import directories, stamps
from daemons.starter.files.expand import expand
from daemons.starter.files.transfer import Transfer, hold_of
from daemons.starter.report.result import HoldJob
from pool.base.errors import PeerError
from pool.execute.criu import IMAGES
from pool.execute.exit import Hold
from pool.execute.vm import DIRECTORY, keeps_state
from pool.files.checkpoint import (
    checkpoint_list,
    is_written_down,
    manifest_name,
    stored_at,
    write_manifest,
)
from pool.files.checkpoint import destination as checkpoint_url
from pool.files.plugins import UrlFailed, UrlFile
from pool.files.transfer import (
    Destinations,
    Stamp,
    failure_files,
    listed_outputs,
    new_or_changed,
    output_name,
    output_wanted,
    standard_outputs,
)
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.files.digest import digest_of
from protocol.files.file_list import with_small
from protocol.files.file_stream import send_files
from protocol.messages.agent import (
    FileEntry,
    OutputStored,
    PushOutput,
)
from protocol.rpc.endpoints import ConnectionLost, RemoteError, TimedOut
from protocol.wire.message import replace

PAUSE_S: Final = 1.0
PASSING_CODES: Final = frozenset({"internal", "busy", "NotOpen"})
"""Answers of an agent that may be different when its schedd has come back."""
_READ: Final = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC


class Outputs:
    """One activation's; made when its input is there and the job has not begun, or with what was `before` it began."""

    def __init__(self, transfer: Transfer, before: Mapping[str, Stamp] | None = None) -> None:
        self._transfer = transfer
        if before is None:
            with acting_as(transfer.account):
                found = stamps(transfer.sandbox)
            before = {name: stamp for name, stamp in found.items() if name not in transfer.restored}
        self.before = before
        """What is no output as long as it stays as it is."""

    @property
    def goes_on(self) -> bool:
        """Whether the job goes on from a checkpoint."""
        return bool(self._transfer.restored)

    @property
    def has_images(self) -> bool:
        """Whether that has the job's processes in it."""
        return IMAGES in self._transfer.restored

    async def push(self, exit_code: int | None) -> int:
        """Send what the job made; how many bytes went. Held when a file is missing or cannot be stored.

        A lost agent is looked for again until this is cancelled: the job's result is complete only with its files.
        """
        with self._transfer.times.of("Output"):
            return await self._push(exit_code)

    async def _push(self, exit_code: int | None) -> int:
        with acting_as(self._transfer.account):
            entries, sources = self._gather(self._listed(exit_code))
        uploads, entries = self._split(entries, sources)
        sent = await self._send_urls(uploads) if uploads else 0
        if not entries:
            self._transfer.tell("Output", 0, 0)
            return sent
        while True:
            try:
                moved = await self._push_once(entries, sources)
                self._transfer.tell("Output", len(entries), moved)
                return sent + moved
            except (ConnectionLost, TimedOut, OSError) as error:
                self._transfer.log.always("The file agent is lost, and is looked for again", error=str(error))
            except PeerError as error:
                self._transfer.log.always("The file agent does not take the output yet", error=str(error))
            await trio.sleep(PAUSE_S)

    async def push_checkpoint(self, number: int) -> int:
        """Keep what the job can go on from; how many bytes went. Held when a file that it has listed is missing.

        PeerError when the agent does not take it now: the job goes on, and makes another one.
        """
        with acting_as(self._transfer.account):
            entries, sources = self._gather(self._checkpoint())
        if checkpoint_url(self._transfer.job) is None:
            return await self._push_once(entries, sources, checkpoint=True)
        names = [entry.name for entry in entries if entry.kind == "file"]
        with acting_as(self._transfer.account):
            manifest = write_manifest({name: digest_of(sources[name]) for name in names})
        sent = await self._send_urls(
            [UrlFile(stored_at(self._transfer.job, number, name), sources[name]) for name in names]
        )
        data = manifest.encode("utf-8", "surrogateescape")
        entry = FileEntry(name=manifest_name(number), size=len(data), data=data)
        sent += await self._push_once([entry], {}, checkpoint=True)
        self._transfer.tell_urls("Checkpoint")
        return sent

    def _checkpoint(self) -> Iterator[tuple[str, str]]:
        """Each file of a checkpoint, and the name under which it goes: that of the sandbox."""
        for name in standard_outputs(self._transfer.job):
            yield self._transfer.path(name), name
        if is_written_down(self._transfer.job):  # it goes on with all that it has, whatever of that is output
            first = DIRECTORY if keeps_state(self._transfer.job) else IMAGES
            names = [first, *directories(self._transfer.sandbox), *self._changed()]
            yield from ((self._transfer.path(name), name) for name in dict.fromkeys(names))
            return
        listed = checkpoint_list(self._transfer.job)
        if listed is None:
            listed = self._changed()
        for path in listed:
            yield self._transfer.path(path), output_name(self._transfer.job, path)

    def _split(self, entries: list[FileEntry], sources: Mapping[str, str]) -> tuple[list[UrlFile], list[FileEntry]]:
        """What goes to URLs, and what to the access point. A URL has no directories and no links."""
        uploads: list[UrlFile] = []
        rest: list[FileEntry] = []
        destinations = Destinations(self._transfer.job)
        for entry in entries:
            url = destinations.url(entry.name)
            if url is None:
                rest.append(entry)
            elif entry.kind == "file":
                uploads.append(UrlFile(url, sources[entry.name]))
        return uploads, rest

    async def _send_urls(self, files: list[UrlFile]) -> int:
        try:
            return await self._transfer.urls.upload(files)
        except UrlFailed as error:
            raise self._transfer.url_trouble("output", HoldCode.TRANSFER_OUTPUT_ERROR, error) from None

    async def _push_once(
        self, entries: list[FileEntry], sources: Mapping[str, str], *, checkpoint: bool = False
    ) -> int:
        def open_file(entry: FileEntry) -> int:
            fault("starter.output_file")
            with acting_as(self._transfer.account):
                return os.open(sources[entry.name], _READ)

        name = self._transfer.request.activation
        with acting_as(self._transfer.account):
            entries = with_small(entries, open_file)
        async with self._transfer.agent() as peer:
            try:
                request = PushOutput(activation=name, files=entries, checkpoint=checkpoint, process=os.getpid())
                taken = await peer.call(request, timeout=None)
            except RemoteError as error:
                # A schedd that has just come back has not opened the activation yet.
                if error.code in PASSING_CODES:
                    raise
                raise HoldJob(self._output_hold(str(error), errno.EIO)) from None
            if taken.allowed is not None:
                entries = [replace(one, size=taken.allowed[one.name]) for one in entries if one.name in taken.allowed]
            trouble = await send_files(
                peer, entries, open_file, self._transfer.as_account, have=taken.have, hands_over=taken.open_files
            )
            stored = await peer.call(OutputStored(activation=name), timeout=None)
        if trouble is not None:
            raise HoldJob(self._output_hold(str(trouble), trouble.number))
        if stored.trouble is not None:
            raise HoldJob(hold_of(stored.trouble, self._transfer.slot))
        return sum(entry.size for entry in entries)

    def _gather(self, outputs: Iterable[tuple[str, str]]) -> tuple[list[FileEntry], dict[str, str]]:
        """The entries of all these, and where each file is."""
        entries: dict[str, FileEntry] = {}
        sources: dict[str, str] = {}
        for path, name in outputs:
            try:
                for entry, source in expand(path, name):
                    entries[entry.name] = entry
                    sources[entry.name] = source
            except OSError as error:
                number = error.errno or errno.EIO
                shown = error.filename or path
                raise HoldJob(
                    self._output_hold(f"reading from file {shown}: (errno {number}) {os.strerror(number)}", number)
                ) from None
        return list(entries.values()), sources

    def _listed(self, exit_code: int | None) -> Iterator[tuple[str, str]]:
        """Each output's path, and the name under which it goes."""
        for name in standard_outputs(self._transfer.job):
            yield self._transfer.path(name), name
        if not output_wanted(self._transfer.job, exit_code):
            for path in failure_files(self._transfer.job, exit_code):
                if os.path.lexists(self._transfer.path(path)):
                    yield self._transfer.path(path), output_name(self._transfer.job, path)
            return
        listed = listed_outputs(self._transfer.job)
        if listed is None:
            for name in self._changed():
                yield self._transfer.path(name), name
            return
        for path in listed:
            yield self._transfer.path(path), output_name(self._transfer.job, path)

    def _changed(self) -> list[str]:
        return new_or_changed(self.before, stamps(self._transfer.sandbox))

    def _output_hold(self, details: str, number: int) -> Hold:
        at = f"execution point {self._transfer.slot}"
        reason = f"Transfer output files failure at {at} while sending files. Details: {details}"
        return Hold(reason, HoldCode.TRANSFER_OUTPUT_ERROR, number)
