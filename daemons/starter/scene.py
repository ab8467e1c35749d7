"""The surroundings of a program that runs: what whoever joins it there needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from daemons.starter.account import Account
from daemons.starter.terms import Terms
from pool.classad import ClassAd
from pool.execute.plan import Plan


@dataclass(frozen=True)
class Scene:
    """A job whose program was started as process `pid`."""

    job: ClassAd
    slot: ClassAd
    plan: Plan
    account: Account
    terms: Terms
    sandbox: str
    pid: int
    entrance: tuple[str, ...] = ()
    """The engine's words that run one more program in the job's container; none where it has no container."""
    container: str = ""
