"""A job's container: its image, its making, its run, its end, and that it is removed whatever happens.

    image there or pulled -> record -> create -> start, attached -> inspect -> remove

The engine is spoken to by its program. A container is kept by the engine and not by this process: before one is asked
for, a record says so (`container_records.py`), and its first process is known, so that it ends though the engine hangs.
"""

from __future__ import annotations

import math
import os
import platform
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import trio

from daemons import engine
from daemons.engine import ANSWER_S, Answer, is_gone
from daemons.faults import fault
from daemons.log import Log
from daemons.programs import ProgramError, run_program
from daemons.starter import container_usage
from daemons.starter.account import Account, acting_as, own_account
from daemons.starter.cgroup import Group
from daemons.starter.container_records import APPEARS_S, PAUSE_S, ContainerRecord, ContainerRecords, end_processes
from daemons.starter.helpers import HelperSpawner
from daemons.starter.processes import Processes, Watched
from daemons.starter.spawn import output_flags
from daemons.starter.transfer import Held
from daemons.starter.tree import send, start_ticks
from pool.classad import ClassAd
from pool.containers.answers import (
    INSPECT_FORMAT,
    PORTS_FORMAT,
    Inspected,
    cannot_create,
    cannot_pull,
    cannot_start,
    host_ports,
    in_one_line,
    inspected,
    judged,
    runs_on,
    wrong_architecture,
)
from pool.containers.create import ContainerPlan, create_words, environment_lines, services, without_values
from pool.containers.engine import EngineError, is_true, knob
from pool.containers.image import LIST_FORMAT, OURS, TAGGED_FORMAT, own_name, real_name, stored_images, to_remove
from pool.execute.exit import Exited, Hold, cannot_open
from pool.execute.plan import NULL, Plan
from pool.execute.usage import Sample

ALIVE_S: Final = 10.0
"""How long an engine may take to say whether it is there."""
SHORT_S: Final = 30.0
"""How long it may take to send a signal or to remove a container."""
SETTLE_TRIES_MAX: Final = 20
SETTLE_PAUSE_S: Final = 0.25
FIRST_LOOK_S: Final = 0.1
LOOK_PAUSE_S: Final = 0.5
WORDS_BYTES: Final = 400


class Engine:
    """The engine's program, asked from within the starter's loop."""

    def __init__(self, program: Sequence[str], processes: Processes, log: Log) -> None:
        self.program = list(program)
        self._spawner = HelperSpawner(processes, own_account())
        self._log = log

    async def ask(self, *words: str, timeout_s: float = math.inf) -> Answer:
        """Have it do something; EngineError when it cannot be started or takes too long."""
        try:
            end = await run_program(
                self._spawner,
                [*self.program, *words],
                environment=engine.environment(),
                directory="/",
                timeout_s=timeout_s,
            )
        except ProgramError as error:
            raise EngineError(str(error)) from None
        if end.timed_out:
            raise EngineError(f"{self.program[-1]} {words[0]} did not answer within {timeout_s:g} s")
        if end.status:
            self._log.full("The engine refuses", command=words[0], said=in_one_line(end.stderr))
        return Answer(end.status, end.stdout, end.stderr)

    async def must_live(self, otherwise: str) -> None:
        """EngineError with this reason when the engine does not answer at all."""
        answer = await self.ask("version", timeout_s=ALIVE_S)
        if not answer.good:
            raise EngineError(f"{otherwise}: {in_one_line(answer.stderr)}")


