"""What a job's program is to its starter while it runs, and what whoever joins it there needs to know.

A `Body` is signalled, stood still, looked at, and ended whole. Two kinds: processes of this machine below the starter
(`bare.py`), and a container, which an engine keeps (`container.py`). Its `Scene` is the surroundings of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from daemons.host.account import Account
from daemons.host.processes import WatchedChild
from daemons.starter.launch.terms import Terms
from pool.classad import ClassAd
from pool.execute.exit import Exited
from pool.execute.plan import RunPlan
from pool.execute.usage import UsageSample


class Body(Protocol):
    """A job's running program."""

    watched: WatchedChild
    """The starter's child whose end is the program's."""

    def signal(self, number: int) -> None:
        """Send the program a signal."""

    def suspend(self) -> None:
        """Let all of it stand still."""

    def resume(self) -> None:
        """Let it go on."""

    async def sample(self) -> UsageSample:
        """What it uses now."""

    def told(self) -> ClassAd:
        """What else its job's ad is to say of it."""

    async def attend(self) -> None:
        """Whatever has to go on while it runs; cancelled when it has ended."""

    async def end(self) -> None:
        """End all of it for good."""

    async def outcome(self) -> Exited:
        """How it ended, once all of it has; Held or PoolError where that is not an end of the job."""


@dataclass(frozen=True)
class Scene:
    """A job whose program was started as process `pid`."""

    job: ClassAd
    slot: ClassAd
    plan: RunPlan
    account: Account
    terms: Terms
    sandbox: str
    pid: int
    entrance: tuple[str, ...] = ()
    """The engine's words that run one more program in the job's container; none where it has no container."""
    container: str = ""
