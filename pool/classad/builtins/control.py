"""Functions that decide what is evaluated, and where: ifThenElse, eval, unparse, unresolved, countMatches, ..."""

from __future__ import annotations

from typing import Any

from pool.base.errors import ClassAdError
from pool.classad.eval.convert import show, to_string
from pool.classad.eval.evaluate import evaluate, spend_on_parts
from pool.classad.eval.frame import BoundList, Frame, member, members, outermost, select
from pool.classad.eval.functions import framed, lazy
from pool.classad.eval.operators import truth
from pool.classad.eval.patterns import Pattern, compile_pattern
from pool.classad.syntax.nodes import ListNode, Node, Ref, RootRef, Select
from pool.classad.values.attrs import MISSING
from pool.classad.values.environment import ENV
from pool.classad.values.value import ERROR, UNDEFINED


@lazy(3, 3, "ifThenElse")
def if_then_else(args: tuple[Node, ...], frame: Frame) -> Any:
    """The second argument if the first is true, the third if it is false; the other one is not evaluated."""
    # Not evaluated beforehand, as other functions' arguments are: the branch not taken may be an error, or dear.
    test = truth(evaluate(args[0], frame))
    if type(test) is not bool:
        return test
    return evaluate(args[1] if test else args[2], frame)


@framed(1, 1, "eval")
def eval_text(frame: Frame, value: Any) -> Any:
    """The value of the expression that a string holds."""
    from pool.classad.eval.expression import expr  # expressions are evaluated by what is entered here

    text = to_string(value)
    if type(text) is not str:
        return ERROR
    frame.budget.spend(len(text))  # to read a character takes as long as a step
    try:
        found = expr(text)
    except ClassAdError:
        return ERROR
    return member(found, frame)


@lazy(1, 1, "debug")
def debug(args: tuple[Node, ...], frame: Frame) -> Any:
    """The argument's value, reported to the log."""
    from pool.classad.syntax.unparse import unparse

    value = evaluate(args[0], frame)
    ENV.debug(f"Classad debug: {unparse(args[0])} --> {show(value)}")
    return value


@lazy(1, 1, "unparse")
def unparse_attribute(args: tuple[Node, ...], frame: Frame) -> Any:
    """The text of an attribute's expression; empty when there is no such attribute."""
    node = args[0]
    if type(node) not in (Ref, Select, RootRef):
        return ERROR
    # HTCondor has the text of plain names only, and an empty one for all others.
    if type(node) is not Ref:
        return ""
    stored = frame.attrs.lookup(node.key)
    if stored is MISSING:
        return ""
    from pool.classad.eval.pretty import pretty

    spend_on_parts(frame.budget, stored)
    return pretty(stored)


def _dereference(node: Node, frame: Frame) -> tuple[Frame, Any] | None:
    """Where the attribute that `node` names is, and what is stored there."""
    if type(node) is Ref:
        where, stored = frame.find(node.key)
        if stored is MISSING and frame.other is not None and not ENV.strict:
            # The same order as `Frame.ref`, of which the value is not enough: the place counts.
            where, stored = frame.other.find(node.key)
    elif type(node) is RootRef:
        where, stored = outermost(frame).find(node.key)
    elif type(node) is Select:
        base = evaluate(node.base, frame)
        if type(base) is not Frame:
            if type(base) is BoundList:
                return frame, select(base, node.key, frame)
            return None
        where, stored = base.find(node.key)
    else:
        return None
    return None if stored is MISSING else (where, stored)


@lazy(1, 2, "unresolved")
def unresolved(args: tuple[Node, ...], frame: Frame) -> Any:
    """The names that an attribute's expression reads and its ad does not have; or whether one matches a pattern."""
    if type(args[0]) not in (Ref, Select, RootRef):
        return ERROR
    found = _dereference(args[0], frame)
    if found is None:
        return UNDEFINED
    from pool.classad.eval.references import unresolved_names

    names = unresolved_names(found[1], found[0])
    if len(args) == 1:
        return ",".join(names)
    text = evaluate(args[1], frame)
    pattern = compile_pattern(text, "i", frame.budget) if type(text) is str else ERROR
    if not isinstance(pattern, Pattern):
        return ERROR
    return any(name and pattern.search(name, frame.budget) for name in names)


def _contexts(args: tuple[Node, ...], frame: Frame) -> tuple[Any, list[Any], Frame] | Any:
    """The expression, the values of the list's members, and where both stand; or UNDEFINED, or ERROR."""
    what: Any = args[0]
    where = frame
    if type(what) in (Ref, Select, RootRef):
        found = _dereference(what, frame)
        if found is not None:
            where, what = found
        elif frame.top().other is not None:
            # Having looked for the name everywhere, HTCondor stands outside both ads, where few names mean anything.
            where = outermost(frame)
    # A list that is written out stands where the function is called; another where it was found.
    listed = BoundList(args[1].items, frame) if type(args[1]) is ListNode else evaluate(args[1], where)
    if listed is UNDEFINED:
        return UNDEFINED
    if type(listed) is not BoundList:
        return ERROR
    return what, list(members(listed, where)), where


def _in_context(what: Any, context: Any) -> Any:
    """The value of `what` with the ad `context` as the innermost scope."""
    if type(context) is not Frame:
        return UNDEFINED if context is UNDEFINED else ERROR
    # A frame of its own: what was computed in the ad alone need not hold for this expression.
    inner = Frame(context.attrs, context.outer, context.budget)
    outer = context.outer
    if context.other is not None:
        inner.beside(context.other)
    elif outer is not None and outer.outer is None:
        inner.beside(outer.other)
    return member(what, inner)


@lazy(2, 2, "evalInEachContext")
def eval_in_each_context(args: tuple[Node, ...], frame: Frame) -> Any:
    """A list: the expression's value in each ad of a list."""
    found = _contexts(args, frame)
    if type(found) is not tuple:
        return found
    what, contexts, where = found
    return BoundList([_in_context(what, context) for context in contexts], where, fresh=True)


@lazy(2, 2, "countMatches")
def count_matches(args: tuple[Node, ...], frame: Frame) -> Any:
    """In how many ads of a list the expression is true."""
    found = _contexts(args, frame)
    if found is UNDEFINED:
        # Undefined counts as an empty list here, though not for evalInEachContext().
        return 0
    if type(found) is not tuple:
        return ERROR
    what, contexts, _ = found
    return sum(truth(_in_context(what, context)) is True for context in contexts)
