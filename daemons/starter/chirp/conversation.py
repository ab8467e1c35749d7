"""One connection of a job's to its starter: each line is a call, and each call has an answer.

Rules:

* The first line is `cookie` and the word of `.chirp.config`; until it is right nothing else is listened to, and each
  wrong one costs its caller a second.
* An answer is a number in decimal and a new line, then the bytes that it counts, if it is of a call that returns bytes.
  A number below 0 says no (`pool.execute.chirp.Error`).
* A call that the job has no right to, that is not known or that lacks a word is an invalid request; the connection
  goes on.
* Bytes that follow a call (`write`, `putfile`) are taken whatever becomes of them, else they would be read as calls.
* Nothing stays open at the access point between two calls: an open file is a path, its letters and a position.

Source: HTCondor's protocol, version 2 (src/condor_chirp/PROTOCOL, and src/condor_starter.V6.1/io_proxy_handler.cpp for
what it has beyond that: attributes, the log); manual pages "Chirp" and condor_chirp.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Final

import trio

from daemons.starter.chirp.job import ChirpJob, Said
from pool.base.errors import PoolError
from pool.execute import chirp
from pool.execute.chirp import COMMAND_BYTES_MAX, LINE_MAX, ChirpCall, ChirpError, Printed, read_call
from pool.jobs.vocabulary.nodes import running_size
from protocol.messages.live import NotRunning, ShellOutput

CHUNK_BYTES: Final = 1024 * 1024
OPEN_MAX: Final = 64
STRIDED_BYTES_MAX: Final = 64 * CHUNK_BYTES
"""How much one `swrite` writes; it is kept in memory meanwhile."""
WRONG_COOKIE_S: Final = 1.0
_ANSWERS: Final = {"UserError": ChirpError.NOT_AUTHORIZED, NotRunning.__name__: ChirpError.TRY_AGAIN}
"""What the errors of others mean; any other is that they cannot be reached."""


@dataclass
class ChirpFile:
    """A descriptor of the job's: it is opened for each call anew, by its path."""

    path: str
    flags: str
    position: int = 0


