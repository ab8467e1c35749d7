"""Programs around a job: the starter, which collects all of its children, is the only one who does."""

from __future__ import annotations

import gc
import os
import subprocess

import trio

from daemons.host.account import own_account
from daemons.host.helpers import HelperSpawner
from daemons.host.processes import Processes


async def test_a_program_that_nobody_holds_any_more_is_still_collected_by_the_one_who_watches() -> None:
    processes = Processes()
    told, tell = os.pipe()
    helper = await HelperSpawner(processes, own_account()).start(["cat"], stdin=told, stdout=subprocess.DEVNULL)
    os.close(told)
    watched, pid = helper._watched, helper.pid
    del helper
    gc.collect()
    os.close(tell)  # it ends now
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    subprocess.Popen(["true"], stdin=subprocess.DEVNULL).wait()  # which looks after those that were dropped
    processes.reap()
    with trio.fail_after(60):
        await watched.ended.wait()
    assert watched.status == 0


async def test_a_program_tells_how_it_ended() -> None:
    processes = Processes()
    async with trio.open_nursery() as nursery:
        await nursery.start(processes.run)
        helper = await HelperSpawner(processes, own_account()).start(["sh", "-c", "exit 3"])
        with trio.fail_after(60):
            assert await helper.wait() == helper.returncode == 3
        nursery.cancel_scope.cancel()
