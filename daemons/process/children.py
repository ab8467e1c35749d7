"""The owner's side of a zygote: keep one running, ask it for children, know when they end.

    zygote = Zygote({"starter": KINDS["starter"]})
    await nursery.start(zygote.run)            # has one (see first_zygote), and executes a new one whenever it dies
    child = await zygote.fork("starter", payload)
    child.pid, child.channel                   # a trio stream: one end of the socket pair that the child was born with
    status = await child.wait()                # wait status as of os.waitpid; None when nobody could learn it

A fork that was waiting when the zygote died is asked of the next one. Children outlive their zygote; this process is a
subreaper then, and learns their status itself. All children hold the reading end of one life pipe, whose writing end
only this process has: when it is gone, they know.

Source: socketpair(2), unix(7) on SCM_RIGHTS, pidfd_open(2) and prctl(2) on PR_SET_CHILD_SUBREAPER; HTCondor has
nothing of the kind, its daemons execute each child anew.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgpack
import trio

from daemons.base.linux import become_subreaper
from daemons.base.open_files import before_exec
from daemons.base.sync import Backoff
from daemons.process import first_zygote
from daemons.process.orphans import reap_orphans
from daemons.process.zygote import DESCRIPTORS_MAX, KINDS, PACKET_BYTES_MAX
from pool.base.errors import PoolError
from protocol.network.unix_stream import UnixStream

TRIES_MAX: Final = 5
BACKOFF_FIRST_S: Final = 0.05
BACKOFF_MAX_S: Final = 10.0
COLLECT_S: Final = 1.0
"""How long a zygote that was let go is waited for; after that it ends by itself."""


class SpawnError(PoolError):
    """A process could not be started."""


class ForkedProcess(Protocol):
    """A child process, as its owner sees it."""

    pid: int
    channel: trio.abc.Stream

    async def wait(self) -> int | None:
        """Its wait status, once it has ended; None when nobody could learn it."""

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Send it a signal; nothing happens when it has ended."""


class ChildSpawner(Protocol):
    """Something that makes children."""

    async def fork(
        self, kind: str, payload: bytes | Mapping[str, Any], descriptors: Iterable[int] = ()
    ) -> ForkedProcess:
        """A new child of this kind."""


@dataclass(eq=False)
class Child:
    """A process that a zygote forked for us. `channel` is ours to close."""

    pid: int
    channel: UnixStream
    _pidfd: int
    _ended: trio.Event = field(default_factory=trio.Event)
    _status: int | None = None
    _is_adopted: bool = False
    """Its zygote has died, and this process looks after it."""

    async def wait(self) -> int | None:
        """Its wait status, once it has ended; None when nobody could learn it."""
        await self._ended.wait()
        return self._status

    @property
    def alive(self) -> bool:
        """Whether its end has not been heard of yet."""
        return not self._ended.is_set()

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Send it a signal; nothing happens when it has ended."""
        if self._ended.is_set() or self._pidfd < 0:
            return
        try:
            signal.pidfd_send_signal(self._pidfd, signum)
        except ProcessLookupError:
            pass

    def _end(self, status: int | None) -> None:
        if not self._ended.is_set():
            self._status = status
            self._ended.set()
            self._let_go()

    def _let_go(self) -> None:
        """Watch it no longer; it may run on."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


@dataclass
class _Asked:
    """A fork that waits for its answer: the message and the descriptor that came, or neither when the zygote died."""

    answered: trio.Event = field(default_factory=trio.Event)
    message: Mapping[str, Any] | None = None
    pidfd: int = -1


