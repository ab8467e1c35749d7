"""Signals by name and number, as job ads give them (`KillSig = "SIGQUIT"`, or 3)."""

from __future__ import annotations

import signal
from typing import Final

from pool.base.ids import is_number
from pool.classad import ClassAd

REMOVE: Final = "RemoveKillSig"
HOLD: Final = "HoldKillSig"
VACATE: Final = "KillSig"


def signal_number(value: object) -> int | None:
    """The signal that a name (`SIGTERM`, `TERM`) or number means; None when there is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 < value < signal.NSIG else None
    if not isinstance(value, str):
        return None
    name = value.strip().upper()
    if is_number(name):
        return signal_number(int(name))
    known = signal.Signals.__members__.get(name if name.startswith("SIG") else f"SIG{name}")
    return None if known is None else int(known)


def soft_kill_signal(ad: ClassAd, purpose: str = VACATE) -> int:
    """What asks this job to leave: for `RemoveKillSig` or `HoldKillSig` if it names one, else KillSig, else SIGTERM."""
    for name in dict.fromkeys((purpose, VACATE)):
        if (number := signal_number(ad.eval(name))) is not None:
            return number
    return int(signal.SIGTERM)


def signal_name(number: int) -> str:
    """`SIGTERM` for 15; the number itself where there is no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
