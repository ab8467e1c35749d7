"""A job's checkpoints in SPOOL: each arrives in a directory that has no name yet, and has one only when it is whole.

Its manifest is written last, before it gets its name; what does not agree with its manifest is not given back. The
newest checkpoint stays, and the one before it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Final

from pool.base.errors import PeerError
from pool.files.checkpoint import (
    MANIFEST,
    directory_name,
    newest_first,
    number_of,
    read_manifest,
    write_manifest,
)
from pool.files.checkpoint_cleanup import JOB_AD
from pool.files.transfer import InputItem
from protocol.files.digest import digest_of

KEPT: Final = 2


@dataclass(frozen=True)
class SpooledCheckpoints:
    """Those of one job; `directory` is the job's own. Everything here blocks."""

    directory: str
    job_ad: str = ""
    """Of a job whose checkpoints are at a URL: all manifests are kept, and with them what is needed to remove those."""

    # ---- giving back

    def items(self) -> list[InputItem]:
        """The files of the newest whole checkpoint; none where there is none."""
        for name in newest_first(self._names()):
            path = os.path.join(self.directory, name)
            try:
                _check(path)
                names = sorted(os.listdir(path))
            except (OSError, PeerError):
                continue
            return [InputItem(os.path.join(path, top), top) for top in names if top != MANIFEST]
        return []

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.directory)
        except OSError:
            return []

    # ---- taking

    def begin(self, mark: str) -> str:
        """An empty directory for the next one; what an attempt of the same activation left is gone."""
        path = os.path.join(self.directory, f".checkpoint.{mark}")
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path, 0o700)
        return path

    def commit(self, path: str) -> None:
        """All files are there: from now on this is the newest."""
        # Made of what is on disk now, and not of what was sent: so a manifest vouches for the files that are given
        # back.
        digests = {name: digest_of(os.path.join(path, name)) for name in _files(path)}
        taken = [number for name in self._names() if (number := number_of(name)) is not None]
        number = max(taken, default=-1) + 1
        with open(os.path.join(path, MANIFEST), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(write_manifest(digests))
            file.flush()
            os.fsync(file.fileno())
        if self.job_ad:
            self._keep_ad()
        # The one step by which the checkpoint comes into being; a crash before it leaves the one before as the newest.
        os.rename(path, os.path.join(self.directory, directory_name(number)))
        # Where the files are at a URL the manifests are all that is known of them: none may go before its files.
        for name in newest_first(self._names())[KEPT:] if not self.job_ad else ():
            shutil.rmtree(os.path.join(self.directory, name), ignore_errors=True)

    def _keep_ad(self) -> None:
        path = os.path.join(self.directory, JOB_AD)
        with open(f"{path}.tmp", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(self.job_ad)
        os.replace(f"{path}.tmp", path)


def _files(path: str) -> list[str]:
    found: list[str] = []
    for directory, _, names in os.walk(path):
        inner = os.path.relpath(directory, path)
        found += [name if inner == "." else f"{inner}/{name}" for name in names]
    return found


def _check(path: str) -> None:
    """PeerError when a checkpoint is not as its manifest says."""
    with open(os.path.join(path, MANIFEST), encoding="utf-8", errors="surrogateescape") as file:
        digests = read_manifest(file.read())
    for name, digest in digests.items():
        if digest_of(os.path.join(path, name)) != digest:
            raise PeerError(f"{name} of {path} is not what was stored")
