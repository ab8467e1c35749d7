"""condor_dagman whole, in a world that is simulated: its schedd, the clock, the scripts and the jobs of nodes.

What would last lasts from one condor_dagman to the next: the queue, the history, and files in a real directory. Each
place where something is sent, written or begun is a point, and the process can be killed at any of them, the schedd
too. The schedd here keeps what the real one promises (tests/whole has those of it): what has been told is durable, and
a job that is told to have left has its events in the log.
"""

from __future__ import annotations

import heapq
import math
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest
import trio
from trio.testing import MockClock

from minipool.dagman import files, lock, main, manager, submitter
from minipool.dagman.arguments import parse
from minipool.dagman.dagman_out import DagmanOut
from minipool.dagman.nodes_log import NodesLog
from minipool.dagman.submitting import Lines
from pool.base.ids import JobId
from pool.classad import ClassAd, expr
from pool.classad.values.truth import is_true
from pool.config import Config
from pool.dag.model import Node, Script
from pool.jobs.userlog.event import event_text
from pool.jobs.userlog.event_log import Executing, Exit, Submitted, Terminated, submit_notes
from pool.jobs.userlog.reader import EventReader, LoggedEvent
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.schedd import JobDelta, JobsChanged
from protocol.rpc.remote import ConnectionLost

OWN: Final = JobId(1, 0)
HOST: Final = "<127.0.0.1:9618>"
DAGMAN, SCHEDD, BOTH = "dagman", "schedd", "both"


class Killed(BaseException):
    """What the process does from here on does not happen."""


@dataclass(frozen=True)
class Plan:
    """What the simulated schedd needs to know of a submission."""

    node: str
    count: int = 1
    late: bool = False
    warnings: tuple[str, ...] = ()


class Done(NamedTuple):
    """The answer to a submission."""

    cluster: int
    jobs: int


class Quiet(DagmanOut):
    """A log of errors alone."""

    def __init__(self) -> None:
        super().__init__("x.dag.dagman.out", level=0)

    def close(self) -> None:
        """The process ends."""
        self._file.close()


