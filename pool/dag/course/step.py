"""What each event does to a graph: one function an event, and the table of them.

* What comes too late or twice does nothing: a job's cluster says to which attempt it belongs.
* After each event nodes are submitted as far as the limits allow, and it is seen whether the graph has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pool.dag.course import happenings as it
from pool.dag.course.attempt import Attempt
from pool.dag.course.course import Course, S
from pool.dag.course.ending import check_end
from pool.dag.course.scripts import job_words, return_of
from pool.dag.course.states import JOB_ABORTED, JOB_SKIPPED, PROVISIONED, SUBMIT_FAILED, DagStatus, ExitCode


def step(course: Course, event: it.Event) -> list[it.Effect]:
    """What must be done now that this has happened. What comes too late, or twice, does nothing."""
    effects: list[it.Effect] = []
    course.effects = effects
    if not course.over:
        HANDLERS[type(event)](course, event)
        if course.begun:
            course.submit_ready()
            if not course.submitted:
                check_end(course)
                course.submit_ready()  # the FINAL node may have begun
    course.effects = []
    return [one for one in effects if isinstance(one, it.Say)] if course.recovering else effects


# ---- submitting


def _submitted(course: Course, event: it.Submitted) -> None:
    node = event.node
    if course.states[node] == S.DONE:  # a rescue file that a recovery has read says so already
        course.attempts.pop(node, None)
        return
    if course.states[node] != S.SUBMITTED:
        _found_submitted(course, node)
    one = course.attempt(node)
    if one.cluster == event.cluster and one.jobs:
        return
    # The next failure is one of its own, and not the continuation of this one.
    course.pause_s = 1
    course.idle_jobs -= len(one.idle)
    one.queue(event.cluster, event.jobs, event.is_factory)
    course.idle_jobs += len(one.idle)
    course.jobs_submitted += one.jobs
    course.jobs_queued += one.jobs
    course.say(f"\tassigned HTCondor ID ({event.cluster}.0.0)")
    course.note(node, "SUBMIT", course.job_of(node))
    # Nothing but the FINAL node shall run any more.
    if course.final_ran and node not in (course.final, *course.services):
        # It was on its way when the graph was to end.
        course.effects.append(it.RemoveCluster(node, event.cluster, "DAG Abort: DAG is exiting."))
    elif one.beyond_limit:
        course.remove_beyond_limit(node)


def _found_submitted(course: Course, node: int) -> None:
    """In a recovery: the node's jobs are in the queue, so all before has been."""
    if course.states[node] == S.POSTRUN:
        course.post -= 1
    course.states[node] = S.SUBMITTED
    course.attempts[node] = Attempt()
    if node == course.final:
        course.final_ran = True
    if course.node(node).kind != "SERVICE":
        course.submitted += 1
    course.ready.enter(course.node(node).category)


def _submit_failed(course: Course, event: it.SubmitFailed) -> None:
    node, one = event.node, course.attempt(event.node)
    if course.states[node] != S.SUBMITTED:
        return
    course.not_submitted(node)
    course.note(node, "SUBMIT_FAILURE", "-")
    # A description that is wrong does not get better by waiting.
    most = 0 if event.is_final else course.settings.submit_attempts
    if course.status is DagStatus.RM and node != course.final:
        most = min(most, 2)
    if one.tries < most:
        # Those that fail together wait together: each of them would else double the pause.
        if not course.paused:
            course.paused = True
            course.effects.append(it.Pause(course.pause_s))
            course.pause_s *= 2
        wait = course.pause_s // 2
        ending = "" if wait == 1 else "s"
        course.say(f"Job submit try {one.tries}/{most} failed, will try again in >= {wait} second{ending}.")
        course.be_ready(node, first=course.settings.retry_submit_first)
        return
    course.pause_s = 1
    course.say(f"Node submit failed after {one.tries} tr{'y' if one.tries == 1 else 'ies'}.")
    course.say(f"Shortcutting node {course.node(node).name} retries because of submit failure(s)")
    # Each attempt to submit it was a retry already.
    course.retries[node] = course.retry_max(node)
    one.succeeded = False
    one.error = f"Job submit failed: {event.reason}" if event.reason else "Job submit failed"
    if course.node(node).post is not None:
        one.job_value = SUBMIT_FAILED
        course.run_post(node)
    else:
        course.fail(node)


def _pause_over(course: Course, event: it.PauseOver) -> None:
    course.paused = False


# ---- jobs


