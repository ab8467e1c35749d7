"""The configuration language: a text becomes assignments in a MacroSet.

The reader opens nothing itself: files and commands are reached through the `Reach` that it is given.

Lines take effect in their order, as in HTCondor's manual page introduction-to-configuration: assignments, `+=`, values
of several lines (`NAME @=tag`), `if`, `include`, `use`, `error` and `warning`. A value is kept as it was written, with
its place; macros in it are expanded when it is asked for, but a reference to the name itself stands for its earlier
value.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pool.base.errors import ConfigError, Span
from pool.base.words import SPACE
from pool.macros.conditions import BadCondition, Conditions, judge
from pool.macros.expand import Chance, Expander
from pool.macros.lines import Line, after_colon, argument_at, joined, logical_lines
from pool.macros.macro_set import MacroSet, Source, source_of
from pool.macros.statements import IncludeOptions, NotAStatement, Statement, statement

# HTCondor stops there, too (CONFIG_MAX_NESTING_DEPTH): a file that includes itself is told, not followed.
_DEEPEST = 20


class Reach:
    """How a reader gets at other texts: `read(path)` raises OSError, `run(command)` answers its output."""

    __slots__ = ("read", "run", "write")

    def __init__(
        self,
        read: Callable[[str], str],
        run: Callable[[str], str] | None = None,
        write: Callable[[str, str], None] | None = None,
    ) -> None:
        self.read = read
        self.run = run
        self.write = write


class ConfigReader:
    """Reads configuration texts, one after another, into `macros`."""

    def __init__(
        self,
        macros: MacroSet,
        default: Callable[[str], str | None],
        reach: Reach,
        *,
        subsystem: str = "",
        local_name: str = "",
        environ: Mapping[str, str] | None = None,
        chance: Chance | None = None,
        cwd: str = "",
    ) -> None:
        self.macros = macros
        self.default = default
        self.reach = reach
        self.subsystem = subsystem
        self.local_name = local_name
        self.sources: list[str] = []
        self.warnings: list[str] = []
        self.used_templates: list[str] = []
        self.finished = False  # set when all files have been read
        self.expander = Expander(self.lookup, environ=environ, chance=chance, cwd=cwd, error=ConfigError)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What goes before a knob that is meant for this daemon: SUBSYS.LOCALNAME, LOCALNAME, then SUBSYS."""
        if not self.local_name:
            return (self.subsystem,) if self.subsystem else ()
        own = (f"{self.subsystem}.{self.local_name}",) if self.subsystem else ()
        return (*own, self.local_name, *((self.subsystem,) if self.subsystem else ()))

    def lookup(self, name: str) -> str | None:
        """The raw text of `name` with the first of `prefixes` that it is found with, or without any.

        With each of them its own default comes before what is said with the next.
        """
        for prefix in self.prefixes:
            full = f"{prefix}.{name}"
            text = self.macros.text(full)
            if text is None:
                text = self.default(full)
            if text is not None:
                return text
        text = self.macros.text(name)
        return self.default(name) if text is None else text

    def read_text(self, text: str, file: str, *, depth: int = 0) -> None:
        """Read all of `text`; ConfigError names `file` and the line."""
        _Pass(self, file, depth).read(text)

    def assign(self, name: str, text: str, source: Source) -> None:
        """`name = text`: references to the old value of the same name are replaced now, all others when it is used."""
        bare = ""
        for prefix in self.prefixes:
            # `SCHEDD.X = $(X) more` in the schedd means what X is to the schedd.
            if name.lower().startswith(prefix.lower() + "."):
                bare = name[len(prefix) + 1 :]
                break
        self.macros.put(name, self.expander.expand_self(text, name, bare), source)


class _Here(NamedTuple):
    """A value of several lines that is being collected: `statement` began it, on line `number`, with `tag` at `at`."""

    name: str
    tag: str
    number: int
    statement: Line
    at: int
    lines: list[Line]


