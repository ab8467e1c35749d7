"""The names of things: jobs and claims."""

from __future__ import annotations

from pool.errors import UserError
from pool.hints import NamedTuple
from pool.late_pattern import late_pattern

_JOB_ID = late_pattern(r"(\d{1,9})\.(\d{1,9})\Z")


class JobId(NamedTuple):
    """A job in its schedd's queue; prints as `cluster.proc`."""

    cluster: int
    proc: int

    def __str__(self) -> str:
        return f"{self.cluster}.{self.proc}"

    @classmethod
    def parse(cls, text: str) -> JobId:
        """Read `12.3`; UserError when the text is anything else."""
        found = _JOB_ID.match(text)
        if found is None:
            raise UserError(f"{text!r} is not a job id", expected="CLUSTER.PROC, such as 12.0")
        return cls(int(found[1]), int(found[2]))


class ClaimId(str):
    """A capability: whoever holds it may use the slot. `<startd address>#birth#sequence#secret`.

    Never log one whole; `public()` is the part that may be shown, and `repr` shows no more.
    """

    __slots__ = ()

    def public(self) -> str:
        """The claim's name without its secret: what ads, logs and tools show."""
        return self.rpartition("#")[0] + "#..."

    def __repr__(self) -> str:
        return f"ClaimId({self.public()!r})"
