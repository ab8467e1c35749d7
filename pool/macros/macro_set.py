"""Named texts, each with the place it came from; names ignore case and keep the spelling of their first use."""

from __future__ import annotations

from collections.abc import Iterator

from pool.base.errors import Span
from pool.macros.lines import Line


class Source:
    """Where a value was written: a file (or `<Environment>` and the like), a line in it, perhaps inside a template.

    `statement` is the whole line and `value` what it assigns, where that is known.
    """

    __slots__ = ("file", "line", "statement", "template", "value")

    def __init__(
        self,
        file: str,
        line: int = 0,
        template: str = "",
        *,
        statement: Line | None = None,
        value: Line | None = None,
    ) -> None:
        self.file = file
        self.line = line
        self.template = template
        self.statement = statement
        self.value = value

    def name_span(self) -> Span:
        """Where the name was written."""
        return Span(self.file, self.line) if self.statement is None else self.statement.span(self.file)

    def span(self, text: str = "", at: int = 0) -> Span:
        """Where `text[at]` was written, as far as the text ends like the value; else where the value begins."""
        if self.value is None:
            return Span(self.file, self.line)
        # By the end, for what stands before a value may be the earlier value that `X = $(X) more` has taken in.
        before = len(text) - len(self.value)
        return self.value.span(self.file, max(at - before, 0) if text.endswith(self.value) else 0)

    def __str__(self) -> str:
        said = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{said}, use {self.template}" if self.template else said


def source_of(line: Line, at: int, file: str, number: int) -> Source:
    """The source of a statement whose value begins at a character of the line."""
    if not line.is_placed:
        return Source(file, number)
    return Source(file, number, statement=line, value=line.rest(at))


class Macro:
    """One name with its raw text."""

    __slots__ = ("name", "source", "text")

    def __init__(self, name: str, text: str, source: Source) -> None:
        self.name = name
        self.text = text
        self.source = source


class MacroSet:
    """What has been assigned so far, in the order of first assignment."""

    __slots__ = ("_macros",)

    def __init__(self, other: MacroSet | None = None) -> None:
        self._macros: dict[str, Macro] = dict(other._macros) if other is not None else {}

    def put(self, name: str, text: str, source: Source) -> None:
        key = name.lower()
        old = self._macros.get(key)
        # A name keeps the spelling and the place of its first assignment, whatever is said of it later.
        self._macros[key] = Macro(old.name if old is not None else name, text, source)

    def drop(self, name: str) -> None:
        self._macros.pop(name.lower(), None)

    def get(self, name: str) -> Macro | None:
        return self._macros.get(name.lower())

    def text(self, name: str) -> str | None:
        found = self._macros.get(name.lower())
        return None if found is None else found.text

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._macros

    def __iter__(self) -> Iterator[Macro]:
        return iter(self._macros.values())

    def __len__(self) -> int:
        return len(self._macros)
