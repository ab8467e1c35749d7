"""The language of -print-format: which columns a table has, which ads are in it, in which order, and what is around it.

    SELECT [FROM <set> | UNIQUE] [BARE | NOTITLE | NOHEADER | NOSUMMARY]
           [LABEL [SEPARATOR <text>]] [RECORDPREFIX|RECORDSUFFIX|FIELDPREFIX|FIELDSUFFIX <text>]
        <expression> [AS <heading>] [WIDTH <n> | AUTO] [PRINTF <format> | PRINTAS <function>] [OR <char>] ...
    [WHERE <expression>]
    [GROUP BY <expression> [ASCENDING | DESCENDING] ...]
    [SUMMARY [STANDARD | NONE]]

The views of the tools are written in it too. What is wrong is said with its line, and the rest holds.

Source: "Print Formats" in HTCondor's manual.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minipool.cli.output import mask, printf
from minipool.cli.output.mask import Mask, PrintAs
from minipool.cli.output.show import ColumnSource
from pool.base.errors import ClassAdError, UserError
from pool.base.ids import is_number

_BLANKS: Final = " \t\r\n"
_ALTERNATIVES: Final = " ?*.-_#0"
_SEPARATORS: Final = {
    "RECORDPREFIX": "row_prefix", "RECORDSUFFIX": "row_suffix", "FIELDPREFIX": "prefix", "FIELDSUFFIX": "suffix",
}  # fmt: skip
_COLUMN_WORDS: Final = frozenset(
    ("ALWAYS", "AS", "AUTO", "FIT", "LEFT", "NOPREFIX", "NOSUFFIX", "OR", "PRINTAS", "PRINTF", "RENDERAS", "RIGHT",
     "TRUNCATE", "WIDTH")
)  # fmt: skip


class Key(NamedTuple):
    """One line of GROUP BY."""

    source: ColumnSource
    descending: bool


class PrintFormat:
    """What a print format asks for."""

    def __init__(self) -> None:
        self.mask = Mask()
        self.summary = Mask(prefix="", row_suffix="")
        self.from_set = ""
        self.unique = False
        self.where = ""
        self.group_by: list[Key] = []
        self.title = self.header = True
        self.summarized = self.own_summary = False
        self.wrong: list[str] = []

    def names(self) -> list[str]:
        """The attributes that the columns and the order need."""
        return sorted({*self.mask.needs, *(name for key in self.group_by for name in key.source.names())})


class FormatWord(NamedTuple):
    """A word of a line: its text, where it begins, whether it stood in quotes, and where the rest begins."""

    text: str
    start: int
    quoted: bool
    after: int


def tokens(line: str) -> Iterable[FormatWord]:
    """The words of a line; what stands in quotes of either kind is one word."""
    at = 0
    while True:
        while at < len(line) and line[at] in _BLANKS:
            at += 1
        if at == len(line):
            return
        if line[at] in "\"'":
            end = line.find(line[at], at + 1)
            end = len(line) if end < 0 else end
            yield FormatWord(line[at + 1 : end], at, True, end + 1)
            at = end + 1
        else:
            end = at
            while end < len(line) and line[end] not in _BLANKS:
                end += 1
            yield FormatWord(line[at:end], at, False, end)
            at = end


class _Reader:
    """Reads the lines of one print format."""

    def __init__(self, functions: Mapping[str, PrintAs], name: str, truncate: bool) -> None:
        self.functions, self.name, self.truncate = functions, name, truncate
        self.result = PrintFormat()
        self.section = "SELECT"
        self.into: Mask | None = None
        self.label: str | None = None
        self.plain = "%v"
        self.line_number = 0

    def complain(self, what: str) -> None:
        self.result.wrong.append(f"{self.name}:{self.line_number}: {what}")

    def read(self, lines: Iterable[str]) -> PrintFormat:
        """All lines; a backslash at the end of one joins it with the next."""
        joined = ""
        for self.line_number, line in enumerate(lines, 1):
            joined += line.strip()
            if joined.endswith("\\"):
                joined = joined[:-1]
                continue
            self._line(joined)
            joined = ""
        if joined:
            self._line(joined)
        return self.result

    def _line(self, line: str) -> None:
        words = list(tokens(line))
        # Only a whole line can be a comment: # is an alternative of OR as well.
        if not words or words[0].text.startswith("#"):
            return
        first = words[0].text
        if first == "SELECT":
            self.section, self.into = "SELECT", self.result.mask
            self._select(words[1:])
        elif first == "SUMMARY":
            self.section, self.into = "SUMMARY", self.result.summary
            self._summary(words[1:])
        # Keywords are in capitals, as in the manual: an attribute `where` is one.
        elif first in ("WHERE", "AND"):
            self.section = first
            self._where(line[words[1].start :] if len(words) > 1 else "")
        elif first == "GROUP":
            self.section = "GROUP"
            rest = words[2:] if words[1:] and words[1].text == "BY" else words[1:]
            if rest:
                self._group(line, rest)
        elif self.section == "GROUP":
            self._group(line, words)
        elif self.section in ("WHERE", "AND"):
            self._where(line)
        elif self.into is None:
            self.complain(f"{first} was unexpected: a print format begins with SELECT")
        else:
            self._column(line, words, self.into)

    def _select(self, words: list[FormatWord]) -> None:
        rest = iter(words)
        result = self.result
        for word in rest:
            text = word.text
            if text == "FROM":
                result.from_set = ((found := next(rest, None)) and found.text) or ""
                if not result.from_set:
                    self.complain("expected a data set name after FROM")
            elif text == "UNIQUE":
                result.unique = True
            elif text in ("BARE", "NOTITLE", "NOHEADER", "NOSUMMARY"):
                result.title = result.title and text not in ("BARE", "NOTITLE")
                result.header = result.header and text not in ("BARE", "NOHEADER")
                result.summarized = False
            elif text == "LABEL":
                self.label = " = "
            elif (text == "SEPARATOR" and self.label is not None) or text in _SEPARATORS:
                value = printf.unescape(((found := next(rest, None)) and found.text) or "")
                if text == "SEPARATOR":
                    self.label = value
                else:
                    setattr(result.mask, _SEPARATORS[text], value)
            else:
                self.complain(f"Warning: Unknown header argument {text} for SELECT")

    def _summary(self, words: list[FormatWord]) -> None:
        self.result.summarized = self.result.own_summary = True
        for word in words:
            if word.text == "STANDARD":
                self.result.own_summary = False
            elif word.text == "NONE":
                self.result.summarized = self.result.own_summary = False
            else:
                self.complain(f"Unknown argument {word.text} for SUMMARY")

    def _where(self, text: str) -> None:
        if not text:
            return
        try:
            ColumnSource(text)
        except ClassAdError:
            self.complain(f"WHERE expression is not valid: {text}")
            return
        self.result.where = text

    def _group(self, line: str, words: list[FormatWord]) -> None:
        word = next((one for one in words if not one.quoted and one.text in ("AS", "ASCENDING", "DESCENDING")), None)
        text = line[words[0].start : word.start if word else len(line)].strip()
        if not text or text.startswith("#"):
            return
        descending = any(one.text == "DESCENDING" for one in words)
        try:
            self.result.group_by.append(Key(ColumnSource(text), descending))
        except ClassAdError:
            self.complain(f"GROUP BY expression is not valid: {text}")

    def _column(self, line: str, words: list[FormatWord], into: Mask) -> None:
        try:
            self.add(line, words, into, heading=True)
        except ClassAdError:
            self.complain(f"attribute or expression is not valid: {expression_of(line, words)}")

    def add(self, line: str, words: list[FormatWord], into: Mask, *, heading: bool) -> None:
        """One line of SELECT as a column."""
        text = expression_of(line, words)
        if not text or text.startswith("#"):
            return
        given = _Given(self)
        rest = iter(words)
        for word in rest:
            if not word.quoted and word.text in _COLUMN_WORDS:
                given.take(word.text, rest)
        into.has_heading = into.has_heading or (heading and self.label is None)
        into.add(given.column(text, self.label))


def expression_of(line: str, words: list[FormatWord]) -> str:
    """What stands before the first keyword of a column's line."""
    word = next((one for one in words if not one.quoted and one.text in _COLUMN_WORDS), None)
    return line[: word.start if word else len(line)].strip()


