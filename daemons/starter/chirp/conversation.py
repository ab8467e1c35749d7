"""The jobs' end of chirp: a socket on this machine's loopback, to which a job comes with the cookie of its sandbox.
(For a job in a container it is on the engine's bridge.)

Files are those of the job's owner at the access point: the file agent opens them, for each call anew, so nothing is
lost when a connection is. Attributes and messages go to the schedd; what may wait goes with the next update.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from daemons.log import Log
from daemons.starter.account import Account, acting_as
from daemons.starter.bridge import LOOPBACK
from daemons.starter.line import Line
from daemons.starter.settings import StarterSettings
from pool.classad import ClassAd, Expr, expr
from pool.errors import ClassAdError, PeerError, PoolError
from pool.execute import chirp
from pool.execute.chirp import LINE_MAX, Call, Error, Right, read_call
from pool.execute.plan import CHIRP_CONFIG_NAME
from protocol.messages.agent import RemoteIo
from protocol.messages.schedd import ReadJobAttribute, SetJobAttributes, WriteToLog
from protocol.messages.starter import RunJob
from protocol.rpc import Peer

CHUNK_BYTES: Final = 1024 * 1024
OPEN_MAX: Final = 64
CONNECTIONS_MAX: Final = 32
WRONG_COOKIE_S: Final = 1.0
COOKIE_BYTES: Final = 20


@dataclass(frozen=True)
class ChirpRules:
    """The machine's ENABLE_CHIRP* and CHIRP_DELAYED_UPDATE_*."""

    enabled: bool = True
    files: bool = True
    updates: bool = True
    delayed: bool = True
    delayed_names: tuple[str, ...] = ("Chirp*",)
    delayed_max: int = 100


def chirp_rules(settings: StarterSettings) -> ChirpRules:
    """What the machine has of them."""
    enabled, files, updates, delayed = settings.chirp
    return ChirpRules(enabled, files, updates, delayed, tuple(settings.chirp_names), settings.chirp_names_max)


@dataclass
class _File:
    path: str
    flags: str
    position: int = 0


