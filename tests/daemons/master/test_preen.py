"""The master has the directories tidied as often as it is told to."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemons.host.programs import Finished
from daemons.master import preen
from tests.daemons.one_host import one_host


async def test_the_program_runs_once_an_interval_and_what_it_says_is_logged(
    tmp_path: Any, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[float, list[str]]] = []

    async def run_program(spawner: object, argv: list[str], **options: object) -> Finished:
        ran.append((trio.current_time(), argv))
        return Finished(1, "found something\n", "")

    monkeypatch.setattr(preen, "run_program", run_program)
    knobs = {"PREEN": "/opt/condor_preen", "PREEN_ARGS": "-r -v", "PREEN_INTERVAL": "500"}
    async with one_host(tmp_path, overrides=knobs) as host:
        start = await host.start("collector")
        began = trio.current_time()
        with trio.move_on_after(1600):
            await preen.preen_now_and_then(start)
    assert [argv for _, argv in ran] == [["/opt/condor_preen", "-r", "-v"]] * 3
    assert [round((at - began) / 500) for at, _ in ran] == [1, 2, 3]
