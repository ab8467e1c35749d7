"""For whom slots are held, in the words of the schedds that hold them.

A slot's ad names its holder, and an execute host can write there what it likes. So a submitter is charged for a slot
only where a schedd says that it holds this slot for him. What a schedd has said counts on for a while after its
connection has ended: its jobs run on, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

OUTLIVES_SCHEDD_S: Final = 2400.0
"""How long slots count as held when their schedd is gone: the usual JobLeaseDuration."""
SLOTS_PER_SCHEDD_MAX: Final = 200_000


@dataclass
class _Said:
    """What one schedd has said: submitters by slot, and until when that counts (None: as long as it is there)."""

    held: dict[str, str] = field(default_factory=dict)
    until: float | None = None


class SlotHolders:
    """Slots and their submitters, by schedd."""

    def __init__(self) -> None:
        self._schedds: dict[str, _Said] = {}
        self._pairs: Counter[tuple[str, str]] = Counter()

    def confirms(self, slot: str, submitter: str) -> bool:
        """Whether some schedd holds the slot for this submitter."""
        return (slot, submitter) in self._pairs

    def hear(self, schedd: str, held: Mapping[str, str], given_back: Iterable[str], *, anew: bool) -> None:
        """A schedd says what has changed; `anew`: since nothing, for it has just connected."""
        # What it said before its connection broke may name slots that it has given back since.
        if anew:
            self._forget(schedd)
        said = self._schedds.setdefault(schedd, _Said())
        for slot in given_back:
            self._drop(said, slot)
        for slot, submitter in held.items():
            self._drop(said, slot)
            if len(said.held) < SLOTS_PER_SCHEDD_MAX:
                said.held[slot] = submitter
                self._pairs[slot, submitter] += 1

    def schedd_gone(self, schedd: str, now: float) -> None:
        """Its connection has ended."""
        if (said := self._schedds.get(schedd)) is not None:
            said.until = now + OUTLIVES_SCHEDD_S

    def expire(self, now: float) -> None:
        """Forget what schedds have said that are gone for long."""
        for schedd in [name for name, said in self._schedds.items() if said.until is not None and said.until <= now]:
            self._forget(schedd)

    def of_gone_schedds(self) -> Iterator[tuple[str, str]]:
        """Slots and submitters of the schedds whose connection has ended, and whose jobs may run on."""
        for said in self._schedds.values():
            if said.until is not None:
                yield from said.held.items()

    def of_present_schedds(self) -> set[str]:
        """The slots that schedds which are connected hold."""
        return {slot for said in self._schedds.values() if said.until is None for slot in said.held}

    def _forget(self, schedd: str) -> None:
        if (said := self._schedds.pop(schedd, None)) is not None:
            for slot in list(said.held):
                self._drop(said, slot)

    def _drop(self, said: _Said, slot: str) -> None:
        submitter = said.held.pop(slot, None)
        if submitter is not None:
            self._pairs[slot, submitter] -= 1
            if not self._pairs[slot, submitter]:
                del self._pairs[slot, submitter]
