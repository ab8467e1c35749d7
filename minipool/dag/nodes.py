"""The nodes of a graph that a program describes: layers, sub-DAGs, and the final one.

A node is made by its graph or by another node (`DAG.layer`, `node.child_layer`); what they share is a `Store`. Nodes
are the same if they have one name in one graph.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from minipool.client.model import Submit
from minipool.dag.edges import BaseEdge, ManyToMany
from minipool.dag.exceptions import DuplicateNodeName, UnrecognizedWalkOrder


class WalkOrder(str, enum.Enum):
    """Children before siblings (depth first), or siblings before children (breadth first)."""

    DEPTH_FIRST = "DEPTH"
    BREADTH_FIRST = "BREADTH"


class Script:
    """A program that runs at the access point before a node's jobs, after them, or when one is held.

    With `retry`, it runs again `retry_delay` seconds after it exited with `retry_status`.
    """

    def __init__(
        self,
        executable: str | PathLike[str],
        arguments: Iterable[object] | None = None,
        retry: bool = False,
        retry_status: int = 1,
        retry_delay: int = 0,
    ) -> None:
        self.executable = executable
        self.arguments = [str(argument) for argument in arguments or ()]
        self.retry, self.retry_status, self.retry_delay = retry, retry_status, retry_delay


class DAGAbortCondition:
    """The exit code of a node that ends the whole graph, and what the graph then returns (None: the same code)."""

    def __init__(self, node_exit_value: int, dag_return_value: int | None = None) -> None:
        self.node_exit_value, self.dag_return_value = node_exit_value, dag_return_value


class Store:
    """The nodes and edges of one graph, by the nodes' names, in the order in which they were made."""

    def __init__(self) -> None:
        self.nodes: dict[str, BaseNode] = {}
        self.final: FinalNode | None = None
        self.children: dict[str, dict[str, BaseEdge]] = {}
        self.parents: dict[str, dict[str, None]] = {}

    def check_new(self, name: str) -> None:
        """Refuse a name that is there."""
        if name in self.nodes or (self.final is not None and self.final.name == name):
            raise DuplicateNodeName(f"the DAG has a node named {name} already")

    def add(self, node: BaseNode) -> None:
        """A new node."""
        self.check_new(node.name)
        self.nodes[node.name] = node
        self.children[node.name], self.parents[node.name] = {}, {}

    def connect(self, parent: BaseNode, child: BaseNode, edge: BaseEdge | None) -> None:
        """An edge; one that was there is replaced."""
        self.children[parent.name][child.name] = ManyToMany() if edge is None else edge
        self.parents[child.name][parent.name] = None

    def part(self, parent: BaseNode, child: BaseNode) -> None:
        """No edge any more."""
        self.children[parent.name].pop(child.name, None)
        self.parents[child.name].pop(parent.name, None)


