"""How long a cycle may take: in all, with each submitter, with each schedd, and with a submitter in one turn.

Who has used up his time waits for the next cycle with what is left of his requests, and the others go on.

Source: HTCondor manual, "Configuration Macros" (NEGOTIATOR_MAX_TIME_PER_CYCLE, NEGOTIATOR_MAX_TIME_PER_PIESPIN ...).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from pool.matching.bounds import Refusal
from pool.matching.snapshot import CyclePlan, JobRequest, TimeLimits


@dataclass
class Spent:
    """What one cycle has spent; `tell` takes it up to now."""

    limits: TimeLimits
    began: float = 0.0
    _last: float = 0.0
    _submitters: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _schedds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _turn: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self.began = self._last = self.limits.clock()

    def new_turn(self) -> None:
        """Another group has its turn, or the same one another."""
        self._turn.clear()

    def spend(self, request: JobRequest) -> None:
        """The time since the last call went to this request."""
        now = self.limits.clock()
        passed, self._last = now - self._last, now
        for spent, name in (
            (self._submitters, request.submitter),
            (self._schedds, request.schedd),
            (self._turn, request.submitter),
        ):
            spent[name] += passed

    def over(self, request: JobRequest, plan: CyclePlan) -> Refusal | None:
        """Why there is no time for this request any more, which the plan notes; None while there is."""
        limits, later, submitter, schedd = self.limits, False, request.submitter, request.schedd
        if self._schedds[schedd] >= limits.schedd_s:
            plan.schedds_out_of_time.add(schedd)
            return Refusal(f"the schedd has had its {limits.schedd_s:g} s of this negotiation cycle")
        if self._submitters[submitter] >= limits.submitter_s:
            why = f"{submitter} has had the {limits.submitter_s:g} s of a submitter in this negotiation cycle"
        elif self._turn[submitter] >= limits.spin_s:
            why, later = f"{submitter} has had the {limits.spin_s:g} s of a submitter in one turn", True
        elif self._last - self.began >= limits.cycle_s:
            why = f"the negotiation cycle has had its {limits.cycle_s:g} s"
        else:
            return None
        plan.out_of_time.add(submitter)
        return Refusal(why, later=later)
