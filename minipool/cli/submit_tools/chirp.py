"""condor_chirp: what a running job does with its owner's files, its ad and its log, at the access point.

It runs inside a job, finds its starter by `.chirp.config`, and proves with the cookie there which job it is. It
speaks the Chirp protocol over TCP: a line for each call, answered by a line with a number, which is negative for an
error. Source: HTCondor's manual page condor_chirp and the Chirp protocol of CCTools (`pool/execute/chirp.py`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from minipool.cli.entry.options import Parsed
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from pool.base.errors import UserError

if TYPE_CHECKING:
    import socket

CHUNK_BYTES: Final = 1 << 20
STAT: Final = ("device", "inode", "mode", "nlink", "uid", "gid", "rdevice", "size", "blksize", "blocks", "atime",
               "mtime", "ctime")  # fmt: skip
STATFS: Final = ("f_type", "f_bsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree")
_ERRORS: Final[Mapping[int, str]] = {
    -1: "the cookie is wrong",
    -2: "that is not allowed",
    -3: "there is no such thing",
    -4: "it exists already",
    -5: "that is too large",
    -6: "there is no space left",
    -8: "the request is wrong, or the job has not asked for it (want_io_proxy = true)",
    -12: "the file is not open for that",
    -13: "it is a directory",
    -14: "it is not a directory",
    -15: "the directory is not empty",
    -16: "it cannot be done now",
    -17: "the access point cannot be reached now",
}


class ChirpError(UserError):
    """The call has failed."""


class Refused(ChirpError):
    """The starter's answer is no: a `pool.execute.chirp.ChirpError`."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"{name}: {_ERRORS.get(number, 'it has failed')} ({number})")
        self.number = number


class Client:
    """One connection to the starter."""

    def __init__(self) -> None:
        host, port, cookie = _config()
        import socket

        try:
            self._socket: socket.socket = socket.create_connection((host, port))
        except OSError as error:
            raise ChirpError(f"Can't connect to {host}:{port}: {error.strerror}") from None
        self._file = self._socket.makefile("rb")
        self.call("cookie", cookie)

    def call(self, *words: object, data: bytes = b"") -> int:
        """Say a line, and take the number that answers it."""
        from pool.execute.chirp import quote

        line = " ".join(quote(str(word)) for word in words)
        # Line and bytes in one: the starter reads the bytes behind the line without asking for them.
        self._socket.sendall(line.encode(errors="surrogateescape") + b"\n" + data)
        return self.number(str(words[0]))

    def number(self, name: str) -> int:
        """The next answer."""
        answer = self._file.readline()
        if not answer:
            raise ChirpError("the starter has hung up")
        value = int(answer)
        if value < 0:
            raise Refused(name, value)
        return value

    def bytes(self, count: int) -> bytes:
        """What follows an answer."""
        data = self._file.read(count)
        if len(data) != count:
            raise ChirpError("the starter has hung up")
        return data

    def line(self) -> str:
        """A line that follows an answer."""
        return self._file.readline().decode(errors="surrogateescape")

    def text(self, *words: object) -> str:
        """The text that answers a call."""
        return self.bytes(self.call(*words)).decode(errors="surrogateescape")


def _config() -> tuple[str, int, str]:
    path = os.environ.get("_CONDOR_CHIRP_CONFIG") or os.path.join(
        os.environ.get("_CONDOR_SCRATCH_DIR", "."), ".chirp.config"
    )
    try:
        with open(path) as file:
            host, port, cookie = file.read().split()
            return host, int(port), cookie
    except OSError as error:
        raise ChirpError(f"Can't open {path} file: {error.strerror}") from None
    except ValueError:
        raise ChirpError(f"{path} does not say where the starter is") from None


class ChirpCommand(NamedTuple):
    """One command: its words after the name, and what it does with them."""

    usage: str
    least: int
    most: int
    act: Callable[[list[str]], int]


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_chirp."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if not parsed.words or parsed.words[0] not in COMMANDS:
        if parsed.words:
            sys.stdout.write(f"Unknown command {parsed.words[0]}\n")
        sys.stdout.write("Usage:\n" + "".join(f"condor_chirp {_usage(name)}\n" for name in COMMANDS))
        return 1
    name, *words = parsed.words
    command = COMMANDS[name]
    if not command.least <= len(words) <= command.most:
        sys.stdout.write(f"condor_chirp {_usage(name)}\n")
        return 1
    try:
        return command.act(words)
    except (ChirpError, OSError, ValueError) as error:
        sys.stderr.write(f"condor_chirp {name}: {error}\n")
        return 1


