"""The files of a served file system by number: which names the kernel knows, and where what is behind them is by now.

A number stays a file's for as long as the kernel remembers it, whatever its name becomes; a name that leads to another
file than before gets a new number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

ROOT: Final = 1


@dataclass
class Node:
    """One file. `parent` is None of the root, and of what has no name any more."""

    number: int
    parent: Node | None
    name: str
    inode: int = 0
    lookups: int = 0
    opens: int = 0
    """How many have it open."""
    is_gone: bool = False
    hidden: bool = False
    """It was removed while somebody has it open, and goes when nobody has."""
    size: int = 0
    mtime: int = 0
    """As they were when it was opened last."""
    size_seen: int = 0
    """How large it was when it was last looked at."""
    children: dict[str, Node] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Where it is, relative to the root; "" of the root."""
        names: list[str] = []
        here: Node | None = self
        while here is not None and here.parent is not None:
            names.append(here.name)
            here = here.parent
        return "/".join(reversed(names))


class Nodes:
    """All that the kernel knows of one file system."""

    def __init__(self) -> None:
        self.root = Node(ROOT, None, "")
        self._known: dict[int, Node] = {ROOT: self.root}
        self._last = ROOT

    def __len__(self) -> int:
        return len(self._known)

    def get(self, number: int) -> Node | None:
        """The node, if the kernel may still speak of it."""
        return self._known.get(number)

    def find(self, parent: Node, name: str) -> Node | None:
        """What is known behind a name."""
        return parent.children.get(name)

    def seen(self, parent: Node, name: str, inode: int) -> Node:
        """The node behind a name, where this file was found just now; the kernel is going to be told of it."""
        node = parent.children.get(name)
        if node is not None and node.inode != inode:
            self.removed(node)
            node = None
        if node is None:
            self._last += 1
            node = Node(self._last, parent, name, inode)
            parent.children[name] = node
            self._known[node.number] = node
        node.lookups += 1
        return node

    def forget(self, number: int, lookups: int) -> None:
        """The kernel does not speak any more of so many of its lookups."""
        node = self._known.get(number)
        if node is None or node is self.root:
            return
        node.lookups = max(0, node.lookups - lookups)
        self._let_go(node)

    def _let_go(self, node: Node | None) -> None:
        # A directory stays while anything in it is known: the path of that leads through it.
        while node is not None and node is not self.root and not (node.lookups or node.opens or node.children):
            self._known.pop(node.number, None)
            parent = node.parent
            if parent is not None and parent.children.get(node.name) is node:
                del parent.children[node.name]
            node = parent

    def closed(self, node: Node) -> None:
        """One less has it open."""
        node.opens -= 1
        self._let_go(node)

    def removed(self, node: Node) -> None:
        """Its name leads nowhere any more, or to another file."""
        if node.parent is not None and node.parent.children.get(node.name) is node:
            del node.parent.children[node.name]
        node.is_gone = True

    def moved(self, node: Node, parent: Node, name: str) -> None:
        """It has another name from now on; what was there has none."""
        there = parent.children.get(name)
        if there is not None and there is not node:
            self.removed(there)
        if node.parent is not None and node.parent.children.get(node.name) is node:
            del node.parent.children[node.name]
        node.parent, node.name = parent, name
        parent.children[name] = node
