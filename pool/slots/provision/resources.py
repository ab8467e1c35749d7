"""How much of what: amounts of a machine's resources, added, subtracted and compared exactly.

Names are those of the slot's ad: Cpus, Memory (MiB), Disk (KiB), VirtualMemory (KiB), and custom ones such as GPUs;
they ignore case. Amounts are integers or exact fractions, never floats, so that what is carved and given back adds up.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final

from pool.base.errors import UserError

Amount = int | Fraction

CPUS: Final = "Cpus"
MEMORY: Final = "Memory"
DISK: Final = "Disk"
SWAP: Final = "VirtualMemory"
STANDARD: Final = (CPUS, MEMORY, DISK, SWAP)
AMOUNT_MAX: Final = 2.0**53
"""No machine has so much of anything; nor is NaN less than this."""


def exact(value: float | str | Fraction) -> Amount:
    """The number as an integer where it is one, else as the fraction that its decimal digits say."""
    number = value if isinstance(value, Fraction) else Fraction(str(value) if isinstance(value, float) else value)
    return number.numerator if number.denominator == 1 else number


class Amounts(Mapping[str, Amount]):
    """An immutable set of amounts by resource name; what is not named is none of it."""

    __slots__ = ("_by_name", "_spelling")

    def __init__(self, amounts: Mapping[str, float | Fraction] | Iterable[tuple[str, float | Fraction]] = ()) -> None:
        items = amounts.items() if isinstance(amounts, Mapping) else amounts
        self._by_name: dict[str, Amount] = {}
        self._spelling: dict[str, str] = {}
        for name, value in items:
            key = name.lower()
            self._spelling.setdefault(key, name)
            self._by_name[key] = value if type(value) is int else exact(value)

    def __getitem__(self, name: str) -> Amount:
        return self._by_name[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spelling.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def items(self) -> ItemsView[str, Amount]:
        """Names, as they are spelt, and amounts."""
        return {self._spelling[key]: much for key, much in self._by_name.items()}.items()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Amounts):
            return NotImplemented
        return all(self.of(name) == other.of(name) for name in {*self._by_name, *other._by_name})

    def __hash__(self) -> int:
        return hash(frozenset((name, value) for name, value in self._by_name.items() if value))

    def __repr__(self) -> str:
        return f"Amounts({', '.join(f'{name}={value}' for name, value in self.items())})"

    def of(self, name: str) -> Amount:
        """How much of `name`; 0 when it is not named."""
        return self._by_name.get(name.lower(), 0)

    def __add__(self, other: Amounts) -> Amounts:
        mine, more = self._by_name, other._by_name
        return self._made({key: mine.get(key, 0) + more.get(key, 0) for key in mine | more}, other)

    def __sub__(self, other: Amounts) -> Amounts:
        """What is left; a UserError names what there is too little of."""
        if short := self.short_of(other):
            raise UserError(f"not enough {', '.join(short)}")
        mine, less = self._by_name, other._by_name
        return self._made({key: mine.get(key, 0) - less.get(key, 0) for key in mine | less}, other)

    def fits(self, wanted: Amounts) -> bool:
        """Whether all of `wanted` is here."""
        return not self.short_of(wanted)

    def short_of(self, wanted: Amounts) -> list[str]:
        """The resources that there is too little of, each as "Memory (64 of 128)"."""
        has = self._by_name
        return [
            f"{wanted._spelling[key]} ({has.get(key, 0)} of {much})"
            for key, much in wanted._by_name.items()
            if much > has.get(key, 0)
        ]

    def replaced(self, **amounts: Amount) -> Amounts:
        """A copy with some amounts different."""
        return Amounts([*self.items(), *amounts.items()])

    def _made(self, by_name: dict[str, Amount], other: Amounts) -> Amounts:
        """These amounts of what is named here, or only there."""
        made, mine = object.__new__(Amounts), self._spelling
        made._by_name = {key: much if type(much) is int else exact(much) for key, much in by_name.items()}
        made._spelling = mine | {key: name for key, name in other._spelling.items() if key not in mine}
        return made


NONE: Final = Amounts()
