"""A process that is ready to be many others: it imports once all that its children need, and forks on request.

Its owner (a startd for starters, a schedd for file agents) executes it with one end of a sequential-packet socket pair:
`python -P -m daemons.process.zygote FD KIND=MODULE:FUNCTION ...`. It has one thread and no event loop, so that a fork
is always safe, and holds no key of the pool. Each message is one packet, a msgpack map:

    owner -> zygote    {"id": 7, "kind": "starter", "payload": bytes}       with descriptors: channel, life pipe, others
    zygote -> owner    {"id": 7, "pid": 1234}                               with a pidfd of the child
                       {"id": 7, "error": "..."}                            nothing was forked
                       {"exited": 1234, "status": wait status}              a child has ended
    owner -> zygote    {"id": 8, "kill_strays": true}
    zygote -> owner    {"id": 8, "left": 0}                                 how many did not end

A child leads a session of its own, has Python's signal dispositions, and no descriptors but its own. When the owner is
gone the zygote forks no more, and stays only to reap: children see the end of their life pipe and leave. After the
last of them it ends what they have left, and itself. When the zygote is gone its children live on; the owner, which is
a subreaper too, inherits them.

A zygote is a subreaper: what a child leaves behind when it dies (processes of its job, for example, whatever they do to
hide) becomes the zygote's own, a stray. Only the zygote can tell strays from the children that it forked.

Source: fork(2), unix(7) on SCM_RIGHTS and prctl(2) on PR_SET_CHILD_SUBREAPER.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from daemons.base.killing import kill_until_gone
from daemons.base.linux import become_subreaper, children_of, descendants, ended_children, name_process
from daemons.base.merging import mark_memory

PACKET_BYTES_MAX: Final = 160 * 1024
"""What fits one packet under the kernel's default socket buffer; a job's ad travels on the channel instead."""
DESCRIPTORS_MAX: Final = 8
STRAY_ROUNDS_MAX: Final = 200

KINDS: Final[Mapping[str, str]] = {
    "starter": "daemons.starter.born:child_main",
    "homes": "daemons.starter.remote_io.serving:child_main",
    "agent": "daemons.agent.main:child_main",
    "local": "daemons.schedd.execution.local_job:child_main",
}


@dataclass(frozen=True)
class Birth:
    """What a child is born with; `life` is a pipe that ends with the owner, `channel` speaks to it."""

    kind: str
    payload: bytes
    channel: socket.socket
    life: int
    descriptors: tuple[int, ...] = ()


ChildMain = Callable[[Birth], "int | None"]


@dataclass
class _Zygote:
    """The owner's socket, and what to call for each kind of child."""

    owner: socket.socket
    mains: Mapping[str, ChildMain]
    wakeup: int
    wakeup_writer: int
    children: set[int] = field(default_factory=set)
    owner_is_there: bool = True

    def serve(self) -> None:
        """Fork and reap until the owner is gone and the last child has ended; then nothing of theirs is left."""
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        poll.register(self.owner, select.POLLIN)
        while self.owner_is_there or self.children:
            ready = {fd for fd, _ in poll.poll()}
            if self.wakeup in ready:
                os.read(self.wakeup, 4096)
            self._reap()
            if self.owner_is_there and self.owner.fileno() in ready:
                self._take_request()
                if not self.owner_is_there:
                    poll.unregister(self.owner)
        self._kill_strays()

    def _take_request(self) -> None:
        try:
            packet, descriptors, _, _ = socket.recv_fds(
                self.owner, PACKET_BYTES_MAX, DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            packet, descriptors = b"", []
        if not packet:
            self.owner_is_there = False
            return
        request = msgpack.unpackb(packet)
        if "kill_strays" in request:
            self._say({"id": request["id"], "left": self._kill_strays()})
            return
        try:
            pid = self._fork(request, descriptors)
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            self._say({"id": request["id"], "error": str(error)})
        else:
            self._say({"id": request["id"], "pid": pid}, pidfd)
            os.close(pidfd)
        finally:
            for fd in descriptors:
                os.close(fd)

    def _fork(self, request: Mapping[str, Any], descriptors: list[int]) -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = self._be_child(request, descriptors)
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else 1
            except BaseException:
                traceback.print_exc()
            finally:
                with contextlib.suppress(Exception):
                    sys.stderr.flush()
                os._exit(code)
        self.children.add(pid)
        return pid

    def _be_child(self, request: Mapping[str, Any], descriptors: list[int]) -> int:
        os.setsid()
        name_process(f"condor_{request['kind']}")
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        self.owner.close()
        os.close(self.wakeup)
        os.close(self.wakeup_writer)
        gc.enable()
        channel = socket.socket(fileno=descriptors[0])
        birth = Birth(request["kind"], request["payload"], channel, descriptors[1], tuple(descriptors[2:]))
        return self.mains[request["kind"]](birth) or 0

    def _kill_strays(self) -> int:
        """End every process below this one that is neither a child it forked nor below one; how many remain."""

        def strays() -> set[int]:
            self._reap()
            # A subreaper's orphans are its children like those that it forked; only this list tells them apart.
            adopted = set(children_of(os.getpid())) - self.children
            return adopted.union(*map(descendants, adopted))

        return len(kill_until_gone(strays, rounds_max=STRAY_ROUNDS_MAX))

    def _reap(self) -> None:
        for pid, status in ended_children():
            if pid in self.children:  # others are orphans of ours: nobody waits for them
                self.children.discard(pid)
                self._say({"exited": pid, "status": status})

    def _say(self, message: Mapping[str, Any], descriptor: int | None = None) -> None:
        passed = [] if descriptor is None else [descriptor]
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))] if passed else []
        try:
            self.owner.sendmsg([msgpack.packb(message)], ancillary)
        except OSError:
            self.owner_is_there = False


def load(spec: str) -> ChildMain:
    """The child's main function; its module may have a `warm_up` to be called once, before there are children."""
    module, _, function = spec.partition(":")
    importlib.import_module("pool.classad.builtins")  # imported late elsewhere; a job's account may not be able to
    loaded = importlib.import_module(module)
    warm_up: Callable[[], None] | None = getattr(loaded, "warm_up", None)
    if warm_up is not None:
        warm_up()
    main: ChildMain = getattr(loaded, function)
    return main


def _wakeup_pipe() -> tuple[int, int]:
    """A pipe that becomes readable at SIGCHLD."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    # A full pipe says all there is to say: children have ended.
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return readable, writable


def main(argv: list[str]) -> int:
    """Serve the owner at the descriptor `argv[0]`; the rest are KIND=MODULE:FUNCTION."""
    owner = socket.socket(fileno=int(argv[0]))
    owner.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    become_subreaper()
    name_process("condor_zygote")
    mains = {kind: load(spec) for kind, _, spec in (argument.partition("=") for argument in argv[1:])}
    zygote = _Zygote(owner, mains, *_wakeup_pipe())
    # The collector writes into every object that it looks at, and a page that is written is shared no more.
    gc.collect()
    gc.disable()
    gc.freeze()
    mark_memory()
    zygote._say({"ready": os.getpid()})
    zygote.serve()
    return 0


if __name__ == "__main__":
    # The children's modules import `daemons.process.zygote`; this module must be that one.
    from daemons.process import zygote as _this

    sys.exit(_this.main(sys.argv[1:]))
