"""Functions of regular expressions."""

from __future__ import annotations

from typing import Any

from pool.classad.eval.budget import Budget
from pool.classad.eval.frame import BoundList, Frame, members
from pool.classad.eval.functions import framed, metered
from pool.classad.eval.patterns import Pattern, compile_pattern, substitute
from pool.classad.values.value import ERROR, UNDEFINED


def _exceptional(*values: Any) -> Any:
    """ERROR or UNDEFINED if one of the values is, else None."""
    if ERROR in values:
        return ERROR
    return UNDEFINED if UNDEFINED in values else None


@metered(2, 3, "regexp")
def regexp(budget: Budget, pattern: Any, target: Any, options: Any = "") -> Any:
    """Whether the pattern is found in the target."""
    if type(pattern) is not str or type(target) is not str or type(options) is not str:
        odd = _exceptional(pattern, target, options)
        return ERROR if odd is None else odd
    compiled = compile_pattern(pattern, options, budget)
    return compiled.search(target, budget) if isinstance(compiled, Pattern) else ERROR


@framed(2, 3, "regexpMember")
def regexp_member(frame: Frame, pattern: Any, targets: Any, options: Any = "") -> Any:
    """Whether the pattern is found in a member of a list."""
    if (odd := _exceptional(pattern, targets, options)) is not None:
        return odd
    if type(pattern) is not str or type(targets) is not BoundList or type(options) is not str:
        return ERROR
    compiled = compile_pattern(pattern, options, frame.budget)
    missing = False
    for target in members(targets, frame):
        if target is UNDEFINED:
            missing = True
        elif type(target) is not str:
            return ERROR
        elif isinstance(compiled, Pattern) and compiled.search(target, frame.budget):
            return True
    return UNDEFINED if missing else False


def _substituted(budget: Budget, pattern: Any, target: Any, template: Any, options: Any) -> Any:
    values = (pattern, target, template, options)
    if (odd := _exceptional(*values)) is not None:
        return odd
    if any(type(value) is not str for value in values):
        return ERROR
    compiled = compile_pattern(pattern, options, budget)
    if not isinstance(compiled, Pattern):
        return ERROR
    return substitute(compiled, target, template, budget, whole="f" in options, everywhere="g" in options)


@metered(3, 4, "regexps")
def regexps(budget: Budget, pattern: Any, target: Any, template: Any, options: Any = "") -> Any:
    """The template filled in with what matched."""
    return _substituted(budget, pattern, target, template, options)


@metered(3, 4, "replace")
def replace(budget: Budget, pattern: Any, target: Any, template: Any, options: Any = "") -> Any:
    """The target with its first match replaced."""
    return _substituted(budget, pattern, target, template, options + "f" if type(options) is str else options)


@metered(3, 4, "replaceAll")
def replace_all(budget: Budget, pattern: Any, target: Any, template: Any, options: Any = "") -> Any:
    """The target with all matches replaced."""
    return _substituted(budget, pattern, target, template, options + "fg" if type(options) is str else options)