@dataclass
class ChirpJob:
    """One job's use of chirp."""

    request: RunJob
    job: ClassAd
    rules: ChirpRules
    agent: Line
    find_schedd: Callable[[], Awaitable[Peer | None]]
    log: Log
    rights: frozenset[Right] = frozenset()
    delayed: dict[str, Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = self.rules
        if rules.enabled:
            self.rights = chirp.rights_of(self.job, files=rules.files, updates=rules.updates, delayed=rules.delayed)

    def delayed_ad(self) -> ClassAd:
        """What goes along with every update, so that it does not matter when one is lost."""
        ad = ClassAd()
        for name, value in self.delayed.items():
            ad[name] = value
        return ad

    # ---- the job's ad

    async def _schedd(self) -> Peer:
        peer = await self.find_schedd()
        if peer is None:
            raise PeerError("this job has no schedd")
        return peer

    async def get_attribute(self, name: str) -> bytes:
        """Its expression as the queue has it, or UNDEFINED."""
        peer = await self._schedd()
        answer = await peer.call(ReadJobAttribute(**self._ids, name=name))
        return answer.text.encode(errors="surrogateescape")

    async def set_attribute(self, name: str, text: str) -> int:
        """Durable when this returns."""
        peer = await self._schedd()
        await peer.call(SetJobAttributes(**self._ids, assignments={name: text}))
        return 0

    async def constrain(self, text: str) -> int:
        """What the job demands of its next machine besides."""
        before = (await self.get_attribute("Requirements")).decode(errors="surrogateescape")
        assignments = {"AgentRequirements": text}
        if "agentrequirements" not in before.lower():
            assignments["Requirements"] = f"({before}) && AgentRequirements"
        peer = await self._schedd()
        await peer.call(SetJobAttributes(**self._ids, assignments=assignments))
        return 0

    async def write_to_log(self, text: str) -> int:
        """An event 008."""
        peer = await self._schedd()
        await peer.call(WriteToLog(**self._ids, text=text[: chirp.INFO_TEXT_MAX]))
        return 0

    def set_delayed(self, name: str, text: str) -> int:
        """Set with the next update; the names are limited in kind and number."""
        if len(text) > chirp.DELAYED_TEXT_MAX:
            return Error.UNKNOWN
        try:
            value = expr(text, old=True)
        except ClassAdError:
            return 0
        known = next((known for known in self.delayed if known.lower() == name.lower()), "")
        allowed = chirp.may_be_delayed(name, self.rules.delayed_names)
        if not allowed or (not known and len(self.delayed) >= self.rules.delayed_max):
            self.log.always("A delayed update is refused", job=self.request.job_id, attribute=name)
            return Error.NOT_AUTHORIZED
        self.delayed[known or name] = value
        return 0

    def get_delayed(self, name: str) -> bytes | None:
        """What was set last, or what the job began with."""
        for known, value in self.delayed.items():
            if known.lower() == name.lower():
                return value.old_text.encode(errors="surrogateescape")
        return self.job.text(name).encode(errors="surrogateescape") if name in self.job else None

    # ---- files

    async def ask_agent(self, operation: str, *texts: str, numbers: tuple[int, ...] = (), data: bytes = b"") -> _Said:
        """Have the file agent do something; the result, and the bytes that belong to it."""
        request = self.request
        peer = await self.agent.peer(request.agent_address, request.agent_ticket)
        answer = await peer.call(
            RemoteIo(
                activation=request.activation, operation=operation, texts=list(texts), numbers=list(numbers), data=data
            ),
            timeout=120.0,
        )
        return _Said(answer.value if answer.value >= 0 else chirp.error_of(-answer.value), answer.data)

    @property
    def _ids(self) -> dict[str, Any]:
        return {"job_id": self.request.job_id, "activation": self.request.activation}


@dataclass(frozen=True)
class _Said:
    value: int
    data: bytes = b""


class ChirpServer:
    """The socket; one job at a time has a cookie for it. It is opened for the first job that wants it."""

    def __init__(self, nursery: trio.Nursery, log: Log) -> None:
        self._nursery, self._log = nursery, log
        self._listeners: dict[str, trio.SocketListener] = {}
        self._cookie = ""
        self._job: ChirpJob | None = None
        self._scopes: set[trio.CancelScope] = set()

    @contextmanager
    def serving(self, job: ChirpJob, sandbox: str, account: Account, address: str = LOOPBACK) -> Iterator[str]:
        """Let the job in while the block lasts; the path of the file by which it finds the way, "" for none.

        `address` is where the job finds this machine.
        """
        if not job.rights:
            yield ""
            return
        self._cookie = secrets.token_hex(COOKIE_BYTES)
        self._job = job
        path = os.path.join(sandbox, CHIRP_CONFIG_NAME)
        try:
            host, port = self._listening(address)
            _write(path, f"{host} {port} {self._cookie}\n", account)
            yield path
        finally:
            self._cookie, self._job = "", None
            for scope in self._scopes:
                scope.cancel()

    def _listening(self, address: str) -> tuple[str, int]:
        listener = self._listeners.get(address)
        if listener is None:
            listening = socket.socket()
            listening.bind((address, 0))
            listening.listen(16)
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            self._listeners[address] = listener
            self._nursery.start_soon(self._accept, listener)
        host, port = listener.socket.getsockname()
        return host, port

    async def _accept(self, listener: trio.SocketListener) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError:  # out of descriptors: let connections end before the next try
                await trio.sleep(0.1)
                continue
            if self._job is None or len(self._scopes) >= CONNECTIONS_MAX:
                await trio.aclose_forcefully(stream)
                continue
            self._nursery.start_soon(self._serve, stream, self._job)

    async def _serve(self, stream: trio.SocketStream, job: ChirpJob) -> None:
        scope = trio.CancelScope()
        self._scopes.add(scope)
        try:
            with scope:
                await Conversation(stream, job, self._cookie).run()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._scopes.discard(scope)
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)


def _write(path: str, text: str, account: Account) -> None:
    with acting_as(account):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


