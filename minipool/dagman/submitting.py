"""From a node to its jobs: the macros and attributes that its submit description gets, and the description read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from minipool.client.session import Session
from minipool.client.submission import run_command
from pool.base.errors import SubmitError
from pool.base.words import split_list
from pool.classad import ClassAd, quote
from pool.dag.course.course import Course
from pool.dag.model import Node
from pool.macros.chance import SYSTEM_CHANCE
from pool.submit import SubmitPlan
from pool.submit.alike import Description
from pool.submit.world import world_in

NODES_MASK: Final = "0,1,2,4,5,7,8,9,10,11,12,13,16,17,24,27,35,36"
"""The events that a nodes' log is to have (DAGManNodesMask)."""
PARENTS_CHARS_MAX: Final = 2000
KNOWN_MAX: Final = 200
"""How many descriptions are kept; a graph may have one for each node."""


class Around(NamedTuple):
    """What all nodes' jobs get."""

    nodes_log: str
    dag_id: int
    batch_name: str = ""
    batch_id: str = ""
    accounting_group: str = ""
    accounting_user: str = ""
    suppress_notification: bool = False
    append_variables: bool = False
    """DAGMAN_DEFAULT_APPEND_VARS."""
    suppress_logs: bool = False
    hold_claim_s: int = 20
    machine_attributes: str = ""
    record_retry: bool = True
    inherited: tuple[str, ...] = ()
    """Lines for the attributes of DAGMAN_INHERIT_ATTRS."""


def inherited(ad: ClassAd, names: str, prefix: str) -> tuple[str, ...]:
    """Lines that give a node's jobs attributes of the graph's own job; what that has not, they have not."""
    lines = []
    for name in split_list(names):
        # A nested graph's own job has got it already, under the name that begins with the prefix.
        found = next((each for each in (f"{prefix}{name}", name) if each in ad), None)
        if found is not None:
            lines.append(f"MY.{prefix}{name}={ad.text(found)}")
    return tuple(lines)


class Lines(NamedTuple):
    """Lines for a submit description: before its own, and before its queue statement."""

    before: list[str]
    after: list[str]


def lines_of(course: Course, number: int, parents: str, around: Around, *, on_hold: bool) -> Lines:
    """The macros and attributes of a node, as condor_dagman sets them."""
    node, retry = course.node(number), course.retries.get(number, 0)
    before = [
        f"JOB={node.name}",
        f"RETRY={retry}",
        f"DAG_STATUS={int(course.status)}",
        f"FAILED_COUNT={course.failed}",
        *((f"DAG_PARENT_NAMES={parents}",) if parents else ()),
        # In words of the macro, as HTCondor's does: it would else be a line of the description that nothing asks for.
        'MY.DAGParentNodeNames="$(DAG_PARENT_NAMES)"',
        *_settings(node, around),
    ]
    if retry and around.record_retry:
        before.append(f"MY.DAGManNodeRetry={retry}")
    if priority := course.priority(number):
        before.append(f"priority={priority}")
    if on_hold:
        before.append("hold=true")
    if course.dag.children[number] and around.hold_claim_s:
        before.append(f"keep_claim_idle={around.hold_claim_s}")
    after = list(_attributes(node, around))
    for variable in node.variables:
        appended = variable.where == "APPEND" or (not variable.where and around.append_variables)
        (after if appended else before).append(f"{variable.name}={variable.value}")
    return Lines(before, after)


def _settings(node: Node, around: Around) -> Iterator[str]:
    if around.batch_name.strip():
        yield f"batch_name={around.batch_name}"
    if around.batch_id.strip():
        yield f"batch_id={around.batch_id}"
    if around.accounting_group:
        yield f"accounting_group={around.accounting_group}"
    if around.accounting_user:
        yield f"accounting_group_user={around.accounting_user}"
    if around.machine_attributes:
        names = [f"MachineAttr{name.strip()}0" for name in around.machine_attributes.split(",")]
        yield f"job_ad_information_attrs={','.join([*names, 'DAGNodeName'])}"
        yield f"job_machine_attrs={around.machine_attributes}"
    yield from around.inherited


def _attributes(node: Node, around: Around) -> Iterator[str]:
    yield from around.inherited
    yield f"dag_node_name={node.name}"
    yield f"submit_event_notes=DAG Node: {node.name}"
    yield f"dagman_log={around.nodes_log}"
    yield f"MY.DAGManNodesMask={quote(NODES_MASK)}"
    if around.dag_id > 0:
        yield f"MY.DAGManJobId={around.dag_id}"
        yield f"DAGManJobId={around.dag_id}"
    if around.suppress_logs:
        yield "log="
    if around.suppress_notification:
        yield "notification=NEVER"
    if node.kind == "SERVICE":
        yield "MY.DAGLifetimeJob=true"


class Descriptions:
    """The submit descriptions of nodes. A file is read for each node, for it may be written while the graph runs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._user = session.user()
        self._known: dict[tuple[str, str], Description] = {}

    def plan(self, node: Node, submit: str, directory: str, lines: Lines) -> SubmitPlan:
        """What the node's description asks for; SubmitError says what is wrong where."""
        if node.description is not None:
            key, text, file = node.description, node.description, f"{node.name}-inline"
        else:
            key, file = submit, submit
            try:
                with open(os.path.join(directory, submit), encoding="utf-8", errors="surrogateescape") as opened:
                    text = opened.read()
            except OSError as error:
                raise SubmitError(f"Failed to open submit file: {submit}: {error.strerror}") from None
        known = self._known.get((directory, key))
        if known is None or known.text != text:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[directory, key] = self._description(text, directory)
        return known.plan(lines.before, lines.after, file=file, now=time.time())

    def _description(self, text: str, directory: str) -> Description:
        has_queue = any(line.split()[:1] and line.split()[0].lower() == "queue" for line in text.splitlines())
        return Description(
            text,
            config=self._session.config,
            cwd=directory,
            env=os.environ,
            user=self._user,
            world=world_in(directory, lambda command: run_command(command, directory)),
            queue_args=None if has_queue else "1",
            chance=SYSTEM_CHANCE,
        )
