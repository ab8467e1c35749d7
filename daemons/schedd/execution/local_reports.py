"""What the process beside a local job says (`local_job`), a line of JSON each, read into types before anybody uses it.

The process is its owner's, who may have it say anything.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Final

from pool.base.errors import PoolError

STATUS_MAX: Final = 0xFFFF


class NoReport(PoolError):
    """A line that no such process writes."""


@dataclass(frozen=True, slots=True)
class Started:
    """The job's program runs, as this process, since `at`."""

    pid: int
    at: float


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The job's program cannot be started: the hold that this means."""

    code: int
    subcode: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is over, with this wait status, after so many seconds of processor time."""

    status: int
    user_s: float
    system_s: float


Report = Started | NotStarted | Ended


def read_report(line: bytes) -> Report:
    """The report in a line; NoReport says what is wrong with it."""
    try:
        said = json.loads(line)
        match said:
            case {"started": int(pid), "at": int() | float() as at}:
                return Started(pid, _number(at))
            case {"failed": int(code), "subcode": int(subcode), "reason": str(reason)}:
                return NotStarted(code, subcode, reason.encode("utf-8", "replace").decode())
            case {"ended": int(status), "user": int() | float() as user, "system": int() | float() as system}:
                if 0 <= status <= STATUS_MAX:
                    return Ended(status, _number(user), _number(system))
    except (ValueError, RecursionError, OverflowError) as error:
        raise NoReport(f"it says {_shown(line)}, which is no report: {error}") from None
    raise NoReport(f"it says {_shown(line)}, which is no report")


def _number(value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{value} is no time")
    return float(value)


def _shown(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace"))
