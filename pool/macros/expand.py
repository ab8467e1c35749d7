"""Macro references in a text replaced by what they stand for: `$(X)`, `$(X:default)`, `$ENV(X)`, `$INT(X)`, ...

The text is worked from left to right and a replacement is read again, so values may refer to further macros. A
reference with two dollars, `$$(X)`, belongs to the machine that a job is matched with, and stays as it is.

The same rules hold for configurations (HTCondor's manual page introduction-to-configuration) and submit descriptions
(condor_submit). References that go in circles are an error, and so is a text that grows beyond a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pool.base.errors import PoolError, UserError

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./")
_DEFAULT = _NAME | frozenset("$ ,\\:")
"""What the default after a colon may hold, besides anything in parentheses."""
_FILE_LETTERS = frozenset("pnxdqabfwuPNXDQABFWU")
_LONGEST_FUNCTION = 32
_FUNCTIONS = frozenset(
    ("RANDOM_CHOICE", "RANDOM_INTEGER", "CHOICE", "SUBSTR", "INT", "REAL", "STRING", "EVAL", "BASENAME", "DIRNAME")
)
_MOST_STEPS = 20_000
_DEEPEST = 50
_LONGEST = 1 << 24
_STEP_CHARS = 2000
"""Of how many characters copying takes as long as replacing one reference."""

Lookup = Callable[[str], "str | None"]


class Chance(Protocol):
    """Where `$RANDOM_*` takes its numbers from; `random.Random` is one."""

    def randrange(self, stop: int, /) -> int: ...


class Reference:
    """One macro reference inside a text."""

    __slots__ = ("default", "end", "function", "name", "start")

    def __init__(self, start: int, end: int, function: str, name: str, default: str | None) -> None:
        self.start = start
        self.end = end
        self.function = function
        self.name = name
        self.default = default

    @property
    def is_dollar(self) -> bool:
        """Whether it is `$(DOLLAR)`, which becomes a dollar sign last of all."""
        return not self.function and self.default is None and self.name.upper() == "DOLLAR"


def next_reference(text: str, at: int = 0, *, keep_dollar: bool = True) -> Reference | None:
    """The first reference at or after `at`; with `keep_dollar`, `$(DOLLAR)` is not one."""
    while (start := text.find("$", at)) >= 0:
        at = start + 1
        # `$$(X)` is the machine's: its second dollar must not begin a reference of ours.
        if text.startswith("$", at):
            at += 1
            continue
        # Bounded, for a text of many dollars and no parenthesis would otherwise be searched through once for each.
        opening = text.find("(", at, at + _LONGEST_FUNCTION)
        if opening < 0:
            continue
        function = text[at:opening]
        if not function or function == "ENV":
            one = _plain_reference(text, start, function)
            if one is not None and not (keep_dollar and one.is_dollar):
                return one
        elif function in _FUNCTIONS or (function[0] == "F" and _FILE_LETTERS.issuperset(function[1:])):
            close = text.find(")", opening)
            if close >= 0:
                return Reference(start, close + 1, function, text[opening + 1 : close], None)
    return None


def _plain_reference(text: str, start: int, function: str) -> Reference | None:
    """`$(name)` or `$(name:default)`, also after `$ENV`, when that is what begins at `start`."""
    at = start + len(function) + 2
    close = text.find(")", at)
    if close < 0:
        return None
    name, colon, _ = text[at:close].partition(":")
    # `$(a b)` is no reference but text, of a shell's for example, and stays.
    if not _NAME.issuperset(name):
        return None
    if not colon:
        return Reference(start, close + 1, function, name, None)
    default = at = at + len(name) + 1
    # A default may hold references of its own, `$(A:$(B:c))`: the parenthesis that ends it is not always the first.
    while close >= 0:
        plain, opened, _ = text[at:close].partition("(")
        if not _DEFAULT.issuperset(plain):
            return None
        if not opened:
            return Reference(start, close + 1, function, name, text[default:close])
        at = close + 1
        close = text.find(")", at)
    return None


def references(text: str) -> list[Reference]:
    """Every reference that stands in `text` itself."""
    found = []
    at = 0
    while (one := next_reference(text, at)) is not None:
        found.append(one)
        at = one.end
    return found


class Expander:
    """Expands texts with one way of looking names up.

    A function that cannot be evaluated raises `error`, or tells `complain` where there is one and stands for what is
    left of it, mostly nothing.

    `environ` is what `$ENV` reads, `chance` what `$RANDOM_*` draws from (the first choice without one), `cwd` what
    `$Ff` completes relative paths with. `left` is how many characters may still be copied, and references replaced, for
    whoever expands what others have written; None: that does not matter.
    """

    __slots__ = ("_depth", "chance", "complain", "cwd", "environ", "error", "left", "lookup")

    def __init__(
        self,
        lookup: Lookup,
        *,
        environ: Mapping[str, str] | None = None,
        chance: Chance | None = None,
        cwd: str = "",
        error: type[PoolError] = UserError,
        complain: Callable[[str], None] | None = None,
    ) -> None:
        self.lookup = lookup
        self.environ: Mapping[str, str] = {} if environ is None else environ
        self.chance = chance
        self.cwd = cwd
        self.error = error
        self.complain = complain
        self.left: int | None = None
        self._depth = 0

    def expand(self, text: str, *, keep_dollar: bool = False) -> str:
        """`text` with every reference replaced; an undefined one without default becomes nothing."""
        if "$" not in text:
            return text
        # A function expands its arguments, so one that names itself (`a = $INT(a)`) goes deeper, and not on and on.
        self._depth += 1
        try:
            return self._expanded(text, keep_dollar=keep_dollar)
        finally:
            self._depth -= 1

    def _expanded(self, text: str, *, keep_dollar: bool) -> str:
        at = steps = 0
        while (one := next_reference(text, at)) is not None:
            if self._depth > _DEEPEST:
                raise self.error(f"the macro {one.name!r} refers to itself without end")
            text = text[: one.start] + self.value_of(one) + text[one.end :]
            # a reference may have been the inner part of another one's name
            # Not at the start of the text: it would be searched again for each reference, which is quadratic.
            at = max(0, text.rfind("$", 0, one.start))
            while at and text[at - 1] == "$":
                at -= 1
            steps += 1
            if steps > _MOST_STEPS or len(text) > _LONGEST:
                raise self.error(f"the macro {one.name!r} refers to itself without end")
            if self.left is not None:
                # By the length of all of it, for that is what each replacement copies.
                self.left -= len(text) + _STEP_CHARS
                if self.left < 0:
                    raise self.error(f"the macros take too long to expand; the last of them is {one.name!r}")
        return text if keep_dollar or "$(" not in text else dollars(text)

    def expand_self(self, text: str, name: str, other_name: str = "") -> str:
        """Replace only the references to `name` (and `other_name`): what `X = $(X) more` needs when it is read."""
        if "$" not in text:
            return text
        # Only these: what else the value refers to may be set or changed by later lines.
        mine = (name.lower(), other_name.lower())
        at = steps = 0
        while (one := next_reference(text, at)) is not None:
            is_file = bool(one.function) and one.function not in _FUNCTIONS and one.function != "ENV"
            if (one.function and not is_file) or one.name.lower() not in mine or not one.name:
                # the body of what is skipped may hold a reference to this name
                at = text.index("(", one.start) + 1
                continue
            text = text[: one.start] + self.value_of(one) + text[one.end :]
            at = one.start
            steps += 1
            if steps > _MOST_STEPS:
                raise self.error(f"the macro {name!r} refers to itself without end")
        return text

    def fail(self, message: str) -> None:
        """Say that a function cannot be evaluated, to `complain` or as an error."""
        if self.complain is None:
            raise self.error(message)
        self.complain(message)

    def value_of(self, one: Reference) -> str:
        """What one reference is replaced by."""
        if not one.function:
            # A value that is empty counts as none, so that `$(X:d)` is d also after `X =`.
            value = self.lookup(one.name)
            return value or one.default or ""
        if one.function == "ENV":
            value = self.environ.get(one.name)
            # HTCondor writes this word where a variable is not set, and not nothing.
            if value is None and one.default is None:
                return "UNDEFINED"
            return value or one.default or ""
        from pool.macros import functions  # seldom needed, and not small

        if self.complain is None:
            return functions.evaluate(self, one.function, one.name)
        try:
            return functions.evaluate(self, one.function, one.name)
        except self.error as why:
            self.complain(why.message)
            return ""


def dollars(text: str) -> str:
    """`$(DOLLAR)` replaced by a dollar sign, as the last step."""
    if "$(dollar)" not in text.lower():
        return text
    import re

    return re.sub(r"\$\(DOLLAR\)", "$", text, flags=re.IGNORECASE)
