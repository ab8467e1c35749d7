"""The table of knobs, `knobs.txt`, and looking one up: by its name, or as a member of a family such as `SLOT_TYPE_<N>`.

Tools look a few dozen knobs up at each start. So loading the table only finds the name that begins each line; a line is
taken apart, and a mistake in it found, when its knob is asked for. The test of the table asks for all of them.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import groupby
from typing import Final

from pool.base.errors import PoolError
from pool.base.ids import is_number

KINDS: Final = frozenset(("string", "int", "bool", "float", "seconds", "bytes", "path", "list", "expr"))
FILE: Final = os.path.join(os.path.dirname(__file__), "knobs.txt")


class KnobTableError(PoolError):
    """A line of the table that says nothing, or says it wrong."""


KnobLine = tuple[int, str, str]
"""A line of the table that is not taken apart: its number, its section, its text."""


class Knob:
    """What a line of the table says."""

    __slots__ = ("default", "has_effect", "kind", "name", "range", "restart", "section", "sentence")

    def __init__(self, line: KnobLine) -> None:
        _, self.section, text = line
        said, equals, rest = text.partition("=")
        default, hash_sign, sentence = rest.partition(" # ")
        name, *words = said.split()
        if not (words and equals and hash_sign):
            raise _mistake(line, "expected NAME TYPE = DEFAULT # One sentence.")
        self.name = name
        self.kind = words.pop(0)
        self.default = default.strip()
        self.sentence = sentence
        self.restart = "restart" in words
        self.has_effect = "no-effect" not in words
        others = [word for word in words if word not in ("restart", "no-effect")]
        self.range = " ".join(others)
        self._check(line)

    def _check(self, line: KnobLine) -> None:
        if self.kind not in KINDS:
            raise _mistake(line, f'"{self.kind}" is not a type')
        if not self.sentence.endswith("."):
            raise _mistake(line, "the sentence has no full stop")
        try:
            if self.range and ".." not in self.range:
                raise ValueError
            self.bounds()
        except ValueError:
            raise _mistake(line, f'"{self.range}" is neither LOW..HIGH, restart nor no-effect') from None

    @property
    def is_family(self) -> bool:
        return "<" in self.name

    def bounds(self) -> tuple[float | None, float | None]:
        low, _, high = self.range.partition("..")
        return (float(low) if low else None), (float(high) if high else None)

    def allows(self, number: float) -> bool:
        """Whether `number` lies in the range."""
        low, high = self.bounds()
        return (low is None or number >= low) and (high is None or number <= high)

    def range_text(self) -> str:
        low, _, high = self.range.partition("..")
        if low and high:
            return f"{low} to {high}"
        return f"at least {low}" if low else f"at most {high}" if high else "any"


def _mistake(line: KnobLine, message: str) -> KnobTableError:
    number, _, text = line
    return KnobTableError(f"{FILE}:{number}: {message}: {text}")


_DAEMONS = frozenset(
    (
        *("MASTER", "COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD", "STARTER", "SHADOW", "DEFRAG", "ROOSTER", "TOOL"),
        *("JOB_ROUTER", "DASHBOARD", "DAGMAN", "CREDD", "SHARED_PORT", "KBDD", "HAD", "REPLICATION", "SUBMIT"),
        "AGENT",
    )
)


def _parts(name: str) -> list[str]:
    """`A<X>B` as A, X, B: fixed texts at even places, what stands between them at odd ones."""
    return name.upper().replace(">", "<").split("<")


def _fits(name: str, parts: list[str]) -> bool:
    """Whether `name` is a member of the family; each variable part has one letter at least."""
    if not name.endswith(parts[-1]) or not name.startswith(parts[0]):
        return False
    at = len(parts[0])
    for index in range(1, len(parts), 2):
        fixed = parts[index + 1]
        last = index + 2 == len(parts)
        # From the next letter on: a variable part is never empty.
        end = len(name) - len(fixed) if last else name.find(fixed, at + 1)
        word = name[at:end] if end > at else ""
        if not word or "." in word or (parts[index] == "N" and not is_number(word)):
            return False
        if parts[index] == "SUBSYS" and word not in _DAEMONS:
            return False
        at = end + len(fixed)
    return True


class KnobTable:
    """The lines of a table of knobs, by name and by family."""

    def __init__(self, text: str) -> None:
        self._lines: dict[str, KnobLine] = {}
        self.families: list[str] = []
        """The names of families, in the table's order."""
        self._by_letter: dict[str, list[tuple[list[str], Knob]]] = {}
        self._found: dict[str, Knob | None] = {}
        section = ""
        for number, line in enumerate(text.split("\n"), 1):
            if line.startswith("["):
                section = line.strip("[]")
            elif line and line[0] not in "# ":
                name = line.partition(" ")[0]
                if self._lines.setdefault(name.lower(), (number, section, line))[0] != number:
                    raise _mistake((number, section, line), "an earlier line has this knob")
                if "<" in name:
                    self.families.append(name)

    def find(self, name: str) -> Knob | None:
        """The knob of that name, or the family that it belongs to."""
        # Absent names are remembered as well: each look-up first asks for SUBSYS.NAME and LOCALNAME.NAME, which hardly
        # ever exist.
        key = name.lower()
        if key not in self._found:
            line = self._lines.get(key)
            self._found[key] = self._family(name) if line is None or "<" in key else Knob(line)
        return self._found[key]

    def _family(self, name: str) -> Knob | None:
        if "." in name:
            return None  # TOOL.LOG: no family's names have a point, and each look-up asks for such names first
        upper = name.upper()
        letter = upper[:1]
        if letter not in self._by_letter:
            self._by_letter[letter] = self._beginning_with(letter)
        for parts, knob in self._by_letter[letter]:
            if _fits(upper, parts):
                return knob
        return None

    def _beginning_with(self, letter: str) -> list[tuple[list[str], Knob]]:
        """The families of names that may begin so; the one with the most fixed letters is asked first."""
        names = [name for name in self.families if name[0].upper() in ("<", letter)]
        found = [(_parts(name), Knob(self._lines[name.lower()])) for name in names]
        # The more of a family's name is fixed, the better it is meant.
        found.sort(key=lambda pair: -sum(map(len, pair[0][::2])))
        return found

    def names(self) -> list[str]:
        """The names of all knobs that are no families."""
        return [text.partition(" ")[0] for key, (_, _, text) in self._lines.items() if "<" not in key]

    def knobs(self) -> list[Knob]:
        """All of them, in the table's order."""
        return [Knob(line) for line in self._lines.values()]


