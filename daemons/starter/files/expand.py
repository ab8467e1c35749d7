"""What of the sandbox goes for one name: a file, or a directory and all that is in it.

A link that the job named is followed, for the job could have read it. Inside a directory, links to files go as files,
and links to directories as links where they stay within; sockets and pipes stay.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from pool.base.errors import PeerError
from pool.files.transfer import (
    check_link,
)
from protocol.files.gather import file_entry
from protocol.messages.agent import (
    FileEntry,
)


def expand(path: str, name: str) -> Iterator[tuple[FileEntry, str]]:
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