class _Given:
    """What the keywords of one column's line say."""

    def __init__(self, reader: _Reader) -> None:
        self.reader = reader
        self.heading = ""
        self.flags = 0
        self.defaults = mask.AUTO | mask.NO_TRUNCATE
        self.format: str | None = reader.plain
        self.width: int | None = None
        self.how: PrintAs | None = None
        self.alt = ""

    def take(self, keyword: str, rest: Iterable[FormatWord]) -> None:
        """One keyword, and its argument where it has one."""
        simple = {
            "NOPREFIX": mask.NO_PREFIX, "NOSUFFIX": mask.NO_SUFFIX, "LEFT": mask.LEFT, "ALWAYS": mask.ALWAYS,
            "FIT": mask.FIT | mask.NO_TRUNCATE,
        }  # fmt: skip
        if keyword in simple:
            self.flags |= simple[keyword]
        elif keyword == "RIGHT":
            self.flags &= ~mask.LEFT
        elif keyword == "TRUNCATE":
            self.flags &= ~mask.NO_TRUNCATE
            self.defaults &= ~mask.NO_TRUNCATE
        elif keyword == "AUTO":
            self.reader.complain("AUTO was unexpected without WIDTH")
        else:
            argument = next(iter(rest), None)
            if argument is None:
                wanted = {"AS": "a column name", "PRINTF": "a format", "OR": "? or ??", "WIDTH": "a number or AUTO"}
                self.reader.complain(f"expected {wanted.get(keyword, 'a function name')} after {keyword}")
            else:
                self._argument(keyword, argument)

    def _argument(self, keyword: str, argument: FormatWord) -> None:
        text = argument.text
        if keyword == "AS":
            self.heading = printf.unescape(text) if argument.quoted else text
        elif keyword == "PRINTF":
            self.format = text
        elif keyword in ("PRINTAS", "RENDERAS"):
            self._function(keyword, text)
        elif keyword == "OR":
            if text[:1] and text[0] in _ALTERNATIVES:
                self.alt = text[:2] if text[1:2] == text[0] else text[0]
            else:
                self.reader.complain(f"Unknown argument {text} for OR")
        elif text == "AUTO":
            self.flags |= mask.AUTO
            self.defaults |= mask.AUTO | mask.NO_TRUNCATE
        else:
            self.width = _leading_number(text)
            self.defaults &= ~mask.AUTO
            if self.reader.truncate:
                self.defaults &= ~mask.NO_TRUNCATE
            # A column of a given width prints by that width; with none and AUTO, `%v` says how.
            if self.format == self.reader.plain:
                self.format = None

    def _function(self, keyword: str, name: str) -> None:
        how = self.reader.functions.get(name)
        if how is None:
            self.reader.complain(f"Unknown argument {name} for {keyword}")
            return
        self.how = how
        if keyword == "PRINTAS" or (self.format == self.reader.plain and how.printf is not None):
            self.format = how.printf

    def column(self, text: str, label: str | None) -> mask.Column:
        """The column, in the end."""
        flags = self.flags | self.defaults
        name = self.heading or text
        width = -len(name) if self.width is None else self.width
        if label is not None:
            shown = self.format
            if shown is None:
                wide = self.width or 0
                cut = f".{abs(wide)}" if wide and not flags & mask.NO_TRUNCATE else ""
                shown = f"%{wide or ''}{cut}{'s' if self.how else 'v'}"
            return mask.column(text, name, flags=flags, printf_text=name + label + shown, how=self.how, alt=self.alt)
        shown = self.format
        if shown is None and self.how is None:
            if not width:
                shown = "%v"
            elif self.reader.truncate:
                cut = "" if flags & mask.NO_TRUNCATE else f".{abs(width)}"
                shown = f"%{width}{cut}v"
        return mask.column(text, name, width=width, flags=flags, printf_text=shown, how=self.how, alt=self.alt)


