"""Which of the machines that sleep are woken now: those that somebody wants, the highest rank first, each once.

Source: HTCondor's manual, "Rooster Daemon Configuration Options".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pool.base.argv import BadQuoting, split_new
from pool.classad import ClassAd, Expr
from pool.classad.values.truth import is_true
from pool.config import Config
from pool.submit.quoting import is_new_style, unquote_new_style

WANTED: Final = "ROOSTER_UNHIBERNATE"
COMMAND: Final = "ROOSTER_WAKEUP_CMD"


@dataclass(frozen=True)
class RoosterPolicy:
    """What the ROOSTER_* knobs say."""

    interval_s: float
    """0: never."""
    wanted: Expr
    rank: Expr | None
    most: int
    """How many machines a look wakes; 0: all."""
    command: tuple[str, ...]

    @classmethod
    def read(cls, config: Config) -> RoosterPolicy:
        """What the configuration says; ConfigError where that wakes nobody ever."""
        wanted, command = config.expr(WANTED), _command(config)
        if wanted is None:
            raise config.error(WANTED, f"{WANTED} is empty: no machine would ever be woken")
        if not command:
            raise config.error(COMMAND, f"{COMMAND} is empty: no machine would ever be woken")
        return cls(
            interval_s=config.seconds("ROOSTER_INTERVAL"),
            wanted=wanted,
            rank=config.expr("ROOSTER_UNHIBERNATE_RANK"),
            most=config.int("ROOSTER_MAX_UNHIBERNATE"),
            command=command,
        )


def _command(config: Config) -> tuple[str, ...]:
    """The words of ROOSTER_WAKEUP_CMD, which stand in double quotes as arguments of jobs do."""
    text = config.str(COMMAND, default="")
    try:
        return tuple(split_new(unquote_new_style(text) if is_new_style(text) else text))
    except BadQuoting as error:
        raise config.error(COMMAND, f"{COMMAND} = {text}: {error.message}") from None


@dataclass(frozen=True)
class Sleeper:
    """A machine to be woken, by the ad of that of its slots which ranks highest."""

    machine: str
    slot: ClassAd
    rank: float


def to_wake(slots: Iterable[ClassAd], policy: RoosterPolicy) -> list[Sleeper]:
    """The machines whose slots the policy wants, in the order in which they are woken, no more than it allows.

    Its expressions are asked once of each slot: time and chance may give others another answer a moment later.
    """
    best: dict[str, Sleeper] = {}
    for slot in slots:
        if not is_true(policy.wanted.eval(slot)):
            continue
        machine, rank = slot.eval_str("Machine") or slot.eval_str("Name", ""), _rank(policy.rank, slot)
        known = best.get(machine)
        if known is None or rank > known.rank:
            best[machine] = Sleeper(machine, slot, rank)
    ordered = sorted(best.values(), key=lambda one: (-one.rank, one.machine))
    return ordered[: policy.most or None]


def _rank(rank: Expr | None, slot: ClassAd) -> float:
    value = 0.0 if rank is None else rank.eval(slot)
    return float(value) if isinstance(value, bool | int | float) else 0.0
