"""Keeps daemons running: one `Keeper` each, which does what `pool.hosts.supervision` decides.

A daemon that ends by itself is started again after a wait that grows; one that ends with EXIT_FOR_GOOD is left alone. A
stop has a deadline, SHUTDOWN_GRACEFUL_TIMEOUT or SHUTDOWN_FAST_TIMEOUT, after which it becomes more urgent and at last
SIGKILL; a peaceful one has none. What fails in here costs one life of the daemon, and never the master.

Source: HTCondor's manual, "Master Daemon Configuration Options" (MASTER_BACKOFF_CONSTANT and its kin).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

import trio

from daemons.base.log import Log
from daemons.base.sync import Signal
from daemons.daemon_core.run import EXIT_FOR_GOOD
from daemons.daemon_core.tasks import Tasks
from daemons.daemon_core.world import ChildProcess, ZygoteLike
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.config import Config
from pool.hosts.supervision import MasterEffect, ProcessEvent, ProcessState, RestartBackoff, Supervised, step
from protocol.messages.common import StopHow

LAST_WORDS_S: Final = 0.5
"""How long the channel of a daemon that has ended is read, in case that a child of its keeps it open."""
_URGENCY: Final = (StopHow.PEACEFUL, StopHow.GRACEFUL, StopHow.FAST)


class Keeper:
    """One daemon of this host: started, restarted when it falls, stopped when asked."""

    def __init__(
        self,
        name: str,
        zygote: ZygoteLike,
        payload: Callable[[str], dict[str, object]],
        config: Callable[[], Config],
        log: Log,
        wall: Callable[[], float],
        tasks: Tasks,
    ) -> None:
        self.name = name
        self._zygote, self._payload, self._config, self._log, self._wall = zygote, payload, config, log, wall
        self._daemon = Supervised(name)
        self._tasks = tasks
        self._process: ChildProcess | None = None
        self._how = StopHow.GRACEFUL
        self._changed = Signal()
        self._started_wall = 0.0
        self._why = ""
        self._last_exit = ""
        self._total_restarts = 0

    @property
    def state(self) -> ProcessState:
        """Where the daemon stands."""
        return self._daemon.state

    # ---- orders

    def start(self) -> None:
        """It shall run."""
        self._happened(ProcessEvent.START)

    def stop(self, how: StopHow) -> None:
        """It shall not run."""
        if self.state is not ProcessState.STOPPING or _URGENCY.index(how) > _URGENCY.index(self._how):
            self._how = how
        self._happened(ProcessEvent.STOP)

    def restart(self, how: StopHow) -> None:
        """Stop it, and start it again when it has ended."""
        self.stop(how)
        self._happened(ProcessEvent.START)

    async def reconfigure(self) -> None:
        """Have it read its configuration again."""
        await self._say("reconfigure")

    async def until(self, *states: ProcessState) -> ProcessState:
        """Wait until the daemon is in one of these states."""
        await self._changed.until(lambda: self.state in states)
        return self.state

    def ad(self) -> ClassAd:
        """The daemon as `condor_who` shows it."""
        return ClassAd(
            {
                "Name": self.name,
                "Pid": self._process.pid if self._process is not None else 0,
                "State": self.state.value,
                "StartTime": int(self._started_wall),
                "Restarts": self._total_restarts,
                "LastExit": self._last_exit,
            }
        )

    # ---- what follows

    def _happened(self, event: ProcessEvent) -> None:
        before = self._daemon.state
        self._daemon, effects = step(self._daemon, event, now=trio.current_time(), backoff=self._backoff())
        for effect in effects:
            match effect:
                case MasterEffect.SPAWN:
                    self._tasks.once(self._live)
                case MasterEffect.ASK_TO_STOP:
                    self._tasks.once(self._end, self._process)
                case MasterEffect.WAKE_WHEN_DUE:
                    wait_s = self._daemon.due_at - trio.current_time()
                    self._log.always(f"Restarting {self.name} in {wait_s:.0f} seconds.")
                    self._tasks.once(self._wake_at, self._daemon.due_at)
        if self._daemon.state is not before:
            self._changed.fire()

    def _backoff(self) -> RestartBackoff:
        config, subsystem = self._config(), self.name.upper()

        def knob(name: str) -> float:
            own = config[f"MASTER_{subsystem}_{name}"]
            return float(own) if own else config.float(f"MASTER_{name}")

        return RestartBackoff(
            knob("BACKOFF_CONSTANT"), knob("BACKOFF_FACTOR"), knob("BACKOFF_CEILING"), knob("RECOVER_FACTOR")
        )

    async def _wake_at(self, due: float) -> None:
        await trio.sleep_until(due)
        if self._daemon.due_at == due:  # it was not started and fallen again in the meantime
            self._total_restarts += self.state is ProcessState.BACKOFF
            self._happened(ProcessEvent.DUE)

    async def _live(self) -> None:
        """One life of the daemon, from its fork to its end, after which it may begin another."""
        try:
            await self._live_once()
        except* Exception:  # a daemon that nobody watches any more must not run on beside the next one
            if self._process is not None:
                self._process.kill()
                await trio.aclose_forcefully(self._process.channel)
                self._process = None
            self._happened(ProcessEvent.EXITED)
            raise
        self._happened(ProcessEvent.EXITED)

    async def _live_once(self) -> None:
        try:
            process = await self._zygote.fork("daemon", self._payload(self.name))
        except PoolError as error:
            self._log.error(f"Cannot start {self.name}: {error}")
            self._last_exit = str(error)
            return
        self._process, self._started_wall, self._why = process, self._wall(), ""
        self._log.always(f"Started {self.name}.", pid=process.pid)
        async with trio.open_nursery() as nursery:
            heard = await nursery.start(self._listen, process)
            if self.state is ProcessState.STOPPING:  # it was told to end before it was born
                nursery.start_soon(self._end, process)
            status = await process.wait()
            with trio.move_on_after(LAST_WORDS_S):
                # Why it has failed comes on the channel, which may be read later than its end is heard of.
                await heard.wait()
            nursery.cancel_scope.cancel()
        self._process = None
        await trio.aclose_forcefully(process.channel)
        self._last_exit = f"{_in_words(status)}: {self._why}" if self._why else _in_words(status)
        self._log.always(f"The {self.name} (pid {process.pid}) {self._last_exit}.")
        if status is not None and os.WIFEXITED(status) and os.WEXITSTATUS(status) == EXIT_FOR_GOOD:
            self._happened(ProcessEvent.STOP)

    async def _listen(self, process: ChildProcess, *, task_status: trio.TaskStatus[trio.Event]) -> None:
        """Hear `ready`, and why it could not run; what is started with is set when it has said all."""
        all_heard = trio.Event()
        task_status.started(all_heard)
        said = b""
        try:
            while data := await process.channel.receive_some(4096):
                *lines, said = (said + data).split(b"\n")
                for line in lines:
                    word, _, why = line.decode("utf-8", "replace").partition(" ")
                    if word == "ready":
                        self._log.always(f"The {self.name} is ready.", pid=process.pid)
                        self._happened(ProcessEvent.READY)
                    elif word == "failed":
                        self._why = why
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        all_heard.set()

    async def _say(self, order: str) -> None:
        if self._process is not None:
            try:
                await self._process.channel.send_all(f"{order}\n".encode())
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                pass  # it is ending, or is being told already

    async def _end(self, process: ChildProcess | None) -> None:
        """Ask the process to end as is wanted now; more urgently when its time is over, at last by SIGKILL."""
        if process is None:
            return  # it is not born yet: `_live` sees to it
        how = self._how
        await self._say(f"stop {how.value}")
        if how is StopHow.PEACEFUL:
            return
        timeout = "SHUTDOWN_GRACEFUL_TIMEOUT" if how is StopHow.GRACEFUL else "SHUTDOWN_FAST_TIMEOUT"
        with trio.move_on_after(self._config().seconds(timeout)):
            await process.wait()
            return
        if self._process is not process or self._how is not how:
            return  # another order has its own deadline
        if how is StopHow.GRACEFUL:
            self._log.always(f"The {self.name} has not ended gracefully in time: stopping it fast.")
            self.stop(StopHow.FAST)
        else:
            self._log.always(f"The {self.name} has not ended in time: killing it.")
            process.kill(signal.SIGKILL)


def _in_words(status: int | None) -> str:
    """A wait status as a person reads it."""
    if status is None:
        return "ended"
    if os.WIFSIGNALED(status):
        return f"died on signal {os.WTERMSIG(status)}"
    return f"exited with status {os.WEXITSTATUS(status)}"


async def stop_all(keepers: list[Keeper], how: StopHow) -> None:
    """Stop daemons, each after those that come later in the list, which need it."""
    for keeper in reversed(keepers):
        keeper.stop(how)
        await keeper.until(ProcessState.STOPPED)
