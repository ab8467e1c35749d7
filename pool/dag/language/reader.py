"""DAG files to a `Dag`: nodes are made, edges drawn, splices and included files read where they are named.

A line that names a node waits until the end of its file if that node is not known yet, and so do the lines behind it:
what is said last holds. All that is wrong is told at once (`DagError.others`). Files are read by what the caller
hands in.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pool.base.errors import Span
from pool.dag.graph import circles
from pool.dag.language.commands import Command, DescriptionLine, IncludeLine, NodeLine, SpliceLine, parse
from pool.dag.language.drafts import Draft, NodeDraft, Scope
from pool.dag.language.errors import ERRORS_MAX, DagError, together, wrong
from pool.dag.language.obey import AT_ONCE, OBEYED, unknown
from pool.dag.language.plain_lines import SUBDAG_SUFFIX, take_plain_lines
from pool.dag.language.source import Line, Source
from pool.dag.model import Dag, Place

ReadFile = Callable[[str], str]
"""A file's name to its text; OSError where there is none."""


class Options(NamedTuple):
    """How files are read."""

    munge: bool = True
    """Several files: whether names begin with the file's number (DAGMAN_MUNGE_NODE_NAMES)."""
    use_dag_dir: bool = False
    """Whether each file is read, and its nodes run, in its own directory (-usedagdir)."""
    any_characters: bool = False
    """Whether names may hold a + (DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS)."""
    joins: bool = False
    """Whether a join node stands where many nodes wait for many (DAGMAN_USE_JOIN_NODES): a million edges are two
    thousand then."""


def read(
    files: Sequence[str], read_file: ReadFile, options: Options = Options(), *, rescue: str = ""
) -> Dag:  # fmt: skip
    """The graph of these files; `rescue`: a rescue or save file, whose DONE and RETRY are added to it.

    It may have circles (`refuse_circles`).
    """
    reader = _Reader(read_file, options)
    roots = reader.roots(files)
    # Last, so that it has the last word.
    if rescue:
        reader.scope(rescue, Scope("", "", ""), None)
    reader.describe()
    if reader.errors:
        raise together(reader.errors)
    return reader.draft.dag(files[0], roots)


def refuse_circles(dag: Dag, files: Sequence[str], read_file: ReadFile, options: Options = Options()) -> None:
    """Raise if nodes wait for one another: each such circle is named, with the line that closes it."""
    rounds = [[dag.nodes[number].name for number in circle] for circle in circles(dag)[:ERRORS_MAX]]
    if not rounds:
        return
    # A graph does not keep where its edges stand: it is read again.
    reader = _Reader(read_file, options)
    reader.draft.sought = {(names[-1], names[0]): None for names in rounds}
    reader.roots(files)
    errors = []
    for names in rounds:
        place = reader.draft.sought[names[-1], names[0]]
        way = " -> ".join([*names, names[0]])
        error = DagError(f"these nodes wait for one another: {way}", expected="no way from a node to itself")
        error.span = Span(place.file, place.line) if place else None
        errors.append(error)
    raise together(errors)


