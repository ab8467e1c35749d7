"""The table of functions: name -> arity and what computes it.

A plain function is given the values of its arguments, a framed one the frame before them, a metered one the budget; a
lazy one the nodes of its arguments and the frame. A wrong number of arguments is an error value. Who calls a function
counts the characters that it is given, by its `cost`; what it does beyond that, framed and metered ones count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pool.classad.eval.evaluate import BUILTINS, builtin_named, evaluate
from pool.classad.eval.frame import Frame
from pool.classad.syntax.nodes import Node
from pool.classad.values.value import ERROR

#: Any stands for a value in evaluation.
Plain = Callable[..., Any]
Lazy = Callable[[tuple[Node, ...], Frame], Any]
F = TypeVar("F", bound=Callable[..., Any])

#: Characters of its arguments that a function goes through in a step: in a few calls of Python's own, an item or a
#: character at a time, and character by character with more to do for each.
QUICK: Final = 64
SLOW: Final = 8
SLOWEST: Final = 2


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of the language."""

    name: str
    least: int
    most: int
    plain: Plain | None = None
    lazy: Lazy | None = None
    framed: bool = False
    metered: bool = False
    cost: int = QUICK

    def call(self, args: tuple[Node, ...], frame: Frame) -> Any:
        """The value of a call."""
        if not self.least <= len(args) <= self.most:
            return ERROR
        if self.lazy is not None:
            return self.lazy(args, frame)
        assert self.plain is not None
        values = [evaluate(arg, frame) for arg in args]
        for value in values:
            if type(value) is str and len(value) > UNCOUNTED:
                frame.budget.spend(len(value) // self.cost)
        if self.metered:
            return self.plain(frame.budget, *values)
        return self.plain(frame, *values) if self.framed else self.plain(*values)


UNCOUNTED: Final = 64
"""Characters of arguments that count for nothing."""


def framed(least: int, most: int, *names: str, cost: int = QUICK) -> Callable[[F], F]:
    """Enter a function of the frame and values under `names`."""

    def enter(function: F) -> F:
        for name in names:
            BUILTINS[name.lower()] = Builtin(name, least, most, plain=function, framed=True, cost=cost)
        return function

    return enter


def metered(least: int, most: int, *names: str) -> Callable[[F], F]:
    """Enter a function of the budget and values under `names`."""

    def enter(function: F) -> F:
        for name in names:
            BUILTINS[name.lower()] = Builtin(name, least, most, plain=function, metered=True)
        return function

    return enter


MANY: Final = 1 << 30


def plain(least: int, most: int, *names: str, cost: int = QUICK) -> Callable[[F], F]:
    """Enter a function of values under `names`."""

    def enter(function: F) -> F:
        for name in names:
            BUILTINS[name.lower()] = Builtin(name, least, most, plain=function, cost=cost)
        return function

    return enter


def lazy(least: int, most: int, *names: str) -> Callable[[F], F]:
    """Enter a function of nodes under `names`."""

    def enter(function: F) -> F:
        for name in names:
            BUILTINS[name.lower()] = Builtin(name, least, most, lazy=function)
        return function

    return enter


def register(name: str, least: int, most: int, function: Plain, *, framed: bool = False, cost: int = QUICK) -> None:
    """Enter or replace one function of values."""
    BUILTINS[name.lower()] = Builtin(name, least, most, plain=function, framed=framed, cost=cost)


def table() -> Mapping[str, Builtin]:
    """All functions, by their names in lower case."""
    builtin_named("")
    return BUILTINS


def names() -> list[str]:
    """All functions, in the manual's spelling."""
    return sorted((builtin.name for builtin in table().values()), key=str.lower)


def find(name: str) -> Builtin | None:
    """The function of this name."""
    return builtin_named(name.lower())
