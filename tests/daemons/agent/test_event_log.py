from __future__ import annotations

import fcntl
import os
import resource
import signal
from pathlib import Path

import pytest

from daemons.agent.event_log import LogBusy, append_to
from pool.base.errors import UserError
from protocol.messages.agent import AppendEvents, LogEvent
from tests.daemons.starter.bench import bench

FIRST = "000 (001.000.000) 2026-11-22 01:02:03 Job submitted from host: <1>\n...\n"
SECOND = "001 (001.000.000) 2026-11-22 01:02:04 Job executing on host: <2>\n\tSlotName: slot1_1@x\n...\n"


def _append(path: Path, *texts: str, check: bool = False, **options: bool) -> None:
    events = [LogEvent(log=str(path), text=text, check=check) for text in texts]
    append_to(str(path), events, **({"fsync": True, "lock": True} | options))


async def test_events_are_appended_in_order_each_to_its_log() -> None:
    async with bench(agent=True, start=False) as b:
        assert b.agent is not None
        one, two = b.iwd / "one", b.iwd / "two"
        events = [LogEvent(log=str(path), text=text) for path, text in ((one, "a"), (two, "b"), (one, "c"))]
        await b.agent.call(AppendEvents(events=events))
        assert one.read_text() == "ac"
        assert two.read_text() == "b"


def test_p3_an_event_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _append(log, FIRST, SECOND)
    _append(log, FIRST, SECOND, check=True)
    assert log.read_text() == FIRST + SECOND


@pytest.mark.parametrize("length", [1, 10, len(SECOND) - 1])
def test_p3_an_event_that_a_crash_cut_short_is_completed(tmp_path: Path, length: int) -> None:
    log = tmp_path / "log"
    log.write_text(FIRST + SECOND[:length])
    _append(log, FIRST, SECOND, check=True)
    assert log.read_text() == FIRST + SECOND


def test_p3_what_one_request_can_hold_is_found_after_a_crash(tmp_path: Path) -> None:
    log = tmp_path / "log"
    several = [SECOND.replace("<2>", f"<{number}>") * 500 for number in range(20)]
    _append(log, *several)
    _append(log, *several, FIRST, check=True)
    assert log.read_text() == "".join(several) + FIRST


def test_a_lost_event_is_found_missing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _append(log, FIRST)
    _append(log, FIRST, SECOND, check=True)
    assert log.read_text() == FIRST + SECOND


def test_a_locked_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        fd = os.open(log, os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        os.write(writable, b"x")
        signal.pause()
    try:
        os.read(readable, 1)
        with pytest.raises(LogBusy):
            _append(log, FIRST)
        _append(log, FIRST, lock=False)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(readable)
        os.close(writable)
    _append(log, SECOND)
    assert log.read_text() == FIRST + SECOND


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no/such/log"):
        _append(tmp_path / "no" / "such" / "log", FIRST)
    with pytest.raises(UserError, match="Is a directory"):
        _append(tmp_path, FIRST)


def test_a_full_disk_leaves_no_half_event(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _append(log, FIRST)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(FIRST) + 10, resource.RLIM_INFINITY))
        try:
            _append(log, SECOND)
        except UserError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert log.read_text() == FIRST