@dataclass
class World:
    """All that outlives a condor_dagman."""

    home: Path
    failures: Mapping[str, int] = field(default_factory=dict)
    """How many runs of each node's job fail, before one does not."""
    script_failures: Mapping[str, int] = field(default_factory=dict)
    """`PRE A` and the like: after how many runs of the node's jobs it fails yet."""
    jobs_of: Mapping[str, int] = field(default_factory=dict)
    """How many jobs the nodes have that have more than one."""
    ran: Counter[str] = field(default_factory=Counter)
    scripts: Counter[str] = field(default_factory=Counter)
    points: list[str] = field(default_factory=list)
    kills: dict[int, str] = field(default_factory=dict)
    """What is killed at the points of these numbers."""
    lives: Iterator[tuple[int, str]] = field(default_factory=lambda: iter(()))
    """After how many points from the begin of each condor_dagman what is killed."""
    chooses: Callable[[str], str] = lambda _: ""
    """What is killed at the point of this name."""
    killed: int = 0
    now: float = 0.0
    queue: dict[JobId, ClassAd] = field(default_factory=dict)
    history: list[ClassAd] = field(default_factory=list)
    own: ClassAd = field(default_factory=lambda: ClassAd({"ClusterId": 1, "ProcId": 0, "QDate": int(time.time())}))
    room_s: list[float] = field(default_factory=list)
    """How long each submission waits for room on the connection, the next one last."""
    locks: list[int] = field(default_factory=list)
    """Descriptors of lock files, which a process that ends lets go of."""
    epoch: int = 0
    """Another one when the schedd has been killed."""
    dead: bool = False
    passed: int = 0
    """Points that the present condor_dagman has passed."""

    def __post_init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._clusters = count(2)
        self._watchers: list[trio.MemorySendChannel[JobsChanged | None]] = []
        self._sent: list[Plan] = []
        self._left_behind: list[Plan] = []
        self._wake = trio.Event()
        self._end_of_life = (0, "")

    # ---- points

    def point(self, name: str) -> None:
        """Something has just been done, or is about to be."""
        if self.dead:
            raise Killed
        number = len(self.points)
        self.points.append(name)
        self.passed += 1
        at_end = self._end_of_life[1] if self.passed == self._end_of_life[0] else ""
        what = self.kills.get(number) or at_end or self.chooses(name)
        if what in (SCHEDD, BOTH):
            self._kill_schedd()
            points, then = next(self.lives, (0, ""))
            self._end_of_life = (self.passed + points, then)
        if what in (DAGMAN, BOTH):
            self.killed += 1
            self.dead = True
            raise Killed

    def _kill_schedd(self) -> None:
        self.epoch += 1
        for watcher in self._watchers:
            watcher.send_nowait(None)
        self._watchers.clear()
        self._sent.clear()
        self._left_behind.clear()

    # ---- time

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """This happens then."""
        heapq.heappush(self._due, (self.now + seconds, next(self._order), action))
        self._wake.set()

    def pass_time(self, seconds: float) -> None:
        """Nobody is there to see what happens."""
        self._until(self.now + seconds)

    def _until(self, end: float) -> None:
        while self._due and self._due[0][0] <= end:
            self.now, _, action = heapq.heappop(self._due)
            action()
        self.now = max(self.now, end) if end < math.inf else self.now

    async def go_on(self) -> None:
        """Let things happen in their time, while a condor_dagman runs."""
        start = trio.current_time() - self.now
        due = 0.0
        while True:
            self._until(max(due, trio.current_time() - start))
            self._wake, due = trio.Event(), self._due[0][0] if self._due else math.inf
            with trio.move_on_at(start + due):
                await self._wake.wait()
                due = 0.0

    # ---- the schedd's jobs

    def commit(self, plan: Plan) -> Done:
        """The jobs are queued."""
        cluster = next(self._clusters)
        for proc in range(plan.count):
            id = JobId(cluster, proc)
            ad = ClassAd({"ClusterId": cluster, "ProcId": proc, "DAGNodeName": plan.node, "DAGManJobId": 1})
            ad["JobStatus"], ad["NumJobStarts"], ad["TotalSubmitProcs"] = int(JobStatus.IDLE), 0, plan.count
            self.queue[id] = ad
            self._log(event_text(Submitted(HOST, attributes=submit_notes(ad)), id, self.now))
            self._tell(id, ad)
            self.later(0.01 + 0.003 * proc, lambda id=id: self._start(id))
        return Done(cluster, plan.count)

    def _start(self, id: JobId) -> None:
        if (ad := self.queue.get(id)) is None:
            return
        ad["JobStatus"], ad["NumJobStarts"] = int(JobStatus.RUNNING), 1
        name = ad.eval_str("DAGNodeName") or ""
        self.ran[name] += 1
        code = int(self.attempts(name) <= self.failures.get(name, 0))
        self._log(event_text(Executing(HOST), id, self.now))
        self._tell(id, ad)
        self.later(0.02, lambda: self._end(id, code))

    def _run_of(self, node: str) -> str:
        return f"{node}, which has run {self.attempts(node)} times"

    def _said(self, changed: JobsChanged) -> str:
        return "; ".join(
            f"{self._run_of(delta.ad.eval_str('DAGNodeName') or '')}: {delta.ad.eval_int('JobStatus')}, left {delta.left}"
            for delta in changed.deltas
        )

    def attempts(self, node: str) -> int:
        """How often the node's jobs have run."""
        return -(-self.ran[node] // self.jobs_of.get(node, 1))

    def _end(self, id: JobId, code: int) -> None:
        ad = self.queue.pop(id, None)
        if ad is None:
            return
        ad["JobStatus"], ad["ExitCode"], ad["ExitBySignal"] = int(JobStatus.COMPLETED), code, False
        self.history.append(ad)
        self._log(event_text(Terminated(Exit(code=code)), id, self.now))
        # Who hears that a job has left finds its end in the log.
        self.later(0.004, lambda: self._tell(id, ad, left=True))

    def _log(self, text: str) -> None:
        self.later(0.004, lambda: self._append(text))

    def _append(self, text: str) -> None:
        with open(self.home / "x.dag.nodes.log", "a") as log:
            log.write(text)

    def _tell(self, id: JobId, ad: ClassAd, *, left: bool = False) -> None:
        for watcher in self._watchers:
            watcher.send_nowait(JobsChanged(deltas=[JobDelta(job_id=id, ad=ad.copy(), left=left)]))

    # ---- what is asked of the schedd

    async def submit(self, plan: Plan, left: Callable[[], None]) -> Done:
        name = f"submit {self._run_of(plan.node)}"
        self.point(f"{name}: not sent")
        epoch = self.epoch
        await trio.sleep(self.room_s.pop() if self.room_s else 0)
        self._sent.append(plan)
        left()
        self.point(f"{name}: sent")
        await trio.sleep(0.002)
        if epoch != self.epoch:
            raise ConnectionLost("the schedd is gone")
        self._sent.remove(plan)
        done = self.commit(plan)
        self.point(f"{name}: queued")
        await trio.sleep(0.002)
        if epoch != self.epoch:
            raise ConnectionLost("the schedd is gone")
        self.point(f"{name}: answered")
        return done

    async def watch(self, constraint: str, projection: Sequence[str]) -> AsyncIterator[JobsChanged | None]:
        while True:
            yield None
            send, receive = trio.open_memory_channel[JobsChanged | None](math.inf)
            self._watchers.append(send)
            await trio.sleep(0.003)
            deltas = [JobDelta(job_id=id, ad=ad.copy()) for id, ad in self.queue.items()]
            yield JobsChanged(deltas=deltas, synced=True)
            while (changed := await receive.receive()) is not None:
                self.point(f"told {self._said(changed)}")
                yield changed
            await trio.sleep(0.1)

    async def history_of(self, *, ids: Sequence[JobId] = (), constraint: str | None = None) -> list[ClassAd]:
        await trio.sleep(0.002)
        if ids:
            return [ad for ad in self.history if JobId(ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0)) in ids]
        wanted = expr(constraint or "true")
        return [ad for ad in self.history if is_true(wanted.eval(ad))]

    async def factories(self, constraint: str) -> list[ClassAd]:
        await trio.sleep(0.001)
        return []

    async def job(self, id: JobId) -> ClassAd | None:
        return self.own.copy()

    async def edit(self, id: JobId, attributes: Mapping[str, object]) -> None:
        self.point("edit: not sent")
        await trio.sleep(0.002)
        # Commits keep their order: whatever was sent before has been committed before.
        left, self._left_behind = self._left_behind, []
        for plan in left:
            self.commit(plan)
        for name, value in attributes.items():
            self.own[name] = expr(value).eval(ClassAd()) if isinstance(value, str) else value
        self.point("edit: done")

    async def remove(self, constraint: str, reason: str) -> None:
        self.point("remove: not sent")
        wanted = expr(constraint)
        for id, ad in [(id, ad) for id, ad in self.queue.items() if is_true(wanted.eval(ad))]:
            del self.queue[id]
            ad["JobStatus"] = int(JobStatus.REMOVED)
            self.history.append(ad)
            self._tell(id, ad, left=True)
        self.point("remove: done")

    # ---- scripts

    async def run_script(self, script: Script, command: tuple[str, ...], directory: str, node: str) -> tuple[int, str]:
        key = f"{script.kind} {node}"
        name = f"{script.kind} {self._run_of(node)}"
        self.point(f"{name}: not begun")
        self.scripts[key] += 1
        # As good as the run of the jobs that it follows, however often it is asked.
        code = int(self.attempts(node) <= self.script_failures.get(key, -1))
        self.point(f"{name}: begun")
        await trio.sleep(0.005)
        self.point(f"{name}: ended")
        return code, ""

    # ---- a condor_dagman

    def run(self, config: Config, *words: str, away_s: float = 0.0, most: int = 5000) -> int:
        """Run the graph, and again whenever condor_dagman was killed; what it returns at last."""
        for _ in range(most):
            self.dead, self.passed = False, 0
            self._end_of_life = next(self.lives, (0, ""))
            try:
                code = trio.run(self._process, config, words, clock=MockClock(autojump_threshold=0))
            except BaseException as error:
                self._let_go_of_lock()
                if not self.dead or not _is_death(error):
                    raise
                os.chdir(self.home)
                self._watchers.clear()
                self._left_behind += self._sent
                self._sent.clear()
                self.pass_time(away_s)
                continue
            self._let_go_of_lock()
            return code
        raise AssertionError(f"the graph does not end: {self.points[-20:]}")

    def _let_go_of_lock(self) -> None:
        for descriptor in self.locks:
            os.close(descriptor)
        self.locks.clear()

    async def _process(self, config: Config, words: Sequence[str]) -> int:
        options = parse(
            [*["-p", "0", "-f", "-l", ".", "-Lockfile", "x.dag.lock", "-AutoRescue", "1", "-Dag", "x.dag"], *words]
        )
        session: Any = SimpleNamespace(config=config, user=lambda: "ann")
        schedd: Any = SimpleNamespace(
            submit=self.submit, watch=self.watch, history=self.history_of, factories=self.factories, job=self.job,
            edit=self.edit, remove=self.remove,
        )  # fmt: skip
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.go_on)
            with closing(Quiet()) as out:
                code = await main._with_schedd(options, out, session, schedd)
            self.point("not ended yet")
            nursery.cancel_scope.cancel()
        return code


