"""The state of a graph that runs, and the moves that its events are made of (`step` has which event makes which).

What holds at any time:

* `waits[n]` is how many of the nodes that n waits for are not over; a node with none that has not begun is READY.
* A node has an `Attempt` from its start until it is done; one that has failed keeps it, for its error.
* `submitted` counts nodes from the order to submit them until the last of their jobs has left.
* A SERVICE node counts nowhere: the graph neither waits for it nor fails with it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from pool.dag.course import happenings as do
from pool.dag.course.attempt import Attempt
from pool.dag.course.ready import ReadyNodes
from pool.dag.course.scripts import Facts, ScriptQueue, words
from pool.dag.course.states import LIMIT_LOWERED, Counts, DagStatus, ExitCode, JobFigures, NodeState, Settings
from pool.dag.model import Dag, Node, Script, ScriptKind

S = NodeState


class Course:
    """A graph that runs."""

    def __init__(self, dag: Dag, settings: Settings = Settings()) -> None:
        self.dag, self.settings, self.limits = dag, settings, settings.limits
        nodes = dag.nodes
        self.states = bytearray(len(nodes))
        # Flat arrays: an object for each of a hundred thousand nodes would be most of the process.
        self.waits = array("i", bytes(4 * len(nodes)))
        self.attempts: dict[int, Attempt] = {}
        self.retries: dict[int, int] = {}
        self.more_retries: dict[int, int] = {}
        """Retries beyond those of the node, for its jobs were put on hold or removed as a limit was lowered."""
        self.ready = ReadyNodes(dict(dag.categories))
        self.scripts: dict[ScriptKind, ScriptQueue] = {kind: ScriptQueue() for kind in ("PRE", "POST", "HOLD")}
        self.on_hold: set[int] = set()
        self.final = next((node for node, one in enumerate(nodes) if one.kind == "FINAL"), None)
        self.provisioner = next((node for node, one in enumerate(nodes) if one.kind == "PROVISIONER"), None)
        self.services = [node for node, one in enumerate(nodes) if one.kind == "SERVICE"]
        self.total = len(nodes) - len(self.services)
        self.provisioned = self.provisioner is None
        self.status = DagStatus.OK
        self.done = self.failed = self.futile = self.pre = self.post = self.hold = self.submitted = 0
        self.idle_jobs = self.held_jobs = self.jobs_submitted = self.jobs_ended = self.jobs_succeeded = 0
        self.jobs_queued = 0
        self.deferred_by_jobs = self.deferred_by_idle = 0
        self.sequence = 0
        self.recovering = self.halted = self.aborted = self.final_ran = self.over = self.paused = False
        self.begun = self.leaving = False
        self.to_abort: tuple[int, str, int] | None = None
        self.pause_s = 1
        self.effects: list[do.Effect] = []
        self._connect()

    def _connect(self) -> None:
        for edges in (self.dag.children, self.dag.weak):
            for children in edges:
                for child in children:
                    self.waits[child] += 1
        for node, one in enumerate(self.dag.nodes):
            if one.done:
                self.states[node] = S.DONE
        # All states first: a node that is done may wait for another that is.
        for node, one in enumerate(self.dag.nodes):
            if one.done:
                self.done += one.kind != "SERVICE"
                self._let_go(node, weak_only=False)
        for node in range(len(self.dag.nodes)):
            if self.states[node] == S.NOT_READY and not self.waits[node] and node != self.final:
                self.states[node] = S.READY

    # ---- what others read

    def node(self, node: int) -> Node:
        """The node of this number."""
        return self.dag.nodes[node]

    def attempt(self, node: int) -> Attempt:
        """The present attempt at a node."""
        found = self.attempts.get(node)
        if found is None:
            found = self.attempts[node] = Attempt()
        return found

    def retry_max(self, node: int) -> int:
        """How many retries the node has in all."""
        return self.node(node).retry.times + self.more_retries.get(node, 0)

    def priority(self, node: int) -> int:
        """The node's priority, with that of the graph."""
        return self.node(node).priority + self.settings.priority

    def counts(self) -> Counts:
        """The figures of the moment."""
        total = self.total
        away = self.done + self.pre + self.submitted + self.post + len(self.ready) + self.failed + self.futile
        return Counts(
            total, self.done, self.pre, self.submitted, self.post, len(self.ready), total - away, self.failed,
            self.futile, self.held_jobs, self.idle_jobs,
        )  # fmt: skip

    def job_figures(self) -> JobFigures:
        """The same of jobs."""
        idle, failed = self.idle_jobs - self.held_jobs, self.jobs_ended - self.jobs_succeeded
        running = max(0, self.jobs_queued - self.idle_jobs)
        return JobFigures(self.jobs_submitted, idle, self.held_jobs, running, self.jobs_succeeded, failed)

    def active(self) -> Iterator[int]:
        """The nodes that are under way, by number."""
        busy = (S.PRERUN, S.SUBMITTED, S.POSTRUN)
        return (node for node in sorted(self.attempts) if self.states[node] in busy)

    # ---- words

    def say(self, text: str) -> None:
        """A line for the log."""
        self.effects.append(do.Say(text))

    def note(self, node: int, word: str, about: str) -> None:
        """A line for the JOBSTATE_LOG, if there is one."""
        if self.dag.jobstate_log:
            one = self.attempt(node)
            if not one.sequence:
                self.sequence += 1
                one.sequence = self.sequence
            self.effects.append(do.Note(node, word, about, one.sequence))

    # ---- starting

    def start(self, node: int, *, retry: bool = False) -> None:
        """The node begins: its PRE script, else it is ready to be submitted."""
        one = self.node(node)
        self.attempt(node)
        if one.save_point and not retry:
            self.effects.append(do.WriteSave(node))
        # A retry runs the PRE script again, too.
        if one.pre is not None:
            self.states[node] = S.PRERUN
            self.pre += 1
            self.run_script(node, one.pre)
            return
        first = self.settings.depth_first or (retry and self.settings.retry_node_first)
        self.be_ready(node, first=first)

    def be_ready(self, node: int, *, first: bool = False) -> None:
        """The node's jobs may be submitted."""
        self.states[node] = S.READY
        self.ready.add(node, self.priority(node), first=first)

    def start_if_ready(self, node: int) -> None:
        """The node begins if it is READY, and the graph runs."""
        if self.states[node] == S.READY and self.begun and self.provisioned and not self.final_ran:
            self.start(node)

    def begin(self) -> None:
        """All that may start starts."""
        self.begun, self.recovering = True, False
        if self.to_abort is not None:
            self.abort_if_wanted(*self.to_abort)
            return
        for node in list(self.active()):
            post = self.node(node).post
            if self.states[node] == S.POSTRUN and post is not None:
                self.run_script(node, post)
        for node in self.services:
            if self.states[node] == S.READY and node not in self.attempts:
                self.say(f"Starting service node {self.node(node).name}...")
                self.start(node)
        if not self.provisioned and self.provisioner is not None:
            if self.states[self.provisioner] == S.READY:
                self.say("Starting provisioner node...")
                self.start(self.provisioner)
            return
        self.begin_all()

    def begin_all(self) -> None:
        """All nodes that are READY and have not begun start, in order."""
        for node, state in enumerate(self.states):
            if state == S.READY and self.node(node).kind not in ("SERVICE", "PROVISIONER"):
                self.start(node, retry=node in self.retries)

    def submit_ready(self) -> None:
        """Submit ready nodes, as many as the limits allow."""
        while len(self.ready) and not (self.over or self.paused or (self.halted and not self.final_ran)):
            if self.limits.jobs and self.submitted >= self.limits.jobs:
                self.deferred_by_jobs += len(self.ready)
                return
            if self.limits.idle and self.idle_jobs >= self.limits.idle:
                self.deferred_by_idle += len(self.ready)
                return
            node = self.ready.take(lambda number: self.node(number).category)
            if node is None:
                return
            self.submit(node)

    def submit(self, node: int) -> None:
        """Order the node's jobs to be queued; until that is answered it counts as one job that waits."""
        one = self.attempt(node)
        self.states[node] = S.SUBMITTED
        one.tries += 1
        one.beyond_limit = False
        one.idle = {0}
        # Whether it waits is known only later, and many would be submitted until then.
        self.idle_jobs += 1
        if self.node(node).kind != "SERVICE":
            self.submitted += 1
        self.say(f"Submitting HTCondor Node {self.node(node).name} job(s)...")
        self.effects.append(do.Submit(node, self.retries.get(node, 0), node in self.on_hold))

    def enforce_limit(self) -> None:
        """Remove the jobs of nodes beyond the limit of nodes, which is another one now."""
        # Those that come first in the file stay, as with HTCondor; a SERVICE node counts nowhere.
        busy = [n for n in self.active() if self.states[n] == S.SUBMITTED and self.node(n).kind != "SERVICE"]
        for node in busy[self.limits.jobs :]:
            one = self.attempt(node)
            one.beyond_limit = True
            if one.jobs or one.factory:  # of one that is on its way no cluster is known yet
                self.remove_beyond_limit(node)

    def remove_beyond_limit(self, node: int) -> None:
        """Remove the node's jobs: it is submitted again when there is room, as a retry that costs none."""
        self.effects.append(do.RemoveCluster(node, self.attempt(node).cluster, LIMIT_LOWERED))

    def not_submitted(self, node: int) -> None:
        """None of the node's jobs is in the queue any more."""
        one = self.attempt(node)
        self.idle_jobs -= len(one.idle)
        self.held_jobs -= len(one.held)
        one.idle, one.held = set(), set()
        if self.node(node).kind != "SERVICE":
            self.submitted -= 1
        self.ready.leave(self.node(node).category)

    # ---- scripts

    def run_script(self, node: int, script: Script) -> None:
        """Run the script now, or when there is room."""
        queue = self.scripts[script.kind]
        if not self._may_run(node, script.kind):
            queue.deferrals += 1
            queue.waiting.append(node)
            return
        queue.running += 1
        self.say(f"Running {script.kind} script of Node {self.node(node).name}...")
        self.note(node, f"{script.kind}_SCRIPT_STARTED", self.job_of(node) if script.kind == "POST" else "-")
        self.effects.append(do.RunScript(node, script.kind, words(script, self._facts(node), self.attempt(node))))

    def _facts(self, node: int) -> Facts:
        this, retry, most = self.node(node), self.retries.get(node, 0), self.retry_max(node)
        return Facts(
            this.name, retry, most, int(self.status), self.failed, self.futile, self.done, self.submitted,
            len(self.dag.nodes), self.settings.dag_id,
        )  # fmt: skip

    def _may_run(self, node: int, kind: ScriptKind) -> bool:
        limit = {"PRE": self.limits.pre, "POST": self.limits.post, "HOLD": self.limits.hold}[kind]
        # What has ended shall not be lost, so a halted graph runs POST scripts on; PRE scripts run again anyway.
        return self.scripts[kind].may_run(limit) and not (self.halted and kind == "PRE" and node != self.final)

    def run_waiting(self, kind: ScriptKind) -> None:
        """Run the scripts of a kind that waited, as far as there is room now."""
        waiting = self.scripts[kind].waiting
        while waiting and self._may_run(waiting[0], kind):
            node = waiting.popleft()
            script = self.script(node, kind)
            assert script is not None
            self.run_script(node, script)

    def script(self, node: int, kind: ScriptKind) -> Script | None:
        """The node's script of this kind."""
        one = self.node(node)
        return {"PRE": one.pre, "POST": one.post, "HOLD": one.hold}[kind]

    def run_post(self, node: int) -> None:
        """The node's POST script comes."""
        script = self.node(node).post
        assert script is not None
        self.states[node] = S.POSTRUN
        self.post += 1
        if not self.recovering:
            self.run_script(node, script)

    def job_of(self, node: int) -> str:
        """The node's job, for the JOBSTATE_LOG."""
        cluster = self.attempt(node).cluster
        return f"{cluster}.0" if cluster >= 0 else "-"

    # ---- ending

    def succeed(self, node: int, *, last: bool = False) -> None:
        """The node is done: those that wait for it go on, unless the graph ends with it (`last`)."""
        if self.states[node] == S.DONE:
            return
        self.states[node] = S.DONE
        # Nothing more is asked of it, and a graph may have a hundred thousand.
        if node in self.attempts:
            self.attempts.pop(node)
        if self.node(node).kind == "SERVICE":
            return
        self.done += 1
        if not last:
            self._let_go(node, weak_only=False)

    def fail(self, node: int, error: str = "") -> None:
        """The node has failed for good."""
        one = self.attempt(node)
        if error:
            one.error = error
        if self.retry_max(node):
            one.error += f" (after {self.retries.get(node, 0)} node retries)"
        self.states[node] = S.ERROR
        if self.node(node).kind != "SERVICE":
            self.failed += 1
            self._give_up_on_children(node)
        self.worsen(DagStatus.NODE_FAILED)

    def may_retry(self, node: int) -> bool:
        """Whether the node runs again after what came of it."""
        return not self.wants_abort(node) and self.retries.get(node, 0) < self.retry_max(node)

    def fail_or_retry(self, node: int, error: str = "") -> None:
        """The node has failed: it runs again if it may."""
        one = self.attempt(node)
        if error:
            one.error = error
        if not self.may_retry(node):
            if not (self.settings.hold_failed_jobs and one.cluster > 0 and not self.wants_abort(node)):
                self.fail(node)
                return
            self.on_hold.add(node)
            self.more_retries[node] = self.more_retries.get(node, 0) + 1
        self._retry(node)

    def _retry(self, node: int) -> None:
        one, name = self.attempt(node), self.node(node).name
        unless = self.node(node).retry.unless_exit
        if (self.final_ran and node != self.final) or (unless is not None and unless == one.value):
            why = "because final node is running " if self.final_ran else ""
            self.say(f"Aborting further retries of node {name} {why}(last attempt returned {one.value})")
            self.fail(node)
            return
        self.retries[node] = self.retries.get(node, 0) + 1
        self.attempts[node] = Attempt()
        # So that what is still told of the last attempt's jobs is known for that.
        self.attempts[node].cluster = one.cluster
        self.states[node] = S.READY
        verb = "Looking for retry of" if self.recovering else "Retrying"
        self.say(f"{verb} node {name} (retry #{self.retries[node]} of {self.retry_max(node)})...")
        if not self.recovering:
            self.start(node, retry=True)

    def _let_go(self, node: int, *, weak_only: bool) -> None:
        """Those that wait for the node wait no more; `weak_only`: only those that do not mind how it ended."""
        for edges in (self.dag.weak,) if weak_only else (self.dag.children, self.dag.weak):
            for child in edges[node] if edges else ():
                self.waits[child] -= 1
                if not self.waits[child] and self.states[child] == S.NOT_READY:
                    self.states[child] = S.READY
                    self.start_if_ready(child)

    def _give_up_on_children(self, node: int) -> None:
        """All that wait for the node's success are futile, and so is what waits for them."""
        self._let_go(node, weak_only=True)
        reached = list(self.dag.children[node])
        while reached:
            child = reached.pop()
            # Each is reached once: what is futile already has told its children.
            if self.states[child] == S.NOT_READY:
                self.states[child] = S.FUTILE
                self.futile += 1
                reached += self.dag.children[child]
                reached += self.dag.weak[child] if self.dag.weak else ()

    def worsen(self, status: DagStatus) -> None:
        """The graph's status, unless it is worse already."""
        # What went wrong first stays: all that comes after follows from it.
        if self.status is DagStatus.OK:
            self.status = status

    # ---- the end of the graph

    def wants_abort(self, node: int) -> bool:
        """Whether what came of the node ends the graph (ABORT-DAG-ON)."""
        on = self.node(node).abort_on
        return on is not None and node in self.attempts and on.exit_code == self.attempts[node].value

    def abort_if_wanted(self, node: int, what: str, value: int) -> None:
        """End the graph if the node's return value says so."""
        on = self.node(node).abort_on
        if on is None or on.exit_code != value:
            return
        if self.recovering:  # once all of the recovery has been told
            self.to_abort = (node, what, value)
            return
        self.say(f"Aborting DAG because we got the ABORT exit value from a {what}")
        self.aborted = True
        code = value if on.returns is None else on.returns
        status = DagStatus.OK if on.returns == 0 else DagStatus.ABORT
        self.shut_down(code, status)

    def shut_down(self, code: int, status: DagStatus) -> None:
        """End the graph: a rescue file, its jobs removed, the FINAL node if that has not run; else it is over."""
        if self.leaving:
            return
        self.say("Aborting DAG...")
        self.status = status
        # Before jobs are removed: a run that ends while it removes them shall leave the file behind.
        if code != ExitCode.OKAY:
            if self.settings.rescue_files:
                self.effects.append(do.WriteRescue())
            else:
                self.say("No rescue DAG written because DAGMAN_MAX_RESCUE_NUM is 0")
        self.say("Removing submitted jobs...")
        final_comes = self.final is not None and not self.final_ran
        if status is not DagStatus.RM or self.settings.remove_node_jobs:
            reason = "DAG Abort: DAG is exiting and writing rescue file."
            if status is DagStatus.RM:
                reason = "DAG Removed: User removed scheduler job from queue."
            self.effects.append(do.RemoveAll(reason, spare_services=final_comes))
        self._stop_scripts()
        self.say_deferrals()
        if final_comes:
            self.start_final()
        else:
            self.finish(code, status)

    def _stop_scripts(self) -> None:
        if any(queue.running for queue in self.scripts.values()):
            self.say("Removing running scripts...")
        # The jobs of nodes whose POST script is ended have run, but the node is not done: a rescue runs it again.
        self.effects.append(do.KillScripts())
        for queue in self.scripts.values():
            queue.running = 0
            queue.waiting.clear()
        for node in list(self.attempts):
            if self.states[node] in (S.PRERUN, S.POSTRUN):
                self.pre -= self.states[node] == S.PRERUN
                self.post -= self.states[node] == S.POSTRUN
                self.states[node] = S.NOT_READY
                del self.attempts[node]
        self.hold = 0

    def start_final(self) -> None:
        """The FINAL node begins; nothing else does any more."""
        assert self.final is not None
        self.say("Starting final node...")
        # A graph that was aborted or halted may have some.
        for node in self.ready.drop_all():
            self.states[node] = S.NOT_READY
        self.final_ran, self.paused = True, False
        self.states[self.final] = S.READY
        self.start(self.final)

    def finish(self, code: int, status: DagStatus) -> None:
        """The graph is over."""
        self.leaving = self.over = True
        self.effects.append(do.Finish(code, status))

    def say_deferrals(self) -> None:
        """How often something had to wait for a limit."""
        limits, scripts = self.limits, self.scripts
        self.say(f"Note: {self.deferred_by_jobs} total node deferrals because of -MaxJobs limit ({limits.jobs})")
        self.say(f"Note: {self.deferred_by_idle} total node deferrals because of -MaxIdle limit ({limits.idle})")
        self.say(f"Note: {self.ready.deferrals} total node deferrals because of node category throttles")
        for (kind, queue), limit in zip(scripts.items(), (limits.pre, limits.post, limits.hold), strict=True):
            count, word = queue.deferrals, kind.capitalize()
            self.say(f"Note: {count} total {kind} script deferrals because of -Max{word} limit ({limit}) or DEFER")
