"""One of the job's directories, as a file system: what the kernel asks of it, in terms of what the file agent does.

Rules: who may do what is decided at home, by the user's rights there; the job's account stands for the user. What is
known of names and files is true for ATTRIBUTES_S, and what a file holds for as long as it is open: whoever opens a file
sees what was closed before. A file that is removed while somebody has it open gets a hidden name until nobody has.
Locks are the kernel's, among the job's own processes.
"""

from __future__ import annotations

import errno
import math
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import trio

from daemons.starter.remote_io.home import Home
from daemons.starter.remote_io.reading import Data, Reading
from daemons.starter.remote_io.server import AtOnce, Operation
from daemons.starter.remote_io.writing import UNSENT, Budget, Writing
from pool.files.nodes import Node, Nodes
from pool.files.read_ahead import Reader
from protocol.files.facts import KEPT, NOW, OWN, Facts, read_entries, read_facts, read_opened
from protocol.fuse import wire
from protocol.fuse.wire import Asked, Change, Op

ATTRIBUTES_S: Final = 1.0
_VALID_NS: Final = int(ATTRIBUTES_S * 1e9)
SMALL_BYTES: Final = 64 * 1024
"""A file of so many bytes at most comes when it is opened."""
HIDDEN: Final = ".remote_io_{}_{}"
"""The name of a file that was removed while it is open."""


class _Listing:
    """What is in a directory, in the order in which it was told; of a long one only what was asked for is read."""

    def __init__(self, data: bytes) -> None:
        here = Facts(stat.S_IFDIR, 0, 0, 0, 0, 0, 0, 0, 0, 1)
        self._known = [(b".", here), (b"..", here)]
        self._rest = read_entries(data)

    def behind(self, at: int) -> Iterator[tuple[bytes, Facts]]:
        """The entries from this one on."""
        while True:
            while at >= len(self._known):
                entry = next(self._rest, None)
                if entry is None:
                    return
                self._known.append(entry)
            yield self._known[at]
            at += 1


@dataclass
class _Handle:
    """Somebody has a file open, or reads a directory."""

    number: int
    node: Node
    writes: bool = False
    appends: bool = False
    reader: Reader = field(default_factory=Reader)
    listing: _Listing | None = None
    listed_at: float = 0.0


def _new(number: int, node: Node, flags: int) -> _Handle:
    return _Handle(number, node, flags & os.O_ACCMODE != os.O_RDONLY, bool(flags & os.O_APPEND))


