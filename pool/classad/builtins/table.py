"""The table of functions: name -> arity and what computes it.

A plain function is given the values of its arguments, a framed one the frame before them; a lazy one the nodes of its
arguments and the frame. A wrong number of arguments
is an error value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pool.classad.evaluate import _BUILTINS, Frame, builtin_named, evaluate
from pool.classad.nodes import Node
from pool.classad.values import ERROR

#: Any stands for a value in evaluation.
Plain = Callable[..., Any]
Lazy = Callable[[tuple[Node, ...], Frame], Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of the language."""

    name: str
    least: int
    most: int
    plain: Plain | None = None
    lazy: Lazy | None = None
    framed: bool = False

    def call(self, args: tuple[Node, ...], frame: Frame) -> Any:
        """The value of a call."""
        if not self.least <= len(args) <= self.most:
            return ERROR
        if self.lazy is not None:
            return self.lazy(args, frame)
        assert self.plain is not None
        values = [evaluate(arg, frame) for arg in args]
        return self.plain(frame, *values) if self.framed else self.plain(*values)

    def apply(self, values: Sequence[Any]) -> Any:
        """The value for arguments that were computed already; only for plain functions."""
        if not self.least <= len(values) <= self.most:
            return ERROR
        assert self.plain is not None
        return self.plain(*values)


def framed(least: int, most: int, *names: str) -> Callable[[F], F]:
    """Enter a function of the frame and values under `names`."""

    def enter(function: F) -> F:
        for name in names:
            _BUILTINS[name.lower()] = Builtin(name, least, most, plain=function, framed=True)
        return function

    return enter


MANY: Final = 1 << 30


def plain(least: int, most: int, *names: str) -> Callable[[F], F]:
    """Enter a function of values under `names`."""

    def enter(function: F) -> F:
        for name in names:
            _BUILTINS[name.lower()] = Builtin(name, least, most, plain=function)
        return function

    return enter


def lazy(least: int, most: int, *names: str) -> Callable[[F], F]:
    """Enter a function of nodes under `names`."""

    def enter(function: F) -> F:
        for name in names:
            _BUILTINS[name.lower()] = Builtin(name, least, most, lazy=function)
        return function

    return enter


def register(name: str, least: int, most: int, function: Plain, *, framed: bool = False) -> None:
    """Enter or replace one function of values."""
    _BUILTINS[name.lower()] = Builtin(name, least, most, plain=function, framed=framed)


def table() -> Mapping[str, Builtin]:
    """All functions, by their names in lower case."""
    builtin_named("")
    return _BUILTINS


def names() -> list[str]:
    """All functions, in the manual's spelling."""
    return sorted((builtin.name for builtin in table().values()), key=str.lower)


def find(name: str) -> Builtin | None:
    """The function of this name."""
    return builtin_named(name.lower())
