"""The submit language: a text becomes assignments, up to each queue statement.

An assignment holds for the queue statements below it, not for those above (HTCondor's manual page submitting-a-job).
The rest of the language (`if`, `include`, macros, values of several lines) is that of configurations, in `pool.macros`.
A line that is none of this is remembered with its place, and reading goes on: all mistakes are told together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pool.base.errors import Span, SubmitError
from pool.base.words import SPACE
from pool.macros.conditions import BadCondition, Conditions, judge
from pool.macros.lines import Line, after_colon, argument_at, joined, logical_lines, typed
from pool.macros.macro_set import MacroSet, Source, source_of
from pool.macros.statements import IncludeOptions, Statement, statement
from pool.submit.queue_statement import BadQueue, Queue, parse_queue, statement_arguments, take_inline
from pool.submit.scope import ARGUMENT, Scope
from pool.submit.world import SubmitWorld

if TYPE_CHECKING:
    Lines = Iterator[tuple[int, Line]]

_DEEPEST = 20
_MOST_WRONG = 20
STRICT = {
    "FALSE": "SubmitWarnEmptyMatches=false\nSubmitFailEmptyMatches=false\nSubmitWarnDuplicateMatches=false\n"
    "SubmitFailEmptyFields=false\nSubmitWarnEmptyFields=false",
    "TRUE": "SubmitWarnEmptyMatches=true\nSubmitFailEmptyMatches=true\nSubmitWarnDuplicateMatches=true\n"
    "SubmitFailEmptyFields=false\nSubmitWarnEmptyFields=true",
    "HARSH": "SubmitWarnEmptyMatches=true\nSubmitFailEmptyMatches=true\nSubmitWarnDuplicateMatches=true\n"
    "SubmitFailEmptyFields=true\nSubmitWarnEmptyFields=true",
}


class SubmitBatch:
    """A queue statement, the line it stands on, and what was assigned before it."""

    __slots__ = ("line", "macros", "queue", "statement")

    def __init__(self, queue: Queue, line: int, macros: MacroSet, statement: Line | None = None) -> None:
        self.queue = queue
        self.line = line
        self.macros = macros
        self.statement = statement

    def span(self, file: str) -> Span:
        """Where its queue statement says what to queue."""
        if self.statement is None or not self.line:
            return Span(file, self.line)
        return self.statement.span(file, argument_at(self.statement))


def _span(file: str, number: int, line: Line | None, at: int = 0) -> Span:
    return Span(file, number) if line is None or not line.is_placed else line.span(file, at)


class SubmitReader:
    """Reads one description. `template(name)` is the text behind `use template : name`."""

    def __init__(self, scope: Scope, world: SubmitWorld, file: str, template: Callable[[str], str | None]) -> None:
        self.scope = scope
        self.world = world
        self.file = file
        self.template = template
        self.warnings: list[str] = []
        self.appended: Sequence[str] = ()  # lines that count as if they stood before each queue statement
        self.batches: list[SubmitBatch] = []
        self.last_line = 0
        self.wrong: list[SubmitError] = []  # lines that cannot be read

    def read(self, text: str | Iterable[str]) -> None:
        """Read the description. Lines after a queue statement count for the next one."""
        conditions = Conditions()
        self._read(logical_lines(text, blank=True), self.file, 0, conditions)

    def read_line(self, line: str, source: Source) -> None:
        """One assignment from the command line."""
        self._assign(statement(line, submit=True), typed(line), source, source.file, 0)

    def append_lines(self) -> None:
        for line in self.appended:
            self.read_line(line, ARGUMENT)

    def error(self, message: str, file: str, number: int, line: Line | None = None, at: int = 0) -> SubmitError:
        """An error at a character of a line, or, where that is not the user's own, at the line of this number."""
        return SubmitError(message, span=_span(file, number, line, at))

    def _read(self, lines: Lines, file: str, depth: int, conditions: Conditions) -> None:
        if depth > _DEEPEST:
            raise self.error("includes nested too deep", file, 0)
        number, line = 0, Line("")
        try:
            for number, line in lines:
                if not line:
                    continue
                if not depth:
                    self.last_line = number
                try:
                    self._take(number, line, lines, file, depth, conditions)
                except SubmitError as error:
                    self._note(error, _span(file, number, line), depth)
        except BadCondition as why:
            raise self.error(str(why), file, number, line, argument_at(line)) from None
        if conditions.is_open and (depth or not self.batches):
            raise self.error("endif(s) not found before end-of-file", file, number)

    def _note(self, error: SubmitError, span: Span, depth: int) -> None:
        """Go on after a line that is wrong, so that all are told at once; what is included is wrong as a whole."""
        if error.span is None:
            error.span = span
        if depth or len(self.wrong) >= _MOST_WRONG:
            raise error
        self.wrong.append(error)

    def _take(self, number: int, line: Line, lines: Lines, file: str, depth: int, conditions: Conditions) -> None:
        if line[0] == ":" and conditions.is_open:
            line = after_colon(line)
        if conditions.take(line, self._judge) or not conditions.active or line[0] == "#":
            return
        one = statement(line, submit=True)
        source = source_of(line, one.at, file, number)
        if one.kind == "other":
            self._queue(number, line, lines, file, depth)
        elif one.kind == "here":
            if one.name[:1] in ("+", "-"):
                raise self.error(f"Illegal Identifier: <{one.name}>", file, number, line)
            value = self._here(one, line, lines, file, number)
            if value.is_placed:
                source.value = value
            self._put(one.name, str(value), source, file, line)
        elif one.kind == "include":
            self._include(one, line, file, number, depth)
        elif one.kind == "use":
            self._use(one, line, source, depth)
        elif one.kind == "error":
            raise self.error(self.scope.expand(one.value), file, number, line, one.at)
        elif one.kind == "warning":
            self.warnings.append(self.scope.expand(one.value))
        else:
            self._assign(one, line, source, file, number)

    def _judge(self, condition: str) -> bool:
        return judge(condition, self.scope.expand, self.scope.lookup, self._template_exists)

    def _template_exists(self, category: str, name: str) -> bool:
        if category.strip(SPACE).lower() == "strict":
            return not name or name.strip(SPACE).upper() in STRICT
        return category.strip(SPACE).lower() == "template" and (
            not name or self.template(name.strip(SPACE)) is not None
        )

    def _assign(self, one: Statement, line: Line, source: Source, file: str, number: int) -> None:
        if one.kind not in ("assign", "append", "here"):
            raise self.error(f"cannot parse: {line}", file, number, line)
        text = one.value
        if one.kind == "append":
            now = self.scope.lookup(self._name(one.name))
            text = now + one.separator + text if now else text
        self._put(one.name, text, source, file, line)

    def _name(self, name: str) -> str:
        if name[:1] in ("+", "-"):
            return "MY." + name[1:]
        return self.scope.expand(name)

    def _put(self, written: str, text: str, source: Source, file: str, line: Line) -> None:
        """`written = text`; a reference to the name's own old value is replaced now."""
        name = self._name(written)
        bare = name.replace("_", "").replace(".", "").replace("/", "")
        if not bare.isalnum():
            raise self.error(f"Illegal Identifier: <{written}>", file, source.line, line)
        if written[:1] == "-":
            text = ""
        elif written[:1] != "+":
            text = self.scope.expander.expand_self(text, name)
        self.scope.macros.put(name, text, source)

    def _here(self, one: Statement, opening: Line, lines: Lines, file: str, number: int) -> Line:
        collected: list[Line] = []
        for _, line in lines:
            if line == "@" + one.value:
                return joined(collected)
            if line:
                collected.append(line)
        raise self.error(f"Found end-of-file while scanning for '@{one.value}'", file, number, opening, one.at)

    def _queue(self, number: int, line: Line, lines: Lines, file: str, depth: int) -> None:
        arguments = statement_arguments(line)
        if arguments is None:
            from pool.submit import meant

            error = self.error("invalid queue statement.", file, number, line)
            error.expected = meant.line(line)
            raise error
        if depth:
            raise self.error("Queue statement not allowed in include file or command", file, number, line)
        self.add_queue(arguments, number, line, lines)

    def add_queue(self, arguments: str, number: int, line: Line, lines: Lines = iter(())) -> None:
        """A queue statement has come: what was assigned so far belongs to it."""
        self.append_lines()
        try:
            queue = parse_queue(self.scope.expand(arguments))
        except BadQueue as why:
            from pool.submit import meant

            error = self.error(str(why), self.file, number, line, argument_at(line))
            error.expected = meant.count(arguments)
            raise error from None
        if queue.inline:
            for self.last_line, item in lines:
                if not take_inline(queue, str(item)):
                    break
            else:
                message = f"Reached end of file without finding closing brace ')' for Queue command on line {number}"
                raise self.error(message, self.file, number, line)
        self.batches.append(SubmitBatch(queue, number, MacroSet(self.scope.macros), line))

    def _use(self, one: Statement, line: Line, source: Source, depth: int) -> None:
        category = self.scope.expand(one.name).strip(SPACE).upper()
        from pool.config.templates import calls, fill

        for name, arguments in calls(one.value):
            text = STRICT.get(name.upper()) if category == "STRICT" else None
            if category == "TEMPLATE":
                text = self.template(name)
            if text is None:
                raise self.error(f"use {category}: does not recognise {name}", source.file, source.line, line, one.at)
            filled = fill(text, arguments)
            lines = ((source.line, Line(said)) for _, said in logical_lines(filled))
            self._read(lines, source.file, depth + 1, Conditions())

    def _include(self, one: Statement, line: Line, file: str, number: int, depth: int) -> None:
        try:
            options = IncludeOptions(one.name)
        except ValueError as why:
            raise self.error(str(why), file, number, line) from None
        what = self.scope.expand(one.value).strip(SPACE)
        command = options.command
        if what.endswith("|") and not command:
            what, command = what[:-1].strip(SPACE), True
        try:
            text = self._included(what, command, options)
        except OSError as why:
            if options.if_exists:
                return
            reason = why.strerror or str(why)
            raise self.error(
                f"can't open {'command' if command else 'file'} {what}: {reason}", file, number, line, one.at
            ) from None
        self._read(logical_lines(text), what, depth + 1, Conditions())

    def _included(self, what: str, command: bool, options: IncludeOptions) -> str:
        if not command:
            return self.world.read_file(what)
        if not options.into:
            return self.world.run(what)
        into = self.scope.expand(options.into)
        try:
            return self.world.read_file(into)
        except OSError:
            return self.world.run(what)
