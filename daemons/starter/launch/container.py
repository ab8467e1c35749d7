"""A job's container: its image, its making, its run, its end, and that it is removed whatever happens.

    image there or pulled -> record -> create -> start, attached -> inspect -> remove

The engine is spoken to by its program. A container is kept by the engine and not by this process: before one is asked
for, a record says so (`container_records.py`), and its first process is known, so that it ends though the engine hangs.

Rules: what the job's description has wrong puts the job on hold, an engine that does not answer is the machine's fault,
and the startd hears of that; orders are carried out one after another; nobody waits for an engine without a limit.

Source: HTCondor's manual on the docker and container universes (docker_image, container_image, the DOCKER_* knobs);
src/condor_starter.V6.1/docker_proc.cpp, src/condor_utils/docker-api.cpp.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

import trio

from daemons.base.faults import fault
from daemons.base.log import Log
from daemons.host.account import Account, acting_as
from daemons.host.cgroup import ControlGroup
from daemons.host.child_settings import StarterSettings
from daemons.host.container_records import APPEARS_S, PAUSE_S, ContainerRecord, ContainerRecords, end_processes
from daemons.host.engine import ANSWER_S, is_gone
from daemons.host.processes import Processes, WatchedChild
from daemons.host.tree import send, start_ticks
from daemons.starter.launch import container_usage
from daemons.starter.launch.container_engine import ALIVE_S, SHORT_S, Engine, Images, attach
from daemons.starter.launch.container_plan import put_into
from daemons.starter.launch.context import Context
from daemons.starter.launch.spawn import output_flags
from daemons.starter.launch.terms import Terms
from daemons.starter.report.result import HoldJob
from pool.base.errors import PeerError
from pool.classad import ClassAd
from pool.containers.answers import (
    INSPECT_FORMAT,
    PORTS_FORMAT,
    Inspected,
    cannot_create,
    cannot_start,
    host_ports,
    in_one_line,
    inspected,
    judged,
)
from pool.containers.create import ContainerPlan, create_words, environment_lines, services, without_values
from pool.containers.engine import EngineError, knob, program_words
from pool.execute.exit import Exited, Hold, cannot_open
from pool.execute.plan import NULL, RunPlan
from pool.execute.usage import UsageSample
from protocol.messages.starter import EngineTrouble, RunJob

SETTLE_TRIES_MAX: Final = 20
SETTLE_PAUSE_S: Final = 0.25
FIRST_LOOK_S: Final = 0.1
LOOK_PAUSE_S: Final = 0.5
WORDS_BYTES: Final = 400
ORDERS_MAX: Final = 64
"""Signals and pauses that wait for the engine."""


@asynccontextmanager
async def started_in(
    image: str, context: Context, request: RunJob, job: ClassAd, terms: Terms, plan: RunPlan, account: Account
) -> AsyncGenerator[Container, None]:
    """The container, whose program runs; it is gone after the `with`. The startd hears of an engine in trouble."""
    container = _container_of(job, request.slot_ad, context.settings, context.processes, context.group, context.log)
    try:
        await container.make(put_into(image, terms, plan, account, request, job, request.slot_ad, context))
        container.start(plan, account)
        await container.begun()
        yield container
    except EngineError as error:
        await _report(context, request, str(error))
        raise
    finally:
        await container.remove()


async def _report(context: Context, request: RunJob, reason: str) -> None:
    """Let the startd know, so that no more jobs come for their container's sake."""
    try:
        await context.startd.notify(EngineTrouble(activation=request.activation, reason=reason))
    except PeerError:
        pass


def _container_of(
    job: ClassAd, slot: ClassAd, settings: StarterSettings, processes: Processes, group: ControlGroup, log: Log
) -> Container:
    """The container that the job will have; EngineError where there is no engine."""
    program = program_words(knob(settings.docker, "DOCKER"))
    if not program:
        raise EngineError("this machine has no container engine: DOCKER is not set")
    engine = Engine(program, processes, log)
    return Container(engine, ContainerRecords(settings.run_dir), processes, group, job, slot, settings.docker, log)


