"""Functions of what jobs carry: arguments, environments, users."""

from __future__ import annotations

import re
from typing import Any, Final

from pool.base.argv import BLANKS, BadQuoting, join_new, split_new, split_old
from pool.classad.eval.budget import Budget
from pool.classad.eval.frame import BoundList, Frame, members
from pool.classad.eval.functions import MANY, SLOWEST, framed, metered, plain
from pool.classad.values.environment import ENV
from pool.classad.values.value import ERROR, UNDEFINED, fold, wrap32

# What an old-style environment may begin with to have another separator than `;` (is_permitted_delim of HTCondor's
# env.cpp).
_DELIMITERS: Final = "!#$%&*+,-/:;<>?@^`|~\x1f"


def split_arguments(text: str) -> list[str] | None:
    """Arguments in the new syntax; None: unbalanced."""
    try:
        return split_new(text)
    except BadQuoting:
        return None


def _version(value: Any) -> int | None:
    if type(value) is not int or wrap32(value) not in (1, 2):
        return None
    return wrap32(value)


@framed(1, 2, "argsToList", cost=SLOWEST)
def args_to_list(frame: Frame, text: Any, version: Any = 2) -> Any:
    """A string of arguments as a list; the old syntax (1) has no quotes."""
    which = _version(version)
    if which is None or type(text) is not str:
        return ERROR
    found = split_arguments(text) if which == 2 else split_old(text)
    return ERROR if found is None else BoundList(found, frame, fresh=True)


@framed(1, 2, "listToArgs", cost=SLOWEST)
def list_to_args(frame: Frame, items: Any, version: Any = 2) -> Any:
    """A list of strings as one string of arguments."""
    which = _version(version)
    if which is None or type(items) is not BoundList:
        return ERROR
    words = list(members(items, frame))
    # Lists are short and their strings need not be: the text that comes of them is what costs.
    frame.budget.spend(sum(len(word) for word in words if type(word) is str) // SLOWEST)
    if any(type(word) is not str for word in words):
        return ERROR
    if which == 2:
        return join_new(words)
    if any(not word or any(c in word for c in BLANKS) for word in words):
        return ERROR
    return " ".join(words)


def _entries(texts: list[str]) -> dict[str, str | None] | None:
    """Variables and values; None for an entry without a name or an `=`, unless it is a `$$` macro."""
    found: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        # Filled in at the machine, where it may become a whole entry.
        if not equals and "$$" in text:
            found[text] = None
        elif not equals or not name:
            return None
        else:
            found[name] = value
    return found


def _environment(variables: dict[str, str | None]) -> str:
    # By bytes: equal environments have equal texts, whatever order they were merged in.
    ordered = sorted(variables.items(), key=lambda pair: pair[0].encode("utf-8", "surrogateescape"))
    return join_new([name if value is None else f"{name}={value}" for name, value in ordered])


@plain(1, 1, "envV1ToV2", cost=SLOWEST)
def env_v1_to_v2(text: Any) -> Any:
    """An environment of the old syntax (`a=b;c=d`) in the new one."""
    if text is UNDEFINED:
        return UNDEFINED
    if type(text) is not str:
        return ERROR
    delimiter = ";"
    if text and text[0] in _DELIMITERS:
        delimiter, text = text[0], text[1:]
    pieces = re.split("[\n" + re.escape(delimiter) + "]", text)
    texts = [stripped for piece in pieces if (stripped := piece.lstrip(BLANKS))]
    variables = _entries(texts)
    return ERROR if variables is None else _environment(variables)


@plain(0, MANY, "mergeEnvironment", cost=SLOWEST)
def merge_environment(*texts: Any) -> Any:
    """Environments of the new syntax as one; later ones win, undefined ones are empty."""
    merged: dict[str, str | None] = {}
    for text in texts:
        if text is UNDEFINED:
            continue
        words = split_arguments(text) if type(text) is str else None
        variables = None if words is None or "" in words else _entries(words)
        if variables is None:
            return ERROR
        merged.update(variables)
    return _environment(merged)


@plain(1, 2, "userHome")
def user_home(name: Any, default: Any = None) -> Any:
    """A user's home directory, where CLASSAD_ENABLE_USER_HOME allows to ask."""
    fallback = default if type(default) is str and default else None
    if name is UNDEFINED and fallback is None:
        return UNDEFINED
    if type(name) is not str:
        return ERROR if fallback is None else fallback
    # Asked through the environment: the language itself opens nothing.
    found = None if ENV.user_home is None else ENV.user_home(name)
    return found or fallback or UNDEFINED


@metered(2, 4, "userMap")
def user_map(budget: Budget, map_name: Any, user: Any, preferred: Any = None, default: Any = None) -> Any:
    """The groups of a user in a named map; with more arguments the preferred one, else the first, else the default."""
    if type(map_name) is not str or type(user) is not str:
        if map_name is ERROR or user is ERROR:
            return ERROR
        return UNDEFINED if default is None else default
    mapping = ENV.user_maps.get(map_name.lower())
    # A map may hold regular expressions, which users' names are matched with: the budget pays.
    groups = None if mapping is None else mapping(user, budget)
    if groups is None:
        return UNDEFINED if default is None else default
    if preferred is None:
        return groups
    items = [item for part in groups.split(",") if (item := part.strip(" \t\n\v\f\r"))]
    if type(preferred) is str:
        for item in items:
            if fold(item) == fold(preferred):
                return item
    if items:
        return items[0]
    return UNDEFINED if default is None else default