class _Pass:
    """One text being read: its open conditions and the value that is still being collected."""

    def __init__(self, reader: ConfigReader, file: str, depth: int, template: str = "", line: int = 0) -> None:
        self.reader = reader
        self.file = file
        self.depth = depth
        self.template = template
        self.template_line = line
        self.conditions = Conditions()
        self.here: _Here | None = None

    def read(self, text: str) -> None:
        if self.depth > _DEEPEST:
            raise ConfigError("includes nested too deep", span=Span(self.file, self.template_line))
        last = 0
        for number, line in logical_lines(text):
            last = number
            try:
                self.take(number, line)
            except ConfigError as error:
                if error.span is None:
                    raise self.error(error.message, number, line) from None
                raise
            except BadCondition as why:
                raise self.error(str(why), number, line, argument_at(line)) from None
        if (here := self.here) is not None:
            raise self.error(f"end of text while looking for '@{here.tag}'", here.number, here.statement, here.at)
        if self.conditions.is_open:
            raise self.error("endif(s) not found before end-of-file", last)

    def error(self, message: str, number: int, line: Line | None = None, at: int = 0) -> ConfigError:
        """An error at a character of a line; of a template's line, at the line that uses it."""
        if self.template:
            return ConfigError(f"use {self.template}: {message}", span=Span(self.file, self.template_line))
        return ConfigError(message, span=Span(self.file, number) if line is None else line.span(self.file, at))

    def source(self, number: int, line: Line, at: int) -> Source:
        if self.template:
            return Source(self.file, self.template_line, self.template)
        return source_of(line, at, self.file, number)

    def take(self, number: int, line: Line) -> None:
        if self.here is not None:
            self.collect(self.here, line)
            return
        # Releases of HTCondor that knew no `if` passed over lines that begin with a colon, so files for both have it.
        if line[0] == ":" and (self.conditions.is_open or line.partition(" ")[0].partition("\t")[0] == ":if"):
            line = after_colon(line)
        if self.conditions.take(line, self.judge) or not self.conditions.active:
            return
        try:
            one = statement(line, submit=False)
        except NotAStatement:
            raise self.error("this is neither an assignment nor a command", number, line) from None
        getattr(self, "_" + one.kind)(one, number, line)

    def judge(self, condition: str) -> bool:
        from pool.config import templates

        return judge(condition, self.reader.expander.expand, self.reader.lookup, templates.exists)

    def collect(self, here: _Here, line: Line) -> None:
        if line != "@" + here.tag:
            here.lines.append(line)
            return
        self.here = None
        source, value = self.source(here.number, here.statement, 0), joined(here.lines)
        if source.value is not None and value.is_placed:
            source.value = value
        self.reader.assign(here.name, str(value), source)

    def name_of(self, one: Statement, number: int, line: Line) -> str:
        name = self.reader.expander.expand(one.name)
        if not name or not name.replace("_", "").replace(".", "").replace("/", "").isalnum():
            raise self.error(f"illegal name <{name}>", number, line)
        if one.stray:
            where = f"{self.file}:{number}"
            self.reader.warnings.append(f"{where}: warning: '{one.stray}' between {name} and the operator is ignored")
        return name

    def _assign(self, one: Statement, number: int, line: Line) -> None:
        self.reader.assign(self.name_of(one, number, line), one.value, self.source(number, line, one.at))

    def _append(self, one: Statement, number: int, line: Line) -> None:
        name = self.name_of(one, number, line)
        now = self.reader.lookup(name)
        self.reader.assign(
            name, now + one.separator + one.value if now else one.value, self.source(number, line, one.at)
        )

    def _here(self, one: Statement, number: int, line: Line) -> None:
        self.here = _Here(self.name_of(one, number, line), one.value, number, line, one.at, [])

    def _error(self, one: Statement, number: int, line: Line) -> None:
        raise self.error(self.reader.expander.expand(one.value), number, line, one.at)

    def _warning(self, one: Statement, number: int, line: Line) -> None:
        self.reader.warnings.append(f"{self.file}:{number}: warning: {self.reader.expander.expand(one.value)}")

    def _other(self, one: Statement, number: int, line: Line) -> None:
        """A `[section]` line of an ini file counts as a comment."""

    def _use(self, one: Statement, number: int, line: Line) -> None:
        from pool.config import templates  # few files have any, and their texts are long

        category = self.reader.expander.expand(one.name).strip(SPACE)
        if not category:
            raise self.error("use needs a keyword before the colon", number, line)
        for name, arguments in templates.calls(one.value):
            text = templates.text(category, name)
            if text is None:
                kind = f"use {category}: does not recognise {name}"
                near = templates.nearest(category, name)
                raise self.error(
                    kind + (f" (did you mean {near}?)" if near else ""), number, line, line.find(name, one.at)
                )
            said = f"{category.upper()}:{name}"
            self.reader.used_templates.append(said)
            # Of templates within templates the user's own line is shown: the texts between are none of his.
            at = self.template_line if self.template else number
            _Pass(self.reader, self.file, self.depth + 1, said, at).read(templates.fill(text, arguments))

    def _include(self, one: Statement, number: int, line: Line) -> None:
        try:
            options = IncludeOptions(one.name)
        except ValueError as why:
            raise self.error(str(why), number, line) from None
        what = self.reader.expander.expand(one.value).strip(SPACE)
        command = options.command
        if what.endswith("|") and not command:
            what, command = what[:-1].strip(SPACE), True
        try:
            text, name = self.included(what, command, options)
        except OSError as why:
            if options.if_exists:
                return
            reason = why.strerror or str(why)
            raise self.error(f"cannot include {what}: {reason}", number, line, one.at) from None
        self.reader.sources.append(name)
        _Pass(self.reader, name, self.depth + 1).read(text)

    def included(self, what: str, command: bool, options: IncludeOptions) -> tuple[str, str]:
        """The text to include and the name under which it is known; OSError when it cannot be had."""
        reach = self.reader.reach
        if not command:
            return reach.read(what), what
        if reach.run is None:
            raise OSError("commands are not allowed here")
        if not options.into:
            return reach.run(what), what + "|"
        into = self.reader.expander.expand(options.into)
        try:
            # What was kept the last time is used (`include command into`): the command runs once in the life of a host.
            return reach.read(into), into
        except OSError:
            text = reach.run(what)
            if reach.write is not None:
                reach.write(into, text)
            return text, into