def _usage(name: str) -> str:
    return f"{name} {COMMANDS[name].usage}".rstrip()


def _say(text: str) -> int:
    sys.stdout.write(f"{text}\n")
    return 0


def _options(words: list[str], least: int, most: int = 0, **known: int) -> tuple[dict[str, list[str]], list[str]]:
    """The options before the words, and `least` words, or up to `most`; `known` says how many values each takes."""
    given: dict[str, list[str]] = {}
    words = list(words)
    while words and words[0].startswith("-") and words[0][1:] in known:
        name = words.pop(0)[1:]
        given[name], words = words[: known[name]], words[known[name] :]
        if len(given[name]) < known[name]:
            raise ChirpError(f"-{name} requires {known[name]} value{'s' * (known[name] > 1)}")
    if not least <= len(words) <= max(least, most):
        raise ChirpError(f"{len(words)} words are left beside the options (expected {least})")
    return given, words


# ---- whole files


def _fetch(words: list[str]) -> int:
    remote, local = words
    client = Client()
    left = client.call("getfile", remote)
    out = sys.stdout.buffer if local == "-" else open(local, "wb")  # noqa: SIM115 (standard output stays open)
    while left:
        data = client.bytes(min(left, CHUNK_BYTES))
        out.write(data)
        left -= len(data)
    out.flush()
    return 0


def _put(words: list[str]) -> int:
    options, (local, remote) = _options(words, 2, mode=1, perm=1)
    mode = options.get("mode", ["cwt"])[0]
    perm = int(options.get("perm", ["777"])[0], 8)
    source = sys.stdin.buffer if local == "-" else open(local, "rb")  # noqa: SIM115 (standard input stays open)
    client = Client()
    # A put writes, whatever -mode says of creating and truncating.
    fd = client.call("open", remote, mode if "w" in mode else f"{mode}w", perm)
    client.line()
    # Each piece is answered before the next is sent: the starter keeps one in memory.
    while data := source.read(CHUNK_BYTES):
        client.call("write", fd, len(data), data=data)
    client.call("close", fd)
    return 0


def _read(words: list[str]) -> int:
    options, (path, length) = _options(words, 2, offset=1, stride=2)
    client = Client()
    fd = client.call("open", path, "r", 0)
    client.line()
    offset = int(options.get("offset", ["0"])[0])
    if "stride" in options:
        stride, skip = options["stride"]
        data = client.bytes(client.call("sread", fd, int(length), offset, int(stride), int(skip)))
    else:
        data = client.bytes(client.call("pread", fd, int(length), offset))
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.flush()
    return 0


def _write(words: list[str]) -> int:
    options, (path, local, *count) = _options(words, 2, 3, offset=1, stride=2)
    source = sys.stdin.buffer if local == "-" else open(local, "rb")  # noqa: SIM115 (standard input stays open)
    data = source.read(int(count[0])) if count else source.read()
    client = Client()
    fd = client.call("open", path, "cw", 0o777)
    client.line()
    offset = int(options.get("offset", ["0"])[0])
    if "stride" in options:
        stride, skip = options["stride"]
        client.call("swrite", fd, len(data), offset, int(stride), int(skip), data=data)
    else:
        client.call("pwrite", fd, len(data), offset, data=data)
    return 0


# ---- the rest


def _simple(name: str) -> Callable[[list[str]], int]:
    """A call whose words are the command's."""
    return lambda words: Client().call(name, *words) * 0


def _text(name: str) -> Callable[[list[str]], int]:
    """A call that is answered with a text."""
    return lambda words: _say(Client().text(name, *words))


def _rmdir(words: list[str]) -> int:
    options, (path,) = _options(words, 1, r=0)
    return Client().call("rmall" if "r" in options else "rmdir", path) * 0


def _getdir(words: list[str]) -> int:
    options, (path,) = _options(words, 1, l=0)
    client = Client()
    if "l" not in options:
        sys.stdout.write(client.text("getdir", path))
        return 0
    lines = client.text("getlongdir", path).split("\n")
    for name, facts in zip(lines[0::2], lines[1::2], strict=False):
        if name:
            sys.stdout.write(f"{name}\n" + _facts(STAT, facts, "\t"))
    return 0