class Conversation:
    """One connection of a job's."""

    def __init__(self, stream: trio.abc.Stream, job: ChirpJob, cookie: str) -> None:
        self._stream, self._job, self._cookie = stream, job, cookie
        self._buffer = bytearray()
        self._files: dict[int, _File] = {}

    async def run(self) -> None:
        """Until the job hangs up."""
        known = False
        while (line := await self._line()) is not None:
            if not known:
                known = secrets.compare_digest(line.encode(), f"cookie {self._cookie}".encode())
                if not known:
                    await trio.sleep(WRONG_COOKIE_S)
                await self._answer(0 if known else Error.NOT_AUTHENTICATED)
                continue
            await self._do(line)

    async def _do(self, line: str) -> None:
        call = read_call(line, self._job.rights)
        if call is None:
            await self._answer(Error.INVALID_REQUEST)
            return
        try:
            await getattr(self, f"_{call.name}", self._by_path)(call)
        except PoolError as error:
            self._job.log.full("A chirp call has failed", call=call.name, error=str(error))
            user = getattr(error, "code", "") == "UserError"
            await self._answer(Error.NOT_AUTHORIZED if user else Error.OFFLINE)

    # ---- bytes

    async def _line(self) -> str | None:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > LINE_MAX:
                await self._answer(Error.TOO_BIG)
                return None
            if not await self._more():
                return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line.rstrip(b"\r").decode(errors="surrogateescape")

    async def _more(self) -> bool:
        data = await self._stream.receive_some(65536)
        self._buffer += data
        return bool(data)

    async def _take(self, count: int) -> bytes:
        """So many bytes that follow a line; BrokenResourceError when they do not come."""
        while len(self._buffer) < count:
            if not await self._more():
                raise trio.BrokenResourceError
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def _answer(self, value: int, data: bytes = b"") -> None:
        await self._stream.send_all(b"%d\n" % value + data)

    # ---- the job's ad

    async def _get_job_attr(self, call: Call) -> None:
        text = await self._job.get_attribute(call.texts[0])
        await self._answer(len(text), text)

    async def _set_job_attr(self, call: Call) -> None:
        await self._answer(await self._job.set_attribute(*call.texts))

    async def _constrain(self, call: Call) -> None:
        await self._answer(await self._job.constrain(call.texts[0]))

    async def _ulog(self, call: Call) -> None:
        await self._answer(await self._job.write_to_log(call.texts[0]))

    async def _phase(self, call: Call) -> None:
        await self._answer(await self._job.write_to_log(f"phase: {call.texts[0]}"))

    async def _version(self, call: Call) -> None:
        await self._answer(chirp.VERSION)

    async def _set_job_attr_delayed(self, call: Call) -> None:
        await self._answer(self._job.set_delayed(*call.texts))

    async def _get_job_attr_delayed(self, call: Call) -> None:
        text = self._job.get_delayed(call.texts[0])
        if text is None:
            await self._answer(Error.DOES_NOT_EXIST)
        else:
            await self._answer(len(text), text)

    # ---- open files

    async def _open(self, call: Call) -> None:
        path, flags = call.texts
        number = next((n for n in range(OPEN_MAX) if n not in self._files), None)
        if number is None:
            await self._answer(Error.TOO_MANY_OPEN)
            return
        said = await self._job.ask_agent("open", path, flags, numbers=call.numbers)
        if said.value < 0:
            await self._answer(said.value)
            return
        self._files[number] = _File(path, flags)
        await self._answer(number, said.data)

    async def _close(self, call: Call) -> None:
        await self._answer(0 if self._files.pop(call.numbers[0], None) else Error.BAD_FD)

    def _file(self, call: Call) -> _File | None:
        return self._files.get(call.numbers[0])

    async def _lseek(self, call: Call) -> None:
        file, (_, offset, whence) = self._file(call), call.numbers
        if file is None or whence not in (0, 1, 2):
            await self._answer(Error.BAD_FD if file is None else Error.INVALID_REQUEST)
            return
        if whence == 2:
            said = await self._job.ask_agent("size", file.path)
            if said.value < 0:
                await self._answer(said.value)
                return
            base = said.value
        else:
            base = file.position if whence == 1 else 0
        if base + offset < 0:
            await self._answer(Error.INVALID_REQUEST)
            return
        file.position = base + offset
        await self._answer(file.position)

    async def _read(self, call: Call) -> None:
        file = self._file(call)
        said = await self._pread_of(file, call.numbers[1], file.position if file else 0)
        if file is not None and said.value > 0:
            file.position += said.value
        await self._answer(said.value, said.data)

    async def _pread(self, call: Call) -> None:
        said = await self._pread_of(self._file(call), call.numbers[1], call.numbers[2])
        await self._answer(said.value, said.data)

    async def _pread_of(self, file: _File | None, length: int, offset: int) -> _Said:
        if file is None or "r" not in file.flags:
            return _Said(Error.BAD_FD)
        if length < 0 or offset < 0:
            return _Said(Error.INVALID_REQUEST)
        return await self._job.ask_agent("pread", file.path, numbers=(min(length, CHUNK_BYTES), offset))

    async def _sread(self, call: Call) -> None:
        _, length, offset, stride, skip = call.numbers
        if stride <= 0 or skip <= 0 or length < 0:
            await self._answer(Error.INVALID_REQUEST)
            return
        found = bytearray()
        while len(found) < min(length, CHUNK_BYTES):
            said = await self._pread_of(self._file(call), min(stride, length - len(found)), offset)
            if said.value < 0:
                await self._answer(said.value)
                return
            found += said.data
            offset += skip
            if said.value < stride:
                break
        await self._answer(len(found), bytes(found))

    async def _write(self, call: Call) -> None:
        file = self._file(call)
        value = await self._pwrite_of(file, call.numbers[1], file.position if file else 0)
        if file is not None and value > 0:
            file.position += value
        await self._answer(value)

    async def _pwrite(self, call: Call) -> None:
        await self._answer(await self._pwrite_of(self._file(call), call.numbers[1], call.numbers[2]))

    async def _pwrite_of(self, file: _File | None, length: int, offset: int) -> int:
        """Take the bytes that follow, whatever becomes of them, and write them piece by piece."""
        written, result = 0, 0
        while written < max(0, length):
            data = await self._take(min(CHUNK_BYTES, length - written))
            if result >= 0:
                result = await self._write_piece(file, data, offset + written)
            written += len(data)
        if file is None or "w" not in file.flags:
            return Error.BAD_FD
        return result if result < 0 else written

    async def _write_piece(self, file: _File | None, data: bytes, offset: int) -> int:
        if file is None or "w" not in file.flags:
            return Error.BAD_FD
        if offset < 0:
            return Error.INVALID_REQUEST
        appends = int("a" in file.flags)
        return (await self._job.ask_agent("pwrite", file.path, numbers=(offset, appends), data=data)).value

    async def _swrite(self, call: Call) -> None:
        _, length, offset, stride, skip = call.numbers
        data = await self._take(max(0, min(length, 64 * CHUNK_BYTES)))
        file = self._file(call)
        if stride <= 0 or skip <= 0:
            await self._answer(Error.INVALID_REQUEST)
            return
        for at in range(0, len(data), stride):
            value = await self._write_piece(file, data[at : at + stride], offset)
            if value < 0:
                await self._answer(value)
                return
            offset += skip
        await self._answer(len(data))

    async def _by_descriptor(self, call: Call, operation: str) -> None:
        file = self._file(call)
        if file is None:
            await self._answer(Error.BAD_FD)
            return
        said = await self._job.ask_agent(operation, file.path, numbers=call.numbers[1:])
        await self._answer(said.value, said.data if said.value >= 0 else b"")

    async def _fsync(self, call: Call) -> None:
        await self._by_descriptor(call, "fsync")

    async def _fstat(self, call: Call) -> None:
        await self._by_descriptor(call, "stat")

    async def _fstatfs(self, call: Call) -> None:
        await self._by_descriptor(call, "statfs")

    async def _fchown(self, call: Call) -> None:
        await self._by_descriptor(call, "chown")

    async def _fchmod(self, call: Call) -> None:
        await self._by_descriptor(call, "chmod")

    async def _ftruncate(self, call: Call) -> None:
        await self._by_descriptor(call, "truncate")

    # ---- files by their paths

    async def _by_path(self, call: Call) -> None:
        """Whatever the file agent does in one go."""
        said = await self._job.ask_agent(call.name, *call.texts, numbers=call.numbers)
        await self._answer(said.value, said.data if said.value >= 0 else b"")

    async def _lookup(self, call: Call) -> None:
        url = f"remote:{call.texts[0]}".encode(errors="surrogateescape")
        await self._answer(len(url), url)

    async def _whoami(self, call: Call) -> None:
        await self._name(b"CONDOR", call.numbers[0])

    async def _whoareyou(self, call: Call) -> None:
        await self._name(b"CONDOR", call.numbers[0])

    async def _name(self, name: bytes, length: int) -> None:
        if length < len(name):
            await self._answer(Error.NO_SPACE)
        else:
            await self._answer(len(name), name)

    async def _getfile(self, call: Call) -> None:
        path = call.texts[0]
        said = await self._job.ask_agent("size", path)
        if said.value < 0:
            await self._answer(said.value)
            return
        first = await self._job.ask_agent("pread", path, numbers=(min(CHUNK_BYTES, said.value), 0))
        if first.value < 0:
            await self._answer(first.value)
            return
        await self._answer(said.value)
        sent, data = 0, first.data
        while sent < said.value:
            if not data:
                raise trio.BrokenResourceError  # the file has become shorter: all that is left is to hang up
            await self._stream.send_all(data)
            sent += len(data)
            if sent < said.value:
                numbers = (min(CHUNK_BYTES, said.value - sent), sent)
                data = (await self._job.ask_agent("pread", path, numbers=numbers)).data

    async def _putfile(self, call: Call) -> None:
        path, (mode, length) = call.texts[0], call.numbers
        said = await self._job.ask_agent("open", path, "wct", numbers=(mode,))
        await self._answer(said.value)
        if said.value >= 0 and length > 0:
            await self._answer(await self._pwrite_of(_File(path, "w"), length, 0))
