"""The figures of an account that an administrator may set, and which values each takes.

Source: HTCondor manual, "condor_userprio" (edit options).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pool.base.errors import UserError


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: the account's fields that it sets, its least value, and what is said of less."""

    says: str
    fields: tuple[str, ...]
    least: float = -math.inf

    def check(self, value: float) -> None:
        """UserError when the figure cannot have this value."""
        if not math.isfinite(value):
            raise UserError(f"{value:g} is no figure of an account", expected="a number")
        if value < self.least:
            raise UserError(f"a {self.says} of {value:g} is too small", expected=f"at least {self.least:g}")


FIGURES: Final[Mapping[str, Figure]] = {
    "priority": Figure("priority", ("priority",), 0.0),
    "priorityfactor": Figure("priority factor", ("factor",), 1.0),
    "accumulatedusage": Figure("usage", ("usage_s", "weighted_usage_s"), 0.0),
    "weightedaccumulatedusage": Figure("usage", ("weighted_usage_s",), 0.0),
    "beginusagetime": Figure("time", ("began_at",), 0.0),
    "lastusagetime": Figure("time", ("last_used_at",), 0.0),
    "ceiling": Figure("ceiling", ("ceiling",), -1.0),
    "floor": Figure("floor", ("floor",), 0.0),
}
"""By attribute, in lower case. The real priority is set; a ceiling of -1 is none."""
