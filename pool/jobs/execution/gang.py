"""What the ends of its nodes make of a parallel job, and how its log tells of its nodes.

Source: HTCondor manual, "Parallel Applications", ParallelShutdownPolicy; the events are those that HTCondor 25.14 wrote
for such a job: 014 for each node, 001 for all of them, 015 for each node that ended by itself, 005.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from pool.classad import ClassAd
from pool.jobs.changes import Changes, exit_of, usage_of
from pool.jobs.execution.states import ByReport, Outcome
from pool.jobs.transfers.progress import TimedEvent
from pool.jobs.userlog import event_log as log
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.states import JobStatus, allowed

ALL_HOSTS: Final = "MPI_job"
"""The host of event 001."""


_OF_ALL: Final = frozenset(
    (
        *("CurrentHosts", "CompletionDate", "ExitBySignal", "ExitCode", "ExitSignal", "ExitStatus", "RequeueReason"),
        *("HoldReason", "HoldReasonCode", "HoldReasonSubCode", "NumHolds", "NumHoldsByReason", "NumSystemHolds"),
        *("RemoveReason", "VacateReason", "VacateReasonCode", "VacateReasonSubCode", "NumVacates"),
        *("CumulativeSuspensionTime", "LastSuspensionTime", "TotalSuspensions"),
        *("JobFinishedHookDone", "TerminationPending"),
    )
)
"""What is so of all procs of the job; the rest of an end is node 0's, and is told of the first alone."""


class ShutdownPolicy(StrEnum):
    """When the job is done."""

    NODE0 = "WAIT_FOR_NODE0"
    ALL = "WAIT_FOR_ALL"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The node whose end is the job's, and why the others shall leave."""

    node: int
    reason: str
    is_done: bool
    """The program is done: nothing that the others could still do matters."""


def policy_of(ad: ClassAd) -> ShutdownPolicy:
    """ParallelShutdownPolicy; any other text means what none means."""
    said = ad.eval_str("ParallelShutdownPolicy", "").upper()
    return ShutdownPolicy.ALL if said == ShutdownPolicy.ALL else ShutdownPolicy.NODE0


def has_exited(outcome: Outcome) -> bool:
    """Whether the node's program ended by itself, and its starter has said so."""
    return isinstance(outcome, ByReport) and outcome.end.ending is Ending.EXITED


def verdict(policy: ShutdownPolicy, size: int, ended: Mapping[int, Outcome]) -> Verdict | None:
    """What the ends of nodes, so far, make of the job; None while it goes on.

    It depends on what has ended and never on the order in which that became known: a schedd that comes back hears of
    the same ends in another order.
    """
    broken = min((node for node, outcome in ended.items() if not has_exited(outcome)), default=None)
    head = ended.get(0)
    if policy is ShutdownPolicy.NODE0 and head is not None and has_exited(head):
        return Verdict(0, "Node 0 of the parallel job has ended", is_done=True)
    if broken is not None:
        return Verdict(broken, f"Node {broken} of the parallel job has left its slot", is_done=False)
    return Verdict(0, "All nodes of the parallel job have ended", is_done=True) if len(ended) == size else None


def alongside(changes: Changes, status: JobStatus) -> Changes:
    """What becomes of a further proc of the job, in this state, when this becomes of its first."""
    told = {name: value for name, value in changes.attributes.items() if name in _OF_ALL}
    move = changes.move if changes.move is not None and allowed(status, changes.move) else None
    return Changes(told, changes.drop, move)


def node_executing(node: int, event: log.Executing) -> log.NodeExecuting:
    """A node's program was started, as `event` would say it of a job with one slot."""
    return log.NodeExecuting(node, event.host, event.slot_name, event.properties)


def all_executing(changes: Changes, nodes: tuple[TimedEvent, ...]) -> Changes:
    """All nodes run: what was noted of node 0's start, with the events of all nodes before the job's own."""
    return replace(changes, earlier=(*changes.earlier, *nodes), events=(log.Executing(ALL_HOSTS),))


def node_terminated(node: int, end: ClassAd) -> log.NodeTerminated:
    """A node's own end, as its starter has reported it."""
    sent, received = end.eval_float("BytesSent", 0.0), end.eval_float("BytesRecvd", 0.0)
    return log.NodeTerminated(node, exit_of(end), usage_of(end, ""), sent, received)
