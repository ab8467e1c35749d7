"""The job that is being made: its ad, what the description says of it, and what the steps have found out so far.

A command's text is asked for by its name or by the attribute that it sets; what was asked for counts as used, and lines
that nothing asks for draw a warning (HTCondor's manual page submitting-a-job). The first job of a cluster makes the
cluster's ad; of a later one only what differs from that is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from pool.base.errors import ClassAdError, SubmitError, offset_in
from pool.base.url import is_url
from pool.base.words import SPACE
from pool.classad import ClassAd, Expr, Undefined, expr
from pool.classad.eval.expression import storable
from pool.classad.syntax.nodes import Paren
from pool.classad.values.truth import truth_of
from pool.config import Config
from pool.jobs.vocabulary.universes import Universe
from pool.macros.functions import as_int, evaluated
from pool.submit.scope import Scope
from pool.submit.world import SubmitWorld

_TRUE = frozenset(("true", "1"))
_FALSE = frozenset(("false", "0"))


class SubmitSurroundings:
    """What is the same for all jobs of a submission."""

    __slots__ = ("config", "cwd", "environ", "interactive", "now", "remote", "skip_checks", "user", "warn", "world")

    def __init__(
        self,
        *,
        config: Config,
        world: SubmitWorld,
        cwd: str,
        environ: Mapping[str, str],
        now: int,
        user: str,
        warn: Callable[[str], None],
        remote: bool = False,
        interactive: bool = False,
        skip_checks: bool = False,
    ) -> None:
        self.config = config
        self.world = world
        self.cwd = cwd
        self.environ = environ
        self.now = now
        self.user = user
        self.warn = warn
        self.remote = remote
        self.interactive = interactive
        self.skip_checks = skip_checks

    def with_world(self, world: SubmitWorld) -> SubmitSurroundings:
        """The same with another outside, and nobody to hear warnings."""
        return SubmitSurroundings(
            config=self.config,
            world=world,
            cwd=self.cwd,
            environ=self.environ,
            now=self.now,
            user=self.user,
            warn=lambda _: None,
            remote=self.remote,
            interactive=self.interactive,
            skip_checks=self.skip_checks,
        )


class JobDraft:
    """One job in the making. With a parent, the ad keeps only what differs from it."""

    def __init__(self, scope: Scope, around: SubmitSurroundings, proc: int, parent: ClassAd | None) -> None:
        self.scope = scope
        self.around = around
        self.proc = proc
        self.parent = parent
        self.ad = ClassAd(parent=parent)
        self.universe: int = Universe.VANILLA
        self.is_docker = False
        self.is_container = False
        self.iwd = around.cwd
        self.checks_files = not around.skip_checks

    @property
    def is_first(self) -> bool:
        """Whether this job makes the cluster ad."""
        return self.parent is None

    # what the description says

    def param(self, name: str, other: str = "") -> str | None:
        return self.scope.param(name, other)

    def knob(self, name: str) -> str | None:
        """A knob of the configuration, for the cluster ad alone: later jobs take what that one found."""
        return self.around.config[name] or None

    def flag(self, name: str, other: str, default: bool) -> bool:
        text = self.param(name, other)
        if text is None:
            return default
        value = as_bool(text)
        if value is None:
            raise self.error(f"{name}={text} is invalid, must eval to a boolean.", name, other)
        return value

    def number(self, name: str, other: str = "") -> int | None:
        text = self.param(name, other)
        if text is None:
            return None
        value = as_int(text)
        if value is None:
            from pool.submit import meant

            error = self.error(f"{name}={text} is invalid, must eval to an integer.", name, other)
            error.expected = meant.quantity(name, text)
            raise error
        return value

    def error(self, message: str, *names: str) -> SubmitError:
        return SubmitError(message, span=self.scope.span(*names))

    def warn(self, message: str) -> None:
        self.around.warn(message)

    def warn_of(self, without_effect: Mapping[str, str], fine: Sequence[str] = ("false",)) -> None:
        """Commands that do nothing in a job of this kind, and why; `fine`: values that ask for what is done anyway."""
        for name, why in without_effect.items():
            if (self.param(name) or "false").lower() not in fine:
                self.warn(f"the command '{name}' has no effect: {why}")

    # the ad

    def put(self, name: str, value: object) -> None:
        """Set an attribute, or leave it out when the cluster ad already says the same."""
        if isinstance(value, IntEnum):
            value = value.value
        if self.parent is not None:
            same = self.parent.get(name)
            if type(same) is type(value) and same == value:
                self.ad.attrs.pop(name.lower(), None)
                return
        self.ad[name] = value

    def put_expr(self, name: str, text: str, *names: str) -> None:
        """Set an attribute to an expression."""
        self.put(name, parsed(text, self, name, *names))

    def has(self, name: str) -> bool:
        return name in self.ad

    def text(self, name: str) -> str | None:
        """An attribute that is a string."""
        value = self.ad.get(name)
        return value if isinstance(value, str) else None

    def is_true(self, name: str) -> bool:
        return self.ad.get(name) is True

    # paths

    def full_path(self, name: str, *, from_cwd: bool = False) -> str:
        """`name` from the root, without repeated slashes."""
        if name.startswith("/"):
            return compressed("/" + name)
        return compressed("/" + (self.around.cwd if from_cwd else self.iwd) + "/" + name)

    def size_kb(self, name: str) -> int:
        """The size of a file or directory in KiB, rounded up; 0 for what does not exist, and for URLs."""
        if is_url(name):
            return 0
        size = self.around.world.size(self.full_path(name))
        return 0 if size is None else (size + 1023) // 1024


def parsed(text: str, job: JobDraft, attribute: str, *names: str) -> object:
    """The value or expression that `text` is; SubmitError when it does not parse."""
    try:
        return storable(expr(text, old=True))
    except ClassAdError as why:
        raise _parse_error(text, job, attribute, (*names, attribute, "MY." + attribute), why) from None


def _parse_error(text: str, job: JobDraft, attribute: str, names: Sequence[str], why: ClassAdError) -> SubmitError:
    """What is wrong, at its place in what the user wrote, and what was probably meant."""
    from pool.submit import meant

    written = next((macro for name in names if name and (macro := job.scope.macros.get(name))), None)
    said = written.text if written is not None else text
    own = job.scope.expand(said) if "$" in said else said
    if own != text:
        try:
            expr(own, old=True)
        except ClassAdError as inner:  # what the user wrote is wrong already before anything was added to it
            text, why = own, inner
    error = job.error(f"Parse error in expression: {why.message}", *names)
    if written is not None and text == said and why.span is not None and error.span is not None:
        error.span = written.source.span(said, offset_in(text, why.span))
    else:  # its place is in no line of the user's
        error.message = f"Parse error in expression: \n\t{attribute} = {text}\n\t{why.message}"
    error.expected = meant.expression(names[0] or attribute, text) or why.expected
    return error


def as_bool(text: str) -> bool | None:
    """A truth value: a word, a number, or an expression with such a value."""
    lower = text.strip(SPACE).lower()
    if lower in _TRUE or lower in _FALSE:
        return lower in _TRUE
    value = evaluated(text)
    return truth_of(value)


def compressed(path: str) -> str:
    if "\\" in path:
        return re.sub(r"[/\\](?=[/\\])", "", path)
    while "//" in path:
        path = path.replace("//", "/")
    return path


def strip_quotes(text: str) -> str:
    """The text without surrounding blanks and one pair of double quotes."""
    text = text.strip(SPACE)
    return text[1:-1] if text[:1] == text[-1:] == '"' else text


def split_commas(text: str) -> list[str]:
    """The items between commas, trimmed, empty ones left out."""
    return [item for item in (part.strip(SPACE) for part in text.split(",")) if item]


def literal_number(job: JobDraft, name: str) -> float | None:
    """An attribute that is a number as it stands, perhaps in parentheses; None for an expression."""
    value = job.ad.get(name)
    if isinstance(value, Expr) and isinstance(value.node, Paren):
        value = value.eval()
    return float(value) if isinstance(value, (int, float)) else None


def is_undefined(value: object) -> bool:
    return isinstance(value, Undefined)
