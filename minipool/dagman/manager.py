"""The loop of condor_dagman: what has happened goes to the course, and what the course wants done is done.

* One task alone steps the course; all others put what has happened into one queue, with the log's lines about it.
* What the course wants done is done beside the loop, which never waits for the schedd or for a script.
* The run ends when the course says so, or with a signal; then nothing more is begun, and what is on its way is awaited.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import trio

from minipool.client.session import Session
from minipool.dagman.arguments import Options
from minipool.dagman.configured import Paths
from minipool.dagman.dagman_out import DagmanOut, now_text
from minipool.dagman.files import Files
from minipool.dagman.lock import Lock
from minipool.dagman.nodes_log import NodesLog
from minipool.dagman.own_job import OwnJob
from minipool.dagman.recovering import recover
from minipool.dagman.schedd import Schedd
from minipool.dagman.scripts import run_script
from minipool.dagman.submitter import Submitter
from minipool.dagman.submitting import PARENTS_CHARS_MAX, Around
from minipool.dagman.watching import PROJECTION, NodeJobs, Told
from pool.base.ids import JobId
from pool.classad import ClassAd, quote
from pool.config import Config
from pool.dag.course import happenings as it
from pool.dag.course.course import Course, S
from pool.dag.course.states import Counts, ExitCode
from pool.dag.course.step import step
from pool.dag.model import ScriptKind
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.schedd import JobsChanged

LOOK_S: Final = 1.0
"""How often the halt file is looked for."""
HOLD_S: Final = 0.01
"""How long what has happened is taken at once: the schedd, scripts and signals are heard between."""
TABLE_S: Final = 1.0
"""The log has the table of nodes when it changes, but not more often."""


class Manager:
    """One run of a graph."""

    def __init__(
        self, session: Session, options: Options, course: Course, paths: Paths, around: Around, own: OwnJob,
        files: Files, out: DagmanOut,
    ) -> None:  # fmt: skip
        self.session, self.options, self.course, self.paths = session, options, course, paths
        self.around, self.own, self.files, self.out = around, own, files, out
        self.config: Config = session.config
        self.directory = os.getcwd()
        self.nodes_log = NodesLog(paths.nodes_log)
        self.jobs = NodeJobs()
        self.schedd: Schedd = own.schedd
        self.submitter = Submitter(self)
        self.generation = 0
        self.mine = (
            f"DAGManJobId == {around.dag_id}" if around.dag_id > 0 else f"DAGManNodesLog == {quote(paths.nodes_log)}"
        )
        self._told_all = trio.Event()
        self._happened: deque[tuple[it.Event, tuple[str, ...]]] = deque()
        self._came = trio.Event()
        self._scripts: dict[tuple[int, str], trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        self._shown: Counts | None = None
        self._shown_at = 0.0
        self._parents: dict[int, list[int]] | None = None
        self._code: int | None = None
        self._last_event = trio.current_time()
        self._removing: tuple[str, str] | None = None

    # ---- what parts say

    def happened(self, event: it.Event, *lines: str) -> None:
        """The course shall know, and the log have these lines before what it makes of that."""
        self._happened.append((event, lines))
        self._came.set()

    def say(self, *lines: str) -> None:
        """Lines for the log."""
        self.out.say(*lines)

    def event_line(self, name: str, node: int, job: str, more: str = "") -> str:
        """An event of a job, as programs look for it in the log."""
        when = now_text(time.time())
        return f"Event: {name} for HTCondor Node {self.course.node(node).name} {job} {{{when}}} {more}".rstrip()

    def parents(self, node: int) -> str:
        """The names of those that the node waits for."""
        # Made when it is first asked for: a graph without jobs to submit needs none.
        if self._parents is None:
            self._parents = {}
            for edges in (self.course.dag.children, self.course.dag.weak):
                for of, children in enumerate(edges):
                    for child in children:
                        self._parents.setdefault(child, []).append(of)
        text = ""
        for of in self._parents.get(node, ()):
            if len(text) >= PARENTS_CHARS_MAX:
                break
            text += ("," if text else "") + self.course.node(of).name
        return text

    def queued(self, node: int, cluster: int, jobs: int, is_factory: bool) -> None:
        """The node's jobs are in the queue."""
        line = self.event_line("ULOG_SUBMIT", node, f"({cluster}.0.0)")
        self.happened(it.Submitted(node, cluster, jobs, is_factory), line)
        known = {} if is_factory else dict.fromkeys(range(jobs), int(JobStatus.IDLE))
        self._tell(self.jobs.belongs(cluster, node, known))

    def ended(self, ads: Iterable[ClassAd]) -> None:
        """These jobs have left, says the history."""
        for ad in ads:
            self._tell(self.jobs.left(JobId(ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0)), ad))

    # ---- the run

    async def run(self, lock: Lock, *, recovery: bool) -> int:
        """Run the graph to its end; the exit code."""
        async with trio.open_nursery() as self._nursery:
            await self._begin(lock, recovery)
            self._nursery.start_soon(self._hear_signals)
            self._nursery.start_soon(self.submitter.run)
            self._nursery.start_soon(self._each_second)
            self._nursery.start_soon(self._report_pending)
            self._nursery.start_soon(self._report_jobs)
            self._nursery.start_soon(self.own.keep, self)
            self._nursery.start_soon(self.files.status.keep, self.course)
            self._nursery.start_soon(self.files.keep_drawing, self.course)
            while self._code is None:
                await self._turn()
            await self._leave(self._code)
            self._nursery.cancel_scope.cancel()
        return self._code

    async def _begin(self, lock: Lock, recovery: bool) -> None:
        assert self._nursery is not None
        # The log is read after the schedd has told all: whatever the log has then, the watch has not missed.
        if recovery:
            self._nursery.start_soon(self._watch)
            await recover(self)
        else:
            self.say(f"MultiLogFiles: truncating log file {self.nodes_log.path}")
            self.nodes_log.truncate()
            lock.begun(self.files.last_rescue())
            self._nursery.start_soon(self._watch)
        await self._step(it.Begin())
        self._table()
        await self.own.update(self.course)

    async def _turn(self) -> None:
        """Take what has happened, while the loop may be held; when nothing more has, show and keep what is so now."""
        if not self._happened:
            self._show()
            with self.own.statistics.sleep.timed():
                self._came = trio.Event()
                await self._came.wait()
        until = time.perf_counter() + HOLD_S
        # The log is written before anything of this is done that waits, and so before others can see it.
        with self.out.in_one_piece():
            while self._happened and self._code is None and time.perf_counter() < until:
                await self._take_one(*self._happened.popleft())
        self._last_event = trio.current_time()
        await trio.lowlevel.checkpoint()

    async def _take_one(self, event: it.Event, lines: tuple[str, ...]) -> None:
        if lines:
            self.say(*lines)
        since = time.monotonic()
        await self._step(event)
        self.own.statistics.event.add(time.monotonic() - since)
        if lines:
            self.out.say(f"Number of idle job procs: {self.course.idle_jobs}", level=3)

    async def _step(self, event: it.Event) -> None:
        for effect in step(self.course, event):
            # Nothing else steps the course: it stands still until the file is written, and so does what comes after.
            if isinstance(effect, it.WriteSave):
                self.say(
                    f"Writing Save File to {await self._written(self.files.writing_save(self.course, effect.node))}..."
                )
            elif isinstance(effect, it.WriteRescue):
                self.say(f"Writing Rescue DAG to {await self._written(self.files.writing_rescue(self.course))}...")
            else:
                self._do(effect)

    async def _written(self, pieces: Iterator[str]) -> str:
        """The file's name, once it is written; the rest of the process waits for none of its pieces long."""
        path = ""
        for path in pieces:  # noqa: B007 - the last one counts
            await trio.lowlevel.checkpoint()
        return path

    def replay(self, event: it.Event) -> None:
        """What happened before this process began."""
        for effect in step(self.course, event):
            if isinstance(effect, it.Say):
                self.say(effect.text)

    def _do(self, effect: it.Effect) -> None:
        """Do what the course wants."""
        assert self._nursery is not None
        match effect:
            case it.Say(text):
                self.say(text)
            case it.Submit():
                self.submitter.add(effect)
            case it.RunScript(node, kind, command):
                self._nursery.start_soon(self._run_script, node, kind, command)
            case it.DeferScript(node, kind, seconds):
                self._nursery.start_soon(self._later, seconds, it.ScriptDue(node, kind))
            case it.Pause(seconds):
                self._nursery.start_soon(self._later, seconds, it.PauseOver())
            case it.KillScripts():
                self._kill_scripts()
            case it.RemoveCluster(_, cluster, reason):
                self._nursery.start_soon(self.schedd.remove, f"{self.mine} && ClusterId == {cluster}", reason)
            case it.RemoveAll(reason, spare):  # a FINAL node comes
                self._remove_all(reason, spare)
            case it.LogSkipped(node):
                self.nodes_log.skipped(self.course.node(node).name)
                self.say(self.event_line("ULOG_PRESKIP", node, "(-1.-1.-1)"))
            case it.LogPost(node, cluster, code):
                self.nodes_log.post_ended(self.course.node(node).name, cluster, code)
                self.say(self.event_line("ULOG_POST_SCRIPT_TERMINATED", node, f"({max(cluster, 0)}.0.0)"))
            case it.Note():
                self.files.note(self.course, effect)
            case it.Finish(code, _):
                self._code = code

    async def _later(self, seconds: int, event: it.Event) -> None:
        await trio.sleep(seconds)
        self.happened(event)

    async def _leave(self, code: int) -> None:
        """See to it that nothing is left behind that this run has begun."""
        self.submitter.forget_waiting()
        # A submission that is on its way would leave its jobs behind.
        await self.submitter.settled()
        if code != ExitCode.RESTART:
            if self._removing is not None:
                await self.schedd.remove(*self._removing)
            self._table()
            self.files.finish(self.course, code, self.own)
            self.say(f"Wrote metrics file {self.paths.metrics}.", self.own.statistics.line())
            await self.own.update(self.course)

    def _remove_all(self, reason: str, spare_services: bool) -> None:
        assert self._nursery is not None
        self.say("Removing any/all submitted HTCondor jobs...")
        constraint = f"{self.mine} && DAGLifetimeJob =!= true" if spare_services else self.mine
        self.submitter.forget_waiting()
        # Without a FINAL node the run ends now, and must not before they are removed.
        if spare_services:
            self._nursery.start_soon(self.schedd.remove, constraint, reason)
        else:
            self._removing = (constraint, reason)

    # ---- scripts

    async def _run_script(self, node: int, kind: ScriptKind, command: tuple[str, ...]) -> None:
        script = self.course.script(node, kind)
        assert script is not None
        directory = os.path.join(self.directory, self.course.node(node).directory)
        with trio.CancelScope() as scope:
            self._scripts[node, kind] = scope
            code, why = await run_script(script, command, directory, self.course.node(node).name)
            del self._scripts[node, kind]
            if why:
                self.say(f"Error: Failed to execute {kind} for Node {self.course.node(node).name}: {why}")
            self.happened(it.ScriptEnded(node, kind, code))

    def _kill_scripts(self) -> None:
        for scope in self._scripts.values():
            scope.cancel()
        self._scripts.clear()

    # ---- the schedd

    async def _watch(self) -> None:
        constraint = self.mine
        # The own job as well: users change its limits with condor_qedit.
        if self.own.id is not None:
            constraint += f" || (ClusterId == {self.own.id.cluster} && ProcId == {self.own.id.proc})"
        async for changed in self.schedd.watch(constraint, PROJECTION):
            if changed is None:
                self.jobs.begin()
            else:
                await self._take_told(changed)

    async def _take_told(self, changed: JobsChanged) -> None:
        for delta in changed.deltas:
            if delta.job_id == self.own.id:
                self.say(*self.own.told_lines(delta.ad, self.course.limits))
                for event in self.own.told(delta.ad, self.course.limits):
                    self.happened(event)
            else:
                self._tell(self.jobs.take(delta))
        if changed.synced:
            # They left while the connection was lost: only the history has how they ended.
            gone = self.jobs.gone()
            if gone:
                self._tell(self.jobs.leave(gone, await self.schedd.history(ids=gone)))
            self.generation += 1
            self._told_all.set()
            self._told_all = trio.Event()

    async def told_all_since(self, generation: int) -> None:
        """Until the schedd has told all that is there over a connection that is newer than then."""
        while self.generation <= generation:
            await self._told_all.wait()

    def _tell(self, tolds: Iterable[Told]) -> None:
        for told in tolds:
            event, lines = told.event, []
            if isinstance(event, it.JobRuns | it.JobWaits | it.JobHeld | it.JobReleased | it.JobEnded):
                lines.append(self.event_line(told.name, event.node, f"({event.cluster}.{event.proc}.0)"))
            if told.reason:
                lines.append(f"  Hold reason: {told.reason}")
            self.happened(event, *lines)
            if isinstance(event, it.JobEnded):
                self._check_factory(event)

    def _check_factory(self, event: it.JobEnded) -> None:
        one = self.course.attempts.get(event.node)
        if one is not None and one.factory and self._nursery is not None:
            self._nursery.start_soon(self._is_factory_over, event.node, event.cluster)

    async def _is_factory_over(self, node: int, cluster: int) -> None:
        if not await self.schedd.factories(f"ClusterId == {cluster}"):
            self.happened(it.ClusterOver(node, cluster))

    # ---- other things that happen

    async def _hear_signals(self) -> None:
        with trio.open_signal_receiver(signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT) as signals:
            async for number in signals:
                if number == signal.SIGUSR1:
                    self.say("Received SIGUSR1")
                    self.happened(it.Remove())
                    continue
                # The job is held, or the schedd ends: nodes' jobs go on, and the next run takes them up.
                self.say(f"Received {signal.Signals(number).name}")
                self._code = ExitCode.RESTART
                self.happened(it.PauseOver())

    async def _each_second(self) -> None:
        while True:
            # A file tells nobody that it is there.
            there = await trio.Path(self.paths.halt).exists()
            if there != self.course.halted:
                self.happened(it.Halt() if there else it.Resume())
            await trio.sleep(LOOK_S)

    async def _report_pending(self) -> None:
        """Say now and then which nodes are waited for, while nothing happens."""
        interval_s = self.config.seconds("DAGMAN_PENDING_REPORT_INTERVAL")
        while interval_s:
            await trio.sleep(interval_s)
            quiet_s = int(trio.current_time() - self._last_event)
            if quiet_s >= interval_s:
                self.say(f"{quiet_s} seconds since last log event", "Pending DAG nodes:", *pending(self.course))

    async def _report_jobs(self) -> None:
        """Say now and then how many jobs are where."""
        interval_s = self.config.seconds("DAGMAN_PRINT_JOB_TABLE_INTERVAL")
        while interval_s:
            await trio.sleep(interval_s)
            self.out.jobs_table(self.course.job_figures())

    # ---- what is shown

    def _show(self) -> None:
        # Only when nothing more waits to be taken: of a storm of events the last figures are enough.
        counts = self.course.counts()
        if counts != self._shown:
            self.own.changed()
            self.files.changed()
            if time.monotonic() - self._shown_at >= TABLE_S:
                self._table()

    def _table(self) -> None:
        self._shown, self._shown_at = self.course.counts(), time.monotonic()
        self.out.table(self.course.status, self._shown)
        self.out.say(self.own.statistics.line(), level=3)


def pending(course: Course) -> list[str]:
    """The nodes that are waited for."""
    return [
        f"  Node {course.node(node).name}, HTCondor ID {course.attempt(node).cluster}, "
        f"status {f'STATUS_{S(course.states[node]).name}':<16}"
        for node in course.active()
    ]
