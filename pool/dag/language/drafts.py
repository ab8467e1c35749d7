"""What is known of a graph while its files are read: nodes and edges by number, and the scopes of splices.

A scope is a DAG file with what it includes. Its nodes' full names begin with its prefix: `SPLICE+`, and `0.` where
several DAG files are one graph. Numbers are given as nodes are read; the splices' nodes come behind their scope's own
when the graph is made, as in HTCondor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pool.dag.language.commands import Command
from pool.dag.language.source import Line
from pool.dag.model import (
    AbortOn,
    Dag,
    DotFile,
    Environment,
    Node,
    NodeKind,
    Odd,
    Place,
    Retry,
    Script,
    StatusFile,
    Tolerance,
    Variable,
)

_NO_RETRY = Retry(0)
NO_ENVIRONMENT = Environment()


@dataclass(slots=True, eq=False)
class NodeDraft:
    """A node while commands say more of it: the fields of `Node`."""

    name: str
    kind: NodeKind
    submit: str
    place: Place
    description: str | None
    directory: str
    noop: bool
    done: bool
    pre: Script | None = None
    post: Script | None = None
    hold: Script | None = None
    pre_skip: int | None = None
    retry: Retry = _NO_RETRY
    abort_on: AbortOn | None = None
    tolerance: Tolerance | None = None
    variables: tuple[Variable, ...] = ()
    priority: int = 0
    category: str = ""
    save_point: str = ""

    def node(self) -> Node:
        """What has become of it."""
        return Node(
            self.name, self.kind, self.submit, self.place, self.description, self.directory, self.noop, self.done,
            self.pre, self.post, self.hold, self.pre_skip, self.retry, self.abort_on, self.tolerance,
            self.variables, self.priority, self.category, self.save_point,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class Scope:
    """A DAG file that is read: the graph's own, or a splice's."""

    before: str
    """What its nodes' names begin with in the whole graph."""
    categories: str
    """What its categories' names begin with: the names of the splices."""
    directory: str
    """Where its files and its nodes' directories are found."""
    number: str = ""
    """What stands before each name, where several DAG files are one graph."""
    parent: Scope | None = None
    depth: int = 0
    own: list[int] = field(default_factory=list)
    splices: dict[str, Scope] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    waiting: list[tuple[Line, Command]] = field(default_factory=list)
    """What names nodes that come later, and all that is said of nodes behind it."""
    complete: bool = False
    """Whether all its nodes are known."""
    first: list[int] = field(default_factory=list)
    """Of a splice, once it is read: its nodes that waited for none, which will for its parents."""
    last: list[int] = field(default_factory=list)
    """Those that none waited for: its children will."""
    pins: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    """The files that are being read, each included by the one before."""

    def nodes(self) -> list[int]:
        """Its nodes and those of its splices, in the graph's order."""
        found = list(self.own)
        # By name, as condor_dagman keeps them.
        for name in sorted(self.splices):
            found += self.splices[name].nodes()
        return found

    def description(self, name: str) -> str | None:
        """The SUBMIT-DESCRIPTION of a name: its own, or else one of the scopes around it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.descriptions:
                return scope.descriptions[name]
            scope = scope.parent
        return None


@dataclass(slots=True, eq=False)
class Draft:
    """The graph while it is read."""

    nodes: list[NodeDraft] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    """Each node's scope."""
    by_name: dict[str, int] = field(default_factory=dict)
    children: list[list[int] | None] = field(default_factory=list)
    weak: dict[int, list[int]] = field(default_factory=dict)
    has_parent: bytearray = field(default_factory=bytearray)
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)
    """MAXJOBS of each category: how deep the scope is that says so, and the number."""
    limited: dict[str, Line] = field(default_factory=dict)
    categories: dict[str, Line] = field(default_factory=dict)
    """Where each is first given: as a limit, and to a node."""
    status_file: StatusFile | None = None
    dot: DotFile | None = None
    jobstate_log: str = ""
    config: str = ""
    environment: Environment = NO_ENVIRONMENT
    attributes: dict[str, tuple[str, str]] = field(default_factory=dict)
    rejected: Place | None = None
    warnings: list[Odd] = field(default_factory=list)
    sought: dict[tuple[str, str], Place | None] = field(default_factory=dict)
    """Edges whose line is sought, by the names of their nodes."""
    makes_joins: bool = False
    joins: set[int] = field(default_factory=set)
    """The join nodes."""

    def warn(self, line: Line, text: str, strictness: int) -> None:
        """Something is odd; from this DAGMAN_USE_STRICT on it is an error."""
        self.warnings.append(Odd(f"{line.file}:{line.number}: {text}", strictness))

    def _check_categories(self) -> None:
        for name, line in self.limited.items():
            if name not in self.categories:
                self.warn(line, f"MAXJOBS {name} has no effect, as no node is of that category", 2)
        for name, line in self.categories.items():
            if name not in self.limits:
                self.warn(line, f"category {name} has no effect without MAXJOBS", 2)

    def add(self, node: NodeDraft, scope: Scope) -> None:
        """A new node."""
        self.by_name[node.name] = len(self.nodes)
        scope.own.append(len(self.nodes))
        self.nodes.append(node)
        self.scopes.append(scope)
        self.children.append(None)
        self.has_parent.append(0)

    def connect(self, parents: list[int], children: list[int], *, weak: bool) -> None:
        """Every child waits for every parent."""
        for child in children:
            self.has_parent[child] = 1
        for parent in parents:
            if weak:
                self.weak.setdefault(parent, []).extend(children)
            elif (known := self.children[parent]) is None:
                self.children[parent] = list(children)
            else:
                known += children

    def close(self, splice: Scope) -> None:
        """A splice has been read: what stands for it where it is a parent or a child."""
        # Now: edges from outside would give its first nodes parents.
        nodes = splice.nodes()
        splice.first = [node for node in nodes if not self.has_parent[node]]
        splice.last = [node for node in nodes if self.children[node] is None and node not in self.weak]

    def dag(self, file: str, roots: list[Scope]) -> Dag:
        """What has become of it. The draft is used up."""
        self._check_categories()
        order = [node for root in roots for node in root.nodes()]
        numbers = list(range(len(order)))
        if order != numbers:
            for new, old in enumerate(order):
                numbers[old] = new
        children = tuple([_sorted(self.children[old], numbers) for old in order])
        weak = self._weak(order, numbers, children)
        self.children.clear()
        # One by one, so that drafts go as nodes come.
        nodes = []
        for old in order:
            nodes.append(self.nodes[old].node())
            self.nodes[old] = None  # type: ignore[call-overload]
        return Dag(
            file, tuple(nodes), children, weak,
            tuple((name, limit) for name, (_, limit) in self.limits.items()),
            self.status_file, self.dot, self.jobstate_log, self.config, self.environment,
            tuple(self.attributes.values()), self.rejected, tuple(self.warnings),
        )  # fmt: skip

    def _weak(
        self, order: list[int], numbers: list[int], strong: tuple[tuple[int, ...], ...]
    ) -> tuple[tuple[int, ...], ...]:
        if not self.weak:
            return ()
        # A dependency that is said both ways is a strong one.
        edges = [
            tuple([child for child in _sorted(self.weak.get(old), numbers) if child not in strong[new]])
            for new, old in enumerate(order)
        ]
        return tuple(edges) if any(edges) else ()


def _sorted(children: list[int] | None, numbers: list[int]) -> tuple[int, ...]:
    """Each child once, in the order of the edges."""
    if children is None:
        return ()
    if len(children) == 1:
        return (numbers[children[0]],)
    return tuple(dict.fromkeys([numbers[child] for child in children]))
