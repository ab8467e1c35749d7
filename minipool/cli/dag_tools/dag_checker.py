"""condor_dag_checker: say what is wrong with DAG files, and what graph they make, without running anything.

Each file is a graph of its own here. HTCondor's manual: man-pages/condor_dag_checker.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from pool.base.errors import PoolError

if TYPE_CHECKING:
    from minipool.client.session import Session
    from pool.dag.model import Dag, Node, Place

TOOL: Final = Tool(
    "condor_dag_checker",
    "Say what is wrong with the files of a graph of jobs.",
    "[options] DAG_FILE...",
    (
        HELP,
        VERSION_OPT,
        Opt("allowillegalchars", 1, says="let names of nodes hold a +"),
        Opt("checkexternalfiles", 6, says="look at scripts, submit descriptions and nested graphs too"),
        Opt("checkjdl", 6, says="read the submit descriptions of nodes"),
        Opt("checkscripts", 7, says="see whether the scripts of nodes are there"),
        Opt("checksubdags", 7, says="check nested graphs too"),
        Opt("json", 2, says="print what is found as JSON"),
        Opt("statistics", 4, says="print the figures of each graph"),
        Opt("strict", 3, says="files that may yet be made must be there"),
        Opt("usedagdir", 1, says="read each file in its own directory"),
        Opt("joinnodes", 4, says="a node without a job stands where many nodes wait for many (the default)"),
        Opt("nojoinnodes", 6, says="there are no such nodes"),
    ),
    unknown="ERROR: Unknown command line option '{}'",
    bad_usage_status=2,
)


class Issue(NamedTuple):
    """Something that is wrong, and where."""

    file: str
    line: int
    reason: str

    def said(self) -> dict[str, object]:
        """For -json."""
        return {"Reason": self.reason, "SourceFile": self.file, "SourceLine": self.line}


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_dag_checker."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if not parsed.words:
        raise UsageError("ERROR: No DAG file(s) provided for linting.")
    from minipool.cli.entry.context import open_session

    checker = Checker(parsed, open_session(parsed))
    found = [checker.check(file) for file in parsed.words]
    if parsed.has("json"):
        from minipool.cli.output.json_output import write_list

        write_list([_as_json(*one) for one in found])
    else:
        for one in found:
            sys.stdout.write(_as_text(*one, statistics=parsed.has("statistics")))
    return int(any(issues for _, _, issues in found))


Found = tuple[str, Mapping[str, object], list[Issue]]


def _as_json(file: str, figures: Mapping[str, object], issues: Sequence[Issue]) -> dict[str, Any]:
    wrong: dict[str, object] = {}
    if issues:
        wrong = {"Errors": [issue.said() for issue in issues], "NumErrors": len(issues)}
    return {**wrong, "DagFile": file, **figures}


def _as_text(file: str, figures: Mapping[str, object], issues: Sequence[Issue], *, statistics: bool) -> str:
    text = ""
    if issues:
        lines = "".join(f"\t* {issue.file}:{issue.line} {issue.reason}\n" for issue in issues)
        text = f"Detected {len(issues)} issue{'s' * (len(issues) > 1)} in {file}:\n{lines}\n"
    if statistics:
        lines = "".join(f"{name} = {_shown(figure)}\n" for name, figure in figures.items())
        text += f"=== {file} statistics ===\n{lines}\n"
    return text


def _shown(figure: object) -> str:
    from pool.classad import ClassAd

    return ClassAd({"A": figure}).text("A")


class Checker:
    """One call of condor_dag_checker."""

    def __init__(self, parsed: Parsed, session: Session) -> None:
        self.session = session
        self.strict = parsed.has("strict")
        everything = parsed.has("checkexternalfiles")
        self.descriptions = everything or parsed.has("checkjdl")
        self.scripts = everything or parsed.has("checkscripts")
        self.nested = everything or parsed.has("checksubdags")
        self.in_its_directory = parsed.has("usedagdir")
        joins = [one.key for one in parsed.given if one.key in ("joinnodes", "nojoinnodes")]
        self.joins = joins[-1] == "joinnodes" if joins else session.config.bool("DAGMAN_USE_JOIN_NODES")
        self.any_characters = parsed.has("allowillegalchars")
        self._within: list[str] = []

    def check(self, file: str) -> Found:
        """What graph a file makes, and what is wrong with it."""
        directory, name = os.path.split(file) if self.in_its_directory else ("", file)
        try:
            with contextlib.chdir(directory or "."):
                return file, *self._check(name)
        except OSError as error:
            return file, {}, [Issue(file, 0, f"{directory}: {error.strerror}")]

    def _check(self, file: str) -> tuple[Mapping[str, object], list[Issue]]:
        from pool.dag.figures import statistics
        from pool.dag.graph import circles
        from pool.dag.language.errors import DagError
        from pool.dag.language.reader import Options, read

        try:
            dag = read([file], _text_of, Options(any_characters=self.any_characters, joins=self.joins))
        except DagError as error:
            return {}, [_issue(one, file) for one in (error, *error.others)]
        issues = list(self._around(dag))
        figures = statistics(dag)
        for first, *others in circles(dag):
            said = " -> ".join(dag.nodes[node].name for node in (first, *others, first))
            issues.append(Issue(*dag.nodes[first].place, f"Cycle detected: {said}"))
            figures["IsCyclic"], figures["DetectedCycle"] = True, said
        if dag.rejected is not None:
            issues.append(Issue(*dag.rejected, "REJECT: this graph is not to be run"))
        return figures, issues

    def _around(self, dag: Dag) -> Iterator[Issue]:
        """What is wrong with the files that nodes name."""
        for node in dag.nodes:
            if self.scripts:
                yield from self._scripts(node)
            if node.kind == "SUBDAG":
                yield from self._subdag(node) if self.nested else ()
            elif self.descriptions and not node.noop:
                yield from self._description(node)

    def _scripts(self, node: Node) -> Iterator[Issue]:
        for script in (node.pre, node.post, node.hold):
            if script is not None and not os.path.exists(os.path.join(node.directory, script.executable)):
                yield Issue(*script.place, f"the {script.kind} script {script.executable} of {node.name} is not there")

    def _subdag(self, node: Node) -> Iterator[Issue]:
        path = os.path.join(node.directory, node.submit)
        if not os.path.exists(path):
            yield from self._missing(node.place, f"the nested graph {path} of {node.name} is not there")
            return
        if (real := os.path.realpath(path)) in self._within:
            yield Issue(*node.place, f"the nested graph {path} of {node.name} is within itself")
            return
        self._within.append(real)
        with contextlib.chdir(node.directory or "."):
            _, issues = self._check(node.submit)
        self._within.pop()
        yield from (issue._replace(file=os.path.join(node.directory, issue.file)) for issue in issues)

    def _description(self, node: Node) -> Iterator[Issue]:
        """Whether condor_submit would take a node's description, with the node's variables."""
        from minipool.client.submission import read_plan

        text = node.description
        path = os.path.join(node.directory, node.submit)
        try:
            if text is None:
                text = _text_of(path)
        except OSError:
            yield from self._missing(node.place, f"the description {path} of {node.name} is not there")
            return
        extra = [f"{one.name}={one.value}" for one in node.variables]
        try:
            with contextlib.chdir(node.directory or "."):
                read_plan(self.session, text, file=node.submit or node.name, extra=extra, skip_checks=True)
        except PoolError as error:
            yield Issue(*node.place, f"condor_submit refuses the description of {node.name}: {error}")

    def _missing(self, place: Place, reason: str) -> Iterator[Issue]:
        """Files may be made while the graph runs; only -strict wants them now."""
        if self.strict:
            yield Issue(*place, reason)


def _issue(error: PoolError, file: str) -> Issue:
    said = error.message if error.expected is None else f"{error.message} (expected {error.expected})"
    return Issue(error.span.file, error.span.line, said) if error.span else Issue(file, 0, said)


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
