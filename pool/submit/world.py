"""What a submit description needs from outside: files, directories, commands."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable


def _no_commands(command: str) -> str:
    raise OSError("commands are not allowed here")


class SubmitWorld:
    """The outside of a submit description; each member may be replaced.

    `glob` answers matches in order, directories with a slash at their end. `size` answers bytes, None for what does
    not exist; a directory counts with all that is in it. `run` answers a command's output, or raises OSError.
    """

    __slots__ = ("glob", "has_crlf", "is_dir", "read_file", "read_stdin", "run", "size")

    def __init__(
        self,
        *,
        glob: Callable[[str], list[str]] | None = None,
        read_file: Callable[[str], str] | None = None,
        size: Callable[[str], int | None] | None = None,
        is_dir: Callable[[str], bool] | None = None,
        run: Callable[[str], str] = _no_commands,
        read_stdin: Callable[[], str] | None = None,
        has_crlf: Callable[[str], bool] | None = None,
    ) -> None:
        self.glob = glob or _glob
        self.read_file = read_file or _read
        self.size = size or _size
        self.is_dir = is_dir or os.path.isdir
        self.run = run
        self.read_stdin = read_stdin or _no_stdin
        self.has_crlf = has_crlf or _has_crlf


def world_in(directory: str, run: Callable[[str], str]) -> SubmitWorld:
    """The outside as it is seen from a directory."""
    return SubmitWorld(
        glob=lambda pattern: _glob(pattern, directory),
        read_file=lambda path: _read(os.path.join(directory, path)),
        run=run,
    )


def _no_stdin() -> str:
    raise OSError("standard input is not available here")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except ValueError:  # a null character, half of a surrogate pair: no file can have such a name
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path) from None


def _glob(pattern: str, directory: str = "") -> list[str]:
    import glob

    found = sorted(glob.glob(pattern, root_dir=directory or None))
    is_dir = [os.path.isdir(os.path.join(directory, path)) for path in found]
    return [
        path + "/" if is_one and not path.endswith("/") else path for path, is_one in zip(found, is_dir, strict=True)
    ]


def _size(path: str) -> int | None:
    try:
        known = os.stat(path)
    except (OSError, ValueError):  # no file can have such a name: then there is none
        return None
    if not stat.S_ISDIR(known.st_mode):
        return known.st_size
    total = 0
    for directory, _, files in os.walk(path):
        for name in files:
            try:
                # lstat: a link in a directory is sent as a link, whatever it leads to.
                total += os.lstat(os.path.join(directory, name)).st_size
            except OSError:
                continue
    return total


def _has_crlf(path: str) -> bool:
    """Whether `path` is a script whose first line ends as on Windows: no kernel starts it."""
    try:
        with open(path, "rb") as file:
            first = file.readline(4096)
    except (OSError, ValueError):
        return False
    return first.startswith(b"#!") and first.endswith(b"\r\n")
