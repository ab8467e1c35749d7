"""What transfers do to an access point, as averages over several spans of time, and what that lets begin.

The averages are exponential ones, like a system's load averages: each sample is what happened in one interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pool.base.errors import UserError
from pool.base.words import split_list
from pool.classad import Member

SUMS: Final = (
    "UploadBytes",
    "DownloadBytes",
    "FileReadSeconds",
    "FileWriteSeconds",
    "NetReadSeconds",
    "NetWriteSeconds",
)
"""What is counted; a rate of bytes is called ...BytesPerSecond, one of seconds ...Load."""


def read_spans(text: str) -> dict[str, float]:
    """TRANSFER_IO_REPORT_TIMESPANS: `1m:60 5m:300`."""
    spans: dict[str, float] = {}
    for word in split_list(text):
        name, mark, seconds = word.partition(":")
        try:
            spans[name] = float(seconds)
        except ValueError:
            mark = ""
        if not mark or not name or not 0 < spans[name] < math.inf:
            raise UserError(f"{word!r} is no span of time", expected="NAME:SECONDS")
    return spans


@dataclass
class Averages:
    """One quantity: its sum, and its rate over each span."""

    sum: float = 0.0
    recent: float = 0.0
    """What has come since the last sample."""
    rates: dict[str, float] = field(default_factory=dict)
    covered_s: float = 0.0
    """How much time the rates know of."""

    def add(self, amount: float) -> None:
        """This much happened."""
        self.sum += amount
        self.recent += amount

    def sample(self, interval_s: float, spans: Mapping[str, float]) -> None:
        """An interval is over."""
        rate = self.recent / interval_s
        self.recent = 0.0
        self.covered_s += interval_s
        for name, span in spans.items():
            # Exact for any interval: samples come late on a busy access point, and must not count for less then.
            share = 1.0 - math.exp(-interval_s / span)
            self.rates[name] = share * rate + (1.0 - share) * self.rates.get(name, 0.0)


class Load:
    """All that is counted of the transfers of somebody, or of everybody."""

    def __init__(self) -> None:
        self.of = {name: Averages() for name in SUMS}

    def add(self, amounts: Mapping[str, float]) -> None:
        """Some of it happened."""
        for name, amount in amounts.items():
            if name in self.of and amount > 0:
                self.of[name].add(amount)

    def sample(self, interval_s: float, spans: Mapping[str, float]) -> None:
        """An interval is over."""
        for one in self.of.values():
            one.sample(interval_s, spans)

    def disk(self, span: str) -> float:
        """How many transfers have read or written files at a time, on average."""
        return sum(self.of[name].rates.get(span, 0.0) for name in ("FileReadSeconds", "FileWriteSeconds"))

    @property
    def is_idle(self) -> bool:
        """Whether next to nothing has happened for a long time."""
        return all(rate < 0.001 for one in self.of.values() for rate in one.rates.values()) and not any(
            one.recent for one in self.of.values()
        )

    def attributes(self, spans: Mapping[str, float], prefix: str = "") -> dict[str, Member]:
        """As the schedd's ad shows it: a rate once its whole span has passed."""
        shown: dict[str, Member] = {}
        for name, one in self.of.items():
            shown[f"{prefix}FileTransfer{name}"] = round(one.sum, 6)
            rate = name.replace("Bytes", "BytesPerSecond").replace("Seconds", "Load")
            for span, seconds in spans.items():
                if one.covered_s >= seconds:
                    shown[f"{prefix}FileTransfer{rate}_{span}"] = round(one.rates.get(span, 0.0), 6)
        return shown


@dataclass(frozen=True)
class ThrottleKnobs:
    """FILE_TRANSFER_DISK_LOAD_THROTTLE and its kin."""

    low: float
    high: float
    short_span: str = "1m"
    long_span: str = "5m"
    wait_s: float = 60.0


def read_throttle(text: str) -> tuple[float, float] | None:
    """`2.0`, or `5 to 6.5`: the lower and the upper limit; None where there is none."""
    if not text.strip():
        return None
    first, mark, second = text.partition(" to ")
    try:
        high = float(second) if mark else float(first)
        low = float(first) if mark else 0.9 * high
    except ValueError:
        raise UserError(f"{text!r} is no load", expected="NUMBER, or NUMBER to NUMBER") from None
    if not 0 <= low <= high:
        raise UserError(f"{text!r} is no range of loads", expected="two numbers, the smaller one first")
    return low, high


class Throttle:
    """How many transfers there may be at a time, by the disk's load: slowly more while it is low, none when high."""

    def __init__(self, knobs: ThrottleKnobs) -> None:
        self.knobs = knobs
        self.limit = 0
        self._raised_at = -math.inf

    def decide(self, load: Load, moving: int, now: float) -> int:
        """The limit now, when so many move."""
        knobs = self.knobs
        short, long = load.disk(knobs.short_span), load.disk(knobs.long_span)
        if short > knobs.high:
            self.limit = moving
        elif max(short, long) > knobs.low:
            if self.limit < 1:
                self.limit, self._raised_at = 1, now
        elif moving >= self.limit and now - self._raised_at >= knobs.wait_s:
            self.limit, self._raised_at = max(self.limit + 1, math.floor(knobs.low)), now
        return self.limit


def closest_span(wanted: str, spans: Iterable[str]) -> str:
    """The span of this name, or the first that there is."""
    names = list(spans)
    return wanted if wanted in names or not names else names[0]
