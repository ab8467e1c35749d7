"""Draining: a machine stops taking jobs, lets those that run leave, and says when it is empty.

How fast: gracefully (retirement and vacate time are granted), quickly (vacate time only), fast (at once). When every
slot is drained the machine stays so, or takes jobs again, as the request said.

A graceful drain may let jobs into what partitionable slots have free: those that a START of its own takes. They are
guests. When the last job of before has left, no other comes in, and they have to leave without retirement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from pool.base.errors import UserError
from pool.classad import ClassAd, Expr
from pool.classad.syntax.parse import literal_of


class HowFast(IntEnum):
    """How the jobs are made to leave; the numbers are those of HTCondor's request."""

    GRACEFUL = 0
    QUICK = 10
    FAST = 20


class Afterwards(StrEnum):
    """What follows when all slots are drained."""

    NOTHING = "nothing"
    RESUME = "resume"
    EXIT = "exit"
    RESTART = "restart"
    RECONFIG = "reconfig"


@dataclass(frozen=True)
class Drain:
    """A drain that is going on."""

    request_id: str
    how: HowFast
    afterwards: Afterwards
    reason: str
    began_at: float
    start: Expr | None = None
    """START while draining; None: no job may start (any more)."""
    check: Expr | None = None
    """Must be true for every slot, or the machine does not drain."""


def begin_drain(asked: Drain, running: Drain | None, slot_ads: Callable[[], list[ClassAd]]) -> Drain:
    """The drain to be; UserError when one goes on already, or a slot does not pass the check."""
    if running is not None:
        raise UserError(f"draining is already in progress (request {running.request_id})")
    if asked.check is not None:
        for ad in slot_ads():
            # Not any number: a check that is undefined for a slot has not been passed.
            if asked.check.eval(ad) is not True:
                raise UserError(f"{ad.eval_str('Name')} does not pass the check {asked.check.text}")
    return asked


def start_meanwhile(how: HowFast, asked: Expr | None, otherwise: Expr | None) -> Expr | None:
    """START while the machine drains, as the request has it, or else the configuration."""
    start = otherwise if asked is None else asked
    lets_nobody_in = start is None or literal_of(start.node) is False
    return None if how is not HowFast.GRACEFUL or lets_nobody_in else start


def end_drain(request_id: str, running: Drain | None) -> None:
    """Whether `request_id` (empty: whatever goes on) may be cancelled; UserError when there is no such drain."""
    if running is None:
        raise UserError("the machine is not draining")
    if request_id and request_id != running.request_id:
        raise UserError(f"request {request_id} is not the one going on ({running.request_id})")


def drain_attributes(running: Drain | None, last_start: float, last_stop: float) -> dict[str, int | str | bool]:
    """What slot ads say about draining."""
    shown: dict[str, int | str | bool] = {}
    if running is not None:
        shown |= {"Draining": True, "DrainingRequestId": running.request_id, "DrainReason": running.reason}
    if last_start:
        shown["LastDrainStartTime"] = int(last_start)
    if last_stop:
        shown["LastDrainStopTime"] = int(last_stop)
    return shown