class ChirpConversation:
    """One connection of a job's."""

    def __init__(self, stream: trio.abc.Stream, job: ChirpJob, cookie: str) -> None:
        self._stream, self._job, self._cookie = stream, job, cookie
        self._buffer = bytearray()
        self._files: dict[int, ChirpFile] = {}

    async def run(self) -> None:
        """Until the job hangs up."""
        known = False
        while (line := await self._line()) is not None:
            if not known:
                said = line.encode(errors="surrogateescape")
                # In constant time: whoever guesses must not learn how much of it is right.
                known = secrets.compare_digest(said, f"cookie {self._cookie}".encode())
                if not known:
                    await trio.sleep(WRONG_COOKIE_S)
                await self._answer(0 if known else ChirpError.NOT_AUTHENTICATED)
                continue
            await self._do(line)

    async def _do(self, line: str) -> None:
        call = read_call(line, self._job.rights)
        if call is None:
            await self._answer(ChirpError.INVALID_REQUEST)
            return
        try:
            await getattr(self, f"_{call.name}", self._by_path)(call)
        except PoolError as error:
            self._job.log.full("A chirp call has failed", call=call.name, error=str(error))
            await self._answer(_ANSWERS.get(getattr(error, "code", ""), ChirpError.OFFLINE))

    # ---- bytes

    async def _line(self) -> str | None:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > LINE_MAX:
                await self._answer(ChirpError.TOO_BIG)
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

    # ---- its other nodes

    async def _run_on_node(self, call: ChirpCall) -> None:
        node, count = call.numbers
        if not 0 < count <= COMMAND_BYTES_MAX:
            raise trio.BrokenResourceError  # what follows is not to be read as calls
        command = (await self._take(count)).decode(errors="surrogateescape")
        if not 0 <= node < running_size(self._job.job):
            await self._answer(ChirpError.DOES_NOT_EXIST)
            return
        output = await self._job.on_node(node, command)
        refused: PoolError | None = None
        is_over = False
        async with trio.open_nursery() as beside:
            beside.start_soon(self._until_hung_up, beside.cancel_scope)
            try:
                is_over = await self._pass_on(output)
            except PoolError as error:
                refused = error
            except trio.BrokenResourceError:  # the job does not listen any more
                pass
            beside.cancel_scope.cancel()
        if refused is not None:
            raise refused
        if not is_over:
            raise trio.BrokenResourceError

    async def _until_hung_up(self, scope: trio.CancelScope) -> None:
        """A command ends with the job's connection, on which nothing is to be said meanwhile."""
        with suppress(trio.BrokenResourceError):
            await self._more()
        scope.cancel()

    async def _pass_on(self, output: AbstractAsyncContextManager[AsyncIterator[ShellOutput]]) -> bool:
        """Say what the command prints; whether it was heard to its end."""
        is_begun = False
        try:
            async with output as items:
                async for item in items:
                    if not is_begun:
                        is_begun = True
                        await self._answer(0)
                    for kind, data in ((Printed.OUTPUT, item.data), (Printed.ERROR, item.error)):
                        if data:
                            await self._stream.send_all(b"%d %d\n" % (kind, len(data)) + data)
                    if item.status is not None:
                        await self._stream.send_all(b"%d %d\n" % (Printed.OVER, item.status))
                        return True
        except PoolError:
            if not is_begun:
                raise
        return False

    # ---- the job's ad

    async def _get_job_attr(self, call: ChirpCall) -> None:
        text = await self._job.get_attribute(call.texts[0])
        await self._answer(len(text), text)

    async def _set_job_attr(self, call: ChirpCall) -> None:
        await self._answer(await self._job.set_attribute(*call.texts))

    async def _constrain(self, call: ChirpCall) -> None:
        await self._answer(await self._job.constrain(call.texts[0]))

    async def _ulog(self, call: ChirpCall) -> None:
        await self._answer(await self._job.write_to_log(call.texts[0]))

    async def _phase(self, call: ChirpCall) -> None:
        await self._answer(await self._job.write_to_log(f"phase: {call.texts[0]}"))

    async def _version(self, call: ChirpCall) -> None:
        await self._answer(chirp.VERSION)

    async def _set_job_attr_delayed(self, call: ChirpCall) -> None:
        await self._answer(self._job.set_delayed(*call.texts))

    async def _get_job_attr_delayed(self, call: ChirpCall) -> None:
        text = self._job.get_delayed(call.texts[0])
        if text is None:
            await self._answer(ChirpError.DOES_NOT_EXIST)
        else:
            await self._answer(len(text), text)

    # ---- open files

    async def _open(self, call: ChirpCall) -> None:
        path, flags = call.texts
        number = next((n for n in range(OPEN_MAX) if n not in self._files), None)
        if number is None:
            await self._answer(ChirpError.TOO_MANY_OPEN)
            return
        said = await self._job.ask_agent("open", path, flags, numbers=call.numbers)
        if said.value < 0:
            await self._answer(said.value)
            return
        self._files[number] = ChirpFile(path, flags)
        await self._answer(number, said.data)

    async def _close(self, call: ChirpCall) -> None:
        await self._answer(0 if self._files.pop(call.numbers[0], None) else ChirpError.BAD_FD)

    def _file(self, call: ChirpCall) -> ChirpFile | None:
        return self._files.get(call.numbers[0])

    async def _lseek(self, call: ChirpCall) -> None:
        file, (_, offset, whence) = self._file(call), call.numbers
        if file is None or whence not in (0, 1, 2):
            await self._answer(ChirpError.BAD_FD if file is None else ChirpError.INVALID_REQUEST)
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
            await self._answer(ChirpError.INVALID_REQUEST)
            return
        file.position = base + offset
        await self._answer(file.position)

    async def _read(self, call: ChirpCall) -> None:
        file = self._file(call)
        said = await self._pread_of(file, call.numbers[1], file.position if file else 0)
        if file is not None and said.value > 0:
            file.position += said.value
        await self._answer(said.value, said.data)

    async def _pread(self, call: ChirpCall) -> None:
        said = await self._pread_of(self._file(call), call.numbers[1], call.numbers[2])
        await self._answer(said.value, said.data)

    async def _pread_of(self, file: ChirpFile | None, length: int, offset: int) -> Said:
        if file is None or "r" not in file.flags:
            return Said(ChirpError.BAD_FD)
        if length < 0 or offset < 0:
            return Said(ChirpError.INVALID_REQUEST)
        return await self._job.ask_agent("pread", file.path, numbers=(min(length, CHUNK_BYTES), offset))

    async def _sread(self, call: ChirpCall) -> None:
        _, length, offset, stride, skip = call.numbers
        if stride <= 0 or skip <= 0 or length < 0:
            await self._answer(ChirpError.INVALID_REQUEST)
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

    async def _write(self, call: ChirpCall) -> None:
        file = self._file(call)
        value = await self._pwrite_of(file, call.numbers[1], file.position if file else 0)
        if file is not None and value > 0:
            file.position += value
        await self._answer(value)

    async def _pwrite(self, call: ChirpCall) -> None:
        await self._answer(await self._pwrite_of(self._file(call), call.numbers[1], call.numbers[2]))

    async def _pwrite_of(self, file: ChirpFile | None, length: int, offset: int) -> int:
        """Take the bytes that follow, whatever becomes of them, and write them piece by piece."""
        written, result = 0, 0
        failed: PoolError | None = None
        while written < max(0, length):
            data = await self._take(min(CHUNK_BYTES, length - written))
            if result >= 0 and failed is None:
                try:
                    result = await self._write_piece(file, data, offset + written)
                except PoolError as error:  # the agent is lost: what is still to come of these bytes is no call
                    failed = error
            written += len(data)
        if failed is not None:
            raise failed
        if file is None or "w" not in file.flags:
            return ChirpError.BAD_FD
        return result if result < 0 else written

    async def _write_piece(self, file: ChirpFile | None, data: bytes, offset: int) -> int:
        if file is None or "w" not in file.flags:
            return ChirpError.BAD_FD
        if offset < 0:
            return ChirpError.INVALID_REQUEST
        appends = int("a" in file.flags)
        return (await self._job.ask_agent("pwrite", file.path, numbers=(offset, appends), data=data)).value

    async def _swrite(self, call: ChirpCall) -> None:
        _, length, offset, stride, skip = call.numbers
        data = await self._take(max(0, min(length, STRIDED_BYTES_MAX)))
        for left in range(length - len(data), 0, -CHUNK_BYTES):
            await self._take(min(CHUNK_BYTES, left))  # they are not written, and must not be read as calls
        file = self._file(call)
        if stride <= 0 or skip <= 0:
            await self._answer(ChirpError.INVALID_REQUEST)
            return
        for at in range(0, len(data), stride):
            value = await self._write_piece(file, data[at : at + stride], offset)
            if value < 0:
                await self._answer(value)
                return
            offset += skip
        await self._answer(len(data))

    async def _by_descriptor(self, call: ChirpCall, operation: str) -> None:
        file = self._file(call)
        if file is None:
            await self._answer(ChirpError.BAD_FD)
            return
        said = await self._job.ask_agent(operation, file.path, numbers=call.numbers[1:])
        await self._answer(said.value, said.data if said.value >= 0 else b"")

    async def _fsync(self, call: ChirpCall) -> None:
        await self._by_descriptor(call, "fsync")

    async def _fstat(self, call: ChirpCall) -> None:
        await self._by_descriptor(call, "stat")

    async def _fstatfs(self, call: ChirpCall) -> None:
        await self._by_descriptor(call, "statfs")

    async def _fchown(self, call: ChirpCall) -> None:
        await self._by_descriptor(call, "chown")

    async def _fchmod(self, call: ChirpCall) -> None:
        await self._by_descriptor(call, "chmod")

    async def _ftruncate(self, call: ChirpCall) -> None:
        await self._by_descriptor(call, "truncate")

    # ---- files by their paths

    async def _by_path(self, call: ChirpCall) -> None:
        """Whatever the file agent does in one go."""
        said = await self._job.ask_agent(call.name, *call.texts, numbers=call.numbers)
        await self._answer(said.value, said.data if said.value >= 0 else b"")

    async def _lookup(self, call: ChirpCall) -> None:
        url = f"remote:{call.texts[0]}".encode(errors="surrogateescape")
        await self._answer(len(url), url)

    async def _whoami(self, call: ChirpCall) -> None:
        await self._name(b"CONDOR", call.numbers[0])

    async def _whoareyou(self, call: ChirpCall) -> None:
        await self._name(b"CONDOR", call.numbers[0])

    async def _name(self, name: bytes, length: int) -> None:
        if length < len(name):
            await self._answer(ChirpError.NO_SPACE)
        else:
            await self._answer(len(name), name)

    async def _getfile(self, call: ChirpCall) -> None:
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

    async def _putfile(self, call: ChirpCall) -> None:
        path, (mode, length) = call.texts[0], call.numbers
        said = await self._job.ask_agent("open", path, "wct", numbers=(mode,))
        await self._answer(said.value)
        if said.value >= 0 and length > 0:
            await self._answer(await self._pwrite_of(ChirpFile(path, "w"), length, 0))