def _job_made(course: Course, event: it.JobMade) -> None:
    one = course.attempts.get(event.node)
    if one is None or one.cluster != event.cluster or event.proc in one.idle or event.proc in one.codes:
        return
    one.jobs += 1
    one.left += 1
    one.idle.add(event.proc)
    course.idle_jobs += 1
    course.jobs_submitted += 1
    course.jobs_queued += 1


def _present(
    course: Course, event: it.JobRuns | it.JobWaits | it.JobHeld | it.JobReleased | it.JobEnded
) -> Attempt | None:
    """The attempt that the job belongs to, if the job is in the queue."""
    one = course.attempts.get(event.node)
    if one is None or one.cluster != event.cluster or event.proc in one.codes:
        return None
    return one if course.states[event.node] == S.SUBMITTED else None


def _idle(course: Course, one: Attempt, proc: int, idle: bool) -> None:
    if idle and proc not in one.idle:
        one.idle.add(proc)
        course.idle_jobs += 1
    elif not idle and proc in one.idle:
        one.idle.discard(proc)
        course.idle_jobs -= 1


def _release(course: Course, one: Attempt, proc: int) -> None:
    if proc in one.held:
        one.held.discard(proc)
        course.held_jobs -= 1


def _job_runs(course: Course, event: it.JobRuns) -> None:
    if (one := _present(course, event)) is not None:
        _release(course, one, event.proc)
        if event.proc in one.idle:
            course.note(event.node, "EXECUTE", f"{event.cluster}.{event.proc}")
        _idle(course, one, event.proc, False)


def _job_waits(course: Course, event: it.JobWaits) -> None:
    if (one := _present(course, event)) is not None:
        _idle(course, one, event.proc, True)


def _job_held(course: Course, event: it.JobHeld) -> None:
    one, most = _present(course, event), course.settings.job_holds_max
    if one is None or event.proc in one.held:
        return
    one.held.add(event.proc)
    one.holds += 1
    course.held_jobs += 1
    _idle(course, one, event.proc, True)
    node = course.node(event.node)
    course.note(event.node, "JOB_HELD", f"{event.cluster}.{event.proc}")
    if most and one.holds >= most:
        course.say(
            f"Total hold count for job {event.cluster} (node {node.name})has reached DAGMAN_MAX_JOB_HOLDS ({most}); "
            "all job proc(s) for this node will now be removed"
        )
        reason = "DAG Limit: Max number of held jobs was reached."
        course.effects.append(it.RemoveCluster(event.node, event.cluster, reason))
    if node.hold is not None and not course.recovering:
        course.hold += 1
        course.run_script(event.node, node.hold)


def _job_released(course: Course, event: it.JobReleased) -> None:
    if (one := _present(course, event)) is not None:
        course.note(event.node, "JOB_RELEASED", f"{event.cluster}.{event.proc}")
        _release(course, one, event.proc)


def _job_ended(course: Course, event: it.JobEnded) -> None:
    one = _present(course, event)
    if one is None:
        return
    node, job = event.node, f"({event.cluster}.{event.proc}.0)"
    _release(course, one, event.proc)
    _idle(course, one, event.proc, False)
    one.left -= 1
    course.jobs_queued -= 1
    course.jobs_ended += 1
    # A node that has failed already is not failed again by the jobs that are removed then.
    was_over = _has_failed(course, node, one)
    word = "JOB_ABORTED" if event.code is None and event.signal is None else "JOB_TERMINATED"
    course.note(node, word, f"{event.cluster}.{event.proc}")
    if event.code == 0:
        course.jobs_succeeded += 1
        one.codes[event.proc] = 0
        # The first failure is what the node returns, whatever comes after it.
        if not was_over:
            one.value = one.job_value = 0
        course.say(f"Node {course.node(node).name} job proc {job} completed successfully.")
    else:
        _job_failed(course, node, one, event)
        if not was_over and _has_failed(course, node, one):
            one.succeeded = False
            _remove_others(course, node, one, job)
    if not one.factory and one.left == 0:
        _jobs_over(course, node, one)


def _job_failed(course: Course, node: int, one: Attempt, event: it.JobEnded) -> None:
    name, job = course.node(node).name, f"({event.cluster}.{event.proc}.0)"
    if event.signal is not None:
        value, error = -event.signal, f"Job proc {job} failed with signal {event.signal}"
        course.say(f"Node {name} job proc {job} failed with signal {event.signal}.")
    elif event.code is not None:
        value, error = event.code, f"Job proc {job} failed with status {event.code}"
        course.say(f"Node {name} job proc {job} failed with status {event.code}.")
    else:
        value, error = JOB_ABORTED, f"HTCondor reported ULOG_JOB_ABORTED event for job proc {job}"
    # What the graph has taken back is no failure of the node's: once for each attempt, whatever many jobs it had.
    if event.beyond_limit and JOB_ABORTED not in one.codes.values():
        course.more_retries[node] = course.more_retries.get(node, 0) + 1
    one.codes[event.proc] = value
    one.failed += 1
    if one.failed == 1:
        one.value, one.job_value, one.error = value, value, error


