"""Scripts that run and that wait to run, and what their arguments stand for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from pool.dag.course.attempt import Attempt
from pool.dag.course.states import SIGNAL_MAX
from pool.dag.model import Script


class ScriptQueue:
    """The scripts of one kind. `limit` says how many may run at once; 0: any number."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting: deque[int] = deque()
        self.deferrals = 0

    def may_run(self, limit: int) -> bool:
        """Whether one more may run."""
        return not limit or self.running < limit


class Facts(NamedTuple):
    """What scripts are told of the graph and of the node."""

    node: str
    retry: int
    max_retries: int
    dag_status: int
    failed: int
    futile: int
    done: int
    queued: int
    nodes: int
    dag_id: int


def words(script: Script, facts: Facts, attempt: Attempt) -> tuple[str, ...]:
    """The script's command: each word that is a macro is replaced, and no shell reads it (SCRIPT in the manual)."""
    found = [script.executable]
    for word in script.arguments.split():
        name = word.upper()  # HTCondor reads them in any case
        if name in _ANY:
            found.append(str(_ANY[name](facts)))
        elif name in _AFTER and script.kind != "PRE":
            found.append(str(_AFTER[name](attempt)))
        else:
            found.append(word)
    return tuple(found)


def unknown_macros(script: Script) -> list[str]:
    """The words of its arguments that look like macros, and are none there."""
    there = _ANY.keys() | (set() if script.kind == "PRE" else _AFTER.keys())
    return [word for word in script.arguments.split() if word.startswith("$") and word.upper() not in there]


def job_words(value: int) -> str:
    """How the job ended, before what its POST script did."""
    if value == 0:
        return ""
    if value > 0:
        return f"Job exited with status {value} and "
    if value >= -SIGNAL_MAX:
        return f"Job died on signal {-value} and "
    return f"Job failed due to DAGMAN error {value} and "


def return_of(code: int) -> str:
    """How a script ended, in condor_dagman's words."""
    return f"died on signal {-code}" if code < 0 else f"failed with status {code}"


_ANY: dict[str, Callable[[Facts], object]] = {
    "$NODE": lambda one: one.node,
    "$JOB": lambda one: one.node,
    "$RETRY": lambda one: one.retry,
    "$MAX_RETRIES": lambda one: one.max_retries,
    "$DAG_STATUS": lambda one: one.dag_status,
    "$FAILED_COUNT": lambda one: one.failed,
    "$FUTILE_COUNT": lambda one: one.futile,
    "$DONE_COUNT": lambda one: one.done,
    "$QUEUED_COUNT": lambda one: one.queued,
    "$NODE_COUNT": lambda one: one.nodes,
    "$DAGID": lambda one: one.dag_id,
}
_AFTER: dict[str, Callable[[Attempt], object]] = {
    "$JOBID": lambda one: f"{one.cluster}.0",
    "$CLUSTERID": lambda one: one.cluster,
    "$JOB_COUNT": lambda one: one.jobs,
    "$SUCCESS": lambda one: one.succeeded,
    "$RETURN": lambda one: one.job_value,
    "$EXIT_CODES": lambda one: ",".join(str(code) for code, _ in one.counted()),
    "$EXIT_CODE_COUNTS": lambda one: ",".join(f"{code}:{count}" for code, count in one.counted()),
    "$EXIT_CODE_LIST": lambda one: ",".join(map(str, one.exit_codes())),
    "$PRE_SCRIPT_RETURN": lambda one: one.pre_value,
    "$JOB_ABORT_COUNT": lambda one: one.aborted,
}