class Container:
    """One job's container, which is a `Body` once it runs."""

    watched: WatchedChild

    def __init__(
        self,
        engine: Engine,
        records: ContainerRecords,
        processes: Processes,
        group: ControlGroup,
        job: ClassAd,
        slot: ClassAd,
        knobs: Mapping[str, str],
        log: Log,
    ) -> None:
        self._engine, self._records, self._processes, self._group = engine, records, processes, group
        self._job, self._slot, self._knobs, self._log = job, slot, knobs, log
        self._record: ContainerRecord | None = None
        self._meter: container_usage.ContainerMeter | None = None
        self._orders, self._ordered = trio.open_memory_channel[tuple[str, ...]](ORDERS_MAX)
        self._paused = False
        self._as_job: tuple[str, ...] = ()
        self._identity = ""
        self._over: Inspected | None = None
        """How it ended, if a look has shown that already."""
        self._ports = ClassAd()
        self._errors: tuple[str, Account] | None = None
        """The job's standard error, and whose it is."""

    @property
    def pid(self) -> int:
        """The container's first process; the program that is attached to it as long as that is not known."""
        return self._record.pid if self._record is not None and self._record.pid else self.watched.pid

    @property
    def entrance(self) -> tuple[str, ...]:
        """The words that run one more program in it, before its name."""
        return (*self._engine.program, "exec", "-i", *self._as_job)

    @property
    def name(self) -> str:
        """Its name."""
        return self._record.name if self._record is not None else ""

    # ---- before it runs

    async def make(self, plan: ContainerPlan) -> None:
        """Have the image, and make the container. Held: the job is at fault; EngineError: the engine is."""
        # As its standard input, not as a file by name: a podman that is not root's may not look into this process.
        plan = replace(plan, environment_file="/dev/stdin")
        words = create_words(plan, self._job, self._slot, self._knobs)
        self._as_job = ("--user", f"{plan.uid}:{plan.gid}", "--workdir", plan.directory)
        await Images(self._engine, self._job, self._knobs, self._log).have(plan.image)
        self._record = ContainerRecord(plan.name, self._engine.program, plan.starter_pid)
        self._records.write(self._record)
        fault("starter.container_creating")
        self._log.always("The container is made", command=without_values(words))
        timeout_s = math.inf if "--pull" in words else ANSWER_S
        answer = await self._engine.ask(*words, timeout_s=timeout_s, text=environment_lines(plan.environment))
        self._record = replace(self._record, made=True)  # or refused: nothing more will come of it
        if not answer.good:
            await self._engine.must_live("the engine went away")
            raise HoldJob(cannot_create(plan.image, answer.stderr))
        self._identity = answer.stdout.strip().rpartition("\n")[2]
        self._records.write(self._record)
        fault("starter.container_created")

    # ---- its run

    def start(self, plan: RunPlan, account: Account) -> None:
        """Start it, with the job's files as its standard files; Held when one cannot be opened."""
        assert self._record is not None
        self._errors = plan.stderr, account
        reads = plan.stdin != NULL
        files = _open_files(plan, account)
        words = ["start", "--attach", *(["--interactive"] if reads else []), self._record.name]
        try:
            self.watched = attach(self._processes, [*self._engine.program, *words], files)
        except OSError as error:
            raise EngineError(f"{self._engine.program[-1]} cannot be started: {error.strerror}") from None
        finally:
            for fd in set(files):
                os.close(fd)

    async def begun(self) -> None:
        """Return when the program runs, or has run. Held or EngineError when it never did."""
        with trio.move_on_after(FIRST_LOOK_S):
            await self.watched.ended.wait()
        while True:
            over = self.watched.ended.is_set()
            state = await self._inspect()
            if state.error:
                self._raise_unless_exited(state)
            if state.running and state.pid:
                await self._meet(state)
                return
            if state.began or over:
                self._over = state if state.began else None
                return
            with trio.move_on_after(LOOK_PAUSE_S):
                await self.watched.ended.wait()

    async def _meet(self, state: Inspected) -> None:
        """Know the container's processes without the engine."""
        assert self._record is not None
        self._record = replace(self._record, pid=state.pid, started=start_ticks(state.pid))
        self._records.write(self._record)
        self._meter = container_usage.ContainerMeter(state.pid, self._identity)
        if wanted := services(self._job):
            opened = await self._engine.ask("inspect", "--format", PORTS_FORMAT, self._record.name, timeout_s=ANSWER_S)
            self._ports = ClassAd(host_ports(opened.stdout, wanted))

    async def _inspect(self) -> Inspected:
        assert self._record is not None
        answer = await self._engine.ask("inspect", "--format", INSPECT_FORMAT, self._record.name, timeout_s=ANSWER_S)
        if not answer.good:
            await self._engine.must_live("Cannot inspect the container, since the engine is gone")
            raise EngineError(f"Cannot inspect the container: {in_one_line(answer.stderr)}")
        return inspected(answer.stdout)

    def signal(self, number: int) -> None:
        """To the job's program, which has to be able to hear it."""
        self.resume()
        self._order("kill", "--signal", str(number))

    def suspend(self) -> None:
        """All of the container."""
        self._paused = True
        self._order("pause")

    def resume(self) -> None:
        """All of it."""
        if self._paused:
            self._paused = False
            self._order("unpause")

    def _order(self, *words: str) -> None:
        """Have the engine do it, after what it was told before; nothing more once it is to kill the container."""
        try:
            self._orders.send_nowait(words)
        except trio.BrokenResourceError:
            pass
        except trio.WouldBlock:
            self._log.error("The engine is behind: the container is not told", order=" ".join(words))

    async def sample(self) -> UsageSample:
        """By its processes and their control group."""
        return self._meter.sample() if self._meter is not None else UsageSample()

    def told(self) -> ClassAd:
        """What went over its network, and where its services are."""
        ad = self._ports.copy()
        if self._meter is not None:
            ad.update(self._meter.network())
        return ad

    async def attend(self) -> None:
        """Carry out orders, in order."""
        assert self._record is not None
        with suppress(trio.ClosedResourceError):
            async for words in self._ordered:
                try:
                    await self._engine.ask(*words, self._record.name, timeout_s=SHORT_S)
                except EngineError as error:
                    self._log.error("The container was not told", error, order=" ".join(words))

    # ---- its end

    async def end(self) -> None:
        """Kill it by the engine; where that does not work, by its first process."""
        assert self._record is not None
        self._ordered.close()
        if not self.watched.ended.is_set():
            try:
                if self._paused:
                    await self._engine.ask("unpause", self._record.name, timeout_s=SHORT_S)
                await self._engine.ask("kill", "--signal", "KILL", self._record.name, timeout_s=SHORT_S)
            except EngineError as error:
                self._log.error("The engine does not kill the container", error)
            with trio.move_on_after(ALIVE_S):
                await self.watched.ended.wait()
        if not self.watched.ended.is_set():
            end_processes(self._record)
            send({self.watched.pid}, signal.SIGKILL)
        await self._processes.end_all(self._group)

    async def outcome(self) -> Exited:
        """What the engine says about its end."""
        for _ in range(SETTLE_TRIES_MAX):  # the program that was attached may be gone a moment before the container
            state = self._over or await self._inspect()
            if not state.running:
                self._raise_unless_exited(state)
                if not state.began:
                    await self._engine.must_live("the engine went away")
                    raise HoldJob(cannot_start(self._last_words()))
                end = judged(state, self._slot.eval_int("Memory") or 0)
                assert isinstance(end, Exited)
                return end
            await trio.sleep(SETTLE_PAUSE_S)
        raise EngineError("the engine let go of the container, which still runs")

    def _raise_unless_exited(self, state: Inspected) -> None:
        end = judged(state, self._slot.eval_int("Memory") or 0)
        if isinstance(end, Hold):
            raise HoldJob(end)

    def _last_words(self) -> str:
        """What the engine's program has written last, on what it took for the job's standard error."""
        if self._errors is None:
            return ""
        path, account = self._errors
        try:
            with acting_as(account):
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                return os.pread(fd, WORDS_BYTES, max(0, os.fstat(fd).st_size - WORDS_BYTES)).decode(errors="replace")
            finally:
                os.close(fd)
        except OSError:
            return ""

    async def remove(self) -> None:
        """Remove it. What cannot be removed now, the startd removes when this starter is gone."""
        if self._record is None:
            return
        # Each of the engine's calls below has a limit of its own.
        with trio.CancelScope(shield=True):
            try:
                problem = await self._remove(self._record)
            except EngineError as error:
                problem = str(error)
            if problem:
                self._log.error("The container cannot be removed", name=self._record.name, reason=problem)
                end_processes(self._record)
            else:
                self._records.forget(self._record)
            fault("starter.container_removed")

    async def _remove(self, record: ContainerRecord) -> str:
        deadline = trio.current_time() + APPEARS_S
        while True:
            answer = await self._engine.ask("rm", "-f", "-v", record.name, timeout_s=SHORT_S)
            if answer.good and not is_gone(answer):
                return ""
            if not answer.good and not is_gone(answer):
                return in_one_line(answer.stderr)
            if record.made or trio.current_time() > deadline:
                return ""
            await trio.sleep(PAUSE_S)  # its making was given up, and the engine may still be at it


def _open_files(plan: RunPlan, account: Account) -> tuple[int, int, int]:
    """The job's standard files, opened with its account's rights; Held names the one that cannot be."""
    opened: list[int] = []
    try:
        with acting_as(account):
            for stream, path in (("stdin", plan.stdin), ("stdout", plan.stdout), ("stderr", plan.stderr)):
                if stream == "stderr" and path == plan.stdout:
                    opened.append(opened[1])
                    continue
                flags = os.O_RDONLY | os.O_NOCTTY if stream == "stdin" else output_flags(plan)
                try:
                    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
                except OSError as error:
                    raise HoldJob(cannot_open(stream, path, error.errno or 5)) from None
                os.set_blocking(fd, True)
                opened.append(fd)
    except BaseException:
        for fd in set(opened):
            os.close(fd)
        raise
    return opened[0], opened[1], opened[2]