def _leading_number(text: str) -> int:
    end = 1 if text[:1] in "+-" else 0
    while is_number(text[end : end + 1]):
        end += 1
    return int(text[:end]) if text[:end].lstrip("+-") else 0


def parse(
    lines: Iterable[str], functions: Mapping[str, PrintAs], *, name: str = "SELECT", truncate: bool = True
) -> PrintFormat:
    """Read a print format. `truncate`: columns of a given width cut what is longer."""
    return _Reader(functions, name, truncate).read(lines)


def from_file(path: str, functions: Mapping[str, PrintAs], *, truncate: bool = True) -> PrintFormat:
    """Read the print format of a file, or of standard input when the name is `-`."""
    import sys

    try:
        if path == "-":
            result = parse(sys.stdin, functions, name="-", truncate=truncate)
        else:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                result = parse(file, functions, name=path, truncate=truncate)
    except OSError:
        raise UserError(f"Can't open select file: {path}\nError: invalid select file {path}") from None
    for line in result.wrong:
        sys.stderr.write(f"{line}\n")
    return result


def append(into: Mask, texts: Iterable[str], functions: Mapping[str, PrintAs], flags: str = "") -> None:
    """More columns, each as a line of SELECT: what -aaf gives."""
    reader = _Reader(functions, "-aaf", False)
    texts = list(texts)
    last = into.columns[-1] if into.columns else None
    # The last column of a view has no width, as nothing followed it; now something does.
    if texts and last is not None and not last.width and not last.flags & mask.AUTO:
        grows = last.flags | mask.LEFT | mask.AUTO | mask.NO_TRUNCATE
        into.replace([*into.columns[:-1], last._replace(width=3, flags=grows)])
    letter = flags[:1]
    if flags and (letter not in "TVYr" or len(flags) > 1):
        wrong = flags[1:] if letter in "TVYr" else flags
        raise UserError(f"Error: {wrong} is invalid -aaf format qualifier. only one of V, r, T or Y is permitted.")
    reader.plain = f"%{letter}" if letter else "%v"
    for text in texts:
        reader.add(text, list(tokens(text)), into, heading=into.has_heading)
    if reader.result.wrong:
        raise UserError("\n".join(reader.result.wrong))
