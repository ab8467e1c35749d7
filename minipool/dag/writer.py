"""A graph as files: the DAG file, a submit file for each layer, and DAGMan's configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

from minipool.client.model import Submit
from minipool.dag.edges import Group, JoinFactory, JoinNode
from minipool.dag.formatter import NodeNameFormatter, SimpleFormatter
from minipool.dag.graph import DAG
from minipool.dag.nodes import BaseNode, FinalNode, NodeLayer, Script, SubDAG, WalkOrder

DEFAULT_DAG_FILE_NAME = "dagfile.dag"
CONFIG_FILE_NAME = "dagman.config"
NOOP_SUBMIT_FILE_NAME = "__JOIN__.sub"


def write_dag(
    dag: DAG,
    dag_dir: str | PathLike[str],
    dag_file_name: str | None = DEFAULT_DAG_FILE_NAME,
    node_name_formatter: NodeNameFormatter | None = None,
) -> Path:
    """Write a graph's files into a directory, which is made if need be. The path of the DAG file is returned."""
    directory = Path(dag_dir).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    writer = _Writer(dag, node_name_formatter or SimpleFormatter())
    file = directory / (dag_file_name or DEFAULT_DAG_FILE_NAME)
    file.write_text("".join(line + "\n" for line in writer.lines()))
    described = [node for node in (*dag.nodes, dag.final_node) if isinstance(node, NodeLayer | FinalNode)]
    for node in described:
        if isinstance(node.submit_description, Submit):
            (directory / f"{node.name}.sub").write_text(_submit_file(node.submit_description))
    # A NOOP node's submit file need not be there, but whoever looks for it finds it.
    if writer.joins.joins:
        (directory / NOOP_SUBMIT_FILE_NAME).touch()
    if dag.dagman_config:
        knobs = [f"{knob} = {value}" for knob, value in dag.dagman_config.items()]
        (directory / CONFIG_FILE_NAME).write_text("\n".join(knobs))
    return file


def _submit_file(description: Submit) -> str:
    # A text may have its queue statement already, and what was added to a file comes before that.
    statement = re.search(r"^\s*queue\b", description.text, re.MULTILINE | re.IGNORECASE)
    at = statement.start() if statement else len(description.text)
    added = "".join(line + "\n" for line in description.appended)
    queue = "" if statement else f"queue{f' {description.queue}' if description.queue else ''}\n"
    return f"{description.text[:at]}{added}{description.text[at:]}{queue}"


