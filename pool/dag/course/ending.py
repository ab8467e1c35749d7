"""Whether a graph is over, and what is said then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pool.dag.course import happenings as do
from pool.dag.course.course import Course, S
from pool.dag.course.states import DagStatus, ExitCode


def check_end(course: Course) -> None:
    """End the graph if nothing is under way and nothing can come, or let its FINAL node begin."""
    if course.over or not _nothing_runs(course):
        return
    final_done = course.final is not None and course.states[course.final] == S.DONE
    if course.final is None or course.final_ran:
        if course.done == course.total or final_done or (course.aborted and course.status is DagStatus.OK):
            _succeed(course)
        else:
            _fail(course)
    # All but the FINAL node.
    elif course.done == course.total - 1 and not course.halted:
        course.start_final()
    else:
        _fail(course)


def _nothing_runs(course: Course) -> bool:
    # A halted graph starts no scripts: those that wait are not waited for.
    if course.halted and not course.final_ran:
        return course.submitted == 0 and course.post == 0 and not any(one.running for one in course.scripts.values())
    return course.submitted == len(course.ready) == course.pre == course.post == course.hold == 0


def _succeed(course: Course) -> None:
    for node in course.services:
        if course.states[node] == S.SUBMITTED:
            reason = "DAG is complete."
            course.effects.append(do.RemoveCluster(node, course.attempt(node).cluster, reason))
            # It has served to the end: the metrics count it among those that succeeded.
            course.succeed(node)
    course.say("All jobs Completed!")
    course.say_deferrals()
    course.finish(ExitCode.OKAY, course.status)


def _fail(course: Course) -> None:
    # The words are HTCondor's, which has two for one thing.
    if course.failed and (course.final is None or course.final_ran):
        _say_failed(course, "job(s)")
        course.shut_down(ExitCode.ERROR, course.status)
    elif course.halted and not course.final_ran:
        course.say("Exiting because DAG is halted and no jobs or scripts are running")
        _say_failed(course, "Node(s)")
        course.shut_down(ExitCode.ERROR, DagStatus.HALTED)
    elif course.failed:
        _say_failed(course, "Node(s)")
        course.shut_down(ExitCode.ERROR, DagStatus.NODE_FAILED)
    elif course.final_ran:
        course.shut_down(ExitCode.ERROR, course.status)
    else:
        course.say("ERROR: DAG finished but not all nodes are complete -- checking for a cycle...")
        course.say("... ERROR: a cycle exists in the dag, please check input")
        _show(course, range(len(course.dag.nodes)))
        course.shut_down(ExitCode.ERROR, DagStatus.CYCLE)


def _say_failed(course: Course, what: str) -> None:
    course.say(f"ERROR: the following {what} failed:")
    _show(course, [node for node in sorted(course.attempts) if course.states[node] == S.ERROR])


def _show(course: Course, nodes: Sequence[int]) -> None:
    # One walk over all edges for all of them: a node does not know its parents.
    parents: dict[int, list[int]] = {node: [] for node in nodes}
    for of, children in enumerate(course.dag.children):
        for child in children:
            if child in parents:
                parents[child].append(of)
    for node in nodes:
        for line in _shown(course, node, parents[node]):
            course.say(line)
    course.say("---------------------------------------\t<END>")


def _shown(course: Course, node: int, parents: Sequence[int]) -> Iterator[str]:
    """A node in words, as condor_dagman's log shows those that failed."""
    this, one, state = course.node(node), course.attempts.get(node), S(course.states[node])
    yield "---------------------- Node ----------------------"
    yield f"      Node Name: {this.name}"
    yield f"           Noop: {str(this.noop).lower()}"
    yield f"         NodeID: {node}"
    # A node that waits is ready to HTCondor, with something that it waits for.
    name = S.READY.name if state is S.NOT_READY else state.name
    yield f"    Node Status: {f'STATUS_{name}':<16}"
    yield f"Node return val: {-1 if one is None else one.value}"
    if state is S.ERROR and one is not None:
        yield f"          Error: {one.error}"
    yield f"Job Submit File: {this.submit}"
    for script in (this.pre, this.post, this.hold):
        if script is not None:
            yield f"{f'{script.kind} Script':>15}: {script.executable} {script.arguments}".rstrip()
    if this.retry.times:
        yield f"          Retry: {this.retry.times}"
    if one is None or one.cluster < 0:
        yield " HTCondor Job ID: [not yet submitted]"
    else:
        yield f" HTCondor Job ID: ({one.cluster}.0.0)"
    names = course.dag.nodes
    above, below = (",".join(names[one].name for one in some) for some in (parents, course.dag.children[node]))
    yield f"PARENTS: {above} WAITING: {int(course.waits[node] > 0)} CHILDREN: {below}"
