"""The backfill client: one program for the whole machine that works while slots have nothing better to do.

Slots in Backfill share it, and it has a control group of its own with the least share of the processors. It starts with
the first of them, is started again when it ends by itself, and ends with everything that it started when the last of
them is wanted elsewhere. It finds what an earlier life left by a variable in the environment, which a file beside the
sockets remembers, and by the group.

Source: HTCondor's manual, "Configuration for Execution Points": "Configuring HTCondor for Running Backfill Jobs",
"Backfill State".
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, Final

import trio

from daemons.base.killing import kill, until_nobody_is_left
from daemons.base.linux import descendants, is_zombie
from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.daemon_core.world import Process
from daemons.host import tree
from daemons.host.account import Account, acting_as, named_account, own_account
from daemons.host.cgroup import ControlGroup
from daemons.host.programs import kill_session
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import Slot, Slots
from pool.base.argv import split_new, split_old
from pool.base.errors import ConfigError, PoolError
from pool.execute.cgroup import CgroupLimits, Trees, claim_group
from pool.slots.state_machine import Activity, Event, State, can
from pool.submit.quoting import is_new_style, parse_environment, unquote_new_style

GRACE_S: Final = 5.0
"""How long the client may take to save its work; the slot waits for it."""
ENTRANCES_MAX: Final = 10
SHORT_LIFE_S: Final = 10.0
RETRY_FIRST_S: Final = 1.0
RETRY_MAX_S: Final = 300.0
MARK: Final = "_CONDOR_BACKFILL"
SYSTEMS: Final = ("BOINC",)


@dataclass(frozen=True)
class BackfillPlan:
    """What to run, read from the BOINC_* knobs."""

    argv: tuple[str, ...]
    directory: str
    env: dict[str, str]
    output: str
    error: str
    owner: str


class Backfill:
    """The client of this startd, and the slots that share it."""

    def __init__(self, start: DaemonStart, tasks: Tasks, slots: Slots, moves: Moves, trees: Trees) -> None:
        self._start = start
        self._tasks = tasks
        self._slots = slots
        self._moves = moves
        self._mark = start.config.path("EXECUTE")
        base = start.config.str("BASE_CGROUP") or "htcondor"
        self._group = ControlGroup(trees, claim_group(base, self._mark, "backfill"))
        self._record = start.run_dir / "backfill"
        self._process: Process | None = None
        self._beginning = False
        self._ending = False
        self._retry_s = 0.0
        self._changed = Signal()

    @property
    def runs(self) -> bool:
        """Whether there is a client, or one is about to be."""
        return self._process is not None or self._beginning

    # ---- what the state machine asks for

    def start_client(self, slot: Slot) -> Event | None:
        """The slot may have backfill work now: at once, where the client runs."""
        if self._process is not None and not self._ending:
            return Event.CLIENT_STARTED
        if not self.runs:
            self._beginning = True
            self._tasks.once(self._live)
        return None

    def kill_client(self, slot: Slot) -> Event | None:
        """The slot is wanted elsewhere; the client ends with the last of its slots."""
        if any(other is not slot and other.state.where == (State.BACKFILL, Activity.BUSY) for other in self._slots):
            return Event.CLIENT_GONE
        self._begin_to_end()
        return None

    async def clear(self, slot: Slot) -> None:
        """Somebody claims the slot: get it out of the client's hands."""
        slot.claims_coming += 1
        try:
            if slot.state.activity is Activity.BUSY:
                self._moves.apply(slot, Event.EVICT_BACKFILL)
            await self._changed.until(
                lambda: slot.state.state is not State.BACKFILL or slot.state.activity is Activity.IDLE
            )
        finally:
            slot.claims_coming -= 1

    async def stop(self) -> None:
        """The startd leaves: so does the client."""
        while self.runs:
            self._begin_to_end()
            await self._changed.wait()

    def sweep(self) -> None:
        """End a client that an earlier life of this startd left behind, whatever the configuration says now."""
        try:
            mark = self._record.read_bytes()
        except FileNotFoundError:
            return
        if mark:
            kill(tree.marked(mark))
        self._group.kill()
        self._group.remove()
        self._record.unlink(missing_ok=True)

    # ---- its life

    async def _live(self) -> None:
        """Start the client, see it to its end and tidy up."""
        if self._retry_s:
            await trio.sleep(self._retry_s)
        began = trio.current_time()
        try:
            process = self._process = await self._spawn() if self._wanted() else None
            self._beginning = False
            if process is not None:
                await self._see_to_its_end(process)
        finally:  # also when something fails: else the slots would wait for a client that is no more
            self._is_over(began)

    async def _see_to_its_end(self, process: Process) -> None:
        self._start.log.always("Backfill client started.", pid=process.pid)
        self._tell_all(Activity.IDLE, Event.CLIENT_STARTED)
        if not self._wanted():
            self._begin_to_end()
        status = await process.wait()
        self._start.log.always(f"The backfill client (pid {process.pid}) ended.", status=status)
        await self._kill_rest(process.pid)
        self._record.unlink(missing_ok=True)

    def _is_over(self, began: float) -> None:
        self._beginning, self._process = False, None
        ended, self._ending = self._ending, False
        # A client that ends at once would be started in each turn of the loop.
        short = trio.current_time() - began < SHORT_LIFE_S and not ended
        self._retry_s = min(RETRY_MAX_S, max(RETRY_FIRST_S, 2 * self._retry_s)) if short else 0.0
        self._tell_all(Activity.KILLING, Event.CLIENT_GONE)
        self._tell_all(Activity.BUSY, Event.CLIENT_GONE)
        for slot in self._slots:  # where none could be started, or one was wanted too late
            if slot.state.where == (State.BACKFILL, Activity.IDLE):
                self._moves.evaluate(slot)
        self._changed.fire()

    def _wanted(self) -> bool:
        return any(slot.state.state is State.BACKFILL for slot in self._slots) and not self._moves.stopping

    def _tell_all(self, activity: Activity, event: Event) -> None:
        for slot in self._slots:
            if slot.state.where == (State.BACKFILL, activity) and can(slot.state, event):
                self._moves.apply(slot, event)
        self._changed.fire()

    async def _spawn(self) -> Process | None:
        """The client's process; None, and a line in the log, when it cannot be started."""
        try:
            plan = read_plan(self._start)
            account = named_account(plan.owner) if os.geteuid() == 0 else own_account()
            options: dict[str, Any] = {}
            if account.switches:
                options = {"user": account.uid, "group": account.gid, "extra_groups": account.groups}
            self._record.write_bytes(self._environment_mark())  # before there is anything to be found
            with _outputs(plan, account) as (output, error):
                process = await self._start.world.spawner.start(
                    plan.argv,
                    cwd=plan.directory,
                    env={**plan.env, MARK: self._mark},
                    stdout=output,
                    stderr=error,
                    start_new_session=True,
                    **options,
                )
            self._enter_group(process.pid)
            return process
        except (PoolError, OSError) as error:
            self._start.log.error(f"The backfill client cannot be started: {error}")
            return None

    def _enter_group(self, pid: int) -> None:
        """What the client starts from now on is in its group; without one it runs all the same."""
        if not self._group.works:
            return
        try:
            self._group.prepare(CgroupLimits(cpus=0))
            for _ in range(ENTRANCES_MAX):  # what it has started before it entered comes after it
                for one in (outside := ({pid} | descendants(pid)) - self._group.members()):
                    self._group.take(one)
                if not outside:
                    break
        except OSError as error:
            self._start.log.always(f"The backfill client (pid {pid}) is in no control group: {error}")

    def _begin_to_end(self) -> None:
        """The client, if it runs and was not told before, has to end."""
        if self._process is not None and not self._ending:
            self._ending = True
            self._tasks.once(self._end, self._process)

    async def _end(self, process: Process) -> None:
        """Ask it to end; end it when it takes too long."""
        kill_session(process.pid, signal.SIGTERM)
        with trio.move_on_after(GRACE_S):
            await process.wait()
            return
        kill_session(process.pid)

    async def _kill_rest(self, pid: int) -> None:
        """Whatever the client has started, and is still there."""
        await until_nobody_is_left(partial(self._kill_round, pid))
        self._group.remove()

    async def _kill_round(self, pid: int) -> bool:
        left = await self._start.world.threads.run_sync(self._rest, pid)  # it reads every process of the machine
        grouped = self._group.kill()
        kill(left)
        return bool(left or grouped)

    def _rest(self, pid: int) -> set[int]:
        return {one for one in tree.marked(self._environment_mark()) | descendants(pid) if not is_zombie(one)} - {pid}

    def _environment_mark(self) -> bytes:
        return os.fsencode(f"{MARK}={self._mark}")


