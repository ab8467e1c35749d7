"""Submitting nodes: one after another in the order in which the course asks, without waiting for each answer.

An answer that is lost leaves open whether the jobs are queued. They are looked for in what the schedd tells from the
start over a new connection, and in the history; only where they are in neither is the node submitted again.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from typing import TYPE_CHECKING, Final

import trio

from minipool.dagman.submitting import Descriptions, lines_of
from pool.base.errors import PoolError, SubmitError
from pool.classad import quote
from pool.dag.course import happenings as it
from pool.dag.model import Node
from protocol.rpc.remote import ConnectionLost

if TYPE_CHECKING:
    from minipool.client.submission import Queued
    from minipool.dagman.manager import Manager
    from pool.submit import SubmitPlan

AT_ONCE: Final = 32
"""How many submissions may be on their way."""
LOSSES_MAX: Final = 1000
"""So often the request of a node is sent again that was lost with the schedd, until that is a try that failed."""
PRETENDED_AT_ONCE: Final = 100
"""How many nodes without jobs are done in one go."""
LOOK_S: Final = 1.0
SUBDAG_SUFFIX: Final = ".condor.sub"


class Submitter:
    """The queue of nodes to submit."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._descriptions = Descriptions(manager.session)
        self._waiting: deque[it.Submit] = deque()
        self._wake = trio.Event()
        self._room = trio.CapacityLimiter(AT_ONCE)
        self._in_interval, self._interval_end = 0, 0.0
        self._forgotten = 0
        """How often those that wait were forgotten."""
        self.under_way = 0
        self._answered = trio.Event()
        self.last_cluster: dict[int, int] = {}
        """The newest cluster of each node that is under way again."""

    def add(self, asked: it.Submit) -> None:
        """This node is next."""
        self._waiting.append(asked)
        self._wake.set()

    def forget_waiting(self) -> None:
        """Submit none of those that wait, and none again whose request is lost."""
        self._waiting.clear()
        self._forgotten += 1

    async def settled(self) -> None:
        """Until none is on its way."""
        while self.under_way:
            self._answered = trio.Event()
            await self._answered.wait()

    async def run(self) -> None:
        """Submit nodes as they come."""
        delay_s = self._manager.config.seconds("DAGMAN_SUBMIT_DELAY")
        last = trio.Event()
        last.set()
        async with trio.open_nursery() as nursery:
            while True:
                while self._waiting:
                    await self._turn()
                    if delay_s:
                        await trio.sleep(delay_s)
                    if not self._waiting:  # they have been forgotten meanwhile
                        break
                    if self._pretends(self._waiting[0]):
                        self._pretend(1 if delay_s or self._manager.course.limits.submits else PRETENDED_AT_ONCE)
                        await trio.lowlevel.checkpoint()
                        continue
                    asked = self._waiting.popleft()
                    await self._room.acquire_on_behalf_of(asked)
                    before, last = last, trio.Event()
                    nursery.start_soon(self._submit, asked, before, last)
                self._wake = trio.Event()
                await self._wake.wait()

    async def _turn(self) -> None:
        """Until one more node may be submitted in this interval (DAGMAN_MAX_SUBMITS_PER_INTERVAL)."""
        interval_s = self._manager.config.seconds("DAGMAN_USER_LOG_SCAN_INTERVAL")
        while (most := self._manager.course.limits.submits) and self._in_interval >= most:
            if self._interval_end <= trio.current_time():
                break
            # The limit may be changed meanwhile, and is looked at again.
            await trio.sleep(min(self._interval_end - trio.current_time(), LOOK_S))
        if self._interval_end <= trio.current_time():
            self._in_interval, self._interval_end = 0, trio.current_time() + interval_s
        self._in_interval += 1

    async def _submit(self, asked: it.Submit, before: trio.Event, sent: trio.Event) -> None:
        """Submit the node once the one before it has been sent: clusters are numbered as the graph is."""
        self.under_way += 1
        try:
            await self._one(asked, before, sent)
        except SubmitError as error:
            self._failed(asked, error, is_final=True)
        except PoolError as error:
            self._failed(asked, error, is_final=False)
        finally:
            self.under_way -= 1
            self._answered.set()
            self._room.release_on_behalf_of(asked)
        await before.wait()
        sent.set()

    def _failed(self, asked: it.Submit, error: PoolError, *, is_final: bool) -> None:
        said = " ".join(str(error).split())
        line = self._manager.event_line("ULOG_SUBMIT_FAILURE", asked.node, "(-1.-1.-1)", said)
        self._manager.happened(it.SubmitFailed(asked.node, said, is_final), line)

    async def _one(self, asked: it.Submit, before: trio.Event, sent: trio.Event) -> None:
        manager = self._manager
        node = manager.course.node(asked.node)
        directory = os.path.join(manager.directory, node.directory)
        submit = node.submit
        if node.kind == "SUBDAG":
            await self._write_nested(node, directory, asked.retry)
            submit += SUBDAG_SUFFIX
        await before.wait()
        manager.say(
            f"Submitting node {node.name} from file {submit or 'inline description'} using direct job submission"
        )
        lines = lines_of(manager.course, asked.node, manager.parents(asked.node), manager.around, on_hold=asked.on_hold)
        plan = self._descriptions.plan(node, submit, directory, lines)
        if plan.count > 1 and node.kind == "PROVISIONER":
            raise SubmitError(f"Provisioner node {node.name} submitted more than one job")
        if plan.count > 1 and manager.config.bool("DAGMAN_PROHIBIT_MULTI_JOBS"):
            raise SubmitError("Submit generated multiple job procs; disallowed by DAGMAN_PROHIBIT_MULTI_JOBS setting")
        queued = await self._queue(asked, node, plan, sent)
        if queued is None:
            return
        if not queued.jobs:
            raise SubmitError(f"the submit description of node {node.name} makes no jobs")
        for warning in plan.warnings:
            manager.say(f"Warning: node {node.name}: {warning}")
        self._found(asked.node, queued.cluster, queued.jobs, plan.late)

    async def _queue(self, asked: it.Submit, node: Node, plan: SubmitPlan, sent: trio.Event) -> Queued | None:
        """The schedd's answer; None: it was lost, but the jobs have been found.

        A request that is lost with the schedd says nothing about the node: it is sent again, and is no try that failed.
        """
        manager, forgotten = self._manager, self._forgotten
        for left in reversed(range(LOSSES_MAX)):
            # Before the request: all that is told from the start after this moment has its jobs, if they are queued.
            generation = manager.generation
            try:
                with manager.own.statistics.submit.timed():
                    return await manager.schedd.submit(plan, sent.set)
            except ConnectionLost:
                if await self._look_for(asked, node, generation):
                    return None
                if not left or forgotten != self._forgotten:
                    raise
        raise AssertionError

    def _pretends(self, asked: it.Submit) -> bool:
        return self._manager.options.dry_run or self._manager.course.node(asked.node).noop

    def _pretend(self, most: int) -> None:
        """The next nodes have no jobs, and are done at once."""
        manager, numbers = self._manager, list[int]()
        while self._waiting and len(numbers) < most and self._pretends(self._waiting[0]):
            numbers.append(self._waiting.popleft().node)
        names = [manager.course.node(number).name for number in numbers]
        if manager.options.dry_run:
            manager.say(*(f"Processing node: {name}" for name in names))
        else:
            manager.nodes_log.noop(names)  # alone says to a recovery that they were there
        for number in numbers:
            manager.happened(it.Submitted(number, 0, 1))
            manager.happened(it.JobEnded(number, 0, 0, 0))

    def _found(self, node: int, cluster: int, jobs: int, is_factory: bool) -> None:
        self.last_cluster[node] = cluster
        self._manager.queued(node, cluster, jobs, is_factory)

    async def _look_for(self, asked: it.Submit, node: Node, generation: int) -> bool:
        """Whether the jobs whose answer was lost are queued; they are the node's, then."""
        manager = self._manager
        await manager.told_all_since(generation)
        # Older clusters are those of earlier attempts.
        last = self.last_cluster.get(asked.node, -1)
        found = [cluster for cluster in manager.jobs.strange(node.name) if cluster > last]
        if found:
            cluster = found[0]
            is_factory = bool(await manager.schedd.factories(f"ClusterId == {cluster}"))
            self._found(asked.node, cluster, manager.jobs.strange_size(cluster), is_factory)
            return True
        constraint = f"{manager.mine} && DAGNodeName == {quote(node.name)} && ClusterId > {last}"
        for ad in await manager.schedd.factories(constraint):
            self._found(asked.node, ad.eval_int("ClusterId", 0), 0, True)
            return True
        ended = await manager.schedd.history(constraint=constraint)
        if ended:
            self._found(asked.node, ended[0].eval_int("ClusterId", 0), len(ended), False)
            manager.ended(ended)
            return True
        return False

    async def _write_nested(self, node: Node, directory: str, retry: int) -> None:
        """Have condor_submit_dag write the description of a nested graph's own job."""
        manager = self._manager
        if not manager.config.bool("DAGMAN_GENERATE_SUBDAG_SUBMITS"):
            return
        words = ["condor_submit_dag", "-no_submit", "-update_submit", *manager.options.for_nested()]
        # Of the attempt before it there are rescue files, from which the next goes on.
        if retry and "-force" in words:
            words.remove("-force")
        if node.priority + manager.course.settings.priority:
            words += ["-Priority", str(node.priority + manager.course.settings.priority)]
        words.append(node.submit)
        manager.say(f"Recursive submit command: <{' '.join(words)}>")
        try:
            done = await trio.run_process(
                words, cwd=directory, capture_stdout=True, stderr=subprocess.STDOUT, check=False
            )
        except OSError as error:
            raise SubmitError(f"condor_submit_dag cannot be run: {error.strerror}") from None
        if done.returncode:
            said = done.stdout.decode(errors="replace").strip()
            raise SubmitError(f"condor_submit_dag -no_submit failed for node {node.name}: {said}")