class HomeDirectory:
    """The operations of one mount."""

    def __init__(
        self,
        tree: int,
        home: Home,
        ids: tuple[int, int],
        nursery: trio.Nursery,
        cache_bytes: int,
        budget: Budget,
        changed: Callable[[int], None],
    ) -> None:
        """`ids`: the uid and gid of the job's account."""
        self._tree, self._home, self._nursery = tree, home, nursery
        self._uid, self._gid = ids
        self._changed = changed
        self._nodes = Nodes()
        self._handles: dict[int, _Handle] = {}
        self._last = 0
        self._reading = Reading(nursery, cache_bytes)
        self._writing: dict[int, Writing] = {}
        self._budget = budget

    @property
    def operations(self) -> dict[int, Operation]:
        """What is done for each kind of request."""
        return {
            Op.LOOKUP: self._lookup,
            Op.GETATTR: self._getattr,
            Op.SETATTR: self._setattr,
            Op.READLINK: self._readlink,
            Op.SYMLINK: self._symlink,
            Op.MKNOD: self._mknod,
            Op.MKDIR: self._mkdir,
            Op.UNLINK: self._unlink,
            Op.RMDIR: self._rmdir,
            Op.RENAME: self._rename,
            Op.RENAME2: self._rename_with_flags,
            Op.LINK: self._link,
            Op.OPEN: self._open,
            Op.CREATE: self._create,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.FLUSH: self._flush,
            Op.FSYNC: self._fsync,
            Op.RELEASE: self._release,
            Op.OPENDIR: self._opendir,
            Op.READDIR: self._readdir,
            Op.READDIRPLUS: self._readdir,
            Op.RELEASEDIR: self._releasedir,
            Op.FSYNCDIR: self._nothing,
            Op.STATFS: self._statfs,
            Op.ACCESS: self._access,
        }

    @property
    def at_once(self) -> dict[int, AtOnce]:
        """The same where nothing is to be asked at home: most of many small reads and writes."""
        return {Op.READ: self._read_now, Op.WRITE: self._write_now, Op.FLUSH: self._flush_now}

    def forget(self, asked: Asked) -> None:
        """The kernel forgets files."""
        for number, lookups in wire.forgotten(asked):
            self._nodes.forget(number, lookups)

    async def settle(self) -> int:
        """Have everything written; the errno of what no program was told, 0 for none."""
        number = 0
        for writing in list(self._writing.values()):
            await writing.settle()
            number = number or writing.error
        return number

    # ---- nodes

    def _node(self, number: int) -> Node:
        node = self._nodes.get(number)
        if node is None or node.is_gone:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return node

    def _below(self, asked: Asked, name: str) -> str:
        return _join(self._node(asked.node).path, name)

    def _shown(self, facts: Facts, node: Node | None, since: float) -> Facts:
        """As the job sees them: its account stands for the user, and what was on its way home `since` then is there."""
        size = facts.size
        writing = self._writing.get(node.number) if node is not None else None
        if writing is not None and writing.has_had_bytes(since):
            size = max(size, writing.end)
        if node is not None:
            node.size_seen = size
        uid, gid = self._uid if facts.uid == OWN else facts.uid, self._gid if facts.gid == OWN else facts.gid
        return facts._replace(uid=uid, gid=gid, size=size)

    def _entry(self, parent: Node, name: str, facts: Facts, since: float = math.inf) -> bytes:
        """Tell the kernel what is behind a name, as it was when home was asked."""
        node = self._nodes.seen(parent, name, facts.inode)
        return wire.entry(node.number, self._shown(facts, node, since), _VALID_NS)

    # ---- names

    async def _lookup(self, asked: Asked) -> bytes:
        parent, (name,) = self._node(asked.node), asked.names()
        since = trio.current_time()
        done = await self._home.ask(self._tree, "stat", _join(parent.path, name))
        return self._entry(parent, name, read_facts(done.data), since)

    async def _mkdir(self, asked: Asked) -> bytes:
        mode, _ = asked.fields(wire.MKDIR_IN)
        parent, (name,) = self._node(asked.node), asked.names(wire.MKDIR_IN)
        done = await self._home.ask(self._tree, "mkdir", _join(parent.path, name), numbers=(mode,), once=True)
        return self._entry(parent, name, read_facts(done.data))

    async def _mknod(self, asked: Asked) -> bytes:
        mode = asked.fields(wire.MODE_IN)[0]
        if not stat.S_ISREG(mode):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        parent, (name,) = self._node(asked.node), asked.names(wire.MODE_IN)
        numbers = (os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(mode), 0)
        done = await self._home.ask(self._tree, "open", _join(parent.path, name), numbers=numbers, once=True)
        return self._entry(parent, name, read_opened(done.data)[0])

    async def _symlink(self, asked: Asked) -> bytes:
        parent, (name, target) = self._node(asked.node), asked.names()
        done = await self._home.ask(self._tree, "symlink", _join(parent.path, name), to=target, once=True)
        return self._entry(parent, name, read_facts(done.data))

    async def _link(self, asked: Asked) -> bytes:
        old = self._node(asked.fields(wire.NUMBER_IN)[0])
        parent, (name,) = self._node(asked.node), asked.names(wire.NUMBER_IN)
        done = await self._home.ask(self._tree, "link", old.path, to=_join(parent.path, name), once=True)
        self._changed(old.number)
        return self._entry(parent, name, read_facts(done.data))

    async def _readlink(self, asked: Asked) -> bytes:
        return (await self._home.ask(self._tree, "readlink", self._node(asked.node).path)).data

    async def _unlink(self, asked: Asked) -> None:
        parent, (name,) = self._node(asked.node), asked.names()
        node = self._nodes.find(parent, name)
        # At home nothing but the name keeps a file, as nothing has to stay open there.
        if node is not None and node.opens:
            await self._hide(node)
            return
        await self._home.ask(self._tree, "unlink", _join(parent.path, name), once=True)
        if node is not None:
            self._nodes.removed(node)

    async def _hide(self, node: Node) -> None:
        """Its name goes; it stays for who has it open."""
        assert node.parent is not None
        parent, name = node.parent, HIDDEN.format(node.inode, node.number)
        await self._home.ask(self._tree, "rename", node.path, to=_join(parent.path, name), once=True)
        self._nodes.moved(node, parent, name)
        node.hidden = True

    async def _rmdir(self, asked: Asked) -> None:
        parent, (name,) = self._node(asked.node), asked.names()
        await self._home.ask(self._tree, "rmdir", _join(parent.path, name), once=True)
        node = self._nodes.find(parent, name)
        if node is not None:
            self._nodes.removed(node)

    async def _rename_with_flags(self, asked: Asked) -> None:
        number, flags, _ = asked.fields(wire.RENAME2_IN)
        if flags:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        await self._move(asked, number, asked.names(wire.RENAME2_IN))

    async def _rename(self, asked: Asked) -> None:
        await self._move(asked, asked.fields(wire.RENAME_IN)[0], asked.names(wire.RENAME_IN))

    async def _move(self, asked: Asked, number: int, names: list[str]) -> None:
        parent, target, (name, new) = self._node(asked.node), self._node(number), names
        node, there = self._nodes.find(parent, name), self._nodes.find(target, new)
        if there is not None and there.opens and there is not node:
            await self._hide(there)
        path, to = _join(parent.path, name), _join(target.path, new)
        await self._home.ask(self._tree, "rename", path, to=to, once=True)
        if node is not None:
            self._nodes.moved(node, target, new)
        elif (there := self._nodes.find(target, new)) is not None:
            self._nodes.removed(there)

    # ---- attributes

    async def _getattr(self, asked: Asked) -> bytes:
        node, since = self._node(asked.node), trio.current_time()
        done = await self._home.ask(self._tree, "stat", node.path)
        facts = read_facts(done.data)
        # A file that was replaced at home is not the one that the kernel means; by its name it finds the new one.
        if node.inode not in (0, facts.inode):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return wire.attributes(self._shown(facts, node, since), _VALID_NS)

    async def _setattr(self, asked: Asked) -> bytes:
        (valid, _, _handle, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _) = asked.fields(
            wire.SETATTR_IN
        )
        node = self._node(asked.node)
        if valid & Change.UID and uid != self._uid:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        handle = 0
        if valid & Change.SIZE:
            handle = self._writer_of(node)
        if (writing := self._writing.get(node.number)) is not None:
            # Its times would be those of the last write, if that came after they were set.
            await writing.settle()
            if valid & Change.SIZE:
                writing.end = size
        self._reading.drop(node.number)
        numbers = (
            node.inode,
            mode & 0o7777 if valid & Change.MODE else KEPT,
            gid if valid & Change.GID and gid != self._gid else KEPT,
            size if valid & Change.SIZE else KEPT,
            _time(valid, Change.ATIME, Change.ATIME_NOW, atime, atime_ns),
            _time(valid, Change.MTIME, Change.MTIME_NOW, mtime, mtime_ns),
        )
        done = await self._home.ask(self._tree, "set", node.path, numbers=numbers, handle=handle)
        return wire.attributes(self._shown(read_facts(done.data), node, math.inf), _VALID_NS)

    async def _access(self, asked: Asked) -> None:
        (mask,) = asked.fields(wire.ACCESS_IN)
        await self._home.ask(self._tree, "access", self._node(asked.node).path, numbers=(mask,))

    async def _statfs(self, asked: Asked) -> bytes:
        done = await self._home.ask(self._tree, "statfs")
        return wire.file_system(*map(int, done.data.split()))

    async def _nothing(self, asked: Asked) -> None:
        return

    # ---- open files

    def _handle(self, number: int) -> _Handle:
        handle = self._handles.get(number)
        if handle is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return handle

    def _new_handle(self, node: Node, flags: int) -> _Handle:
        self._last += 1
        handle = self._handles[self._last] = _new(self._last, node, flags)
        node.opens += 1
        return handle

    def _writer_of(self, node: Node, *, appends: bool = False) -> int:
        """One that may write anywhere in the file, or at its end; 0 for none."""
        writers = (one for one in self._handles.values() if one.node is node and one.writes and one.appends is appends)
        return next((one.number for one in writers), 0)

    async def _open(self, asked: Asked) -> bytes:
        flags, _ = asked.fields(wire.OPEN_IN)
        node = self._node(asked.node)
        if (writing := self._writing.get(node.number)) is not None:
            await writing.settle()
        handle = self._new_handle(node, flags)
        try:
            numbers = (_remote_flags(flags), 0, 0 if handle.writes else SMALL_BYTES)
            done = await self._home.ask(self._tree, "open", node.path, numbers=numbers, handle=handle.number)
        except BaseException:
            self._let_go(handle)
            raise
        facts, data = read_opened(done.data)
        # What was closed at home before is seen from here on, as with NFS.
        same = (node.size, node.mtime) == (facts.size, facts.mtime)
        node.size, node.mtime, node.size_seen = facts.size, facts.mtime, facts.size
        if not same:
            self._reading.drop(node.number)
        if data:
            self._reading.keep(node.number, data)
            handle.reader.asks_for(0)
        return wire.opened(handle.number, wire.KEEP_CACHE if same else 0)

    async def _create(self, asked: Asked) -> bytes:
        flags, mode, _, _ = asked.fields(wire.CREATE_IN)
        parent, (name,) = self._node(asked.node), asked.names(wire.CREATE_IN)
        self._last += 1
        number = self._last
        numbers = (_remote_flags(flags) | flags & (os.O_EXCL | os.O_TRUNC) | os.O_CREAT, stat.S_IMODE(mode), 0)
        path = _join(parent.path, name)
        done = await self._home.ask(self._tree, "open", path, numbers=numbers, handle=number, once=True)
        facts, _ = read_opened(done.data)
        told = self._entry(parent, name, facts)
        node = parent.children[name]
        node.opens += 1
        node.size, node.mtime = facts.size, facts.mtime
        self._handles[number] = _new(number, node, flags)
        return told + wire.opened(number)

    async def _read(self, asked: Asked) -> Data:
        number, at, size, *_ = asked.fields(wire.READ_IN)
        handle = self._handle(number)
        node = handle.node
        if (writing := self._writing.get(node.number)) is not None and writing.has_bytes:
            await writing.settle()

        async def fetch(size: int, at: int) -> bytes:
            numbers = (node.inode, size, at)
            done = await self._home.ask(self._tree, "read", node.path, numbers=numbers, handle=handle.number)
            return done.data

        return await self._reading.read(node.number, handle.reader, size, at, node.size_seen, fetch)

    def _read_now(self, asked: Asked) -> Data | None:
        number, at, size, *_ = asked.fields(wire.READ_IN)
        handle = self._handles.get(number)
        if handle is None or handle.node.number in self._writing:
            return None
        node = handle.node
        return self._reading.read_now(node.number, handle.reader, size, at, node.size_seen)

    async def _write(self, asked: Asked) -> bytes:
        writing, data, at = self._to_write(asked)
        await writing.write(data, at)
        return wire.written(len(data))

    def _write_now(self, asked: Asked) -> bytes | None:
        if asked.fields(wire.NUMBER_IN)[0] not in self._handles:
            return None
        writing, data, at = self._to_write(asked)
        return wire.written(len(data)) if writing.write_now(data, at) else None

    def _to_write(self, asked: Asked) -> tuple[Writing, memoryview, int]:
        """Where bytes go, the bytes, and their place."""
        number, at, size, *_ = asked.fields(wire.READ_IN)
        handle = self._handle(number)
        node = handle.node
        writing = self._writing.get(node.number)
        if writing is None:
            writing = self._writing[node.number] = self._new_writing(node)
        self._reading.drop(node.number)
        if not handle.appends:
            node.size_seen = max(node.size_seen, at + size)
        return writing, asked.body[wire.READ_IN.size : wire.READ_IN.size + size], UNSENT if handle.appends else at

    def _new_writing(self, node: Node) -> Writing:
        async def send(data: bytes, at: int) -> int:
            # By now: the one that wrote may be closed.
            handle = self._writer_of(node, appends=at == UNSENT)
            if at == UNSENT:
                done = await self._home.ask(
                    self._tree, "append", node.path, numbers=(node.inode,), data=data, handle=handle, once=True
                )
                return done.value
            numbers = (node.inode, at)
            await self._home.ask(self._tree, "write", node.path, numbers=numbers, data=data, handle=handle)
            return at + len(data)

        return Writing(send, self._nursery, self._budget)

    def _flush_now(self, asked: Asked) -> bytes | None:
        writing = self._writing.get(asked.node)
        return b"" if writing is None or writing.is_idle else None

    async def _flush(self, asked: Asked) -> None:
        # A program hears of its close only what is answered here; nobody hears of RELEASE.
        if (writing := self._writing.get(asked.node)) is not None:
            await writing.close()

    async def _fsync(self, asked: Asked) -> None:
        if (writing := self._writing.get(asked.node)) is not None:
            await writing.finish()
        number, *_ = asked.fields(wire.FSYNC_IN)
        handle = self._handle(number)
        numbers = (handle.node.inode,)
        await self._home.ask(self._tree, "sync", handle.node.path, numbers=numbers, handle=handle.number)

    async def _release(self, asked: Asked) -> None:
        handle = self._handle(asked.fields(wire.NUMBER_IN)[0])
        node = handle.node
        if (writing := self._writing.get(node.number)) is not None:
            await writing.settle()
        self._let_go(handle)
        if not node.opens and writing is not None and writing.is_idle:
            self._writing.pop(node.number, None)
        self._home.closed(self._tree, handle.number)
        if node.hidden and not node.opens and not node.is_gone:
            path = node.path
            self._nodes.removed(node)
            await self._home.ask(self._tree, "unlink", path, once=True)

    def _let_go(self, handle: _Handle) -> None:
        self._handles.pop(handle.number, None)
        self._nodes.closed(handle.node)

    # ---- directories

    async def _opendir(self, asked: Asked) -> bytes:
        return wire.opened(self._new_handle(self._node(asked.node), 0).number)

    async def _releasedir(self, asked: Asked) -> None:
        self._let_go(self._handle(asked.fields(wire.NUMBER_IN)[0]))

    async def _readdir(self, asked: Asked) -> bytes:
        number, at, size, *_ = asked.fields(wire.READ_IN)
        handle = self._handle(number)
        if handle.listing is None or at == 0:
            handle.listed_at = trio.current_time()
            done = await self._home.ask(self._tree, "list", self._node(asked.node).path)
            handle.listing = _Listing(done.data)
        return self._listed(handle, handle.listing, asked.op == Op.READDIRPLUS, at, size)

    def _listed(self, handle: _Handle, listing: _Listing, plus: bool, at: int, size: int) -> bytes:
        """As many entries as there is room for, from this one on; with `plus`, what each of them is."""
        found = bytearray()
        each = _ENTRY_BYTES if plus else 0
        for next_, (name, facts) in enumerate(listing.behind(at), at + 1):
            packed = wire.dirent(facts.inode, next_, facts.mode, name)
            if len(found) + each + len(packed) > size:
                break
            if plus and name in _DOTS:
                found += bytes(_ENTRY_BYTES)  # no file's number: the kernel knows where these lead
            elif plus:
                found += self._entry(handle.node, os.fsdecode(name), facts, handle.listed_at)
            found += packed
        return bytes(found)


_DOTS: Final = (b".", b"..")
_ENTRY_BYTES: Final = 128
"""What READDIRPLUS tells of each entry, before its name."""


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _remote_flags(flags: int) -> int:
    return flags & (os.O_ACCMODE | os.O_APPEND)


def _time(valid: int, given: Change, now: Change, seconds: int, ns: int) -> int:
    if not valid & given:
        return KEPT
    # The kernel's seconds are signed.
    return NOW if valid & now else (seconds - (seconds >> 63 << 64)) * 1_000_000_000 + ns