def _facts(names: Sequence[str], line: str, lead: str = "") -> str:
    shown = []
    for name, value in zip(names, line.split(), strict=False):
        shown.append(f"{lead}{name}: {time.ctime(int(value)) if name in ('atime', 'mtime', 'ctime') else value}\n")
    return "".join(shown)


def _stat(name: str, names: Sequence[str]) -> Callable[[list[str]], int]:
    def show(words: list[str]) -> int:
        client = Client()
        client.call(name, *words)
        sys.stdout.write(_facts(names, client.line()))
        return 0

    return show


def _link(words: list[str]) -> int:
    options, (old, new) = _options(words, 2, s=0)
    return Client().call("symlink" if "s" in options else "link", old, new) * 0


def _readlink(words: list[str]) -> int:
    return _say(Client().text("readlink", words[0], int(words[1]) if len(words) > 1 else 4096))


def _access(words: list[str]) -> int:
    bits = {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK, "f": os.F_OK}
    mode = 0
    for letter in words[1]:
        if letter not in bits:
            raise ChirpError(f"invalid mode char '{letter}'")
        mode |= bits[letter]
    return Client().call("access", words[0], mode)


def _chmod(words: list[str]) -> int:
    return Client().call("chmod", words[0], int(words[1], 8))


COMMANDS: Final[Mapping[str, ChirpCommand]] = {
    "fetch": ChirpCommand("remote_file local_file", 2, 2, _fetch),
    "put": ChirpCommand("[-mode mode] [-perm perm] local_file remote_file", 2, 6, _put),
    "remove": ChirpCommand("remote_file", 1, 1, _simple("unlink")),
    "get_job_attr": ChirpCommand("job_attribute", 1, 1, _text("get_job_attr")),
    "get_job_attr_delayed": ChirpCommand("job_attribute", 1, 1, _text("get_job_attr_delayed")),
    "set_job_attr": ChirpCommand("job_attribute attribute_value", 2, 2, _simple("set_job_attr")),
    "set_job_attr_delayed": ChirpCommand("job_attribute attribute_value", 2, 2, _simple("set_job_attr_delayed")),
    "ulog": ChirpCommand("text", 1, 1, _simple("ulog")),
    "phase": ChirpCommand("text", 1, 1, _simple("phase")),
    "read": ChirpCommand("[-offset offset] [-stride length skip] remote_file length", 2, 7, _read),
    "write": ChirpCommand(
        "[-offset remote_offset] [-stride length skip] remote_file local_file [length]", 2, 8, _write
    ),
    "rmdir": ChirpCommand("[-r] remotepath", 1, 2, _rmdir),
    "getdir": ChirpCommand("[-l] remotepath", 1, 2, _getdir),
    "whoami": ChirpCommand("", 0, 0, lambda words: _say(Client().text("whoami", 1024))),
    "whoareyou": ChirpCommand("remotepath", 1, 1, lambda words: _say(Client().text("whoareyou", words[0], 1024))),
    "link": ChirpCommand("[-s] oldpath newpath", 2, 3, _link),
    "readlink": ChirpCommand("remotepath length", 1, 2, _readlink),
    "stat": ChirpCommand("remotepath", 1, 1, _stat("stat", STAT)),
    "lstat": ChirpCommand("remotepath", 1, 1, _stat("lstat", STAT)),
    "statfs": ChirpCommand("remotepath", 1, 1, _stat("statfs", STATFS)),
    "access": ChirpCommand("remotepath mode(rwxf)", 2, 2, _access),
    "chmod": ChirpCommand("remotepath mode", 2, 2, _chmod),
    "chown": ChirpCommand("remotepath uid gid", 3, 3, _simple("chown")),
    "lchown": ChirpCommand("remotepath uid gid", 3, 3, _simple("lchown")),
    "truncate": ChirpCommand("remotepath length", 2, 2, _simple("truncate")),
    "utime": ChirpCommand("remotepath actime mtime", 3, 3, _simple("utime")),
}

TOOL = Tool(
    "condor_chirp",
    "From a running job: its owner's files, its ad, its log.",
    "COMMAND [options] WORD...",
    (HELP, VERSION_OPT),
    stop_at_word=True,
    notes="Commands:\n" + "\n".join(f"    {name} {command.usage}".rstrip() for name, command in COMMANDS.items()),
)
