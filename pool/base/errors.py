"""What goes wrong, by who can mend it: the user, a peer, or us.

Every error says what is wrong and where; one that was found in a text carries a `Span`, and prints as
`file:line:column: message` followed by the offending line with a caret below it.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """A place in a text: 1-based line and column (0: unknown), and the line itself where it is at hand."""

    file: str
    line: int = 0
    column: int = 0
    text: str | None = None

    def __str__(self) -> str:
        parts = [self.file, *(str(n) for n in (self.line, self.column if self.line else 0) if n)]
        return ":".join(parts)


def offset_in(text: str, span: Span | None) -> int:
    """The character of a text, perhaps of several lines, that a place in it means; its start where there is none."""
    if span is None:
        return 0
    return sum(len(line) + 1 for line in text.split("\n")[: span.line - 1]) + max(span.column - 1, 0)


class PoolError(Exception):
    """The root of all errors that minipool raises on purpose.

    `message` is one sentence without a full stop; `expected` says what would have been right.
    """

    def __init__(self, message: str, *, span: Span | None = None, expected: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.expected = expected

    def __str__(self) -> str:
        said = self.message if self.expected is None else f"{self.message} (expected {self.expected})"
        if self.span is None:
            return said
        lines = [f"{self.span}: {said}"]
        if self.span.text is not None:
            lines.append("    " + self.span.text.replace("\t", " "))
            if self.span.column:
                lines.append("    " + " " * (self.span.column - 1) + "^")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.span, self.expected)


def _rebuild(kind: type[PoolError], message: str, span: Span | None, expected: str | None) -> PoolError:
    # Around the class's own __init__, which may want other arguments than these: errors cross processes pickled.
    error = kind.__new__(kind)
    PoolError.__init__(error, message, span=span, expected=expected)
    return error


class UserError(PoolError):
    """Something a person wrote or asked for is wrong; they can mend it."""


class ConfigError(UserError):
    """A configuration file, knob or override is wrong."""


class SubmitError(UserError):
    """A submit description is wrong; nothing was queued. `others`: what else is wrong with it."""

    others: tuple["SubmitError", ...] = ()

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self.others)])

    def with_others(self, others: Iterable["SubmitError"]) -> "SubmitError":
        """This error and others, each once, in the order of their lines."""
        found = {str(one): one for one in (*self.apart(), *(part for other in others for part in other.apart()))}
        first, *rest = sorted(found.values(), key=lambda one: one.span.line if one.span else 0)
        first.others = tuple(rest)
        return first

    def apart(self) -> list["SubmitError"]:
        """The errors one by one."""
        others, self.others = self.others, ()
        return [self, *others]


class ClassAdError(UserError):
    """A text is not a ClassAd, or not an expression."""


class PeerError(PoolError):
    """The other side of a connection is at fault, gone, or said no."""