class BaseNode:
    """A node, or many that share what is said here; `noop` and `done` may differ by number."""

    def __init__(
        self,
        store: Store,
        *,
        name: str,
        dir: str | PathLike[str] | None = None,
        noop: bool | Mapping[int, bool] = False,
        done: bool | Mapping[int, bool] = False,
        retries: int | None = None,
        retry_unless_exit: int | None = None,
        pre: Script | None = None,
        post: Script | None = None,
        hold: Script | None = None,
        pre_skip_exit_code: int | None = None,
        priority: int = 0,
        category: str | None = None,
        abort: DAGAbortCondition | None = None,
    ) -> None:
        self._store = store
        self.name = name
        self.dir = None if dir is None else Path(dir)
        self.noop, self.done = noop, done
        self.retries, self.retry_unless_exit = retries, retry_unless_exit
        self.pre, self.post, self.hold, self.pre_skip_exit_code = pre, post, hold, pre_skip_exit_code
        self.priority, self.category, self.abort = priority, category, abort

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[BaseNode]:
        yield self

    # A layer of no nodes is a node all the same.
    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name = {self.name})"

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BaseNode) and self._store is other._store and self.name == other.name

    def child_layer(self, edge: BaseEdge | None = None, **kwargs: Any) -> NodeLayer:
        """A new layer that waits for this node."""
        return Nodes(self).child_layer(edge, **kwargs)

    def parent_layer(self, edge: BaseEdge | None = None, **kwargs: Any) -> NodeLayer:
        """A new layer that this node waits for."""
        return Nodes(self).parent_layer(edge, **kwargs)

    def child_subdag(self, edge: BaseEdge | None = None, **kwargs: Any) -> SubDAG:
        """A new sub-DAG that waits for this node."""
        return Nodes(self).child_subdag(edge, **kwargs)

    def parent_subdag(self, edge: BaseEdge | None = None, **kwargs: Any) -> SubDAG:
        """A new sub-DAG that this node waits for."""
        return Nodes(self).parent_subdag(edge, **kwargs)

    def add_children(self, *nodes: Iterable[BaseNode], edge: BaseEdge | None = None) -> BaseNode:
        """Nodes wait for this one; returns this one."""
        Nodes(self).add_children(*nodes, type=edge)
        return self

    def add_parents(self, *nodes: Iterable[BaseNode], edge: BaseEdge | None = None) -> BaseNode:
        """This node waits for nodes; returns this one."""
        Nodes(self).add_parents(*nodes, type=edge)
        return self

    def remove_children(self, *nodes: Iterable[BaseNode]) -> BaseNode:
        """Nodes do not wait for this one; returns this one."""
        Nodes(self).remove_children(*nodes)
        return self

    def remove_parents(self, *nodes: Iterable[BaseNode]) -> BaseNode:
        """This node does not wait for nodes; returns this one."""
        Nodes(self).remove_parents(*nodes)
        return self

    @property
    def children(self) -> Nodes:
        """Those that wait for this node."""
        return Nodes(self._store.nodes[name] for name in self._store.children[self.name])

    @property
    def parents(self) -> Nodes:
        """Those that this node waits for."""
        return Nodes(self._store.nodes[name] for name in self._store.parents[self.name])

    def walk_ancestors(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """Its parents, and theirs; each once."""
        return walk(self.parents, lambda node: node.parents, order)

    def walk_descendants(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """Its children, and theirs; each once."""
        return walk(self.children, lambda node: node.children, order)


class NodeLayer(BaseNode):
    """As many JOB nodes as `vars` has mappings, each with its VARS; they share a submit description.

    The description is a `Submit`, its text or commands, or the path of a submit file.
    """

    def __init__(
        self,
        store: Store,
        *,
        submit_description: Submit | Mapping[str, Any] | PathLike[str] | str | None = None,
        vars: Iterable[Mapping[str, object]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(store, **kwargs)
        self.submit_description = described(submit_description)
        # One node without variables, unless they are said: an empty list is a layer of none.
        self.vars = [{}] if vars is None else [dict(one) for one in vars]

    def __len__(self) -> int:
        return len(self.vars)


class SubDAG(BaseNode):
    """A node that is a graph of its own, in a DAG file."""

    def __init__(self, store: Store, *, dag_file: str | PathLike[str], **kwargs: Any) -> None:
        super().__init__(store, **kwargs)
        self.dag_file = Path(dag_file)


class FinalNode(BaseNode):
    """The node that runs last, whatever happened."""

    def __init__(
        self,
        store: Store,
        submit_description: Submit | Mapping[str, Any] | PathLike[str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(store, **kwargs)
        self.submit_description = described(submit_description)


def described(given: Submit | Mapping[str, Any] | PathLike[str] | str | None) -> Submit | Path:
    """A submit description, or the path of one."""
    if isinstance(given, Submit):
        return given
    if isinstance(given, PathLike):
        return Path(given)
    return Submit(given or "")


class Nodes:
    """Some nodes of one graph; what is said of them is said of each."""

    def __init__(self, *nodes: Iterable[BaseNode]) -> None:
        # In the order of their making, so that a graph is written alike each time.
        self.nodes: dict[BaseNode, None] = dict.fromkeys(one for some in nodes for one in some)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[BaseNode]:
        return iter(self.nodes)

    def __contains__(self, node: object) -> bool:
        return node in self.nodes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nodes) and self.nodes.keys() == other.nodes.keys()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Nodes({', '.join(map(repr, self.nodes))})"

    def _store(self) -> Store:
        return next(iter(self.nodes))._store

    def child_layer(self, type: BaseEdge | None = None, **kwargs: Any) -> NodeLayer:
        """A new layer that waits for each of these."""
        self._store().add(layer := NodeLayer(self._store(), **kwargs))
        self.add_children(layer, type=type)
        return layer

    def parent_layer(self, type: BaseEdge | None = None, **kwargs: Any) -> NodeLayer:
        """A new layer that each of these waits for."""
        self._store().add(layer := NodeLayer(self._store(), **kwargs))
        self.add_parents(layer, type=type)
        return layer

    def child_subdag(self, type: BaseEdge | None = None, **kwargs: Any) -> SubDAG:
        """A new sub-DAG that waits for each of these."""
        self._store().add(subdag := SubDAG(self._store(), **kwargs))
        self.add_children(subdag, type=type)
        return subdag

    def parent_subdag(self, type: BaseEdge | None = None, **kwargs: Any) -> SubDAG:
        """A new sub-DAG that each of these waits for."""
        self._store().add(subdag := SubDAG(self._store(), **kwargs))
        self.add_parents(subdag, type=type)
        return subdag

    def add_children(self, *nodes: Iterable[BaseNode], type: BaseEdge | None = None) -> Nodes:
        """Each of `nodes` waits for each of these; returns these."""
        for parent in self:
            for child in Nodes(*nodes):
                parent._store.connect(parent, child, type)
        return self

    def add_parents(self, *nodes: Iterable[BaseNode], type: BaseEdge | None = None) -> Nodes:
        """Each of these waits for each of `nodes`; returns these."""
        Nodes(*nodes).add_children(self, type=type)
        return self

    def remove_children(self, *nodes: Iterable[BaseNode]) -> Nodes:
        """None of `nodes` waits for any of these; returns these."""
        for parent in self:
            for child in Nodes(*nodes):
                parent._store.part(parent, child)
        return self

    def remove_parents(self, *nodes: Iterable[BaseNode]) -> Nodes:
        """None of these waits for any of `nodes`; returns these."""
        Nodes(*nodes).remove_children(self)
        return self

    def walk_ancestors(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """The ancestors of each, one after another."""
        for node in self:
            yield from node.walk_ancestors(order)

    def walk_descendants(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """The descendants of each, one after another."""
        for node in self:
            yield from node.walk_descendants(order)


def walk(start: Nodes, onwards: Callable[[BaseNode], Nodes], order: WalkOrder) -> Iterator[BaseNode]:
    """Nodes and those that they lead to, each once."""
    if order not in (WalkOrder.DEPTH_FIRST, WalkOrder.BREADTH_FIRST):
        raise UnrecognizedWalkOrder(f"{order} is not an order to walk in", expected="a WalkOrder")
    seen: set[BaseNode] = set()
    waiting = deque(start)
    while waiting:
        node = waiting.pop() if order is WalkOrder.DEPTH_FIRST else waiting.popleft()
        # It may have been reached on several ways before it was visited.
        if node not in seen:
            seen.add(node)
            waiting.extend(onwards(node))
            yield node
