"""What a program uses is looked at between the updates too."""

from __future__ import annotations

from typing import Any, cast

import trio.testing

from daemons.starter.watch.figures import Figures, look_now_and_then
from pool.classad import ClassAd
from pool.execute.usage import UsageSample

MIB = 1 << 20


class Swelling:
    """A program that is large for a moment."""

    async def sample(self) -> UsageSample:
        return UsageSample(resident=80 * MIB if 42 < trio.current_time() < 48 else MIB)

    def told(self) -> ClassAd:
        return ClassAd()


async def test_a_size_between_two_updates_is_not_missed(autojump_clock: trio.testing.MockClock) -> None:
    figures = Figures(cast(Any, None), cast(Any, None), memory_metric="ResidentSetSize / 1024 + 1")
    with trio.move_on_at(trio.current_time() + 100):
        await look_now_and_then(figures, cast(Any, Swelling()), 5.0)
    ad = figures.usage.ad()
    assert (ad["ResidentSetSize"], ad.eval_int("MemoryUsage")) == (80 << 10, 81)