@cache
def _table() -> KnobTable:
    with open(FILE, encoding="utf-8") as file:
        return KnobTable(file.read())


def find(name: str) -> Knob | None:
    """The knob of that name, or the family that it belongs to."""
    return _table().find(name)


def names() -> list[str]:
    """The names of all knobs that are no families."""
    return _table().names()


def nearest(wrong: str) -> str | None:
    """The knob that was probably meant; of a family with numbers (`SLOT_TYPE_<N>`) the member with that number."""
    from pool.base.nearest import nearest_name

    families = _table().families
    numbers = [part for part in "".join(c if c.isdigit() else " " for c in wrong).split() if part]
    # With two numbers it is not known which of them is the member's.
    if len(numbers) == 1:
        numbered = [name for name in families if name.count("<") == 1 and "<N>" in name]
        near = nearest_name(wrong.replace(numbers[0], "<N>"), numbered)
        if near is not None:
            return near.replace("<N>", numbers[0])
    of_daemons = (name.replace("<SUBSYS>", one) for name in families if "<SUBSYS>" in name for one in _DAEMONS)
    return nearest_name(wrong, (*names(), *sorted(of_daemons)))


def sections() -> list[tuple[str, list[Knob]]]:
    """The table in its own order, as the reference page shows it."""
    return [(section, list(knobs)) for section, knobs in groupby(_table().knobs(), lambda knob: knob.section)]
