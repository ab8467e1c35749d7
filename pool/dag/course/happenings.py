"""What may happen to a graph, and what must be done because of it.

A node is its number in `Dag.nodes`. Events and effects are told apart by their types alone: as tuples many are equal.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from pool.dag.course.states import DagStatus, Limits
from pool.dag.model import ScriptKind

# ---- events


class Begin(NamedTuple):
    """Start what may start: of a new graph, or after all of a recovery has been told."""


class Recover(NamedTuple):
    """What follows, until `Begin`, has happened before: nothing is done because of it."""


class Submitted(NamedTuple):
    """The node's jobs are in the queue."""

    node: int
    cluster: int
    jobs: int
    is_factory: bool = False
    """The schedd makes the jobs one after another: the node is over with `ClusterOver` alone."""


class SubmitFailed(NamedTuple):
    """The node's jobs could not be queued."""

    node: int
    reason: str
    is_final: bool
    """Another attempt would fail alike."""


class PauseOver(NamedTuple):
    """The pause after a submission that failed is over."""


class JobMade(NamedTuple):
    """A job of a cluster that is a factory has been made."""

    node: int
    cluster: int
    proc: int


class JobRuns(NamedTuple):
    """A job executes."""

    node: int
    cluster: int
    proc: int


class JobWaits(NamedTuple):
    """A job that ran waits to run again, or is suspended."""

    node: int
    cluster: int
    proc: int


class JobHeld(NamedTuple):
    """A job was put on hold."""

    node: int
    cluster: int
    proc: int


class JobReleased(NamedTuple):
    """A held job was released."""

    node: int
    cluster: int
    proc: int


class JobEnded(NamedTuple):
    """A job has left the queue: with a code, by a signal, or (neither) because it was removed."""

    node: int
    cluster: int
    proc: int
    code: int | None = None
    signal: int | None = None
    beyond_limit: bool = False
    """It was removed because the limit of nodes was lowered."""


class ClusterOver(NamedTuple):
    """A factory makes no more jobs, and all that it made have left."""

    node: int
    cluster: int


class ScriptEnded(NamedTuple):
    """A script has ended: with a code, or by a signal, which is negative."""

    node: int
    kind: ScriptKind
    code: int


class ScriptDue(NamedTuple):
    """A script that was deferred may run."""

    node: int
    kind: ScriptKind


class WasSkipped(NamedTuple):
    """In a recovery: the node's PRE script skipped it."""

    node: int


class Halt(NamedTuple):
    """Start nothing more."""


class Resume(NamedTuple):
    """Go on."""


class NewLimits(NamedTuple):
    """The limits are these now."""

    limits: Limits


class ProvisionerReady(NamedTuple):
    """What the provisioner was to provide is there."""


class Remove(NamedTuple):
    """The graph was removed from the queue."""


class Abort(NamedTuple):
    """The graph cannot go on."""

    why: str


Event: TypeAlias = (
    Begin | Recover | Submitted | SubmitFailed | PauseOver | JobMade | JobRuns | JobWaits | JobHeld | JobReleased
    | JobEnded | ClusterOver | ScriptEnded | ScriptDue | WasSkipped | Halt | Resume | NewLimits | ProvisionerReady
    | Remove | Abort
)  # fmt: skip

# ---- effects


class Submit(NamedTuple):
    """Queue the node's jobs; `Submitted` or `SubmitFailed` answers."""

    node: int
    retry: int
    on_hold: bool = False


class Pause(NamedTuple):
    """`PauseOver` shall come after so many seconds."""

    seconds: int


class RunScript(NamedTuple):
    """Run a script of the node; `ScriptEnded` answers."""

    node: int
    kind: ScriptKind
    command: tuple[str, ...]


class DeferScript(NamedTuple):
    """`ScriptDue` shall come after so many seconds."""

    node: int
    kind: ScriptKind
    seconds: int


class KillScripts(NamedTuple):
    """End all scripts that run; nothing answers."""


class RemoveCluster(NamedTuple):
    """Remove the jobs of a node."""

    node: int
    cluster: int
    reason: str


class RemoveAll(NamedTuple):
    """Remove the jobs of all nodes, but for those that live as long as the graph if a FINAL node comes."""

    reason: str
    spare_services: bool


class LogSkipped(NamedTuple):
    """The nodes' log shall have that the node's PRE script skipped it."""

    node: int


class LogPost(NamedTuple):
    """The nodes' log shall have how the node's POST script ended."""

    node: int
    cluster: int
    code: int


class WriteSave(NamedTuple):
    """Write the node's save file: it begins."""

    node: int


class WriteRescue(NamedTuple):
    """Write a rescue file."""


class Say(NamedTuple):
    """A line for condor_dagman's log."""

    text: str


class Note(NamedTuple):
    """A line for the JOBSTATE_LOG: node, word, the job or a code, the number of the attempt."""

    node: int
    word: str
    about: str
    sequence: int


class Finish(NamedTuple):
    """The graph is over."""

    code: int
    status: DagStatus


Effect: TypeAlias = (
    Submit | Pause | RunScript | DeferScript | KillScripts | RemoveCluster | RemoveAll | LogSkipped | LogPost
    | WriteSave | WriteRescue | Say | Note | Finish
)  # fmt: skip
