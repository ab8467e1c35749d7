"""What a job asks for through chirp: lines of words, each a call, and answers that are numbers, some with bytes behind.

The protocol is HTCondor's version 2. A word ends at a blank; a backslash takes the next character as it is.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from enum import Enum, IntEnum
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from pool.classad import ClassAd
from pool.jobs.vocabulary.nodes import is_gang

LINE_MAX: Final = 5120
VERSION: Final = 2
DELAYED_TEXT_MAX: Final = 993
INFO_TEXT_MAX: Final = 128
"""Characters of a message for the log."""
COMMAND_BYTES_MAX: Final = 128 * 1024
"""Of a command for another node: Linux takes no longer word."""


class ChirpError(IntEnum):
    """Answers that say no."""

    NOT_AUTHENTICATED = -1
    NOT_AUTHORIZED = -2
    DOES_NOT_EXIST = -3
    ALREADY_EXISTS = -4
    TOO_BIG = -5
    NO_SPACE = -6
    NO_MEMORY = -7
    INVALID_REQUEST = -8
    TOO_MANY_OPEN = -9
    BUSY = -10
    TRY_AGAIN = -11
    BAD_FD = -12
    IS_DIR = -13
    NOT_DIR = -14
    NOT_EMPTY = -15
    CROSS_DEVICE_LINK = -16
    OFFLINE = -17
    UNKNOWN = -127


_BY_ERRNO: Final[Mapping[int, ChirpError]] = {
    errno.EPERM: ChirpError.NOT_AUTHORIZED,
    errno.EACCES: ChirpError.NOT_AUTHORIZED,
    errno.ENOENT: ChirpError.DOES_NOT_EXIST,
    errno.EEXIST: ChirpError.ALREADY_EXISTS,
    errno.EFBIG: ChirpError.TOO_BIG,
    errno.ENOSPC: ChirpError.NO_SPACE,
    errno.ENOMEM: ChirpError.NO_MEMORY,
    errno.EBADF: ChirpError.BAD_FD,
    errno.E2BIG: ChirpError.INVALID_REQUEST,
    errno.EINVAL: ChirpError.INVALID_REQUEST,
    errno.ENFILE: ChirpError.TOO_MANY_OPEN,
    errno.EMFILE: ChirpError.TOO_MANY_OPEN,
    errno.EBUSY: ChirpError.BUSY,
    errno.ETXTBSY: ChirpError.BUSY,
    errno.EAGAIN: ChirpError.TRY_AGAIN,
    errno.EINTR: ChirpError.TRY_AGAIN,
    errno.EISDIR: ChirpError.IS_DIR,
    errno.ENOTDIR: ChirpError.NOT_DIR,
    errno.ENOTEMPTY: ChirpError.NOT_EMPTY,
    errno.EXDEV: ChirpError.CROSS_DEVICE_LINK,
    errno.ETIMEDOUT: ChirpError.OFFLINE,
}


def error_of(number: int) -> ChirpError:
    """The answer for an errno."""
    return _BY_ERRNO.get(number, ChirpError.UNKNOWN)


class Right(Enum):
    """What a job may do: with files of its owner, with its ad at once, with its ad later, on its other nodes."""

    FILES = "files"
    UPDATES = "updates"
    DELAYED = "delayed"
    NODES = "nodes"


GRAMMAR: Final[Mapping[str, tuple[Right, str]]] = {
    # s: a word; d: a number
    "open": (Right.FILES, "ssd"),
    "close": (Right.FILES, "d"),
    "lseek": (Right.FILES, "ddd"),
    "read": (Right.FILES, "dd"),
    "write": (Right.FILES, "dd"),
    "pread": (Right.FILES, "ddd"),
    "pwrite": (Right.FILES, "ddd"),
    "sread": (Right.FILES, "ddddd"),
    "swrite": (Right.FILES, "ddddd"),
    "fsync": (Right.FILES, "d"),
    "fstat": (Right.FILES, "d"),
    "fstatfs": (Right.FILES, "d"),
    "fchown": (Right.FILES, "ddd"),
    "fchmod": (Right.FILES, "dd"),
    "ftruncate": (Right.FILES, "dd"),
    "unlink": (Right.FILES, "s"),
    "rename": (Right.FILES, "ss"),
    "mkdir": (Right.FILES, "sd"),
    "rmdir": (Right.FILES, "s"),
    "rmall": (Right.FILES, "s"),
    "lookup": (Right.FILES, "s"),
    "getfile": (Right.FILES, "s"),
    "putfile": (Right.FILES, "sdd"),
    "getdir": (Right.FILES, "s"),
    "getlongdir": (Right.FILES, "s"),
    "whoami": (Right.FILES, "d"),
    "whoareyou": (Right.FILES, "sd"),
    "link": (Right.FILES, "ss"),
    "symlink": (Right.FILES, "ss"),
    "readlink": (Right.FILES, "sd"),
    "stat": (Right.FILES, "s"),
    "lstat": (Right.FILES, "s"),
    "statfs": (Right.FILES, "s"),
    "access": (Right.FILES, "sd"),
    "chmod": (Right.FILES, "sd"),
    "chown": (Right.FILES, "sdd"),
    "lchown": (Right.FILES, "sdd"),
    "truncate": (Right.FILES, "sd"),
    "utime": (Right.FILES, "sdd"),
    "get_job_attr": (Right.UPDATES, "s"),
    "set_job_attr": (Right.UPDATES, "ss"),
    "constrain": (Right.UPDATES, "s"),
    "ulog": (Right.UPDATES, "s"),
    "phase": (Right.UPDATES, "s"),
    "version": (Right.UPDATES, ""),
    "get_job_attr_delayed": (Right.DELAYED, "s"),
    "set_job_attr_delayed": (Right.DELAYED, "ss"),
    "run_on_node": (Right.NODES, "dd"),
}


class ChirpCall(NamedTuple):
    """One line, understood."""

    name: str
    texts: tuple[str, ...]
    numbers: tuple[int, ...]


def read_call(line: str, rights: frozenset[Right]) -> ChirpCall | None:
    """The call of a line; None for one that is wrong, or that the job has no right to."""
    words = split(line)
    right, kinds = GRAMMAR.get(words[0], (None, "")) if words else (None, "")
    if right not in rights or len(words) < 1 + len(kinds):
        return None
    texts, numbers = [], []
    for word, kind in zip(words[1:], kinds, strict=False):
        if kind == "s":
            texts.append(word)
            continue
        try:
            numbers.append(int(word))
        except ValueError:
            return None
    return ChirpCall(words[0], tuple(texts), tuple(numbers))


_BLANKS: Final = " \t\n\r\v\f"


def split(line: str) -> list[str]:
    """The words of a line."""
    words: list[str] = []
    word: list[str] | None = None
    letters = iter(line)
    for letter in letters:
        if letter in _BLANKS:  # str.isspace would part words at a no-break space, which `quote` leaves as it is
            if word is not None:
                words.append("".join(word))
                word = None
            continue
        word = [] if word is None else word
        word.append(next(letters, "") if letter == "\\" else letter)
    if word is not None:
        words.append("".join(word))
    return words


def quote(word: str) -> str:
    """A word as a line has it."""
    return "".join(f"\\{letter}" if letter == "\\" or letter in _BLANKS else letter for letter in word)


def rights_of(job: ClassAd, *, files: bool, updates: bool, delayed: bool) -> frozenset[Right]:
    """What this job may do where the machine allows these."""
    wants_files = bool(job.eval_bool("WantIOProxy", False)) and files
    wants_updates = bool(job.eval_bool("WantRemoteUpdates", wants_files)) and updates
    wants_delayed = bool(job.eval_bool("WantDelayedUpdates", True)) and delayed
    pairs = (
        (Right.FILES, wants_files),
        (Right.UPDATES, wants_updates),
        (Right.DELAYED, wants_delayed),
        (Right.NODES, is_gang(job)),
    )
    return frozenset(right for right, wanted in pairs if wanted)


class Printed(IntEnum):
    """What comes of a command on another node, once its call is answered with 0: pieces, each as `KIND LENGTH`, a new
    line and the bytes; last its wait status, as `0 STATUS`."""

    OVER = 0
    OUTPUT = 1
    ERROR = 2


def may_be_delayed(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether an attribute may be set later (CHIRP_DELAYED_UPDATE_PREFIX)."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)
