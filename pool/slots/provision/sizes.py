"""How much of each resource a slot type takes: the language of SLOT_TYPE_<N>.

A share of everything (`1/4`, `25%`, `auto`), or a list of NAME=SIZE with commas or line ends between them, in which a
bare share stands for what is not listed. The usual resources go by their first letter; a custom one by its name, and
behind a colon may stand which of its pieces are meant: `GPUs = 2 : Capability >= 8.0`, `GPUs = 1 : "GPU-6a96bd13"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Final

from pool.base.errors import ClassAdError, ConfigError
from pool.classad import Expr, expr
from pool.slots.provision.resources import CPUS, DISK, MEMORY, SWAP, exact


class Auto(Enum):
    """An even share of what is left."""

    AUTO = "auto"


class Least(Enum):
    """As little as a slot can have: a core, a megabyte, nothing else."""

    MINIMAL = "minimal"


@dataclass(frozen=True, slots=True)
class SizeShare:
    """A part of the whole: 1/4, 25%."""

    of_all: Fraction


Size = Auto | Least | SizeShare | int | Fraction
"""How much of a resource a slot type takes."""


@dataclass(frozen=True)
class TypeSizes:
    """What one slot of a type takes: by resource, or `rest`; `which` limits the pieces of a custom resource."""

    sizes: Mapping[str, Size] = field(default_factory=dict)
    rest: Size = Auto.AUTO
    which: Mapping[str, Expr] = field(default_factory=dict)

    def of(self, resource: str) -> Size:
        """How much of `resource` one slot takes."""
        return self.sizes.get(resource, self.rest)


_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%\Z")
_FRACTION = re.compile(r"(\d+)\s*/\s*(\d+)\Z")
_NUMBER = re.compile(r"\d+(?:\.\d+)?\Z")
_BY_LETTER: Final = {"c": CPUS, "r": MEMORY, "m": MEMORY, "d": DISK, "s": SWAP, "v": SWAP}


def parse_sizes(knob: str, text: str, customs: Mapping[str, str] | None = None) -> TypeSizes:
    """What a SLOT_TYPE_<N> says; `customs` are the names of custom resources by their lower case."""
    sizes: dict[str, Size] = {}
    which: dict[str, Expr] = {}
    rest: Size = Auto.AUTO
    for part in _parts(text):
        name, equals, value = part.partition("=")
        # An equals sign alone is no sign of NAME=SIZE: a constraint such as `GPUs = 1 : x == 2` has others.
        if not equals or not name.strip().replace("_", "a").isalnum():
            rest = _size(knob, part)
            if isinstance(rest, int | Fraction):
                raise ConfigError(f"{knob} = {text.strip()}: {part} of what?", expected="NAME=NUMBER, 1/4, 25% or auto")
            continue
        resource = _resource(knob, name.strip(), customs or {})
        value, colon, constraint = value.partition(":")
        sizes[resource] = _size(knob, value.strip())
        if colon:
            which[resource] = _constraint(knob, resource, constraint.strip())
    return TypeSizes(sizes, rest, which)


def _parts(text: str) -> Iterator[str]:
    """The pieces between commas and line ends; commas inside of quotes or brackets belong to a piece."""
    for line in text.splitlines():
        part, depth, quoted = "", 0, False
        for letter in line:
            if letter == "," and not depth and not quoted:
                if part.strip():
                    yield part.strip()
                part = ""
                continue
            quoted ^= letter == '"'
            depth += 0 if quoted else (letter in "([{") - (letter in ")]}")
            part += letter
        if part.strip():
            yield part.strip()


def _resource(knob: str, name: str, customs: Mapping[str, str]) -> str:
    custom = customs.get(name.lower())
    if custom is not None:
        return custom
    standard = _BY_LETTER.get(name[:1].lower())
    if standard is None:
        known = ", ".join(["cpus", "memory", "disk", "swap", *customs.values()])
        raise ConfigError(f"{knob} has an unknown resource {name!r}", expected=known)
    return standard


def _size(knob: str, text: str) -> Size:
    if text.lower() == "auto":
        return Auto.AUTO
    if text.lower() == "minimal":
        return Least.MINIMAL
    share: Fraction | None = None
    if found := _PERCENT.match(text):
        share = Fraction(found[1]) / 100
    elif (found := _FRACTION.match(text)) and int(found[2]):
        share = Fraction(int(found[1]), int(found[2]))
    if share is not None:
        if share > 1:
            raise ConfigError(f"{knob}: {text} is more than all there is")
        return SizeShare(share)
    if _NUMBER.match(text):
        return exact(text)
    raise ConfigError(f"{knob}: {text!r} is no size", expected="a number, 1/4, 25% or auto")


def _constraint(knob: str, resource: str, text: str) -> Expr:
    try:
        return expr(text)
    except ClassAdError as error:
        raise ConfigError(f"{knob}: which {resource}, {text!r}, is not an expression: {error.message}") from None