class _Writer:
    """One graph on its way to a file."""

    def __init__(self, dag: DAG, formatter: NodeNameFormatter) -> None:
        self.dag, self.formatter, self.joins = dag, formatter, JoinFactory()

    def lines(self) -> Iterator[str]:
        yield "# BEGIN META"
        yield from self._meta()
        yield "# END META"
        yield "# BEGIN NODES AND EDGES"
        for node in self.dag.walk(WalkOrder.BREADTH_FIRST):
            yield from self._node(node)
            yield from self._edges(node)
        # Only now is it known how many there are.
        for join in self.joins.joins:
            yield f"JOB {self._join(join)} {NOOP_SUBMIT_FILE_NAME} NOOP"
        yield "# END NODES AND EDGES"
        if (final := self.dag.final_node) is not None:
            yield "# FINAL NODE"
            yield f"FINAL {final.name} {_description(final)}{_options(final, 0)}"
            yield from _settings(final, final.name)
            yield "# END FINAL NODE"

    def _meta(self) -> Iterator[str]:
        dag = self.dag
        if dag.dagman_config:
            yield f"CONFIG {CONFIG_FILE_NAME}"
        if dag.jobstate_log is not None:
            yield f"JOBSTATE_LOG {_quoted(dag.jobstate_log)}"
        if (status := dag.node_status_file) is not None:
            every = "" if status.update_time is None else f" {status.update_time}"
            yield f"NODE_STATUS_FILE {_quoted(status.path)}{every}{' ALWAYS-UPDATE' if status.always_update else ''}"
        if (dot := dag.dot_config) is not None:
            update, overwrite = ("" if yes else "DONT-" for yes in (dot.update, dot.overwrite))
            header = "" if dot.include_file is None else f" INCLUDE {_quoted(dot.include_file)}"
            yield f"DOT {_quoted(dot.path)} {update}UPDATE {overwrite}OVERWRITE{header}"
        yield from (f"SET_JOB_ATTR {name} = {value}" for name, value in dag.dagman_job_attrs.items())
        yield from (f"MAXJOBS {category} {limit}" for category, limit in dag.max_jobs_per_category.items())

    def _node(self, node: BaseNode) -> Iterator[str]:
        if isinstance(node, SubDAG):
            name = self._name(node, 0)
            yield f"SUBDAG EXTERNAL {name} {_quoted(node.dag_file)}{_options(node, 0)}"
            yield from _settings(node, name)
        elif isinstance(node, NodeLayer):
            description = _description(node)
            for number, variables in enumerate(node.vars):
                name = self._name(node, number)
                yield f"JOB {name} {description}{_options(node, number)}"
                if variables:
                    yield " ".join(
                        [f"VARS {name}", *(f'{key}="{_escaped(value)}"' for key, value in variables.items())]
                    )
                yield from _settings(node, name)

    def _edges(self, parent: BaseNode) -> Iterator[str]:
        for child in parent.children:
            edge = parent._store.children[parent.name][child.name]
            weak = "WEAK " if edge.weak else ""
            for parents, children in edge.get_edges(parent, child, self.joins):
                # What waits for a join waits for its end, which is never a failure.
                before = "" if isinstance(parents, JoinNode) else weak
                yield f"{before}PARENT {self._group(parent, parents)} CHILD {self._group(child, children)}"

    def _group(self, node: BaseNode, group: Group) -> str:
        if isinstance(group, JoinNode):
            return self._join(group)
        return " ".join(self._name(node, number) for number in group)

    def _name(self, node: BaseNode, number: int) -> str:
        return self.formatter.generate(node.name, number)

    def _join(self, join: JoinNode) -> str:
        return self.formatter.generate("__JOIN__", join.id)


def _description(node: NodeLayer | FinalNode) -> str:
    if isinstance(node.submit_description, Path):
        return _quoted(node.submit_description.absolute())
    return f"{node.name}.sub"


def _options(node: BaseNode, number: int) -> str:
    directory = "" if node.dir is None else f" DIR {_quoted(node.dir)}"
    # The final node has no DONE: it runs whatever happened.
    done = not isinstance(node, FinalNode) and _holds(node.done, number)
    return f"{directory}{' NOOP' if _holds(node.noop, number) else ''}{' DONE' if done else ''}"


def _holds(said: bool | Mapping[int, bool], number: int) -> bool:
    return said if isinstance(said, bool) else said.get(number, False)


def _settings(node: BaseNode, name: str) -> Iterator[str]:
    if node.retries is not None:
        unless = "" if node.retry_unless_exit is None else f" UNLESS-EXIT {node.retry_unless_exit}"
        yield f"RETRY {name} {node.retries}{unless}"
    for kind, script in (("PRE", node.pre), ("POST", node.post), ("HOLD", node.hold)):
        if script is not None:
            yield _script(kind, name, script)
    if node.pre_skip_exit_code is not None:
        yield f"PRE_SKIP {name} {node.pre_skip_exit_code}"
    if node.priority:
        yield f"PRIORITY {name} {node.priority}"
    if node.category is not None:
        yield f"CATEGORY {name} {node.category}"
    if (abort := node.abort) is not None:
        returns = "" if abort.dag_return_value is None else f" RETURN {abort.dag_return_value}"
        yield f"ABORT-DAG-ON {name} {abort.node_exit_value}{returns}"


def _script(kind: str, name: str, script: Script) -> str:
    defer = f"DEFER {script.retry_status} {script.retry_delay} " if script.retry else ""
    return " ".join([f"SCRIPT {defer}{kind} {name} {script.executable}", *script.arguments])


def _escaped(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"')


def _quoted(path: Path) -> str:
    """A path as a word of a DAG file."""
    text = path.as_posix()
    return f'"{_escaped(text)}"' if any(one in text for one in " \t\"'") or text.startswith(("{", "@=")) else text
