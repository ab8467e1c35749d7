"""The sandbox's files: fetched from the user's file agent before the job, pushed back to it afterwards.

What has a URL for its source or its destination goes through a plug-in instead (`url_mover.py`).

Inside the sandbox everything is opened with the rights of the job's account, so that a link which the job made leads
this process nowhere that the job could not have gone itself.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from daemons.faults import fault
from daemons.file_stream import receive_files, send_files
from daemons.log import Log
from daemons.starter.account import Account, acting_as
from daemons.starter.line import Line
from daemons.starter.sandbox import stamps
from daemons.starter.transfer_times import TransferTimes
from daemons.starter.url_mover import UrlMover
from pool.classad import ClassAd, Member
from pool.errors import PeerError, PoolError
from pool.execute.checkpoint import (
    checkpoint_list,
    manifest_name,
    number_of,
    read_manifest,
    stored_at,
    top_names,
    write_manifest,
)
from pool.execute.checkpoint import destination as checkpoint_url
from pool.execute.exit import Hold
from pool.execute.plugins import TRANSFER_CLASSES, UrlFailed, UrlFile, stats_of
from pool.execute.transfer import (
    Destinations,
    Stamp,
    check_link,
    check_names,
    failure_files,
    listed_outputs,
    new_or_changed,
    output_name,
    output_wanted,
    standard_outputs,
    url_inputs,
)
from pool.jobs.codes import HoldCode
from protocol.digest import digest_of, read_text
from protocol.file_list import FileTrouble, regular, with_small, write_small
from protocol.gather import file_entry
from protocol.message import replace
from protocol.messages.agent import (
    FetchInput,
    FileEntry,
    InputFiles,
    InputTaken,
    OutputStored,
    Partial,
    PushOutput,
    SignUrls,
    Trouble,
)
from protocol.messages.starter import RunJob
from protocol.placement import set_mode
from protocol.rpc import ConnectionLost, Peer, RemoteError, TimedOut

PAUSE_S = 1.0
TRIES_ELSEWHERE_MAX = 5
"""How often a job may have failed to run before it is held for what is a machine's fault: all may be like this one."""
PASSING_CODES = frozenset({"internal", "busy", "NotOpen"})
"""Answers of an agent that may be different when its schedd has come back."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC


class NotHere(PoolError):
    """This machine cannot move the files; another may."""


class Held(Exception):
    """The files cannot move, and a person must look."""

    def __init__(self, hold: Hold) -> None:
        super().__init__(hold.reason)
        self.hold = hold


@dataclass
class FileMover:
    """One activation's transfers."""

    request: RunJob
    sandbox: str
    account: Account
    slot: str
    line: Line
    log: Log
    urls: UrlMover
    told: dict[str, Member] = field(default_factory=dict)
    """What the job's ad shall say of the transfers: TransferInputStats and its kin."""
    restored: frozenset[str] = frozenset()
    """What at the top of the sandbox came from a checkpoint: the job's own work, and output like all of that."""
    _came: dict[str, Partial] = field(default_factory=dict)
    """Of which input how much has come, should the connection be cut."""

    def __post_init__(self) -> None:
        self.times = TransferTimes(self.told)
        if self.urls.settings.signs:
            self.urls.sign = self._sign

    @property
    def progress(self) -> int:
        """How many bytes of large input files are here."""
        return sum(one.have for one in self._came.values())

    @property
    def _job(self) -> ClassAd:
        return self.request.job_ad

    # ---- input

    async def fetch_input(self) -> int:
        """Fill the sandbox; how many bytes came. Held when a file cannot move; PeerError when nobody sends."""
        with self.times.of("Input"):
            return await self._fetch()

    async def _fetch(self) -> int:
        async with self._agent() as peer:
            request = FetchInput(
                activation=self.request.activation,
                have=[*self._came.values()],
                process=os.getpid() if peer.take_files() else 0,
            )
            answer: InputFiles = await peer.call(request, timeout=None)
            if answer.trouble is not None:
                raise Held(_hold_of(answer.trouble, self.slot))
            check_names(entry.name for entry in answer.files)
            self._make_directories(answer.files)
            with acting_as(self.account):
                small = write_small(answer.files, self._create)
            have = {name: size for name, size in answer.have.items() if name in self._came}
            create = partial(self._create, goes_on=have)
            piece = partial(fault, "starter.input_piece")
            said = await receive_files(
                peer, answer.files, create, self._as_account, have=have, came=self._came, after_piece=piece
            )
            trouble = said or small
            if regular(answer.files):
                await peer.notify(InputTaken(activation=self.request.activation))
            if trouble is not None:
                raise Held(self._input_hold(trouble))
        size = sum(entry.size for entry in answer.files)
        self.restored = frozenset(answer.restored)
        fetched = await self._fetch_urls() + await self._fetch_checkpoint()
        self._tell("Input", len(answer.files), size)
        return size + fetched

    async def _fetch_urls(self) -> int:
        """What has a URL comes after the rest: a plug-in may be part of that."""
        files = [UrlFile(url, self._path(name)) for url, name in url_inputs(self._job)]
        if not files:
            return 0
        try:
            check_names(name for _, name in url_inputs(self._job))
            return await self.urls.download(files)
        except UrlFailed as error:
            raise self._url_trouble("input", HoldCode.TRANSFER_INPUT_ERROR, error) from None

    async def _fetch_checkpoint(self) -> int:
        """Of a checkpoint that is kept at a URL only its manifest has come yet."""
        manifests = [name for name in self.restored if number_of(name) is not None]
        if not manifests or checkpoint_url(self._job) is None:
            return 0
        manifest = max(manifests)
        number = number_of(manifest) or 0
        with acting_as(self.account):
            digests = read_manifest(read_text(self._path(manifest)))
            os.unlink(self._path(manifest))
        for name in digests:
            self._make_parent(name)
        files = [UrlFile(stored_at(self._job, number, name), self._path(name)) for name in digests]
        try:
            size = await self.urls.download(files) if files else 0
        except UrlFailed as error:
            raise self._url_trouble("input", HoldCode.TRANSFER_INPUT_ERROR, error) from None
        with acting_as(self.account):
            for name, digest in digests.items():
                if digest_of(self._path(name)) != digest:
                    said = f"{name} of checkpoint {number} is not what was stored"
                    raise Held(self._input_hold(FileTrouble("checking file", name, errno.EIO, said)))
        self.restored = frozenset(top_names(digests))
        return size

    def _make_parent(self, name: str) -> None:
        if "/" in name:
            with acting_as(self.account):
                os.makedirs(os.path.dirname(self._path(name)), 0o755, exist_ok=True)

    async def _sign(self, urls: list[str], upload: bool) -> list[str]:
        async with self._agent() as peer:
            request = SignUrls(activation=self.request.activation, urls=urls, upload=upload)
            return (await peer.call(request)).urls

    def _url_trouble(self, direction: str, code: HoldCode, error: UrlFailed) -> Held | NotHere:
        reason = (
            f"Transfer {direction} files failure at execution point {self.slot} using protocol {error.scheme}. "
            f"Details: {error}"
        )
        self._tell_urls(direction.capitalize())
        tries = self._job.eval_int("NumShadowExceptions") or 0
        if error.elsewhere and tries < TRIES_ELSEWHERE_MAX:
            return NotHere(reason)
        return Held(Hold(reason, code, error.subcode))

    def _tell(self, direction: str, files: int, size: int) -> None:
        """Note what has moved."""
        starts = f"Num{direction}TransferStarts"
        self.told[starts] = self._job.eval_int(starts, 0) + 1
        name = f"Transfer{direction}Stats"
        self.told[name] = stats_of(self.urls.answers, self._job.get(name), cedar_files=files, cedar_bytes=size)
        self._tell_urls(direction)

    def _tell_urls(self, direction: str) -> None:
        """Note what plug-ins have done, whether all files have moved or not."""
        urls = self.urls
        for invoked in urls.invocations:
            invoked["TransferClass"] = TRANSFER_CLASSES[direction]
        for kind, ads in (("ResultList", urls.answers), ("Invocations", urls.invocations)):
            if ads:
                self.told[f"{direction}Plugin{kind}"] = [*ads]
        urls.answers, urls.invocations = [], []

    def _make_directories(self, files: list[FileEntry]) -> None:
        try:
            with acting_as(self.account):
                for entry in files:
                    if entry.kind == "dir":
                        os.makedirs(self._path(entry.name), entry.mode | 0o700, exist_ok=True)
        except OSError as error:
            number = error.errno or errno.EIO
            raise Held(self._input_hold(FileTrouble("creating directory", entry.name, number))) from None

    def _create(self, entry: FileEntry, goes_on: Container[str] = ()) -> int:
        """A new file in the sandbox, the account's own; or one that an earlier attempt has begun."""
        fault("starter.input_file")
        flags = _NEW_FILE & ~os.O_TRUNC if entry.name in goes_on else _NEW_FILE
        with acting_as(self.account):
            fd = os.open(f"{self.sandbox}/{entry.name}", flags, entry.mode & 0o777 | 0o600)
            set_mode(fd, entry.mode & 0o777 | 0o600)
        return fd

    async def _as_account(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Read or write here with the account's rights, which are taken on once for all files of a pack."""
        with acting_as(self.account):
            result = fn(*args)
        await trio.lowlevel.checkpoint()
        return result

    # ---- output

    def catalog(self) -> dict[str, Stamp]:
        """What is in the sandbox before the job runs."""
        with acting_as(self.account):
            found = stamps(self.sandbox)
        return {name: stamp for name, stamp in found.items() if name not in self.restored}

    async def push_output(self, before: Mapping[str, Stamp], exit_code: int | None) -> int:
        """Send what the job made; how many bytes went. Held when a file is missing or cannot be stored.

        A lost agent is looked for again until this is cancelled: the job's result is complete only with its files.
        """
        with self.times.of("Output"):
            return await self._push(before, exit_code)

    async def _push(self, before: Mapping[str, Stamp], exit_code: int | None) -> int:
        with acting_as(self.account):
            entries, sources = self._gather(self._outputs(before, exit_code))
        uploads, entries = self._split(entries, sources)
        sent = await self._send_urls(uploads) if uploads else 0
        if not entries:
            self._tell("Output", 0, 0)
            return sent
        while True:
            try:
                moved = await self._push_once(entries, sources)
                self._tell("Output", len(entries), moved)
                return sent + moved
            except (ConnectionLost, TimedOut, OSError) as error:
                self.log.always("The file agent is lost, and is looked for again", error=str(error))
            except PeerError as error:
                self.log.always("The file agent does not take the output yet", error=str(error))
            await trio.sleep(PAUSE_S)

    async def push_checkpoint(self, before: Mapping[str, Stamp], number: int) -> int:
        """Keep what the job can go on from; how many bytes went. Held when a file that it has listed is missing.

        PeerError when the agent does not take it now: the job goes on, and makes another one.
        """
        with acting_as(self.account):
            entries, sources = self._gather(self._checkpoint(before))
        if checkpoint_url(self._job) is None:
            return await self._push_once(entries, sources, checkpoint=True)
        names = [entry.name for entry in entries if entry.kind == "file"]
        with acting_as(self.account):
            manifest = write_manifest({name: digest_of(sources[name]) for name in names})
        sent = await self._send_urls([UrlFile(stored_at(self._job, number, name), sources[name]) for name in names])
        data = manifest.encode("utf-8", "surrogateescape")
        entry = FileEntry(name=manifest_name(number), size=len(data), data=data)
        sent += await self._push_once([entry], {}, checkpoint=True)
        self._tell_urls("Checkpoint")
        return sent

    def _checkpoint(self, before: Mapping[str, Stamp]) -> Iterator[tuple[str, str]]:
        """Each file of a checkpoint, and the name under which it goes: that of the sandbox."""
        for name in standard_outputs(self._job):
            yield self._path(name), name
        listed = checkpoint_list(self._job)
        if listed is None:
            listed = new_or_changed(before, stamps(self.sandbox))
        for path in listed:
            yield self._path(path), output_name(self._job, path)

    def _split(self, entries: list[FileEntry], sources: Mapping[str, str]) -> tuple[list[UrlFile], list[FileEntry]]:
        """What goes to URLs, and what to the access point. A URL has no directories and no links."""
        uploads: list[UrlFile] = []
        rest: list[FileEntry] = []
        destinations = Destinations(self._job)
        for entry in entries:
            url = destinations.url(entry.name)
            if url is None:
                rest.append(entry)
            elif entry.kind == "file":
                uploads.append(UrlFile(url, sources[entry.name]))
        return uploads, rest

    async def _send_urls(self, files: list[UrlFile]) -> int:
        try:
            return await self.urls.upload(files)
        except UrlFailed as error:
            raise self._url_trouble("output", HoldCode.TRANSFER_OUTPUT_ERROR, error) from None

    async def _push_once(
        self, entries: list[FileEntry], sources: Mapping[str, str], *, checkpoint: bool = False
    ) -> int:
        def open_file(entry: FileEntry) -> int:
            fault("starter.output_file")
            with acting_as(self.account):
                return os.open(sources[entry.name], _READ)

        name = self.request.activation
        with acting_as(self.account):
            entries = with_small(entries, open_file)
        async with self._agent() as peer:
            try:
                request = PushOutput(activation=name, files=entries, checkpoint=checkpoint, process=os.getpid())
                taken = await peer.call(request, timeout=None)
            except RemoteError as error:
                if error.code in PASSING_CODES:
                    raise
                raise Held(self._output_hold(str(error), errno.EIO)) from None
            if taken.allowed is not None:
                entries = [replace(one, size=taken.allowed[one.name]) for one in entries if one.name in taken.allowed]
            trouble = await send_files(
                peer, entries, open_file, self._as_account, have=taken.have, hands_over=taken.open_files
            )
            stored = await peer.call(OutputStored(activation=name), timeout=None)
        if trouble is not None:
            raise Held(self._output_hold(str(trouble), trouble.number))
        if stored.trouble is not None:
            raise Held(_hold_of(stored.trouble, self.slot))
        return sum(entry.size for entry in entries)

    def _gather(self, outputs: Iterable[tuple[str, str]]) -> tuple[list[FileEntry], dict[str, str]]:
        """The entries of all these, and where each file is."""
        entries: dict[str, FileEntry] = {}
        sources: dict[str, str] = {}
        for path, name in outputs:
            try:
                for entry, source in _expand(path, name):
                    entries[entry.name] = entry
                    sources[entry.name] = source
            except OSError as error:
                number = error.errno or errno.EIO
                shown = error.filename or path
                raise Held(
                    self._output_hold(f"reading from file {shown}: (errno {number}) {os.strerror(number)}", number)
                ) from None
        return list(entries.values()), sources

    def _outputs(self, before: Mapping[str, Stamp], exit_code: int | None) -> Iterator[tuple[str, str]]:
        """Each output's path, and the name under which it goes."""
        for name in standard_outputs(self._job):
            yield self._path(name), name
        if not output_wanted(self._job, exit_code):
            for path in failure_files(self._job, exit_code):
                if os.path.lexists(self._path(path)):
                    yield self._path(path), output_name(self._job, path)
            return
        listed = listed_outputs(self._job)
        if listed is None:
            for name in new_or_changed(before, stamps(self.sandbox)):
                yield self._path(name), name
            return
        for path in listed:
            yield self._path(path), output_name(self._job, path)

    # ---- in words

    def _path(self, name: str) -> str:
        return os.path.join(self.sandbox, name)

    def _agent(self) -> AbstractAsyncContextManager[Peer]:
        return self.line.held(self.request.agent_address, self.request.agent_ticket)

    def _input_hold(self, trouble: FileTrouble) -> Hold:
        reason = (
            f"Transfer input files failure at execution point {self.slot} while receiving files. Details: {trouble}"
        )
        return Hold(reason, HoldCode.TRANSFER_INPUT_ERROR, trouble.number)

    def _output_hold(self, details: str, number: int) -> Hold:
        reason = f"Transfer output files failure at execution point {self.slot} while sending files. Details: {details}"
        return Hold(reason, HoldCode.TRANSFER_OUTPUT_ERROR, number)


def _hold_of(trouble: Trouble, slot: str) -> Hold:
    """The agent's trouble, with the execution point's name."""
    reason = trouble.reason.replace("while sending files.", f"while sending files to execution point {slot}.")
    reason = reason.replace("while receiving files.", f"while receiving files from execution point {slot}.")
    return Hold(reason, trouble.hold_code, trouble.hold_subcode)


def _expand(path: str, name: str) -> Iterator[tuple[FileEntry, str]]:
    """A file, or a directory and all that is in it; a link at the top is followed."""
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        parts = name.split("/")
        for count in range(1, len(parts)):
            yield FileEntry(name="/".join(parts[:count]), mode=0o755, kind="dir"), ""
        yield from _walk(path, name)
    elif stat.S_ISREG(status.st_mode):
        yield file_entry(name, status, status.st_mode), path
    else:
        raise OSError(errno.EINVAL, "not a regular file", path)


def _walk(path: str, name: str) -> Iterator[tuple[FileEntry, str]]:
    """Links to files go as files, links to directories as links where they stay within; sockets and pipes stay."""
    waiting = [(path, name)]
    while waiting:
        directory, inside = waiting.pop()
        mode = os.stat(directory).st_mode & 0o777
        yield FileEntry(name=inside, mode=mode | 0o700, kind="dir"), ""
        with os.scandir(directory) as found:
            inner = sorted(found, key=lambda entry: entry.name)
        for entry in inner:
            below = f"{inside}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, below))
            elif entry.is_file():
                status = entry.stat()
                yield file_entry(below, status, status.st_mode), entry.path
            elif entry.is_symlink() and _stays_within(below, target := os.readlink(entry.path)):
                yield FileEntry(name=below, kind="link", target=target), ""


def _stays_within(name: str, target: str) -> bool:
    try:
        check_link(name, target)
    except PeerError:
        return False
    return True
