"""Parsl's CondorProvider: blocks of workers as jobs, scaled in, and jobs of the provider's own; prints JSON."""

import json
import os
import sys
import time

import parsl
from parsl.app.app import python_app
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import CondorProvider

PATIENCE_S = 60


@python_app
def square(number):
    return number * number


@python_app
def fail():
    raise ValueError("as it should")


def until(states, wanted):
    """The states once they are what is wanted, or when patience is at its end."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := states()) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


if __name__ == "__main__":
    provider = CondorProvider(
        init_blocks=2, max_blocks=2, min_blocks=0, cores_per_slot=1, mem_per_slot=0.25, cmd_timeout=60,
        worker_init=f"export PATH={os.path.dirname(sys.executable)}:$PATH",
        environment={"QUOTED": "b a'r\"q"}, scheduler_options='+Mine = "x"', requirements="Memory > 10",
    )  # fmt: skip
    executor = HighThroughputExecutor(label="pool", address="127.0.0.1", max_workers_per_node=1, provider=provider)
    found = {}
    with parsl.load(Config(executors=[executor], run_dir="runs", strategy="none")):
        found["sum"] = sum(future.result() for future in [square(number) for number in range(100)])
        found["error"] = type(fail().exception()).__name__
        blocks = lambda: sorted(status.state.name for status in executor.status().values())
        executor.scale_in(1)
        found["blocks"] = until(blocks, ["CANCELLED", "RUNNING"])
    provider.script_dir = os.path.abspath("runs")
    ids = [provider.submit("sleep 1000", 1, "sleeps"), provider.submit("exit 3", 1, "fails")]
    states = lambda: [status.state.name for status in provider.status(ids)]
    found["own"] = until(states, ["RUNNING", "COMPLETED"])
    found["cancelled"] = provider.cancel(ids[:1])
    print(json.dumps(found), flush=True)
