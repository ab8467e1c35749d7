"""What a daemon needs of the outside, as arguments: the clock, chance, the network, processes and threads.

`World.real()` is this machine. A simulation hands in its own: a virtual clock (trio's MockClock goes with it), one seed
for all chance, a network in memory, processes that are tasks, and threads that answer in place, because a virtual clock
would jump past a thread that works.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import trio

from daemons.base.layout import PROGRAM_UMASK
from daemons.base.open_files import before_exec
from daemons.process.children import Zygote
from protocol.network.channel import Network
from protocol.network.net import RealNetwork

T = TypeVar("T")


class Process(Protocol):
    """A program that was started. `wait` may be awaited by several tasks and answers the return code (-9: signal 9)."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> trio.abc.SendStream | None: ...
    @property
    def stdout(self) -> trio.abc.ReceiveStream | None: ...
    @property
    def stderr(self) -> trio.abc.ReceiveStream | None: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def send_signal(self, sig: Any, /) -> None: ...


class Spawner(Protocol):
    """Starts programs: the zygote, startd cron jobs, hooks. `options` are those of `subprocess.Popen`."""

    async def start(self, argv: Sequence[str], **options: Any) -> Process: ...


class Threads(Protocol):
    """Runs a function that would hold the event loop too long."""

    async def run_sync(self, fn: Callable[..., T], *args: Any) -> T: ...

    async def leave_behind(self, fn: Callable[..., T], *args: Any) -> T: ...


class RealSpawner:
    """Programs as processes of this machine, with no descriptors but those passed on purpose."""

    async def start(self, argv: Sequence[str], **options: Any) -> Process:
        """Start `argv`; standard input is /dev/null, and the umask an ordinary one, unless `options` say otherwise."""
        options.setdefault("stdin", subprocess.DEVNULL)
        # Programs that use select(2) break beyond 1,024 descriptors: they get the limit that the daemon was started
        # with.
        options.setdefault("preexec_fn", before_exec())
        options.setdefault("umask", PROGRAM_UMASK)
        return await trio.lowlevel.open_process(list(argv), **options)


class RealThreads:
    """Worker threads."""

    async def run_sync(self, fn: Callable[..., T], *args: Any) -> T:
        """Call `fn(*args)` in a worker thread, which is waited for even when this is cancelled."""
        return await trio.to_thread.run_sync(fn, *args)

    async def leave_behind(self, fn: Callable[..., T], *args: Any) -> T:
        """The same; when this is cancelled the thread goes on by itself, and nobody hears what came of it."""
        return await trio.to_thread.run_sync(fn, *args, abandon_on_cancel=True)


class InPlace:
    """The same under a virtual clock: the answer is there before time moves."""

    async def run_sync(self, fn: Callable[..., T], *args: Any) -> T:
        """Call `fn(*args)` here."""
        result = fn(*args)
        await trio.lowlevel.checkpoint()
        return result

    leave_behind = run_sync


class ChildProcess(Protocol):
    """What a zygote forked: `channel` is one end of the socket pair that it was born with."""

    @property
    def pid(self) -> int: ...
    @property
    def channel(self) -> trio.abc.Stream: ...
    async def wait(self) -> int | None: ...
    def kill(self, signum: int = ...) -> None: ...


class ZygoteLike(Protocol):
    """`spawn_child.Zygote`, or what stands for it."""

    async def fork(
        self, kind: str, payload: bytes | Mapping[str, Any] = ..., descriptors: Iterable[int] = ...
    ) -> ChildProcess:
        """A new child of this kind."""

    async def kill_strays(self) -> int:
        """End what children that died have left behind; how many processes remain."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there until cancelled; started when `fork` may be called."""


@dataclass(frozen=True, slots=True)
class World:
    """The outside. `wall` is seconds since the epoch; monotonic time is `trio.current_time()`."""

    wall: Callable[[], float]
    rng: random.Random
    network: Network
    spawner: Spawner
    threads: Threads
    env: Mapping[str, str]
    cpu: Callable[[], float] = lambda: 0.0
    """Seconds of processor time that the calling thread has used; in a simulation work takes none."""
    zygote: Callable[[Mapping[str, str]], ZygoteLike] = Zygote
    """Makes the owner's side of a zygote, from `KIND -> MODULE:FUNCTION`; in a simulation its children are tasks."""

    @classmethod
    def real(cls) -> World:
        """This machine."""
        return cls(
            wall=time.time,
            rng=random.SystemRandom(),  # claim ids and tickets come from it: nobody may guess the next
            network=RealNetwork(),
            spawner=RealSpawner(),
            threads=RealThreads(),
            env=dict(os.environ),
            cpu=time.thread_time,
        )
