"""One option parser for every tool, from one table each: HTCondor's single-dash options, which may be shortened.

`-const` is `-constraint`, as long as enough letters are given (`least`) and no earlier row of the table takes them;
they are as many as HTCondor's tools want (is_dash_arg_prefix in its sources). After two dashes a name is given whole.
An option may carry a qualifier after a colon (`-af:jh`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from pool.base.errors import UserError
from pool.base.ids import is_number

MANY: Final = -1
"""The option takes all words up to the next option, at least one."""


class Opt(NamedTuple):
    """One row of an option table; several names are alternatives, the first one is shown and is the key."""

    names: str
    least: int | tuple[int, ...] = 1
    """The letters that are enough; a tuple has them for each of the names."""
    takes: int = 0
    metavar: str = ""
    says: str = ""
    colon: bool = False
    refused: str = ""
    """Why the option is not for this pool, and what is instead."""

    @property
    def key(self) -> str:
        """The name under which the parsed value is found."""
        return self.names.split()[0]

    def called(self) -> Iterator[tuple[str, int]]:
        """Each name, and how many of its letters are enough."""
        names = self.names.split()
        least = self.least if isinstance(self.least, tuple) else (self.least,) * len(names)
        return zip(names, map(min, least, map(len, names)), strict=True)


class UsageError(UserError):
    """The command line is wrong; the tool's usage follows the message."""


class MissingValue(UserError):
    """An option came without its value; the message says all."""

    def __init__(self, message: str, *, option: str = "") -> None:
        super().__init__(message)
        self.option = option


class Given(NamedTuple):
    """One option as it was given."""

    key: str
    values: tuple[str, ...]
    qualifier: str
    spelled: str
    after: int = 0
    """How many words, which are no options, stood before it."""


class Parsed:
    """What a command line said: options in their order, and the other words."""

    def __init__(self) -> None:
        self.given: list[Given] = []
        self.words: list[str] = []

    def has(self, key: str) -> bool:
        """Whether the option was given."""
        return any(one.key == key for one in self.given)

    def value(self, key: str, default: str | None = None) -> str | None:
        """The (first) value of the option's last use."""
        for one in reversed(self.given):
            if one.key == key:
                return one.values[0] if one.values else default
        return default

    def values(self, key: str) -> list[str]:
        """The values of all uses of the option, in their order."""
        return [value for one in self.given if one.key == key for value in one.values]

    def qualifier(self, key: str) -> str | None:
        """What followed the colon at the option's last use; None when the option was not given."""
        for one in reversed(self.given):
            if one.key == key:
                return one.qualifier
        return None

    def number(self, key: str, default: int) -> int:
        """The option's value as a whole number."""
        text = self.value(key)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise MissingValue(f"-{key} requires a number, not {text!r}") from None


def parse(
    table: Sequence[Opt],
    argv: Sequence[str],
    *,
    unknown: str,
    stop_at_word: bool = False,
    value_follows: Callable[[Parsed], bool] | None = None,
) -> Parsed:
    """Read `argv` by `table`. `unknown` is the tool's sentence about an option that no row takes (`{}`: the option).

    `value_follows` says of what was read so far whether the next word belongs to the last one, whatever it begins with.
    """
    parsed = Parsed()
    words = list(argv)
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if _is_word(word) or (value_follows is not None and value_follows(parsed)):
            parsed.words.append(word)
            if stop_at_word:
                parsed.words.extend(words[at:])
                break
            continue
        row, qualifier = find_row(table, word)
        if row is None:
            raise UsageError(unknown.format(word))
        if row.refused:
            raise MissingValue(f"{word} is not supported here: {row.refused}")
        values, at = _values(row, word, words, at)
        parsed.given.append(Given(row.key, values, qualifier, word, len(parsed.words)))
    return parsed


def find_row(table: Sequence[Opt], word: str) -> tuple[Opt | None, str]:
    """The row that takes `word`, if any does, and what follows the colon."""
    name, _, qualifier = word.lstrip("-").partition(":")
    name, whole = name.lower(), word.startswith("--")
    for row in table:
        # `-af:j` is one option with a qualifier; `-long:x` of a tool without qualifiers is none that it knows.
        if qualifier and not row.colon:
            continue
        for known, least in row.called():
            if known == name or (not whole and len(name) >= least and known.startswith(name)):
                return row, qualifier
    return None, ""


def _values(row: Opt, word: str, words: list[str], at: int) -> tuple[tuple[str, ...], int]:
    if row.takes == MANY:
        end = at
        while end < len(words) and not words[end].startswith("-"):
            end += 1
        if end == at:
            raise MissingValue(f"Error: -{row.key} requires at least one attribute parameter")
        values = tuple(words[at:end])
        # A dash by itself ends a list of attributes, as in condor_q(1).
        return values, end + 1 if words[end : end + 1] == ["-"] else end
    if at + row.takes > len(words):
        what = "another parameter" if row.takes == 1 else f"{row.takes} parameters"
        raise MissingValue(f"Error: {word} requires {what}", option=word)
    return tuple(words[at : at + row.takes]), at + row.takes


def _is_word(word: str) -> bool:
    # `-` is standard input, and -5 a number: condor_prio takes one.
    return not word.startswith("-") or word == "-" or is_number(word[1:])
