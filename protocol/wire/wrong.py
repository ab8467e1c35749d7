"""A value that is not what its type says, and how it is shown."""

from __future__ import annotations


class WrongValue(Exception):
    """A value that is not what its type says; grows the path to it on the way out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path = ""

    def within(self, step: str) -> WrongValue:
        """The same fault, seen from one level further out."""
        self.path = f"{step}{self.path}" if self.path.startswith("[") or not self.path else f"{step}.{self.path}"
        return self

    def __str__(self) -> str:
        return f"field {self.path}: {self.message}" if self.path else self.message


def shown(value: object) -> str:
    """A short picture of a wrong value, safe to put into a log."""
    if isinstance(value, dict | list):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 40 else f"{type(value).__name__} {text[:30]}..."
