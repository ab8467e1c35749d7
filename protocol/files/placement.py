"""Where files arrive: each is written beside its place under another name, and moved there at last.

So nobody ever sees half an output file, and what was there before stays until all files have come. A link at the
place is followed; what is neither missing nor a regular file (a terminal, a pipe) is written to as it is. Links that
came with a transfer are followed like others, so each of them must stay within its top directory, whatever comes
later.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from pool.base.errors import PeerError
from pool.files.transfer import check_link, check_names
from protocol.files.file_list import FileTrouble
from protocol.messages.agent import FileEntry

AT_ONCE_MAX: Final = 64
"""How many files are moved to their places in less time than a thread takes."""
FREED_AT_ONCE_MAX: Final = 32 * 1024**2
"""And how many bytes of those that they replace: the kernel takes a millisecond for each ten megabytes."""


@dataclass
class Placement:
    """The files of one transfer on their way to their places; `where` says which place a name has."""

    where: Callable[[str], str]
    mark: str
    places: dict[str, str] = field(default_factory=dict)
    may_make_way: Callable[[str], bool] = lambda name: False
    """Whether the directory of a file's place is made, though no directory of that name has come along."""
    begun: frozenset[str] = frozenset()
    """The names of files of which an earlier attempt with the same mark has left something."""
    _freed: int = 0
    """Bytes of what was there before, which goes when the files have their places."""
    _waiting: list[tuple[str, str]] = field(default_factory=list)  # temporary name, place
    _real: dict[str, str] = field(default_factory=dict)  # of directories, which many files share
    _links: list[tuple[str, str, str]] = field(default_factory=list)  # name, place, target

    def plan(self, entries: list[FileEntry]) -> None:
        """Decide where everything goes before anything is written; PeerError when something may not come."""
        check_names(entry.name for entry in entries)
        for entry in entries:
            if entry.kind not in ("file", "dir", "link"):
                raise PeerError(f"{entry.name} is of the unknown kind {entry.kind!r}")
            if entry.kind == "link":
                check_link(entry.name, entry.target)
            if entry.size < 0 or (entry.data is not None and len(entry.data) != entry.size):
                raise PeerError(f"{entry.name} is not as long as is said: {entry.size} bytes")
            self.places[entry.name] = self.where(entry.name)

    def open(self, entry: FileEntry) -> int:
        """A descriptor for the bytes of one file."""
        place = self._real_place(entry, make=True)
        mode = entry.mode & 0o777
        try:
            there = os.lstat(place)
        except FileNotFoundError:
            there = None
        if there is not None:
            if stat.S_ISDIR(there.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place)
            if not stat.S_ISREG(there.st_mode):
                return os.open(place, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
            # A rename asks for the directory's permission alone, and would replace a file that is write-protected.
            if not os.access(place, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)
            mode = stat.S_IMODE(there.st_mode)
            self._freed += there.st_size
        return self._beside(place, mode, exists=there is not None, goes_on=entry.name in self.begun)

    def adopt(self, entry: FileEntry) -> None:
        """An earlier attempt has brought all of this file: it only waits for its place."""
        place = self._real_place(entry)
        self._waiting.append((self._temporary(place), place))

    def _temporary(self, place: str) -> str:
        directory, name = os.path.split(place)
        return os.path.join(directory, f".{name[:200]}.{self.mark}")

    def is_beside(self, entry: FileEntry) -> bool:
        """Whether what has come of the file lies beside its place, where the next attempt finds it."""
        return os.path.lexists(self._temporary(self._real_place(entry)))

    def _place_of(self, entry: FileEntry) -> str:
        """Where the file goes; OSError when no file can have such a name."""
        place = self.places[entry.name]
        if not may_be_a_path(place):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), place)
        return place

    def _real_place(self, entry: FileEntry, *, make: bool = False) -> str:
        """Where the file really goes, if links are followed. `make`: its directory is made, if it came along."""
        directory, name = os.path.split(self._place_of(entry))
        real = self._real.get(directory)
        if real is None:
            real = os.path.realpath(directory)
            if make:
                self._make_parents(entry.name, real)
                self._real[directory] = real
        place = os.path.join(real, name)
        return os.path.realpath(place) if os.path.islink(place) else place

    def _beside(self, place: str, mode: int, *, exists: bool, goes_on: bool) -> int:
        temporary = self._temporary(place)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if goes_on else os.O_TRUNC)
        try:
            fd = os.open(temporary, flags, mode)
        # A directory in which nothing can be made, with a file in it that can be written: then that file, as it is.
        except PermissionError:
            if not exists:
                raise
            return os.open(place, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        set_mode(fd, mode)
        self._waiting.append((temporary, place))
        return fd

    def _make_parents(self, name: str, directory: str) -> None:
        """A file inside a transferred directory brings its directory along; others may have to be there."""
        if "/" in name or self.may_make_way(name):
            os.makedirs(directory, exist_ok=True)

    def directory(self, entry: FileEntry) -> None:
        """Make a directory that is transferred."""
        place = self._place_of(entry)
        if not os.path.isdir(place):  # one that is there is its owner's to close or to open
            os.makedirs(place)
            os.chmod(place, entry.mode & 0o777 | 0o700)

    def link(self, entry: FileEntry) -> None:
        """Remember a link; links are made last, so that no file is ever written through one that was sent."""
        self._links.append((entry.name, self._place_of(entry), entry.target))

    @property
    def takes_long(self) -> bool:
        """Whether `finish` is a thread's work."""
        return len(self._waiting) > AT_ONCE_MAX or self._freed > FREED_AT_ONCE_MAX

    def finish(self) -> None:
        """Move everything to its place; FileTrouble names the file that cannot be."""
        try:
            # Taken off the end one by one, in the order of the list: what has its place is no longer there to be
            # abandoned.
            self._waiting.reverse()
            while self._waiting:
                temporary, place = self._waiting[-1]
                os.rename(temporary, place)
                self._waiting.pop()
            for name, place, target in self._links:
                self._check_way(name, place)
                # An earlier run's link is replaced; a file or directory in its place stays, and the link is refused.
                if os.path.islink(place):
                    os.unlink(place)
                os.symlink(target, place)
        except OSError as error:
            raise FileTrouble("writing to file", place, error.errno or errno.EIO) from None

    def _check_way(self, name: str, place: str) -> None:
        """OSError when a link would not be where its name says, so that going up from there would lead elsewhere."""
        top, _, inner = name.partition("/")
        wanted = os.path.normpath(os.path.join(os.path.realpath(self.where(top)), os.path.dirname(inner)))
        if inner and os.path.realpath(os.path.dirname(place)) != wanted:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), place)

    def abandon(self, keep: Collection[str] = ()) -> None:
        """Remove what was not finished, but for the files of these names."""
        kept = {os.path.realpath(place) for name, place in self.places.items() if name in keep} if keep else set()
        for temporary, place in self._waiting:
            if place in kept:
                continue
            try:
                os.unlink(temporary)
            except OSError:
                continue
        self._waiting.clear()


def set_mode(descriptor: int, mode: int) -> None:
    """Have a file that was just opened have this mode, which most have already by the way they were made."""
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        os.fchmod(descriptor, mode)


def may_be_a_path(text: str) -> bool:
    """Whether the kernel can be asked for a file of this name."""
    try:
        return "\0" not in text and bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False
