"""The queue statement: `queue [N] [VARS in|from|matching [options] [slice] ITEMS]`, and the rows that it makes.

The syntax is that of HTCondor's manual page condor_submit, section "queue". A count repeats each row. Items stand in
the statement, between parentheses over several lines, in a file, in a command's output, or are names that match
patterns. One item is split at commas and blanks into as many values as there are variables; the last takes what is left
over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pool.base.words import SPACE, truth_word
from pool.macros.functions import as_int
from pool.submit.world import SubmitWorld

_MODES = frozenset(("in", "from", "matching"))
_MOST = 2**31 - 1
_MAGIC = r"[*?\[]"
_QUALIFIER = r"(?i)(files|dirs|any|table)(?=[\s(])"
_SLICE_WORD = r"\[[^\s(]*[\s(]"
_SLICE = r"\[(\s*-?[0-9]{0,18})(?::(\s*-?[0-9]{0,18}))?(?::(\s*-?[0-9]{0,18}))?\]"


class BadQueue(Exception):
    """The statement cannot be read, or its items cannot be had."""


class Slice:
    """Which items count, as `[start:end:step]`; `[2]` means from the third on."""

    __slots__ = ("end", "start", "step")

    def __init__(self, start: int | None = None, end: int | None = None, step: int | None = None) -> None:
        self.start = start
        self.end = end
        self.step = step

    def picks(self, count: int) -> list[int]:
        """The indexes of the items that count."""
        start = 0 if self.start is None else self.start + count if self.start < 0 else self.start
        end = count if self.end is None else self.end + count if self.end < 0 else self.end
        return [i for i in range(max(0, start), min(end, count)) if not self.step or (i - start) % abs(self.step) == 0]


class TableOptions:
    """What `from table(...)` says about a file: its header row, rows to skip, what separates columns."""

    __slots__ = ("header", "separator", "skip", "trim", "white_space")

    def __init__(self) -> None:
        self.header = 0
        self.skip = 0
        self.separator = ","
        self.trim = True
        self.white_space = False


class Queue:
    """A queue statement taken apart."""

    __slots__ = ("count", "file", "inline", "items", "mode", "qualifier", "slice", "table", "variables")

    def __init__(self) -> None:
        self.count = 1
        self.mode = ""
        self.qualifier = ""
        self.variables: list[str] = []
        self.items: list[str] = []
        self.file = ""
        self.inline = False  # the items follow on the next lines, up to a line that begins with `)`
        self.slice: Slice | None = None
        self.table: TableOptions | None = None


def statement_arguments(line: str) -> str | None:
    """What stands after `queue` (or `iterate`); None when the line is no queue statement."""
    word, _, rest = line.replace("\t", " ").partition(" ")
    lower = word.lower()
    if lower == "queue" or (len(lower) >= 4 and "iterate".startswith(lower)):
        return rest.strip(SPACE)
    return None


def parse_queue(text: str) -> Queue:
    """Take the arguments of a queue statement apart; BadQueue when they cannot be read."""
    queue = Queue()
    text = text.lstrip(SPACE)
    if not text:
        return queue
    at, keyword = _find_mode(text)
    before = text
    if keyword:
        queue.mode = keyword
        before = text[:at].rstrip(SPACE)
        _after_mode(queue, text[at + len(keyword) :].lstrip(SPACE))
        before, queue.variables = _variables(before)
        if not queue.variables:
            queue.variables = ["Item"]
    if before.strip(SPACE):
        queue.count = _count(before.strip(SPACE))
    return queue


def _find_mode(text: str) -> tuple[int, str]:
    """Where `in`, `from` or `matching` stands as a word of its own."""
    for found in re.finditer(r"[^\s(]+(?=[\s(])", text):
        if found[0].lower() in _MODES and (not found.start() or text[found.start() - 1].isspace()):
            return found.start(), found[0].lower()
    return -1, ""


def _variables(before: str) -> tuple[str, list[str]]:
    """Split `3 a,b` into the count and the names: going backwards, names end where a bare number begins."""
    at = len(before)
    while at > 0:
        char = before[at - 1]
        if char.isdigit():
            start = at
            while start > 0 and before[start - 1].isdigit():
                start -= 1
            if start == 0 or not before[start - 1].isalpha():
                break
            at = start
        elif char.isalpha() or char in SPACE or char in ",_.":
            at -= 1
        else:
            break
    return before[:at], [name for name in re.split(r"[,\s]+", before[at:]) if name]


def _count(text: str) -> int:
    number = as_int(text)
    if number is None:
        raise BadQueue("Invalid Queue count expression")
    if number < 0 or number >= _MOST:
        raise BadQueue("Queue count out of range")
    return number or 1  # none is taken for one


def _after_mode(queue: Queue, rest: str) -> None:
    while rest and rest[0] != "(":
        found = re.match(_QUALIFIER, rest)
        if found is not None:
            word = found[1].lower()
            if (queue.mode == "matching") is (word == "table") or queue.mode == "in":
                raise BadQueue("Queue keyword conflict")
            rest = rest[found.end() :].lstrip(SPACE)
            if word == "table":
                queue.table, rest = _table_options(rest)
            else:
                queue.qualifier = word
            continue
        if not re.match(_SLICE_WORD, rest):
            break  # `[x]` at the end is an item
        slice_ = re.match(_SLICE, rest)
        if slice_ is None:
            raise BadQueue("Invalid [::] statement")
        start, end, step = (int(part) if part and part.strip(SPACE) else None for part in slice_.groups())
        queue.slice = Slice(start, end, step)
        rest = rest[slice_.end() :].lstrip(SPACE)
    _items(queue, rest)


def _table_options(rest: str) -> tuple[TableOptions, str]:
    options = TableOptions()
    if not rest.startswith("("):
        return options, rest
    end = rest.find(")")
    if end < 0:
        raise BadQueue("Invalid TABLE options")
    for item in re.split(r"\s*,\s*(?=\w)", rest[1:end]):
        key, _, value = (part.strip(SPACE) for part in item.partition("="))
        lower = key.lower()
        if lower == "standard":
            options.header, options.white_space = -1, True
        elif lower == "csv":
            options.header, options.white_space = 0, False
        elif lower == "header":
            options.header = -1 if value.lower() == "none" else as_int(value) or 0
        elif lower == "skip":
            options.skip = as_int(value) or 0
        elif lower == "trim":
            options.trim = truth_word(value) is True
        elif lower == "sep":
            options.separator = value[:1] or ","
        elif lower and lower != "comma_sep":
            raise BadQueue("Invalid TABLE options")
    return options, rest[end + 1 :].lstrip(SPACE)


def _items(queue: Queue, rest: str) -> None:
    if rest.startswith("("):
        if rest.endswith(")"):
            inside = rest[1:-1].strip(SPACE)
            queue.items = ([inside] if inside else []) if queue.mode == "from" else words(inside)
            return
        queue.inline = True
        first = rest[1:].strip(SPACE)
        queue.items = ([first] if first else []) if queue.mode == "from" else words(first)
    elif queue.mode == "from":
        queue.file = rest.strip(SPACE)
    else:
        queue.items = words(rest)


def words(text: str) -> list[str]:
    """The items of a list: separated by commas, or by blanks."""
    return [word for word in re.split(r"[,\s]+", text) if word]


def take_inline(queue: Queue, line: str) -> bool:
    """Take one line of an inline list; False when it is the one that ends the list."""
    if line.startswith(")"):
        return False
    if not line.startswith("#"):
        queue.items.extend([line] if queue.mode == "from" else words(line))
    return True


class MatchOptions:
    """What `queue matching` makes of patterns without matches, of duplicates and of directories."""

    __slots__ = ("allow_duplicates", "directories", "fail_empty", "warn_duplicates", "warn_empty")

    def __init__(self) -> None:
        self.warn_empty = True
        self.fail_empty = False
        self.warn_duplicates = True
        self.allow_duplicates = False
        self.directories = "yes"


def load_items(queue: Queue, world: SubmitWorld, options: MatchOptions, warn: Callable[[str], None]) -> list[str]:
    """All items, before the slice: those of the statement, of its file or command, or what its patterns match."""
    if queue.file:
        return _from_file(queue, world)
    if queue.mode == "matching":
        return _matches(queue, world, options, warn)
    return queue.items


def _from_file(queue: Queue, world: SubmitWorld) -> list[str]:
    name = queue.file
    try:
        if name == "-":
            text = world.read_stdin()
        elif name.endswith("|"):
            text = world.run(name[:-1].strip(SPACE))
        else:
            text = world.read_file(name)
    except OSError as why:
        raise BadQueue(f"can't open file {name}: {why.strerror or why}") from None
    lines = list(_joined(text.split("\n")))
    if lines and not lines[-1]:
        lines.pop()
    return [*queue.items, *lines]


def _joined(lines: Iterable[str]) -> Iterable[str]:
    """Lines of an item file: continued ones joined, `#` lines kept."""
    going = ""
    for raw in lines:
        line = raw.strip(SPACE)
        if line.endswith("\\") and not line.startswith("#"):
            going += line[:-1]
            continue
        yield going + line
        going = ""
    if going:
        yield going


def _matches(queue: Queue, world: SubmitWorld, options: MatchOptions, warn: Callable[[str], None]) -> list[str]:
    kind = queue.qualifier or {"never": "files", "no": "files", "false": "files", "only": "dirs"}.get(
        options.directories.lower(), "any"
    )
    found: list[str] = []
    empty: list[str] = []
    known: dict[str, int] = {}
    earlier: list[str] = []  # without a match, and not told yet: what is told is a gap before another match
    for pattern in queue.items:
        everything = world.glob(pattern)
        plain = kind == "dirs" and not re.search(_MAGIC, pattern)  # a name without wildcards is taken as it is
        if kind == "dirs" and not plain:
            everything = [path for path in everything if path.endswith("/")]
        matches = [path for path in everything if kind == "any" or plain or path.endswith("/") is (kind == "dirs")]
        if not matches:
            empty.append(pattern)
            if pattern != queue.items[0]:
                earlier.append(pattern)
        if everything:
            if options.warn_empty:
                for name in earlier:
                    warn(f"'{name}' does not match any files")
            earlier = []
        for path in matches:
            if path in known and not options.allow_duplicates:
                if options.warn_duplicates:
                    warn(f"'{path}' matching pattern '{pattern}' is a duplicate of item {known[path]}, skipping")
                continue
            known[path] = len(found)
            found.append(path)
    if empty and options.fail_empty:
        raise BadQueue("no matches for pattern(s): " + " ".join(f"'{pattern}'" for pattern in empty))
    return found


def with_header(queue: Queue, items: list[str]) -> list[str]:
    """For a table with a header row: its columns become the variables, and the row goes."""
    table = queue.table
    if table is None or table.header < 0:
        return items[table.skip :] if table is not None else items
    if table.header >= len(items):
        raise BadQueue(f"Heading row {table.header} is beyond the end of table {queue.file}")
    columns = split_row(items[table.header], _MOST, table)
    bad = [name for name in columns if not re.match(r"[\w./]+\Z", name)]
    if not columns or bad:
        raise BadQueue("Columns have names that are not allowed : " + ",".join(bad))
    queue.variables = columns
    return items[table.header + 1 + table.skip :]


def split_row(row: str, columns: int, table: TableOptions | None = None) -> list[str]:
    """One item as so many values; the last takes what is left over, missing ones are empty."""
    if "\x1f" in row and table is None:
        values = [part.strip(" \t") for part in row.split("\x1f", columns - 1 if columns < _MOST else -1)]
    elif table is not None and not table.white_space:
        values = row.split(table.separator, columns - 1 if columns < _MOST else -1)
        if table.trim:
            values = [value.strip(" \t") for value in values]
    else:
        values, rest = [], row.strip(" \t")
        while len(values) + 1 < columns:
            found = re.search(r"[,\t ]", rest)
            if found is None:
                break
            values.append(rest[: found.start()].strip(" \t"))
            rest = rest[found.end() :].strip(" \t")
        values.append(rest)
    if columns < _MOST:
        values.extend([""] * (columns - len(values)))
    return values