class _Reader:
    """One reading."""

    def __init__(self, read_file: ReadFile, options: Options) -> None:
        self.read_file, self.options = read_file, options
        self.draft = Draft(makes_joins=options.joins)
        self.errors: list[DagError] = []
        self.special: dict[str, str] = {}
        """The FINAL and the PROVISIONER node, of which there is one each."""

    def roots(self, files: Sequence[str]) -> list[Scope]:
        """Read the DAG files that make up the graph."""
        roots = []
        for number, file in enumerate(files):
            munged = f"{number}." if self.options.munge and len(files) > 1 else ""
            scope = Scope(munged, "", "", number=munged)
            if self.options.use_dag_dir:
                scope.directory, file = posixpath.split(file)
            self.scope(file, scope, None)
            roots.append(scope)
        return roots

    def scope(self, file: str, scope: Scope, named: Line | None) -> None:
        """Read a DAG file, to the last line that waits. `named`: where it is named, unless by the caller."""
        self._file(file, scope, named)
        scope.complete = True
        waiting, scope.waiting = scope.waiting, []
        for line, command in waiting:
            try:
                OBEYED[type(command)](self.draft, scope, line, command)
            except KeyError as error:
                self._wrong(unknown(self.draft, scope, line, error.args[0]))
            except DagError as error:
                self._wrong(error)

    def describe(self) -> None:
        """Give nodes that name a SUBMIT-DESCRIPTION its text."""
        # At the end, as a description may come behind the nodes that name it.
        for node, scope in zip(self.draft.nodes, self.draft.scopes, strict=True):
            if node.submit and node.kind != "SUBDAG" and (text := scope.description(node.submit)) is not None:
                node.description, node.submit = text, ""

    def _file(self, name: str, scope: Scope, named: Line | None) -> None:
        path = posixpath.join(scope.directory, name)
        # A file may be spliced twice, but not within itself.
        around: Scope | None = scope
        while around is not None:
            if path in around.files:
                raise wrong(f"{path} would be read within itself", *named or (path, 0, ""), name)
            around = around.parent
        try:
            source = Source(path, self.read_file(path))
        except (OSError, UnicodeDecodeError) as error:
            why = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
            raise wrong(why, *named, name) if named else DagError(why, span=Span(path)) from None
        scope.files.append(path)
        lines = source.lines()
        while True:
            take_plain_lines(self.draft, scope, source)
            if (line := next(lines, None)) is None:
                break
            try:
                self._obey(parse(line, source), line, scope)
            except DagError as error:
                self._wrong(error)
        scope.files.pop()

    def _obey(self, command: Command, line: Line, scope: Scope) -> None:
        kind = type(command)
        if (obeyed := OBEYED.get(kind)) is not None:
            if not scope.waiting:
                try:
                    obeyed(self.draft, scope, line, command)
                    return
                except KeyError:
                    pass
            # Once one waits all do, or an earlier line would have the last word.
            scope.waiting.append((line, command))
        elif isinstance(command, NodeLine):
            self._node(command, line, scope)
        elif isinstance(command, SpliceLine):
            self._splice(command, line, scope)
        elif isinstance(command, DescriptionLine):
            scope.descriptions[command.name] = command.text
        elif isinstance(command, IncludeLine):
            self._file(command.file, scope, line)
        else:
            AT_ONCE[kind](self.draft, scope, line, command)

    def _node(self, command: NodeLine, line: Line, scope: Scope) -> None:
        kind, name, directory = command.kind, scope.before + command.name, scope.directory
        self._is_new(command.name, name, line, scope)
        if kind not in ("JOB", "SUBDAG"):
            self._special(command, line, scope)
        if kind == "JOB" and command.submit.endswith(SUBDAG_SUFFIX):
            # What condor_submit_dag writes. As a JOB, it would not be submitted with what its DAG needs.
            dag = command.submit.removesuffix(SUBDAG_SUFFIX)
            raise wrong(
                f"{command.submit} runs a DAG", *line, command.submit, expected=f"SUBDAG EXTERNAL {command.name} {dag}"
            )
        if command.directory:
            if self.options.use_dag_dir:
                raise wrong("with -usedagdir no node has a DIR", *line, "DIR")
            directory = posixpath.join(directory, command.directory)
        self.draft.add(
            NodeDraft(
                name, kind, command.submit, Place(line.file, line.number), command.description, directory,
                command.noop, command.done,
            ),
            scope,
        )  # fmt: skip

    def _is_new(self, name: str, full: str, line: Line, scope: Scope) -> None:
        known = self.draft.by_name.get(full)
        if known is not None:
            raise wrong(f"there is a node {name} already, from {self.draft.nodes[known].place}", *line, name)
        if name in scope.splices:
            raise wrong(f"there is a splice {name} already", *line, name)
        if "+" in name and not self.options.any_characters:
            raise wrong(
                f"{name} holds a +, which parts the names of splices and nodes", *line, name, expected="another name"
            )

    def _special(self, command: NodeLine, line: Line, scope: Scope) -> None:
        kind = command.kind
        if command.done:
            # As severe as anything to HTCondor, which then goes on all the same.
            self.draft.warn(line, f"DONE has no effect on a {kind} node", 2)
        if kind == "SERVICE":
            return
        if kind == "FINAL" and scope.depth:
            raise wrong("a splice has no FINAL node", *line, "FINAL")
        if kind in self.special:
            raise wrong(f"there is a {kind} node already: {self.special[kind]}", *line, command.name)
        self.special[kind] = command.name

    def _splice(self, command: SpliceLine, line: Line, scope: Scope) -> None:
        full = scope.before + command.name
        self._is_new(command.name, full, line, scope)
        directory, file = posixpath.join(scope.directory, command.directory), command.file
        if self.options.use_dag_dir:
            directory, file = posixpath.split(posixpath.join(directory, file))
        categories = f"{scope.categories}{scope.number}{command.name}+"
        splice = Scope(f"{full}+{scope.number}", categories, directory, scope.number, scope, scope.depth + 1)
        scope.splices[command.name] = splice
        self.scope(file, splice, line)
        self.draft.close(splice)

    def _wrong(self, error: DagError) -> None:
        self.errors.append(error)
        if len(self.errors) >= ERRORS_MAX:
            raise together(self.errors)