class Container:
    """One job's container, which is a `Body` once it runs."""

    watched: Watched

    def __init__(
        self,
        engine: Engine,
        records: ContainerRecords,
        processes: Processes,
        group: Group,
        job: ClassAd,
        slot: ClassAd,
        knobs: Mapping[str, str],
        log: Log,
    ) -> None:
        self._engine, self._records, self._processes, self._group = engine, records, processes, group
        self._job, self._slot, self._knobs, self._log = job, slot, knobs, log
        self._record: ContainerRecord | None = None
        self._meter: container_usage.Meter | None = None
        self._orders: list[tuple[str, ...]] = []
        self._ordered = trio.Event()
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
        with _only_ours_to_read(environment_lines(plan.environment)) as path:
            await self._create(replace(plan, environment_file=path))

    async def _create(self, plan: ContainerPlan) -> None:
        words = create_words(plan, self._job, self._slot, self._knobs)
        self._as_job = ("--user", f"{plan.uid}:{plan.gid}", "--workdir", plan.directory)
        await self._have_image(plan.image)
        self._record = ContainerRecord(plan.name, self._engine.program, plan.starter_pid)
        self._records.write(self._record)
        fault("starter.container_creating")
        self._log.always("The container is made", command=without_values(words))
        answer = await self._engine.ask(*words, timeout_s=math.inf if "--pull" in words else ANSWER_S)
        self._record = replace(self._record, made=True)  # or refused: nothing more will come of it
        if not answer.good:
            await self._engine.must_live("the engine went away")
            raise Held(cannot_create(plan.image, answer.stderr))
        self._identity = answer.stdout.strip().rpartition("\n")[2]
        self._records.write(self._record)
        fault("starter.container_created")

    async def _have_image(self, image: str) -> None:
        """Pull the image unless this user has it here, and note that it is used."""
        own = self._own_name(image)
        answer = await self._engine.ask(
            "image", "inspect", "--format", "{{.Architecture}}", own or image, timeout_s=ANSWER_S
        )
        if not answer.good:
            await self._engine.must_live("the engine does not answer")
            answer = await self._pull(image)
        if not is_true(knob(self._knobs, "DOCKER_SKIP_IMAGE_ARCH_CHECK"), default=False) and not runs_on(
            answer.stdout, platform.machine()
        ):
            raise Held(wrong_architecture(image, answer.stdout.strip(), platform.machine()))
        if own:
            await self._engine.ask("tag", image, own, timeout_s=SHORT_S)

    def _own_name(self, image: str) -> str:
        """Under which name this user's image is kept; empty where everybody may use what is there."""
        if is_true(knob(self._knobs, "DOCKER_TRUST_LOCAL_IMAGES"), default=False):
            return ""
        return own_name(image, self._job.eval_str("User") or self._job.eval_str("Owner") or "unknown")

    async def _pull(self, image: str) -> Answer:
        await self._make_room()
        self._log.always("The image is pulled", image=image)
        pulled = await self._engine.ask("pull", "-q", image)
        if not pulled.good:
            await self._engine.must_live("the engine went away")
            raise Held(cannot_pull(image, pulled.stderr))
        return await self._engine.ask("image", "inspect", "--format", "{{.Architecture}}", image, timeout_s=ANSWER_S)

    async def _make_room(self) -> None:
        """Remove the images of ours that were not used for the longest, so that one more is not too many."""
        keep = knob(self._knobs, "DOCKER_IMAGE_CACHE_SIZE").strip()
        listed = await self._engine.ask("images", "--format", LIST_FORMAT, timeout_s=ANSWER_S)
        found = [image for image in stored_images(listed.stdout) if image.name.startswith(OURS)]
        if not listed.good or len({image.id for image in found}) < (int(keep) if keep.isdigit() else 8):
            return
        ids = sorted({image.id for image in found})
        times = await self._engine.ask("inspect", "--format", TAGGED_FORMAT, *ids, timeout_s=ANSWER_S)
        for image in to_remove(
            stored_images(listed.stdout, times.stdout if times.good else ""), int(keep) if keep.isdigit() else 8
        ):
            if (await self._engine.ask("rmi", image.name, timeout_s=SHORT_S)).good:
                await self._engine.ask("rmi", real_name(image.name), timeout_s=SHORT_S)
                self._log.always("An image has made room", image=real_name(image.name))

    # ---- its run

    def start(self, plan: Plan, account: Account) -> None:
        """Start it, with the job's files as its standard files; Held when one cannot be opened."""
        assert self._record is not None
        self._errors = plan.stderr, account
        reads = plan.stdin != NULL
        files = _open_files(plan, account)
        words = ["start", "--attach", *(["--interactive"] if reads else []), self._record.name]
        try:
            process = subprocess.Popen(
                [*self._engine.program, *words],
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                env=engine.environment(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"{self._engine.program[-1]} cannot be started: {error.strerror}") from None
        finally:
            for fd in set(files):
                os.close(fd)
        self.watched = self._processes.watch(process.pid)
        process.returncode = 0  # this process collects all its children itself

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
        self._meter = container_usage.Meter(state.pid, self._identity)
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
        self._orders.append(words)
        self._ordered.set()

    def sample(self) -> Sample:
        """By its processes and their control group."""
        return self._meter.sample() if self._meter is not None else Sample()

    def told(self) -> ClassAd:
        """What went over its network, and where its services are."""
        ad = self._ports.copy()
        if self._meter is not None:
            ad.update(self._meter.network())
        return ad

    async def attend(self) -> None:
        """Carry out orders, in order."""
        assert self._record is not None
        while True:
            while self._orders:
                words = self._orders.pop(0)
                try:
                    await self._engine.ask(*words, self._record.name, timeout_s=SHORT_S)
                except EngineError as error:
                    self._log.error("The container was not told", error, order=" ".join(words))
            self._ordered = trio.Event()
            await self._ordered.wait()

    # ---- its end

    async def end(self) -> None:
        """Kill it by the engine; where that does not work, by its first process."""
        assert self._record is not None
        self._orders.clear()
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
                    raise Held(cannot_start(self._last_words()))
                end = judged(state, self._slot.eval_int("Memory") or 0)
                assert isinstance(end, Exited)
                return end
            await trio.sleep(SETTLE_PAUSE_S)
        raise EngineError("the engine let go of the container, which still runs")

    def _raise_unless_exited(self, state: Inspected) -> None:
        end = judged(state, self._slot.eval_int("Memory") or 0)
        if isinstance(end, Hold):
            raise Held(end)

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


@contextmanager
def _only_ours_to_read(text: str) -> Iterator[str]:
    """A file without a name, which the engine's program finds among this process's."""
    with open(os.memfd_create("environment", os.MFD_CLOEXEC), "wb") as file:
        file.write(text.encode(errors="surrogateescape"))
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def _open_files(plan: Plan, account: Account) -> tuple[int, int, int]:
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
                    raise Held(cannot_open(stream, path, error.errno or 5)) from None
                os.set_blocking(fd, True)
                opened.append(fd)
    except BaseException:
        for fd in set(opened):
            os.close(fd)
        raise
    return opened[0], opened[1], opened[2]
