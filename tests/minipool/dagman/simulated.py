"""condor_dagman whole, in a world that is simulated: its schedd, the clock, the scripts and the jobs of nodes.

Each condor_dagman is a process of its own, forked from the test's, and ends with SIGKILL where it is to be killed. What
would last lasts from one to the next: the queue and the history, which it hands over before, and files in a real
directory. The schedd is simulated in the same process: what kills it makes it forget what was on its way. It keeps
what the real one promises (tests/whole has those of it): what has been told is durable, and a job that is told to have
left has its events in the log.

Each place where something is sent, answered, told, begun or written is a step, which has a name: what it is, of which
node, and after how many runs of the node's jobs. At any of them condor_dagman can be killed, the schedd, and both.
"""

from __future__ import annotations

import heapq
import math
import os
import pickle
import signal
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, NoReturn

import pytest
import trio
from trio.testing import MockClock

from minipool.dagman import files, lock, main, manager, nodes_log, submitter
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
from tests.minipool.dagman.steps import StepsAtCalls

OWN: Final = JobId(1, 0)
HOST: Final = "<127.0.0.1:9618>"
DAGMAN, SCHEDD, BOTH = "dagman", "schedd", "both"


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


LASTING: Final = (
    *("ran", "scripts", "chooses", "steps", "deaths", "killed", "now", "queue", "history", "own", "room_s", "epoch"),
    *("due", "numbers", "sent", "left_behind"),
)


