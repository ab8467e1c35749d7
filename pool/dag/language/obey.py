"""What commands do to the draft of a graph.

A name that is not known raises KeyError: the reader tries again when its file is read, and says then what is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pool.base.nearest import nearest_name
from pool.dag.language.commands import (
    ConnectLine,
    EdgesLine,
    GraphSetting,
    MaxJobsLine,
    PinLine,
    VarsLine,
)
from pool.dag.language.drafts import Draft, NodeDraft, Scope
from pool.dag.language.errors import DagError, wrong
from pool.dag.language.settings import Setting
from pool.dag.language.source import Line
from pool.dag.model import ALL_NODES, JOIN, Environment, Place, is_join

HINT_NAMES_MAX: Final = 5_000
"""Among more names none is sought that was meant."""
ORDINARY: Final = ("JOB", "SUBDAG")
_ORDINARY_ONLY: Final = frozenset(("retry", "priority", "category", "done", "save_point"))
_SAID_ONCE: Final = {
    "pre": ("PRE script", 3), "post": ("POST script", 3), "hold": ("HOLD script", 3), "priority": ("priority", 2),
    "pre_skip": ("PRE_SKIP", 3), "category": ("category", 3),
}  # fmt: skip
"""A second command for one node replaces the first, with a warning; as strict as HTCondor's are."""


def edges(draft: Draft, scope: Scope, line: Line, command: EdgesLine) -> None:
    """PARENT ... CHILD ..."""
    parents = _ends(draft, scope, line, command.parents, parents=True)
    children = _ends(draft, scope, line, command.children, parents=False)
    if draft.makes_joins and len(parents) > 1 and len(children) > 1:
        join = _join(draft, scope, line)
        draft.connect(parents, [join], weak=command.weak)
        # It has no job that could fail.
        draft.connect([join], children, weak=False)
    else:
        draft.connect(parents, children, weak=command.weak)
    if draft.sought:
        for parent, child in draft.sought:
            if draft.by_name.get(parent) in parents and draft.by_name.get(child) in children:
                draft.sought[parent, child] = Place(line.file, line.number)


def _join(draft: Draft, scope: Scope, line: Line) -> int:
    """A new join node: what many nodes wait for, and many for it."""
    # As condor_dagman names them: of all files together, and without a file's number.
    name = f"{scope.before.removesuffix(scope.number)}{JOIN}{len(draft.joins)}"
    if name in draft.by_name:
        raise wrong(f"{name} is what a join node of this line is called", *line, expected="another name of that node")
    number = len(draft.nodes)
    draft.add(NodeDraft(name, "JOB", "DNE.sub", Place(line.file, line.number), None, "", True, False), scope)
    draft.joins.add(number)
    return number


def _ends(draft: Draft, scope: Scope, line: Line, names: list[str], *, parents: bool) -> list[int]:
    found: list[int] = []
    for name in names:
        splice = scope.splices.get(name) if scope.splices else None
        if splice is not None:
            found += splice.last if parents else splice.first
            continue
        number = draft.by_name[scope.before + name]
        if (kind := draft.nodes[number].kind) not in ORDINARY:
            raise wrong(f"{name} is the {kind} node, which has neither parents nor children", *line, name)
        found.append(number)
    # In the order in which they were read, whatever the order here: as condor_dagman starts them.
    return sorted(set(found)) if len(found) > 1 else found


def setting(draft: Draft, scope: Scope, line: Line, command: Setting) -> None:
    """A command that sets a field of one node, or of all nodes."""
    field, value = command.field, command.value
    for node in _nodes(draft, scope, command.node, field):
        if why := _refused(node, field):
            raise wrong(f"{node.name} is the {node.kind} node, which has no {why}", *line, command.node)
        if field == "category":
            value = _category(scope, str(value))
            draft.categories.setdefault(value, line)
        if field in _SAID_ONCE and (before := getattr(node, field)) and before != value:
            of, strictness = _SAID_ONCE[field]
            draft.warn(line, f"{node.name} has a {of} already, which this one replaces", strictness)
        setattr(node, field, value)


def _refused(node: NodeDraft, field: str) -> str | None:
    if node.kind in ORDINARY:
        return None
    if field in _ORDINARY_ONLY:
        return field.upper()
    return "ABORT-DAG-ON" if field == "abort_on" and node.kind == "FINAL" else None


def variables(draft: Draft, scope: Scope, line: Line, command: VarsLine) -> None:
    """VARS: a name that the node has already takes the new value."""
    nodes = _nodes(draft, scope, command.node, "variables")
    for node in nodes:
        if not node.variables:
            node.variables = command.variables
            continue
        new = {variable.name.lower() for variable in command.variables}
        # What ALL_NODES replaces was meant to be replaced, and would be told of each node.
        if len(nodes) == 1 and (again := [old.name for old in node.variables if old.name.lower() in new]):
            draft.warn(line, f"VARS {again[0]} is defined already for {node.name}", 3)
        node.variables = (*(old for old in node.variables if old.name.lower() not in new), *command.variables)


