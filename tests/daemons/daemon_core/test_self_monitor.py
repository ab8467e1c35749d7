"""What a daemon's ad says of the process."""

from __future__ import annotations

import os
import time

from daemons.daemon_core.self_monitor import RECENT_S, SelfMonitor


def test_a_process_looks_at_itself() -> None:
    seen = SelfMonitor(started_at=100.0).look(160.0)
    assert (seen["MonitorSelfAge"], seen["MonitorSelfTime"]) == (60, 160)
    assert 1000 < seen["MonitorSelfResidentSetSize"] < seen["MonitorSelfImageSize"]
    assert seen["MonitorSelfRegisteredSocketCount"] > 2


def test_what_is_recent_ends_after_twenty_minutes() -> None:
    monitor = SelfMonitor(started_at=0.0)
    until = sum(os.times()[:2]) + 0.05
    while sum(os.times()[:2]) < until:
        time.process_time()
    busy = monitor.look(1.0)
    assert 0.05 <= busy["RecentDaemonCoreDutyCycle"] == busy["DaemonCoreDutyCycle"] <= 1
    monitor.look(2.0)
    later = monitor.look(RECENT_S + 2.0)
    assert later["RecentDaemonCoreDutyCycle"] < 0.05 / RECENT_S < later["DaemonCoreDutyCycle"] * 2