def _has_failed(course: Course, node: int, one: Attempt) -> bool:
    """Whether more of the node's jobs have failed than may."""
    tolerance = course.node(node).tolerance
    if tolerance is None:
        return one.failed > course.settings.tolerance
    return one.failed > (one.jobs * tolerance.value // 100 if tolerance.percent else tolerance.value)


def _remove_others(course: Course, node: int, one: Attempt, job: str) -> None:
    """One job too many has failed: the others go, if the node or the configuration says so."""
    tolerance = course.node(node).tolerance
    fast = course.settings.remove_job_list
    if tolerance is not None and tolerance.fail_fast is not None:
        fast = tolerance.fail_fast
    if fast and (one.left or one.factory):
        name = course.node(node).name
        reason = f"Node Error: DAG node {name} {job} reached failure tolerance after {one.failed} failures."
        course.effects.append(it.RemoveCluster(node, one.cluster, reason))


def _jobs_over(course: Course, node: int, one: Attempt) -> None:
    """All of the node's jobs have left the queue."""
    course.not_submitted(node)
    # What it was to provide is not there, and all other nodes wait for it.
    if node == course.provisioner and not course.provisioned:
        name = course.node(node).name
        course.say(f"ERROR: Provisioner node {name} job exited before giving DAGMan the go ahead!")
        course.shut_down(ExitCode.ERROR, DagStatus.ERROR)
        return
    course.say(f"Node {course.node(node).name} job(s) have exited the queue")
    failed = _has_failed(course, node, one)
    course.note(node, "JOB_FAILURE" if failed else "JOB_SUCCESS", str(one.value))
    if course.node(node).post is not None:
        course.run_post(node)
        return
    if failed:
        course.fail_or_retry(node)
    else:
        course.succeed(node, last=course.wants_abort(node))
    course.abort_if_wanted(node, "job", one.value)


def _cluster_over(course: Course, event: it.ClusterOver) -> None:
    one = course.attempts.get(event.node)
    # Jobs that have left while it was asked whether more come are told in their turn.
    if one is not None and one.cluster == event.cluster and one.factory and one.left == 0:
        one.factory = False
        _jobs_over(course, event.node, one)


# ---- scripts


def _script_ended(course: Course, event: it.ScriptEnded) -> None:
    node, script = event.node, course.script(event.node, event.kind)
    queue = course.scripts[event.kind]
    if script is None or (not queue.running and not course.recovering):
        return  # it was ended with all others
    queue.running -= not course.recovering
    if script.defer_status is not None and script.defer_status == event.code and not course.recovering:
        queue.deferrals += 1
        course.say(
            f"Deferring {event.kind} script of node {course.node(node).name} for {script.defer_s} seconds "
            f"(exit status was {event.code})..."
        )
        course.effects.append(it.DeferScript(node, event.kind, script.defer_s))
    elif event.kind == "HOLD":
        course.hold -= 1
    elif event.kind == "PRE" and course.states[node] == S.PRERUN:
        _pre_ended(course, node, event.code)
    elif event.kind == "POST" and (course.states[node] == S.POSTRUN or _had_no_job(course, node)):
        _post_ended(course, node, event.code)
    course.run_waiting(event.kind)


def _had_no_job(course: Course, node: int) -> bool:
    """In a recovery: nothing but its POST script is known of a node whose PRE script or submission had failed."""
    if not course.recovering or course.states[node] != S.READY:
        return False
    course.attempt(node).job_value = JOB_SKIPPED
    return True


def _script_due(course: Course, event: it.ScriptDue) -> None:
    script = course.script(event.node, event.kind)
    due = {"PRE": S.PRERUN, "POST": S.POSTRUN}.get(event.kind)
    if script is not None and due in (None, course.states[event.node]):
        course.run_script(event.node, script)


def _pre_ended(course: Course, node: int, code: int) -> None:
    one, this = course.attempt(node), course.node(node)
    course.pre -= 1
    one.value = one.pre_value = code
    if code == 0:
        course.say(f"PRE Script of node {this.name} completed successfully.")
        course.note(node, "PRE_SCRIPT_SUCCESS", "-")
        course.be_ready(node, first=course.settings.depth_first)
        return
    course.say(f"PRE Script of Node {this.name} {return_of(code)}")
    course.note(node, "PRE_SCRIPT_FAILURE", str(code))
    one.error = f"PRE Script {return_of(code)}"
    # Neither the job nor the POST script runs, and the node is done.
    if this.pre_skip is not None and this.pre_skip == code:
        course.say(f"PRE_SKIP return value {code} indicates we are done (successfully) with node {this.name}")
        course.effects.append(it.LogSkipped(node))
        course.succeed(node)
        return
    one.succeeded = False
    if course.settings.always_run_post and this.post is not None:
        one.job_value = JOB_SKIPPED
        course.run_post(node)
    else:
        course.fail_or_retry(node)
    course.abort_if_wanted(node, "PRE script", code)


def _post_ended(course: Course, node: int, code: int) -> None:
    one, name = course.attempt(node), course.node(node).name
    if course.states[node] == S.POSTRUN:
        course.post -= 1
    course.effects.append(it.LogPost(node, one.cluster, code))
    # What it returns, and not what the job did, says whether the node is retried, and the graph goes on.
    one.value = code
    if code == 0:
        course.say(f"POST Script of node {name} completed successfully.")
        course.note(node, "POST_SCRIPT_SUCCESS", course.job_of(node))
        course.succeed(node, last=course.wants_abort(node))
    else:
        course.say(f"POST Script of node {name} {return_of(code)}")
        course.say(f"POST for Node {name} returned {code}")
        course.note(node, "POST_SCRIPT_FAILURE", course.job_of(node))
        course.fail_or_retry(node, f"{job_words(one.job_value)}POST Script {return_of(code)}")
    course.abort_if_wanted(node, "POST script", code)


def _was_skipped(course: Course, event: it.WasSkipped) -> None:
    course.succeed(event.node)


# ---- the graph


def _begin(course: Course, event: it.Begin) -> None:
    course.begin()


def _recover(course: Course, event: it.Recover) -> None:
    course.recovering = True


def _halt(course: Course, event: it.Halt) -> None:
    if not course.halted:
        course.say("DAG is halted because halt file exists")
        course.halted = True
        course.worsen(DagStatus.HALTED)


def _resume(course: Course, event: it.Resume) -> None:
    if course.halted:
        course.say("DAG going from halted to running state")
        course.halted = False
        if course.status is DagStatus.HALTED:
            course.status = DagStatus.NODE_FAILED if course.failed else DagStatus.OK
        course.run_waiting("PRE")


def _new_limits(course: Course, event: it.NewLimits) -> None:
    before, course.limits = course.limits.jobs, event.limits
    if course.settings.enforce_new_limit and course.limits.jobs not in (0, before):
        course.enforce_limit()
    # More may run now; nodes are looked at after every event anyway.
    for kind in course.scripts:
        course.run_waiting(kind)


def _provisioner_ready(course: Course, event: it.ProvisionerReady) -> None:
    if not course.provisioned:
        course.say(f"Provisioner job state: <{PROVISIONED}>")
        course.provisioned = True
        if course.begun:
            course.begin_all()


def _remove(course: Course, event: it.Remove) -> None:
    if course.status is not DagStatus.RM:
        course.shut_down(ExitCode.ABORT, DagStatus.RM)


def _abort(course: Course, event: it.Abort) -> None:
    course.say(event.why)
    course.shut_down(ExitCode.ERROR, DagStatus.ERROR)


HANDLERS: Final[Mapping[type, Callable[[Course, Any], None]]] = {
    it.Begin: _begin,
    it.Recover: _recover,
    it.Submitted: _submitted,
    it.SubmitFailed: _submit_failed,
    it.PauseOver: _pause_over,
    it.JobMade: _job_made,
    it.JobRuns: _job_runs,
    it.JobWaits: _job_waits,
    it.JobHeld: _job_held,
    it.JobReleased: _job_released,
    it.JobEnded: _job_ended,
    it.ClusterOver: _cluster_over,
    it.ScriptEnded: _script_ended,
    it.ScriptDue: _script_due,
    it.WasSkipped: _was_skipped,
    it.Halt: _halt,
    it.Resume: _resume,
    it.NewLimits: _new_limits,
    it.ProvisionerReady: _provisioner_ready,
    it.Remove: _remove,
    it.Abort: _abort,
}
