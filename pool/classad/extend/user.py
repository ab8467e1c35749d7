"""Functions that a pool adds to the language, from the Python modules that CLASSAD_USER_PYTHON_MODULES names.

A module says what it offers with `register`; any public function of a named module can also be called as
`python_invoke("module", "function", ...)`. What a function raises, or returns beyond the language's types, is an error
value. Functions run inside daemons: they should neither wait nor change anything. One that runs away is stopped after
a bounded number of traced lines.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from types import FrameType, ModuleType
from typing import Any, Final

from pool.base.errors import ConfigError
from pool.classad.eval.expression import public, storable
from pool.classad.eval.frame import BoundList, Frame
from pool.classad.eval.functions import MANY, framed, table
from pool.classad.eval.functions import register as enter
from pool.classad.values.environment import ENV
from pool.classad.values.value import ERROR, PLAIN, RelTime

MAX_LINES: Final = 1_000_000
_MODULES: Final[dict[str, ModuleType]] = {}
_REGISTERED: Final[dict[str, Callable[..., Any]]] = {}
_BUILT_IN: Final = frozenset(table())


class _Runaway(BaseException):
    """Raised inside a user's function that does not come to an end; no `except Exception` there catches it."""


def register(function: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """Let expressions call `function` by its name, or by `name`; usable as a decorator.

    Arguments arrive as Python values, with UNDEFINED and ERROR for what has none.
    """
    spelling = name or function.__name__
    if spelling.lower() in _BUILT_IN:
        raise ConfigError(f"{spelling}() is a function of the language and cannot be replaced")
    least, most = _arity(function)
    _REGISTERED[spelling.lower()] = function
    enter(spelling, least, most, _contained(function), framed=True)
    return function


def _arity(function: Callable[..., Any]) -> tuple[int, int]:
    least = most = 0
    for parameter in signature(function).parameters.values():
        if parameter.kind is Parameter.VAR_POSITIONAL:
            most = MANY
        elif parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            least += parameter.default is Parameter.empty
            most = min(MANY, most + 1)
    return least, most


def _contained(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(frame: Frame, *values: Any) -> Any:
        try:
            return _inside(_bounded(function, [public(value) for value in values]), frame)
        except _Runaway:
            ENV.debug(f"{function.__name__}() did not end after {MAX_LINES} lines and was stopped")
        except Exception as error:  # whatever a user's function may raise
            ENV.debug(f"{function.__name__}() failed: {type(error).__name__}: {error}")
        return ERROR

    return call


def _bounded(function: Callable[..., Any], values: list[Any]) -> Any:
    """Call, and stop a function that executes too many lines."""
    left = MAX_LINES

    def count(_frame: FrameType, _event: str, _arg: object) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise _Runaway
        return count

    before = sys.gettrace()
    if before is not None:
        # A debugger or a coverage tool is tracing; it keeps its place, and the function its freedom.
        return function(*values)
    sys.settrace(count)
    try:
        return function(*values)
    finally:
        sys.settrace(None)


def _inside(value: object, frame: Frame) -> Any:
    """A Python value in evaluation's terms."""
    stored = storable(value)
    if type(stored) in PLAIN or type(stored) is RelTime:
        return stored
    if isinstance(stored, list):
        return BoundList(stored, frame, fresh=True)
    attrs = getattr(stored, "attrs", None)
    return ERROR if attrs is None else Frame(attrs, frame, frame.budget)


@framed(2, MANY, "python_invoke")
def python_invoke(frame: Frame, module: Any, name: Any, *values: Any) -> Any:
    """Call a function of a module that CLASSAD_USER_PYTHON_MODULES names."""
    if type(module) is not str or type(name) is not str or name.startswith("_"):
        return ERROR
    function = getattr(_MODULES.get(module), name, None)
    if not callable(function):
        return ERROR
    return _contained(function)(frame, *values)


def load_modules(names: Iterable[str]) -> list[str]:
    """Import the modules; what is wrong with those that cannot be is returned, a sentence each."""
    problems: list[str] = []
    for name in names:
        if name in _MODULES:
            continue
        try:
            _MODULES[name] = importlib.import_module(name)
        except (Exception, SystemExit) as error:  # a user's module may do anything while it is imported
            problems.append(f"CLASSAD_USER_PYTHON_MODULES: cannot import {name}: {type(error).__name__}: {error}")
    return problems


__all__ = [
    "MAX_LINES",
    "load_modules",
    "python_invoke",
    "register",
]