def _is_death(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_death(one) for one in error.exceptions)
    return isinstance(error, Killed | trio.Cancelled)


@contextmanager
def in_world(world: World, dag: str, patch: pytest.MonkeyPatch) -> Iterator[World]:
    """A directory with the graph, in which condor_dagman has this world and no other."""
    (world.home / "x.dag").write_text(dag)

    def plan_of(_session: Any, node: Node, _submit: str, _directory: str, _lines: Lines) -> Plan:
        return Plan(node.name, world.jobs_of.get(node.name, 1))

    async def no_second(_manager: Any) -> None:
        await trio.sleep_forever()

    with patch.context() as patched:
        patched.chdir(world.home)
        patched.setenv("CONDOR_ID", str(OWN))
        patched.setattr(submitter, "plan_of", plan_of)
        patched.setattr(manager, "run_script", world.run_script)
        patched.setattr(manager.Manager, "_each_second", no_second)  # a thread would not know this clock
        patched.setattr(NodesLog, "events", _read_once())
        for owner, name in (
            (NodesLog, "_append"),
            (NodesLog, "truncate"),
            (lock.Lock, "take"),
            (lock.Lock, "begun"),
            (lock.Lock, "remove"),
        ):
            patched.setattr(owner, name, _between_points(world, f"{owner.__name__}.{name}", getattr(owner, name)))
        patched.setattr(files, "os", _PointsAtReplace(world))
        yield world


def _between_points(world: World, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        world.point(f"{name}: not begun")
        done = function(*args)
        if name == "Lock.take":
            world.locks.append(args[0]._file)
        world.point(f"{name}: done")
        return done

    return call


def _read_once() -> Callable[[NodesLog], Iterator[LoggedEvent]]:
    """The events of a log that grows, each parsed in the first recovery that meets it, and handed to the others."""
    known, reader = "", EventReader()
    events: list[LoggedEvent] = []

    def read(log: NodesLog) -> Iterator[LoggedEvent]:
        nonlocal known, events, reader
        text = Path(log.path).read_text() if os.path.exists(log.path) else ""
        if not text.startswith(known):  # it was truncated
            known, events, reader = "", [], EventReader()
        events += reader.feed(text[len(known) :])
        known = text
        yield from events

    return read


class _PointsAtReplace:
    """The os module, for those who write files beside their places first."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def replace(self, source: str, target: str) -> None:
        self._world.point(f"{target}: not in its place")
        os.replace(source, target)
        self._world.point(f"{target}: in its place")
