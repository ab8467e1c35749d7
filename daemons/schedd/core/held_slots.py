"""The slots that this schedd holds, as the negotiator is told of them: all at first, and then what has changed."""

from __future__ import annotations

from daemons.schedd.core.claim import Claim


class HeldSlots:
    """Claims by the names of their slots. A slot's next claim may begin before the last one is forgotten."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._changed: set[str] = set()

    def add(self, claim: Claim) -> None:
        """The claim was granted."""
        self._claims[claim.slot_name] = claim
        self._changed.add(claim.slot_name)

    def discard(self, claim: Claim) -> None:
        """The claim is over, or was never granted."""
        if self._claims.get(claim.slot_name) is claim:
            del self._claims[claim.slot_name]
            self._changed.add(claim.slot_name)

    def news(self, *, anew: bool) -> tuple[dict[str, str], list[str]]:
        """Submitters by slot, and the slots that are held no more, since the last time; `anew`: all that are held."""
        changed, self._changed = self._changed, set()
        if anew:
            return {name: claim.submitter for name, claim in self._claims.items()}, []
        held = {name: self._claims[name].submitter for name in changed if name in self._claims}
        return held, [name for name in changed if name not in held]
