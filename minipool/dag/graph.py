"""A graph that a program describes: its layers, and what is said of the whole."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from minipool.dag.edges import BaseEdge
from minipool.dag.nodes import BaseNode, FinalNode, NodeLayer, Nodes, Store, SubDAG, WalkOrder, walk


class DotConfig:
    """Whether and where DAGMan draws the graph: DOT."""

    def __init__(
        self,
        path: str | PathLike[str],
        update: bool = False,
        overwrite: bool = True,
        include_file: str | PathLike[str] | None = None,
    ) -> None:
        self.path, self.update, self.overwrite = Path(path), update, overwrite
        self.include_file = None if include_file is None else Path(include_file)


class NodeStatusFile:
    """Where, and how often, DAGMan writes how its nodes are: NODE_STATUS_FILE."""

    def __init__(
        self, path: str | PathLike[str], update_time: int | None = None, always_update: bool | None = False
    ) -> None:
        self.path, self.update_time, self.always_update = Path(path), update_time, bool(always_update)


class DAG:
    """A graph of layers and sub-DAGs, with DAGMan's configuration for it."""

    def __init__(
        self,
        dagman_config: Mapping[str, Any] | None = None,
        dagman_job_attributes: Mapping[str, Any] | None = None,
        max_jobs_by_category: Mapping[str, int] | None = None,
        dot_config: DotConfig | None = None,
        jobstate_log: str | PathLike[str] | None = None,
        node_status_file: NodeStatusFile | None = None,
    ) -> None:
        self._store = Store()
        self.dagman_config = dagman_config or {}
        self.dagman_job_attrs = dagman_job_attributes or {}
        self.max_jobs_per_category = max_jobs_by_category or {}
        self.dot_config = dot_config
        self.jobstate_log = None if jobstate_log is None else Path(jobstate_log)
        self.node_status_file = node_status_file

    def layer(self, **kwargs: Any) -> NodeLayer:
        """A new layer without parents and children; `kwargs` are those of `NodeLayer`."""
        self._store.add(layer := NodeLayer(self._store, **kwargs))
        return layer

    def subdag(self, **kwargs: Any) -> SubDAG:
        """A new sub-DAG without parents and children; `kwargs` are those of `SubDAG`."""
        self._store.add(subdag := SubDAG(self._store, **kwargs))
        return subdag

    def final(self, **kwargs: Any) -> FinalNode:
        """The node that runs last, in the place of one that was said before."""
        # It is in no walk, and has no edges: it waits for all.
        node = FinalNode(self._store, **kwargs)
        self._store.check_new(node.name)
        self._store.final = node
        return node

    @property
    def final_node(self) -> FinalNode | None:
        """The node that runs last, if there is one."""
        return self._store.final

    def __contains__(self, node: object) -> bool:
        return node in self._store.nodes or node in self._store.nodes.values()

    @property
    def nodes(self) -> Nodes:
        """All but the final one."""
        return Nodes(self._store.nodes.values())

    @property
    def roots(self) -> Nodes:
        """Those that wait for none."""
        return self.select(lambda node: not self._store.parents[node.name])

    @property
    def leaves(self) -> Nodes:
        """Those that none waits for."""
        return self.select(lambda node: not self._store.children[node.name])

    @property
    def edges(self) -> Iterator[tuple[tuple[BaseNode, BaseNode], BaseEdge]]:
        """Each parent and child, with the edge between them."""
        for parent, children in self._store.children.items():
            for child, edge in children.items():
                yield (self._store.nodes[parent], self._store.nodes[child]), edge

    @property
    def node_to_children(self) -> dict[BaseNode, Nodes]:
        """Each node with those that wait for it."""
        return {node: node.children for node in self.nodes}

    @property
    def node_to_parents(self) -> dict[BaseNode, Nodes]:
        """Each node with those that it waits for."""
        return {node: node.parents for node in self.nodes}

    def select(self, selector: Callable[[BaseNode], bool]) -> Nodes:
        """Those of which the function says yes."""
        return Nodes(node for node in self.nodes if selector(node))

    def glob(self, pattern: str) -> Nodes:
        """Those whose names match: `dag.glob("fit_*").add_children(plot)`."""
        return self.select(lambda node: fnmatch.fnmatchcase(node.name, pattern))

    def walk(self, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """All nodes, from those that wait for none."""
        return walk(self.roots, lambda node: node.children, order)

    def walk_ancestors(self, node: BaseNode, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """All that a node waits for."""
        return node.walk_ancestors(order)

    def walk_descendants(self, node: BaseNode, order: WalkOrder = WalkOrder.DEPTH_FIRST) -> Iterator[BaseNode]:
        """All that wait for a node."""
        return node.walk_descendants(order)

    def describe(self) -> str:
        """A table of the layers: how many nodes they have, how many children, and which parents."""
        rows = [("Type", "Name", "# Nodes", "# Children", "Parents")]
        for node in self.walk(WalkOrder.BREADTH_FIRST):
            parents = ", ".join(f"{one.name}[{self._store.children[one.name][node.name]}]" for one in node.parents)
            layer = isinstance(node, NodeLayer)
            kind, count = ("Layer", str(len(node))) if layer else ("SubDAG", "")
            rows.append((kind, node.name, count, str(len(node.children)), parents))
        wide = [max(len(row[at]) for row in rows) for at in range(5)]
        lines = []
        for row in rows:
            middle = (text.center(width) for text, width in zip(row[1:4], wide[1:4], strict=True))
            lines.append("  ".join((row[0].ljust(wide[0]), *middle, row[4])).rstrip())
        return "\n".join(lines)
