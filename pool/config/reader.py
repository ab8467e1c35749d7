"""The configuration language: a text becomes assignments in a MacroSet.

The reader opens nothing itself: files and commands are reached through the `Reach` that it is given.
"""

from __future__ import annotations

from pool.errors import ConfigError, Span
from pool.hints import Callable, Mapping
from pool.macros.conditions import BadCondition, Conditions, judge
from pool.macros.expand import Chance, Expander
from pool.macros.lines import logical_lines
from pool.macros.macro_set import MacroSet, Source
from pool.macros.statements import IncludeOptions, NotAStatement, Statement, statement

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


class Reader:
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

    def lookup(self, name: str) -> str | None:
        """The raw text of `name`: LOCALNAME.name, then SUBSYS.name, then name, each before its default."""
        for prefix in (self.local_name, self.subsystem):
            if prefix:
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
        for prefix in (self.local_name, self.subsystem):
            if prefix and name.lower().startswith(prefix.lower() + "."):
                bare = name[len(prefix) + 1 :]
                break
        self.macros.put(name, self.expander.expand_self(text, name, bare), source)


class _Pass:
    """One text being read: its open conditions and the value that is still being collected."""

    def __init__(self, reader: Reader, file: str, depth: int, template: str = "", line: int = 0) -> None:
        self.reader = reader
        self.file = file
        self.depth = depth
        self.template = template
        self.template_line = line
        self.conditions = Conditions()
        self.here: tuple[str, str, int, list[str]] | None = None

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
                raise self.error(str(why), number, line) from None
        if self.here is not None:
            raise self.error(f"end of text while looking for '@{self.here[1]}'", self.here[2], "")
        if self.conditions.is_open:
            raise self.error("endif(s) not found before end-of-file", last, "")

    def error(self, message: str, number: int, line: str) -> ConfigError:
        if self.template:
            return ConfigError(f"use {self.template}: {message}", span=Span(self.file, self.template_line))
        return ConfigError(message, span=Span(self.file, number, 1 if line else 0, line or None))

    def source(self, number: int) -> Source:
        return Source(self.file, self.template_line if self.template else number, self.template)

    def take(self, number: int, line: str) -> None:
        if self.here is not None:
            self.collect(line)
            return
        if line[0] == ":" and (self.conditions.is_open or line.partition(" ")[0].partition("\t")[0] == ":if"):
            line = line[1:].lstrip() or "#"
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

    def collect(self, line: str) -> None:
        assert self.here is not None
        name, tag, number, lines = self.here
        if line == "@" + tag:
            self.here = None
            self.reader.assign(name, "\n".join(lines), self.source(number))
        else:
            lines.append(line)

    def name_of(self, one: Statement, number: int, line: str) -> str:
        name = self.reader.expander.expand(one.name)
        if not name or not name.replace("_", "").replace(".", "").replace("/", "").isalnum():
            raise self.error(f"illegal name <{name}>", number, line)
        if one.stray:
            where = f"{self.file}:{number}"
            self.reader.warnings.append(f"{where}: warning: '{one.stray}' between {name} and the operator is ignored")
        return name

    def _assign(self, one: Statement, number: int, line: str) -> None:
        self.reader.assign(self.name_of(one, number, line), one.value, self.source(number))

    def _append(self, one: Statement, number: int, line: str) -> None:
        name = self.name_of(one, number, line)
        now = self.reader.lookup(name)
        self.reader.assign(name, now + one.separator + one.value if now else one.value, self.source(number))

    def _here(self, one: Statement, number: int, line: str) -> None:
        self.here = (self.name_of(one, number, line), one.value, number, [])

    def _error(self, one: Statement, number: int, line: str) -> None:
        raise self.error(self.reader.expander.expand(one.value), number, "")

    def _warning(self, one: Statement, number: int, line: str) -> None:
        self.reader.warnings.append(f"{self.file}:{number}: warning: {self.reader.expander.expand(one.value)}")

    def _other(self, one: Statement, number: int, line: str) -> None:
        """A `[section]` line of an ini file counts as a comment."""

    def _use(self, one: Statement, number: int, line: str) -> None:
        from pool.config import templates  # few files have any, and their texts are long

        category = self.reader.expander.expand(one.name).strip()
        if not category:
            raise self.error("use needs a keyword before the colon", number, line)
        for name, arguments in templates.calls(one.value):
            text = templates.text(category, name)
            if text is None:
                kind = f"use {category}: does not recognise {name}"
                near = templates.nearest(category, name)
                raise self.error(kind + (f" (did you mean {near}?)" if near else ""), number, line)
            said = f"{category.upper()}:{name}"
            self.reader.used_templates.append(said)
            at = self.template_line if self.template else number
            _Pass(self.reader, self.file, self.depth + 1, said, at).read(templates.fill(text, arguments))

    def _include(self, one: Statement, number: int, line: str) -> None:
        try:
            options = IncludeOptions(one.name)
        except ValueError as why:
            raise self.error(str(why), number, line) from None
        what = self.reader.expander.expand(one.value).strip()
        command = options.command
        if what.endswith("|") and not command:
            what, command = what[:-1].strip(), True
        try:
            text, name = self.included(what, command, options)
        except OSError as why:
            if options.if_exists:
                return
            reason = why.strerror or str(why)
            raise self.error(f"cannot include {what}: {reason}", number, line) from None
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
            return reach.read(into), into
        except OSError:
            text = reach.run(what)
            if reach.write is not None:
                reach.write(into, text)
            return text, into
