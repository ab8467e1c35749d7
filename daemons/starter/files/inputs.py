"""Fills the sandbox: what the user's file agent has, then what has a URL, then the checkpoint that is kept at one.

An attempt that was cut off is gone on with by the next: the agent hears how much of which file is here.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Container
from functools import partial
from typing import Final

from daemons.base.faults import fault
from daemons.host.account import acting_as
from daemons.starter.files.transfer import Transfer, hold_of
from daemons.starter.report.result import HoldJob
from pool.execute.exit import Hold
from pool.files.checkpoint import destination as checkpoint_url
from pool.files.checkpoint import (
    number_of,
    read_manifest,
    stored_at,
    top_names,
)
from pool.files.plugins import UrlFailed, UrlFile
from pool.files.transfer import (
    check_names,
    url_inputs,
)
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.files.digest import digest_of, read_text
from protocol.files.file_list import FileTrouble, regular, write_small
from protocol.files.file_stream import receive_files
from protocol.files.placement import set_mode
from protocol.messages.agent import (
    FetchInput,
    FileEntry,
    InputFiles,
    InputTaken,
    Partial,
)

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Inputs:
    """One activation's."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._came: dict[str, Partial] = {}
        """Of which file how much has come, should the connection be cut."""

    @property
    def progress(self) -> int:
        """How many bytes of large input files are here."""
        return sum(one.have for one in self._came.values())

    async def fetch(self) -> int:
        """Fill the sandbox; how many bytes came. Held when a file cannot move; PeerError when nobody sends."""
        with self._transfer.times.of("Input"):
            return await self._fetch_all()

    async def _fetch_all(self) -> int:
        async with self._transfer.agent() as peer:
            request = FetchInput(
                activation=self._transfer.request.activation,
                have=[*self._came.values()],
                process=os.getpid() if peer.bulk.take_files() else 0,
            )
            answer: InputFiles = await peer.call(request, timeout=None)
            if answer.trouble is not None:
                raise HoldJob(hold_of(answer.trouble, self._transfer.slot))
            check_names(entry.name for entry in answer.files)
            # Directories before files, which may be in them.
            self._make_directories(answer.files)
            with acting_as(self._transfer.account):
                small = write_small(answer.files, self._create)
            have = {name: size for name, size in answer.have.items() if name in self._came}
            create = partial(self._create, goes_on=have)
            piece = partial(fault, "starter.input_piece")
            said = await receive_files(
                peer, answer.files, create, self._transfer.as_account, have=have, came=self._came, after_piece=piece
            )
            trouble = said or small
            if regular(answer.files):
                await peer.notify(InputTaken(activation=self._transfer.request.activation))
            if trouble is not None:
                raise HoldJob(self._input_hold(trouble))
        size = sum(entry.size for entry in answer.files)
        self._transfer.restored = frozenset(answer.restored)
        fetched = await self._fetch_urls() + await self._fetch_checkpoint()
        self._transfer.tell("Input", len(answer.files), size)
        return size + fetched

    async def _fetch_urls(self) -> int:
        """What has a URL comes after the rest: a plug-in may be part of that."""
        files = [UrlFile(url, self._transfer.path(name)) for url, name in url_inputs(self._transfer.job)]
        if not files:
            return 0
        try:
            check_names(name for _, name in url_inputs(self._transfer.job))
            return await self._transfer.urls.download(files)
        except UrlFailed as error:
            raise self._transfer.url_trouble("input", HoldCode.TRANSFER_INPUT_ERROR, error) from None

    async def _fetch_checkpoint(self) -> int:
        """Of a checkpoint that is kept at a URL only its manifest has come yet."""
        manifests = [name for name in self._transfer.restored if number_of(name) is not None]
        if not manifests or checkpoint_url(self._transfer.job) is None:
            return 0
        manifest = max(manifests)
        number = number_of(manifest) or 0
        with acting_as(self._transfer.account):
            digests = read_manifest(read_text(self._transfer.path(manifest)))
            # The job must not find it, nor send it back as its output.
            os.unlink(self._transfer.path(manifest))
        for name in digests:
            self._make_parent(name)
        files = [UrlFile(stored_at(self._transfer.job, number, name), self._transfer.path(name)) for name in digests]
        try:
            size = await self._transfer.urls.download(files) if files else 0
        except UrlFailed as error:
            raise self._transfer.url_trouble("input", HoldCode.TRANSFER_INPUT_ERROR, error) from None
        with acting_as(self._transfer.account):
            for name, digest in digests.items():
                if digest_of(self._transfer.path(name)) != digest:
                    said = f"{name} of checkpoint {number} is not what was stored"
                    raise HoldJob(self._input_hold(FileTrouble("checking file", name, errno.EIO, said)))
        self._transfer.restored = frozenset(top_names(digests))
        return size

    def _make_parent(self, name: str) -> None:
        if "/" in name:
            with acting_as(self._transfer.account):
                os.makedirs(os.path.dirname(self._transfer.path(name)), 0o755, exist_ok=True)

    def _make_directories(self, files: list[FileEntry]) -> None:
        try:
            with acting_as(self._transfer.account):
                for entry in files:
                    if entry.kind == "dir":
                        os.makedirs(self._transfer.path(entry.name), entry.mode | 0o700, exist_ok=True)
        except OSError as error:
            number = error.errno or errno.EIO
            raise HoldJob(self._input_hold(FileTrouble("creating directory", entry.name, number))) from None

    def _create(self, entry: FileEntry, goes_on: Container[str] = ()) -> int:
        """A new file in the sandbox, the account's own; or one that an earlier attempt has begun."""
        fault("starter.input_file")
        flags = _NEW_FILE & ~os.O_TRUNC if entry.name in goes_on else _NEW_FILE
        with acting_as(self._transfer.account):
            fd = os.open(f"{self._transfer.sandbox}/{entry.name}", flags, entry.mode & 0o777 | 0o600)
            set_mode(fd, entry.mode & 0o777 | 0o600)
        return fd

    def _input_hold(self, trouble: FileTrouble) -> Hold:
        at = f"execution point {self._transfer.slot}"
        reason = f"Transfer input files failure at {at} while receiving files. Details: {trouble}"
        return Hold(reason, HoldCode.TRANSFER_INPUT_ERROR, trouble.number)
