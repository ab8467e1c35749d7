"""Starters that rest, as a test sees them from outside: by the names and the parents of a pool's processes."""

from __future__ import annotations

from pathlib import Path

from daemons.base.linux import children_of
from tests.whole.real_pool import RealPool

STARTERS = ("condor_starter", "condor_keeper")
"""What a keeper's starter is called; for a moment after its fork as the keeper."""


def resting_keepers(pool: RealPool) -> list[int]:
    """The keepers whose starters rest."""
    return [pid for pid in pool.processes() if name_of(pid) == "condor_keeper" and _has_only_a_job(pid)]


def _has_only_a_job(keeper: int) -> bool:
    return bool(children_of(keeper)) and not starters_of(keeper)


def starters_of(keeper: int) -> list[int]:
    """Its starter, while there is one."""
    return [pid for pid in children_of(keeper) if name_of(pid) in STARTERS]


def name_of(pid: int) -> str:
    """What a process is called; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
