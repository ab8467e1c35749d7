"""A graph of jobs as its files describe it: splices and included files are resolved, names are whole (`SPLICE+NODE`).

Nodes are known by their number, the place in `Dag.nodes`; names are for people. The order of nodes is that
of the files.
"""

from typing import Final, Literal, NamedTuple

NodeKind = Literal["JOB", "SUBDAG", "FINAL", "PROVISIONER", "SERVICE"]
ScriptKind = Literal["PRE", "POST", "HOLD"]


class Place(NamedTuple):
    """Where something is said, for messages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Script(NamedTuple):
    """A program that DAGMan runs at the access point for a node."""

    kind: ScriptKind
    executable: str
    arguments: str
    """As written: `$NODE` and its like are replaced when it runs, and no shell reads them."""
    place: Place
    defer_status: int | None = None
    """The exit code that asks for another run later (DEFER)."""
    defer_s: int = 0
    debug_file: str = ""
    """Where its output is appended, or empty."""
    debug_streams: Literal["", "STDOUT", "STDERR", "ALL"] = ""


class Retry(NamedTuple):
    """How often a node that failed runs again."""

    times: int
    unless_exit: int | None = None


class AbortOn(NamedTuple):
    """The exit code of a node that ends the whole graph, and what the graph then returns (None: the same code)."""

    exit_code: int
    returns: int | None = None


class Tolerance(NamedTuple):
    """How many of a node's jobs may fail before the node has failed, and what becomes of the others then."""

    value: int
    percent: bool
    fail_fast: bool | None = None
    """None: as DAGMan's configuration says."""


class Variable(NamedTuple):
    """A macro for the submit description of a node's jobs (VARS)."""

    name: str
    value: str
    where: Literal["", "PREPEND", "APPEND"] = ""


class Node(NamedTuple):
    """One node."""

    name: str
    kind: NodeKind
    submit: str
    """The submit file, or the DAG file of a SUBDAG, as written; empty where `description` is set."""
    place: Place
    description: str | None = None
    """The text of a submit description in the DAG file itself: inline, or a SUBMIT-DESCRIPTION's."""
    directory: str = ""
    noop: bool = False
    done: bool = False
    pre: Script | None = None
    post: Script | None = None
    hold: Script | None = None
    pre_skip: int | None = None
    retry: Retry = Retry(0)
    abort_on: AbortOn | None = None
    tolerance: Tolerance | None = None
    variables: tuple[Variable, ...] = ()
    priority: int = 0
    category: str = ""
    save_point: str = ""
    """The save file that is written when the node first starts, or empty."""


class StatusFile(NamedTuple):
    """NODE_STATUS_FILE."""

    path: str
    min_interval_s: int = 60
    always: bool = False


class DotFile(NamedTuple):
    """DOT."""

    path: str
    update: bool = False
    overwrite: bool = False
    """One file, written again and again; else each picture has a number behind its name."""
    include: str = ""


class Environment(NamedTuple):
    """ENV: what DAGMan's own job gets of the submitter's environment (GET), and what is set (SET)."""

    get: tuple[str, ...] = ()
    set: tuple[str, ...] = ()


class Odd(NamedTuple):
    """What is strange in a DAG file, and no mistake."""

    text: str
    """With its place."""
    strictness: int
    """The DAGMAN_USE_STRICT from which on the graph does not run: from 1 if it is severe to 3."""


class Dag(NamedTuple):
    """The whole graph."""

    file: str
    """The primary DAG file, as it was named."""
    nodes: tuple[Node, ...]
    children: tuple[tuple[int, ...], ...]
    """For each node the numbers of those that wait for it to succeed."""
    weak: tuple[tuple[int, ...], ...] = ()
    """For each node the numbers of those that wait for it to be over, however it ended (WEAK); empty if none."""
    categories: tuple[tuple[str, int], ...] = ()
    """MAXJOBS of each category that has one."""
    status_file: StatusFile | None = None
    dot: DotFile | None = None
    jobstate_log: str = ""
    config: str = ""
    environment: Environment = Environment()
    attributes: tuple[tuple[str, str], ...] = ()
    """SET_JOB_ATTR: attributes of DAGMan's own job, with the text of their expressions."""
    rejected: Place | None = None
    """Where REJECT stands: such a graph is not run."""
    warnings: tuple[Odd, ...] = ()
    """What the reader found strange."""


JOIN: Final = "_condor_join_node"
"""What names of join nodes begin with, behind the splice's: they have no job, and stand between many nodes and many."""


def is_join(name: str) -> bool:
    """Whether a node of this name is a join node."""
    return name.rpartition("+")[2].startswith(JOIN)


ALL_NODES: Final = "ALL_NODES"
"""What stands for all nodes in most commands (HTCondor reads it in any case)."""