def _nodes(draft: Draft, scope: Scope, name: str, field: str) -> list[NodeDraft]:
    if name in (ALL_NODES, "all_nodes") or name.upper() == ALL_NODES:
        # Of this file and what it includes: a splice has its own.
        if not scope.complete:
            raise KeyError(name)
        own = [draft.nodes[number] for number in scope.own if number not in draft.joins]
        return [node for node in own if node.kind not in ("FINAL", "SERVICE") and not _refused(node, field)]
    if field == "done" and is_join(name) and scope.before + name not in draft.by_name:
        return []  # a rescue file of a run that had join nodes
    return [draft.nodes[draft.by_name[scope.before + name]]]


def max_jobs(draft: Draft, scope: Scope, line: Line, command: MaxJobsLine) -> None:
    """MAXJOBS: what is said further out holds."""
    name = _category(scope, command.category)
    draft.limited.setdefault(name, line)
    # The same depth says it again, and then the last counts.
    depth, limit = draft.limits.get(name, (scope.depth, command.limit))
    if depth < scope.depth or (depth > scope.depth and limit != command.limit):
        outer, inner = (limit, command.limit) if depth < scope.depth else (command.limit, limit)
        if outer != inner:
            draft.warn(line, f"MAXJOBS {name} is {outer}, as outside, not {inner}", 2)
    if depth >= scope.depth:
        draft.limits[name] = scope.depth, command.limit


def _category(scope: Scope, name: str) -> str:
    return name if name[0] == "+" else scope.categories + name


def pin(draft: Draft, scope: Scope, line: Line, command: PinLine) -> None:
    """PIN_IN and PIN_OUT."""
    scope.pins.setdefault((command.side, command.number), []).append(draft.by_name[scope.before + command.node])


def connect(draft: Draft, scope: Scope, line: Line, command: ConnectLine) -> None:
    """CONNECT: each pin out of one splice with the pin in of the same number of the other."""
    outs = _pins(scope, line, command.parent, "PIN_OUT")
    ins = _pins(scope, line, command.child, "PIN_IN")
    if len(outs) != len(ins):
        numbers = f"{command.parent} has {len(outs)} PIN_OUT, {command.child} {len(ins)} PIN_IN"
        raise wrong(
            f"the pins do not fit: {numbers}", *line, command.child, expected="as many of the one as of the other"
        )
    for parents, children in zip(outs, ins, strict=True):
        draft.connect(parents, children, weak=False)
    # It would start before the splice that it is connected to.
    for number in scope.splices[command.child].nodes():
        if not draft.has_parent[number]:
            name = draft.nodes[number].name
            raise wrong(f"{name} has no parent after CONNECT", *line, command.child, expected="a PIN_IN or a PARENT")


def _pins(scope: Scope, line: Line, name: str, side: str) -> list[list[int]]:
    if name not in scope.splices:
        raise wrong(f"{name} is not a splice{_meant(name, scope.splices)}", *line, name)
    pins = {number: nodes for (which, number), nodes in scope.splices[name].pins.items() if which == side}
    if not pins:
        raise wrong(f"splice {name} has no {side}", *line, name)
    for number in range(1, max(pins) + 1):
        if number not in pins:
            raise wrong(f"splice {name} has no node for {side} {number}", *line, name)
    return [pins[number] for number in sorted(pins)]


def of_graph(draft: Draft, scope: Scope, line: Line, command: GraphSetting) -> None:
    """What a command says of the whole graph."""
    field, value = command.field, command.value
    if field == "rejected":
        # Even in a splice: whoever wrote it wants that nothing runs.
        draft.rejected = draft.rejected or Place(line.file, line.number)
    elif scope.depth:
        draft.warn(line, f"{command.keyword} has no effect in a splice", 3)
    elif isinstance(value, Environment):
        before = draft.environment
        draft.environment = Environment((*before.get, *value.get), (*before.set, *value.set))
    elif isinstance(value, tuple) and field == "attributes":
        draft.attributes[value[0].lower()] = value
    elif not (known := getattr(draft, field)) or known == value:
        setattr(draft, field, value)
    elif field == "config":
        raise wrong(f"CONFIG says {known} already", *line, str(value), expected="one configuration file in all")
    else:
        draft.warn(line, f"{command.keyword} is said already; the first counts", 3)


def unknown(draft: Draft, scope: Scope, line: Line, name: str) -> DagError:
    """The error of a name that no node has; `name`: as it was looked up, in full."""
    short = name.removeprefix(scope.before)
    if short in scope.splices:
        return wrong(f"{short} is a splice: this command is for a node", *line, short, expected=f"{short}+ and a node")
    return wrong(f"there is no node {short}{_meant(name, draft.by_name)}", *line, short)


def _meant(name: str, names: Any) -> str:
    if len(names) > HINT_NAMES_MAX:
        return ""
    # Names differ by their case, which the search for near ones leaves aside.
    near = next((one for one in names if one.lower() == name.lower()), None) or nearest_name(name, names)
    return f" (did you mean {near}?)" if near else ""


OBEYED: Final[dict[type, Callable[[Draft, Scope, Line, Any], None]]] = {
    EdgesLine: edges,
    Setting: setting,
    VarsLine: variables,
    PinLine: pin,
    ConnectLine: connect,
}
"""Commands that name nodes or splices; these may come later."""
AT_ONCE: Final[dict[type, Callable[[Draft, Scope, Line, Any], None]]] = {
    MaxJobsLine: max_jobs,
    GraphSetting: of_graph,
}