def read_plan(start: DaemonStart) -> BackfillPlan:
    """The client as the configuration has it; ConfigError names the knob that is missing or wrong."""
    config = start.config
    system = config.str("BACKFILL_SYSTEM", default="") or "BOINC"
    if system.upper() not in SYSTEMS:
        raise ConfigError(f"BACKFILL_SYSTEM is {system}", expected=" or ".join(SYSTEMS))
    needed = ["BOINC_Executable", "BOINC_InitialDir", *(["BOINC_Owner"] if os.geteuid() == 0 else [])]
    for name in needed:
        if not config.str(name, default=""):
            raise ConfigError(f"{name} is not set")
    if (universe := config.str("BOINC_Universe", default="vanilla").lower()) not in ("vanilla", "5"):
        raise ConfigError(f"BOINC_Universe is {universe}", expected="vanilla")
    directory = config.str("BOINC_InitialDir")
    env = {"PATH": os.defpath, "HOME": directory, "LANG": "C.UTF-8"}
    return BackfillPlan(
        argv=(config.str("BOINC_Executable"), *_arguments(config.str("BOINC_Arguments", default=""))),
        directory=directory,
        env={**env, **parse_environment(config.str("BOINC_Environment", default=""))},
        output=config.str("BOINC_Output", default="") or os.devnull,
        error=config.str("BOINC_Error", default="") or os.devnull,
        owner=config.str("BOINC_Owner", default=""),
    )


@contextmanager
def _outputs(plan: BackfillPlan, account: Account) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The files for what the client writes, opened with its own rights."""
    with ExitStack() as files:
        with acting_as(account):
            output, error = (files.enter_context(open(path, "ab")) for path in (plan.output, plan.error))
        yield output, error


def _arguments(text: str) -> list[str]:
    """In either of the submit language's styles."""
    return split_new(unquote_new_style(text)) if is_new_style(text) else split_old(text)
