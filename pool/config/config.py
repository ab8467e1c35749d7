"""A configuration that has been read (`load`): typed answers, where each came from, and what is odd about it.

A value is asked for by the type of its knob. Where its text is no such value, the error names the file and the line.
`SCHEDD.NAME` goes before NAME for the schedd, and a local name's before both (HTCondor's manual page
introduction-to-configuration). Warnings name what was set in vain: knobs that nothing reads, and names that look like
knobs and are none.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pool.base.errors import ConfigError, offset_in
from pool.base.ids import is_number
from pool.base.units import parse_bytes, parse_seconds
from pool.base.words import SPACE, split_list, truth_word
from pool.config import knobs
from pool.config.places import HostFacts
from pool.config.reader import ConfigReader
from pool.macros.expand import next_reference, references
from pool.macros.macro_set import Source

if TYPE_CHECKING:
    from pool.classad import Expr, Value

DEFAULT = Source("<Default>")
DETECTED = Source("<Detected>")
ENVIRONMENT = Source("<Environment>")

# Config has methods named after these types, so its annotations need other names for them.
Str = str
Int = int
Float = float
Bool = bool
List = list
T = TypeVar("T")
N = TypeVar("N", int, float)


class Config:
    """What `load_config` answers. Immutable: `with_overrides` and `reload` make new ones."""

    def __init__(self, reader: ConfigReader, facts: HostFacts, again: Callable[..., Config]) -> None:
        self._reader = reader
        self._facts = facts
        self._again = again
        self._texts: dict[str, str | None] = {}

    # what it says

    def __getitem__(self, name: Str) -> Str | None:
        """The value of `name` with all macros expanded, or None when it is neither set nor has a default."""
        key = name.lower()
        # Expanded once: a daemon asks for the same knob thousands of times, and a Config never changes.
        if key not in self._texts:
            raw = self._reader.lookup(name)
            try:
                self._texts[key] = None if raw is None else self._reader.expander.expand(raw).strip(SPACE)
            except ConfigError as error:
                raise self.error(name, error.message) from None
        return self._texts[key]

    def __contains__(self, name: Str) -> Bool:
        return bool(self[name])

    def raw(self, name: Str) -> Str | None:
        """The text of `name` as it was written, or its default's."""
        return self._reader.lookup(name)

    def expand(self, text: Str) -> Str:
        """Any text with this configuration's macros in it."""
        return self._reader.expander.expand(text)

    def expand_known(self, text: Str) -> Str:
        """The same, but references to what is not defined, and to arguments such as `$(1)`, stay."""
        expander = self._reader.expander
        at = 0
        while (one := next_reference(text, at)) is not None:
            # Arguments of templates have numbers for names; they are filled in where the template is used.
            if not one.function and (one.name.isdigit() or not one.name or expander.lookup(one.name) is None):
                at = one.end
                continue
            text = text[: one.start] + expander.value_of(one) + text[one.end :]
            at = one.start
        return text

    def str(self, name: Str, default: Str | None = None) -> Str:
        """The text; the empty text when a knob of the table has no value."""
        # An empty value is none: HTCondor has no other way to unset a knob than `X =`.
        return self[name] or self._default(name, default, "")

    def path(self, name: Str, default: Str | None = None) -> Str:
        """The text as a path without superfluous slashes."""
        text = self.str(name, default)
        return os.path.normpath(text) if text else ""

    def list(self, name: Str, default: Sequence[Str] | None = None) -> List[Str]:
        """The text split at blanks and commas."""
        text = self[name]
        if not text:
            return list(self._default(name, default, ()))
        return split_list(text)

    def bool(self, name: Str, default: Bool | None = None) -> Bool:
        """A truth value; an expression counts by its value without an ad."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        # Before the language is loaded, which takes longer than many a tool runs.
        if (said := truth_word(text)) is not None:
            return said
        value = self._evaluated(name, text)
        if isinstance(value, (bool, int, float)):
            return bool(value)
        raise self.error(name, f"{name} = {text} is neither true nor false")

    def int(self, name: Str, default: Int | None = None) -> Int:
        """An integer within the knob's range; an expression counts by its value."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        # int() alone takes `1_000` and digits of other scripts, and refuses thousands of them.
        number: float | int = int(text) if _is_integer(text) else self._number(name, text, "an integer")
        return self._ranged(name, int(number))

    def float(self, name: Str, default: Float | None = None) -> Float:
        """A number within the knob's range."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        try:
            number = float(text if text.isascii() and "_" not in text else "")
        except ValueError:
            number = float(self._number(name, text, "a number"))
        return self._ranged(name, number)

    def seconds(self, name: Str, default: Float | None = None) -> Float:
        """A time in seconds, with or without units."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        number = parse_seconds(text)
        if number is None:
            number = float(self._number(name, text, "a time"))
        return self._ranged(name, number)

    def bytes(self, name: Str, default: Int | None = None) -> Int:
        """A size in bytes: `10 Mb`, `4096`."""
        text = self[name]
        if not text:
            return self._default(name, default, None)
        amount = parse_bytes(text)
        return int(self._number(name, text, "a size")) if amount is None else amount

    def expr(self, name: Str) -> Expr | None:
        """The text as a ClassAd expression, or None when there is none."""
        text = self[name]
        if not text:
            return None
        from pool.base.errors import ClassAdError
        from pool.classad import expr

        try:
            return expr(text)
        except ClassAdError as error:
            raise self.error(
                name, f"{name} = {text} is not an expression: {error.message}", text, offset_in(text, error.span)
            ) from None

    # where it comes from

    def where(self, name: Str) -> Source:
        """Where the value of `name` was written; `<Default>`, `<Detected>` or `<Environment>` when in no file."""
        for full in self._spellings(name):
            found = self._reader.macros.get(full)
            if found is not None:
                return found.source
        return DETECTED if self._facts.get(name) is not None and knobs.find(name) is None else DEFAULT

    def is_set(self, name: Str) -> Bool:
        """Whether a file, the environment or an override says anything about `name`."""
        return any(full in self._reader.macros for full in self._spellings(name))

    def found_as(self, name: Str) -> Str:
        """The name under which the value was found: `SCHEDD.X` when that is what was set."""
        for full in self._spellings(name):
            if full in self._reader.macros or (full != name and self._reader.default(full) is not None):
                return full
        return name

    def names(self, *, with_defaults: Bool = True) -> List[Str]:
        """All names that have a value, in alphabetical order."""
        said = {macro.name.lower(): macro.name for macro in self._reader.macros}
        if with_defaults:
            for name in (*knobs.names(), *self._facts.names()):
                said.setdefault(name.lower(), name)
        return [said[key] for key in sorted(said)]

    @property
    def files(self) -> List[Str]:
        """The files and commands that were read, in order."""
        return list(self._reader.sources)

    @property
    def templates(self) -> List[Str]:
        """The templates that were used, in order."""
        return list(self._reader.used_templates)

    @property
    def subsystem(self) -> Str:
        return self._reader.subsystem

    @property
    def local_name(self) -> Str:
        return self._reader.local_name

    @property
    def warnings(self) -> List[Str]:
        """What the files' authors should know: `warning :` lines, and names that no table has and nothing uses."""
        return [*self._reader.warnings, *self._unknown(), *self._types_without_slots()]

    @property
    def without_effect(self) -> List[Str]:
        """A warning for each knob that somebody has set and nothing reads."""
        idle = (name for name in self.knobs_set() if not _has_effect(name))
        return [f'{self._place(name)}: warning: "{name}" has no effect here{_why_idle(name)}' for name in idle]

    def knobs_set(self) -> List[Str]:
        """The knobs that somebody has set, in alphabetical order, but for what a template has put there.

        A name that is of a family only by its looks and that other values refer to is the author's own.
        """
        used = self._referred_to()
        found = []
        for name in self.names(with_defaults=False):
            knob = knobs.find(name.rpartition(".")[2])
            # A family such as `<LIMIT>_LIMIT` fits many a name that an administrator has made up for use in other
            # values.
            own = knob is not None and knob.is_family and name.lower() in used
            if knob is not None and not own and not self.where(name).template:
                found.append(name)
        return found

    # other configurations

    def with_overrides(self, overrides: Mapping[Str, Str]) -> Config:
        """The same with some values replaced."""
        # Through the loader, so that overrides count against defaults and POOL_DIR as those of a command line do.
        return self._again(reader=self._reader, overrides=overrides)

    def reload(self, *, subsystem: Str | None = None, local_name: Str | None = None) -> Config:
        """Read all files again, perhaps for another daemon."""
        return self._again(subsystem=subsystem, local_name=local_name)

    def error(self, name: Str, message: Str, text: Str = "", at: Int = 0) -> ConfigError:
        """An error about the value of `name`, or a character of its text, which shows where that was written."""
        return ConfigError(message, span=self.where(name).span(text, at))

    def evaluate(self, name: Str) -> Value | None:
        """The value of the expression that `name` holds, or None when it holds none."""
        text = self[name]
        return None if not text else self._evaluated(name, text)

    # helpers

    def _spellings(self, name: Str) -> List[Str]:
        return [*(f"{prefix}.{name}" for prefix in self._reader.prefixes), name]

    def _default(self, name: Str, given: T | None, empty: T | None) -> T:
        if given is not None:
            return given
        if empty is not None and knobs.find(name) is not None:
            return empty
        if knobs.find(name) is None and not self.is_set(name):
            raise ConfigError(f"{name} is not defined and has no default")
        raise self.error(name, f"{name} is not defined")

    def _evaluated(self, name: Str, text: Str) -> Value:
        from pool.base.errors import ClassAdError
        from pool.classad import expr

        try:
            return expr(text).eval()
        except ClassAdError as error:
            raise self.error(name, f"{name} = {text}: {error.message}", text, offset_in(text, error.span)) from None

    def _number(self, name: Str, text: Str, what: Str) -> Float:
        value = self._evaluated(name, text)
        # An infinite number is one to compare with, and no amount of anything.
        if isinstance(value, (int, float)) and (what == "a number" or math.isfinite(value)):
            return value
        raise self.error(name, f"{name} = {text} is not {what}")

    def _ranged(self, name: Str, number: N) -> N:
        knob = knobs.find(name)
        if knob is not None and not knob.allows(number):
            raise self.error(name, f"{name} = {number} is out of range ({knob.range_text()})")
        return number

    def _referred_to(self) -> frozenset[Str]:
        """What other values refer to, in lower case: as `$(NAME)`, or as a word of a list of attributes."""
        macros = list(self._reader.macros)
        # What is listed in such a knob is read by its name, without any `$()`.
        lists = (macro.text.lower() for macro in macros if macro.name.lower().endswith(("_attrs", "_exprs")))
        words = " ".join(lists).replace(",", " ").replace("+", " ").split()
        daemons = [name.lower() for name in self.list("DAEMON_LIST")]  # a further negotiator is named so
        own = (*daemons, *(f"{name}_args" for name in daemons))
        return frozenset((*(one.name.lower() for macro in macros for one in references(macro.text)), *words, *own))

    def _unknown(self) -> List[Str]:
        """Names that are neither knobs nor used by anything, and look like what would be a knob."""
        used = self._referred_to()
        said = []
        for macro in self._reader.macros:
            bare = macro.name.rpartition(".")[2]
            if macro.source.template or macro.source is ENVIRONMENT:  # jobs have _CONDOR_SLOT and the like
                continue
            if knobs.find(bare) or bare.lower() in used or self._facts.get(bare) is not None:
                continue
            if (trouble := _looks_like(macro.name, bare)) is not None:
                said.append(f"{self._place(macro.name)}: warning: {trouble}")
        return said

    def _types_without_slots(self) -> List[Str]:
        """Slot types that somebody has described without saying how many slots of them there are."""
        names = {macro.name.rpartition(".")[2].upper() for macro in self._reader.macros}
        types = sorted(
            name for name in names if name.startswith("SLOT_TYPE_") and is_number(name[10:]) and int(name[10:])
        )
        return [
            f"{self._place(name)}: warning: {name} is set, but NUM_SLOTS_{name[5:]} is not: it makes no slots"
            for name in types
            if f"NUM_SLOTS_{name[5:]}" not in names
        ]

    def _place(self, name: Str) -> Str:
        source = self.where(name)
        return f"{source.file}:{source.line}" if source.line else source.file


def _is_integer(text: str) -> bool:
    return is_number(text[1:] if text[0] in "+-" else text)


def _has_effect(name: str) -> bool:
    """Whether anything reads this knob, whose name may have a prefix."""
    knob = knobs.find(name.rpartition(".")[2])
    return knob is not None and knob.has_effect


def _why_idle(name: str) -> str:
    """What there is instead, as far as the table says it."""
    knob = knobs.find(name.rpartition(".")[2])
    reason = knob.sentence.rstrip(".").partition("; here ")[2] if knob is not None else ""
    return f": {reason}" if reason else ""


def _looks_like(name: str, bare: str) -> str | None:
    """What somebody who has set this unknown name should be told."""
    from pool.config.htcondors_own import HTCONDORS_OWN

    if bare.upper() in HTCONDORS_OWN:
        return f'"{name}" is a knob of HTCondor\'s that has no effect here'
    near = knobs.nearest(bare)
    return f'unknown knob "{name}" (did you mean "{near}"?)' if near is not None else None