def never(_: str) -> str:
    """Nothing is killed."""
    return ""


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
    chooses: Callable[[str], str] = never
    """Asked at each step, by its name, what is killed there; it lasts as well."""
    steps: list[str] = field(default_factory=list)
    """Those before something was killed first."""
    deaths: int = 0
    killed: int = 0
    """Deaths of condor_dagman."""
    now: float = 0.0
    queue: dict[JobId, ClassAd] = field(default_factory=dict)
    history: list[ClassAd] = field(default_factory=list)
    own: ClassAd = field(default_factory=lambda: ClassAd({"ClusterId": 1, "ProcId": 0, "QDate": int(time.time())}))
    room_s: list[float] = field(default_factory=list)
    """How long each submission waits for room on the connection, the next one last."""
    epoch: int = 0
    """Another one when the schedd has been killed."""
    due: list[tuple[float, int, str, tuple[Any, ...]]] = field(default_factory=list)
    """What happens when: the time, a number that keeps the order, and the name of the method with its arguments."""
    numbers: int = 1
    """The last number given to a cluster, or to what is due."""
    sent: list[Plan] = field(default_factory=list)
    left_behind: list[Plan] = field(default_factory=list)
    """What dead condor_dagmans had sent, and the schedd has not queued yet."""

    def __post_init__(self) -> None:
        self._watchers: list[trio.MemorySendChannel[JobsChanged | None]] = []
        self._wake = trio.Event()
        self._heir = -1

    # ---- steps

    def step(self, name: str) -> None:
        """Something has just been done, or is about to be."""
        if not self.deaths:
            self.steps.append(name)
        what = self.chooses(name)
        self.deaths += bool(what)
        if what in (SCHEDD, BOTH):
            self._kill_schedd()
        if what in (DAGMAN, BOTH):
            self.killed += 1
            self._bequeath(None)
            os.kill(os.getpid(), signal.SIGKILL)

    def _kill_schedd(self) -> None:
        self.epoch += 1
        for watcher in self._watchers:
            watcher.send_nowait(None)
        self._watchers.clear()
        self.sent.clear()
        self.left_behind.clear()

    def _bequeath(self, code: int | str | None) -> None:
        """Give what lasts to the test's process: with the exit code, or with what went wrong in the simulation."""
        with os.fdopen(self._heir, "wb") as heir:
            pickle.dump((code, {name: getattr(self, name) for name in LASTING}), heir)

    # ---- time

    def later(self, seconds: float, action: Callable[..., None], *args: Any) -> None:
        """This method of mine is called then."""
        heapq.heappush(self.due, (self.now + seconds, self._number(), action.__name__, args))
        self._wake.set()

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def pass_time(self, seconds: float) -> None:
        """Nobody is there to see what happens."""
        self._until(self.now + seconds)

    def _until(self, end: float) -> None:
        while self.due and self.due[0][0] <= end:
            self.now, _, name, args = heapq.heappop(self.due)
            getattr(self, name)(*args)
        self.now = max(self.now, end) if end < math.inf else self.now

    async def go_on(self) -> None:
        """Let things happen in their time, while a condor_dagman runs."""
        start = trio.current_time() - self.now
        due = 0.0
        while True:
            self._until(max(due, trio.current_time() - start))
            self._wake, due = trio.Event(), self.due[0][0] if self.due else math.inf
            with trio.move_on_at(start + due):
                await self._wake.wait()
                due = 0.0

    # ---- the schedd's jobs

    def commit(self, plan: Plan) -> Done:
        """The jobs are queued."""
        cluster = self._number()
        for proc in range(plan.count):
            id = JobId(cluster, proc)
            ad = ClassAd({"ClusterId": cluster, "ProcId": proc, "DAGNodeName": plan.node, "DAGManJobId": 1})
            ad["JobStatus"], ad["NumJobStarts"], ad["TotalSubmitProcs"] = int(JobStatus.IDLE), 0, plan.count
            self.queue[id] = ad
            self._log(event_text(Submitted(HOST, attributes=submit_notes(ad)), id, self.now))
            self._tell(id, ad)
            self.later(0.01 + 0.003 * proc, self._start, id)
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
        self.later(0.02, self._end, id, code)

    def run_of(self, node: str) -> str:
        """The node, and the run of its jobs, as names of steps have it."""
        return f"{node}, which has run {self.attempts(node)} times"

    def _said(self, changed: JobsChanged) -> str:
        return "; ".join(
            f"{self.run_of(delta.ad.eval_str('DAGNodeName') or '')}: {delta.ad.eval_int('JobStatus')}, left {delta.left}"
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
        self.later(0.004, self._tell, id, ad, True)

    def _log(self, text: str) -> None:
        self.later(0.004, self._append, text)

    def _append(self, text: str) -> None:
        with open(self.home / "x.dag.nodes.log", "a") as log:
            log.write(text)

    def _tell(self, id: JobId, ad: ClassAd, left: bool = False) -> None:
        for watcher in self._watchers:
            watcher.send_nowait(JobsChanged(deltas=[JobDelta(job_id=id, ad=ad.copy(), left=left)]))

    # ---- what is asked of the schedd

    async def submit(self, plan: Plan, left: Callable[[], None]) -> Done:
        name = f"submit {self.run_of(plan.node)}"
        self.step(f"{name}: not sent")
        epoch = self.epoch
        await trio.sleep(self.room_s.pop() if self.room_s else 0)
        self.sent.append(plan)
        left()
        self.step(f"{name}: sent")
        await trio.sleep(0.002)
        if epoch != self.epoch:
            raise ConnectionLost("the schedd is gone")
        self.sent.remove(plan)
        done = self.commit(plan)
        self.step(f"{name}: queued")
        await trio.sleep(0.002)
        if epoch != self.epoch:
            raise ConnectionLost("the schedd is gone")
        self.step(f"{name}: answered")
        return done

    async def watch(self, constraint: str, projection: Sequence[str]) -> AsyncIterator[JobsChanged | None]:
        while True:
            yield None
            send, receive = trio.open_memory_channel[JobsChanged | None](math.inf)
            self._watchers.append(send)
            await trio.sleep(0.003)
            self.step("all is told: not yet")
            deltas = [JobDelta(job_id=id, ad=ad.copy()) for id, ad in self.queue.items()]
            yield JobsChanged(deltas=deltas, synced=True)
            while (changed := await receive.receive()) is not None:
                self.step(f"told {self._said(changed)}")
                yield changed
            await trio.sleep(0.1)

    async def history_of(self, *, ids: Sequence[JobId] = (), constraint: str | None = None) -> list[ClassAd]:
        self.step("the history is asked")
        await trio.sleep(0.002)
        self.step("the history has answered")
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
        self.step("edit: not sent")
        await trio.sleep(0.002)
        # Commits keep their order: whatever was sent before has been committed before.
        left, self.left_behind = self.left_behind, []
        for plan in left:
            self.commit(plan)
        for name, value in attributes.items():
            self.own[name] = expr(value).eval(ClassAd()) if isinstance(value, str) else value
        self.step("edit: done")

    async def remove(self, constraint: str, reason: str) -> None:
        self.step("remove: not sent")
        wanted = expr(constraint)
        for id, ad in [(id, ad) for id, ad in self.queue.items() if is_true(wanted.eval(ad))]:
            del self.queue[id]
            ad["JobStatus"] = int(JobStatus.REMOVED)
            self.history.append(ad)
            self._tell(id, ad, True)
        self.step("remove: done")

    # ---- scripts

    async def run_script(self, script: Script, command: tuple[str, ...], directory: str, node: str) -> tuple[int, str]:
        key = f"{script.kind} {node}"
        name = f"{script.kind} {self.run_of(node)}"
        self.step(f"{name}: not begun")
        self.scripts[key] += 1
        # As good as the run of the jobs that it follows, however often it is asked.
        code = int(self.attempts(node) <= self.script_failures.get(key, -1))
        self.step(f"{name}: begun")
        await trio.sleep(0.005)
        self.step(f"{name}: ended")
        return code, ""

    # ---- a condor_dagman

    def run(self, config: Config, *words: str, away_s: float = 0.0, most: int = 20_000) -> int:
        """Run the graph, and again whenever condor_dagman was killed; what it returns at last."""
        for _ in range(most):
            if (code := self._life(config, words)) is not None:
                return code
            self.left_behind += self.sent
            self.sent.clear()
            self.pass_time(away_s)
        raise AssertionError(f"the graph does not end: {self.scripts}, {self.ran}")

    def _life(self, config: Config, words: Sequence[str]) -> int | None:
        """A condor_dagman; None: it was killed."""
        NodesLog(str(self.home / "x.dag.nodes.log")).events()
        mine, self._heir = os.pipe()
        process = os.fork()
        if not process:
            self._be_condor_dagman(config, words)
        os.close(self._heir)
        with os.fdopen(mine, "rb") as file:
            code, lasting = pickle.load(file)
        _, status = os.waitpid(process, 0)
        assert not isinstance(code, str), code
        assert (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL) == (code is None)
        vars(self).update(lasting)
        return code

    def _be_condor_dagman(self, config: Config, words: Sequence[str]) -> NoReturn:
        code: int | str
        try:
            code = trio.run(self._process, config, words, clock=MockClock(autojump_threshold=0))
        except BaseException:
            code = traceback.format_exc()
        self._bequeath(code)
        os._exit(0)

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
            self.step("not ended yet")
            nursery.cancel_scope.cancel()
        return code


@contextmanager
def in_world(world: World, dag: str, patch: pytest.MonkeyPatch) -> Iterator[World]:
    """A directory with the graph, in which condor_dagman has this world and no other."""
    (world.home / "x.dag").write_text(dag)

    class Descriptions:
        def __init__(self, _session: Any) -> None:
            pass

        def plan(self, node: Node, _submit: str, _directory: str, _lines: Lines) -> Plan:
            return Plan(node.name, world.jobs_of.get(node.name, 1))

    async def no_second(_manager: Any) -> None:
        await trio.sleep_forever()

    with patch.context() as patched:
        patched.chdir(world.home)
        patched.setenv("CONDOR_ID", str(OWN))
        patched.setattr(submitter, "Descriptions", Descriptions)
        patched.setattr(manager, "run_script", world.run_script)
        patched.setattr(manager.Manager, "_each_second", no_second)  # a thread would not know this clock
        patched.setattr(NodesLog, "events", _read_once())
        calls = StepsAtCalls(world)
        for module in (files, lock, nodes_log):
            patched.setattr(module, "os", calls)
            patched.setattr(module, "open", calls.open_text, raising=False)
        yield world


def _read_once() -> Callable[[NodesLog], Sequence[LoggedEvent]]:
    """The events of a log that grows, each parsed once before the process that wants it is forked."""
    known, reader = "", EventReader()
    events: list[LoggedEvent] = []

    def read(log: NodesLog) -> Sequence[LoggedEvent]:
        nonlocal known, events, reader
        text = Path(log.path).read_text() if os.path.exists(log.path) else ""
        if not text.startswith(known):  # it was truncated
            known, events, reader = "", [], EventReader()
        events += reader.feed(text[len(known) :])
        known = text
        return events

    return read
