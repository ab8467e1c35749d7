"""condor_dagman, real but for one thing: at each of its steps it asks a test whether it is to die there.

The steps are those of tests/minipool/dagman/simulated.py, by the same names. The test listens at `deaths.sock` in the
graph's directory, hears a line for each step, and answers with one: `die` or `live`. It may kill the schedd meanwhile.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from minipool.client.submission import Queued
from minipool.dagman import entry, files, lock, main, manager, nodes_log, schedd, scripts
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.dag.model import Script
from pool.submit import SubmitPlan
from protocol.messages.schedd import JobsChanged
from tests.minipool.dagman.steps import StepsAtCalls


class Test:
    """The test, which is asked at each step."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect("deaths.sock")
        self._lines = self._socket.makefile("r")

    def step(self, name: str) -> None:
        """Something has just been done, or is about to be."""
        self._socket.sendall(f"{name}\n".encode())
        if self._lines.readline() == "die\n":
            os.kill(os.getpid(), signal.SIGKILL)

    def run_of(self, node: str) -> str:
        """The node, and the run of its jobs."""
        with open("runs") as runs:
            return f"{node}, which has run {runs.read().split().count(node)} times"


TEST: Final = Test()


class Schedd(schedd.Schedd):
    """The real one, with a step before and after all that it is asked."""

    async def submit(self, plan: SubmitPlan, left: Callable[[], None]) -> Queued:
        name = f"submit {TEST.run_of(plan.cluster_ad.eval_str('DAGNodeName') or '')}"

        def sent() -> None:
            left()
            TEST.step(f"{name}: sent")

        TEST.step(f"{name}: not sent")
        queued = await super().submit(plan, sent)
        TEST.step(f"{name}: answered")
        return queued

    async def watch(self, constraint: str, projection: Sequence[str]) -> AsyncIterator[JobsChanged | None]:
        async for changed in super().watch(constraint, projection):
            if changed is None:
                TEST.step("all is told: not yet")
            for delta in changed.deltas if changed is not None else ():
                if node := delta.ad.eval_str("DAGNodeName"):
                    TEST.step(f"told {TEST.run_of(node)}: {delta.ad.eval_int('JobStatus')}, left {delta.left}")
            yield changed

    async def history(self, *, ids: Sequence[JobId] = (), constraint: str | None = None) -> list[ClassAd]:
        TEST.step("the history is asked")
        found = await super().history(ids=ids, constraint=constraint)
        TEST.step("the history has answered")
        return found

    async def edit(self, id: JobId, attributes: Mapping[str, object]) -> None:
        at = f"{attributes.get('DAG_NodesDone')} done, {attributes.get('DAG_NodesQueued')} queued"
        TEST.step(f"edit, {at}: not sent")
        await super().edit(id, attributes)
        TEST.step(f"edit, {at}: done")


async def run_script(script: Script, command: tuple[str, ...], directory: str, node: str) -> tuple[int, str]:
    """Run a node's script, with a step before and after."""
    name = f"{script.kind} {TEST.run_of(node)}"
    TEST.step(f"{name}: not begun")
    done = await scripts.run_script(script, command, directory, node)
    TEST.step(f"{name}: ended")
    return done


if __name__ == "__main__":
    vars(main).update(Schedd=Schedd)
    vars(manager).update(run_script=run_script)
    for module in (files, lock, nodes_log):
        calls = StepsAtCalls(TEST)
        vars(module).update(os=calls, open=calls.open_text)
    TEST.step("begun")
    entry.program()
