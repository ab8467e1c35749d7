"""What a daemon itself takes, and how busy it is: attributes of every daemon's ad."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

RECENT_S: Final = 1200.0
LOOK_S: Final = 1.0
"""Looks closer together than this are one, as far as what is recent matters."""


class SelfMonitor:
    """MonitorSelf... attributes, and the share of the time in which the process is at work."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self._busy: deque[tuple[float, float]] = deque([(started_at, busy_s())])
        self._at_start_s = self._busy[0][1]  # a fork brings none of its parent's, a test's process all of its own

    def look(self, now: float) -> dict[str, int | float]:
        """The figures at `now`, wall time; the cpu usage is that since the last look but one second."""
        at, before_s = self._busy[-1]
        used_s, memory = busy_s(), memory_kib()
        figures: dict[str, int | float] = {
            "MonitorSelfAge": int(now - self._started_at),
            "MonitorSelfCPUUsage": round((used_s - before_s) / (now - at), 4) if now > at else 0.0,
            "MonitorSelfImageSize": memory[0],
            "MonitorSelfRegisteredSocketCount": open_files(),
            "MonitorSelfResidentSetSize": memory[1],
            "MonitorSelfTime": int(now),
            **self._duty(now, used_s),
        }
        # Two questions in one second would else leave a cpu usage over no time at all.
        if now - at >= LOOK_S:
            self._busy.append((now, used_s))
        return figures

    def _duty(self, now: float, used_s: float) -> dict[str, float]:
        """Since its start, and in the last twenty minutes."""
        while len(self._busy) > 1 and self._busy[1][0] <= now - RECENT_S:
            self._busy.popleft()
        since, before_s = self._busy[0]
        return {
            "DaemonCoreDutyCycle": share(used_s - self._at_start_s, now - self._started_at),
            "RecentDaemonCoreDutyCycle": share(used_s - before_s, now - since),
        }


def share(part_s: float, whole_s: float) -> float:
    """Which part of the time, between 0 and 1."""
    return round(min(1.0, max(0.0, part_s / whole_s)), 6) if whole_s > 0 else 0.0


def busy_s() -> float:
    """The processor time that this process has had."""
    times = os.times()
    return times.user + times.system


def memory_kib() -> tuple[int, int]:
    """The image's size, and how much of it is resident; zeros where that cannot be told."""
    with suppress(OSError, ValueError, IndexError):
        size, resident = Path("/proc/self/statm").read_text().split()[:2]
        page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
        return int(size) * page_kib, int(resident) * page_kib
    return 0, 0


def open_files() -> int:
    """How many descriptors this process has."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd")) - 1
    return 0
