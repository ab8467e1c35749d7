"""Programs of a site that do not end as they should."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemons.daemon_core.world import Process
from daemons.host import programs
from daemons.host.programs import KILLED_S, ProgramError, run_blocking, run_program


class Hanging:
    """A program that waits for a disk: not even SIGKILL ends it."""

    stdin = stdout = stderr = None
    pid = 1 << 22
    returncode: int | None = None

    async def wait(self) -> int:
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def send_signal(self, sig: Any, /) -> None: ...


class HangingSpawner:
    async def start(self, argv: Sequence[str], **options: Any) -> Process:
        return Hanging()


async def test_nobody_waits_for_a_program_that_hangs_in_the_kernel(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(programs, "kill_session", lambda pid, signum=signal.SIGKILL: killed.append(pid))
    with trio.fail_after(1000):
        end = await run_program(HangingSpawner(), ["hook"], timeout_s=5.0)
    assert (end.timed_out, end.status) == (True, -signal.SIGKILL)
    assert trio.current_time() == pytest.approx(5.0 + KILLED_S)
    assert killed[0] == Hanging.pid


def test_a_program_that_takes_too_long_is_ended_with_all_that_it_has_started() -> None:
    end = run_blocking(["/bin/sh", "-c", "echo begun; sleep 1000 & sleep 1000"], 2.0)
    assert (end.timed_out, end.stdout) == (True, "begun\n")


def test_what_a_program_says_and_how_it_ends() -> None:
    end = run_blocking(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], 60.0)
    assert (end.status, end.stdout, end.stderr, end.timed_out) == (3, "out\n", "err\n", False)
    with pytest.raises(ProgramError, match="cannot run /not/there: No such file"):
        run_blocking(["/not/there"], 1.0)