class Zygote:
    """A zygote that is there as long as `run` runs."""

    def __init__(self, kinds: Mapping[str, str] = KINDS, *, env: Mapping[str, str] | None = None) -> None:
        self._kinds = kinds
        self._env = env
        self._owner: trio.socket.SocketType | None = None
        self._ready = trio.Event()
        self._failed: str | None = None
        self._asked: dict[int, _Asked] = {}
        self._children: dict[int, Child] = {}
        self._next_id = 0
        self._life = -1
        self._process: first_zygote.FirstZygote | trio.Process | None = None
        self.pid = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep a zygote running; started when the first one is ready."""
        # Before the first fork: what a dead zygote leaves must come to this process, and not to init.
        become_subreaper()
        # `keep` is never written to: that it is open is all that children are told.
        self._life, keep = os.pipe2(os.O_CLOEXEC)
        backoff, was_lost = Backoff(BACKOFF_FIRST_S, BACKOFF_MAX_S), False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._announce_first, task_status)
                while True:
                    was_ready = await self._run_one()
                    for child in self._children.values():
                        if not child._is_adopted:  # by an earlier zygote's death
                            child._is_adopted = True
                            nursery.start_soon(self._await_adopted, child)
                    if not was_lost:
                        nursery.start_soon(reap_orphans)
                    was_lost = True
                    if was_ready:
                        backoff.reset()
                    await backoff.wait()
        finally:
            os.close(self._life)
            os.close(keep)  # the end of every child's life pipe
            for child in self._children.values():
                child._let_go()
            with trio.move_on_after(COLLECT_S, shield=True):  # it ends at once, unless a child takes its time
                if self._process is not None:
                    await self._process.wait()

    async def fork(self, kind: str, payload: bytes | Mapping[str, Any] = b"", descriptors: Iterable[int] = ()) -> Child:
        """A new child; SpawnError when there can be none. The descriptors stay ours and are copied to the child."""
        packed = payload if isinstance(payload, bytes) else msgpack.packb(payload)
        passed = list(descriptors)
        if len(packed) > PACKET_BYTES_MAX - 1024 or len(passed) > DESCRIPTORS_MAX - 2:
            raise SpawnError(f"{len(packed)} bytes and {len(passed)} descriptors are too much to give a {kind}")
        for _ in range(TRIES_MAX):
            await self._ready.wait()
            if self._failed is not None:
                break
            child = await self._fork_once(kind, packed, passed)
            if child is not None:
                return child
        raise SpawnError(f"cannot start a {kind}: {self._failed or 'the zygote keeps dying'}")

    async def _fork_once(self, kind: str, payload: bytes, descriptors: list[int]) -> Child | None:
        """A child, or None when the zygote died over it."""
        if self._owner is None:  # it died between being ready and this task's turn
            return None
        self._next_id += 1
        number, asked = self._next_id, _Asked()
        try:
            pair = socket.socketpair()
        except OSError as error:
            raise SpawnError(f"cannot start a {kind}: {error.strerror}") from None
        ours, theirs = pair
        taken = False
        try:
            self._asked[number] = asked
            packet = msgpack.packb({"id": number, "kind": kind, "payload": payload})
            await _send_packet(self._owner, packet, [theirs.fileno(), self._life, *descriptors])
            theirs.close()
            await asked.answered.wait()
            if asked.message is None:
                return None
            if "error" in asked.message:
                raise SpawnError(f"cannot start a {kind}: {asked.message['error']}")
            taken = True
            return self._children_add(asked, UnixStream(ours))
        except OSError:  # the zygote died before it had the packet
            return None
        finally:
            theirs.close()
            self._asked.pop(number, None)
            if not taken:
                ours.close()  # a child that was forked all the same sees the end of its channel
                if asked.pidfd >= 0:
                    os.close(asked.pidfd)

    def _children_add(self, asked: _Asked, channel: UnixStream) -> Child:
        assert asked.message is not None
        child = Child(asked.message["pid"], channel, asked.pidfd)
        asked.pidfd = -1
        if "status" in asked.message:
            child._end(asked.message["status"])
        else:
            self._children[child.pid] = child
        return child

    async def kill_strays(self) -> int:
        """End what children that died have left behind; how many processes remain (0 also when there is no zygote)."""
        if self._owner is None:
            return 0
        self._next_id += 1
        number, asked = self._next_id, _Asked()
        self._asked[number] = asked
        try:
            await self._owner.send(msgpack.packb({"id": number, "kill_strays": True}))
            await asked.answered.wait()
            return 0 if asked.message is None else int(asked.message["left"])
        except OSError:
            return 0
        finally:
            self._asked.pop(number, None)

    async def _run_one(self) -> bool:
        """Have a zygote and hear it out; whether it ever was ready."""
        process: first_zygote.FirstZygote | trio.Process | None
        process = first_zygote.take(self._kinds) if self._env is None else None
        if process is not None:
            ours = process.owner
        else:
            try:
                process, ours = await self._execute()
            except OSError as error:  # no process more, no descriptor more: the next attempt may find some
                self._fail(f"the zygote cannot be executed: {error.strerror}")
                return False
        self.pid, self._process = process.pid, process
        with ours:
            owner = trio.socket.from_stdlib_socket(ours)
            was_ready = False
            try:
                was_ready = await self._hear(owner)
            finally:
                self._owner = None
                if self._ready.is_set():
                    self._ready = trio.Event()
                for asked in self._asked.values():
                    asked.answered.set()
                owner.close()  # it leaves when its last child has, which see the end of the life pipe
                if not was_ready:
                    process.kill()
        with trio.move_on_after(COLLECT_S):
            await process.wait()
        if not was_ready:
            self._fail(f"the zygote could not start (exit status {process.returncode})")
        return was_ready

    def _fail(self, why: str) -> None:
        """Whoever waits for a fork hears that there is no zygote."""
        self._failed = why
        self._ready.set()

    async def _execute(self) -> tuple[trio.Process, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # -P: the current directory may hold a module of the same name.
            command = [sys.executable, "-P", "-m", "daemons.process.zygote", str(theirs.fileno())]
            command += [f"{kind}={entry}" for kind, entry in self._kinds.items()]
            env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **(self._env or {})}
            try:
                process = await trio.lowlevel.open_process(
                    command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    env=env,
                    preexec_fn=before_exec(),
                )
            except BaseException:
                ours.close()
                raise
        return process, ours

    async def _hear(self, owner: trio.socket.SocketType) -> bool:
        """Take the zygote's packets until it is gone; whether it ever was ready."""
        was_ready = False
        while True:
            message, descriptor = await _receive_packet(owner)
            if message is None:
                return was_ready
            if "ready" in message:
                was_ready, self._failed, self._owner = True, None, owner
                self._ready.set()
            elif "exited" in message:
                self._child_ended(message["exited"], message["status"])
            else:
                self._fork_answered(message, descriptor)

    def _fork_answered(self, message: Mapping[str, Any], pidfd: int) -> None:
        asked = self._asked.get(message["id"])
        if asked is None:  # whoever asked has given up
            if pidfd >= 0:
                os.close(pidfd)
            return
        asked.message, asked.pidfd = message, pidfd
        asked.answered.set()

    def _child_ended(self, pid: int, status: int | None) -> None:
        child = self._children.pop(pid, None)
        if child is not None:
            child._end(status)
            return
        for asked in self._asked.values():  # it ended before its asker could run
            if asked.message is not None and asked.message.get("pid") == pid:
                asked.message = {**asked.message, "status": status}

    async def _announce_first(self, task_status: trio.TaskStatus[None]) -> None:
        await self._ready.wait()
        if self._failed is not None:
            raise SpawnError(self._failed)
        task_status.started()

    async def _await_adopted(self, child: Child) -> None:
        """Wait for a child of a zygote that has died; it is ours now."""
        if child._ended.is_set():
            return
        await trio.lowlevel.wait_readable(child._pidfd)
        self._child_ended(child.pid, _status_of(child._pidfd))


def _status_of(pidfd: int) -> int | None:
    """The wait status of a process that has ended; None when it was not our child."""
    try:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    if ended is None:
        return None
    return ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status


async def _send_packet(to: trio.socket.SocketType, packet: bytes, descriptors: list[int]) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
    await to.sendmsg([packet], [rights])


async def _receive_packet(owner: trio.socket.SocketType) -> tuple[Mapping[str, Any] | None, int]:
    """One message and the descriptor that came with it (-1: none); no message when the other side is gone."""
    try:
        packet, ancillary, _, _ = await owner.recvmsg(65536, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    except OSError:
        packet, ancillary = b"", []
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content)
    return (msgpack.unpackb(packet) if packet else None), (descriptors[0] if descriptors else -1)
