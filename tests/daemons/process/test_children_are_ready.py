from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from {module} import {name}
for heavy in ("numpy", "rich", "lark", "sqlite3", "subprocess"):
    if heavy in sys.modules:
        print(heavy)
"""


@pytest.mark.parametrize(
    ("module", "allowed"),
    [("daemons.starter.main", {"subprocess"}), ("daemons.agent.main", {"subprocess"})],
)
def test_a_zygote_imports_nothing_that_its_children_do_not_need(module: str, allowed: set[str]) -> None:
    program = PROGRAM.format(module=module, name="child_main")
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert set(said) <= allowed


def test_a_starters_messages_are_learnt_before_there_are_starters() -> None:
    program = (
        "import threading\n"
        "from daemons.starter.launch import vfork\n"
        "from daemons.starter.main import warm_up\n"
        "from protocol.messages import agent, shadow, starter\n"
        "used = (starter.RunJob, starter.StopJob, shadow.JobExecuting, shadow.JobEnded, agent.PushOutput)\n"
        "print([one._plan for one in used if one._plan], vfork.is_possible.cache_info().currsize)\n"
        "warm_up()\n"
        "print([one.__name__ for one in used if not one._plan], vfork.is_possible.cache_info().currsize)\n"
        "print(threading.active_count())\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["[] 0", "[] 1", "1"]


def test_what_a_machine_is_asked_and_every_slot_has_is_learnt_before_there_are_starters() -> None:
    program = (
        "import re\n"
        "from daemons.host.process_limit import machine_processes\n"
        "from daemons.starter.main import warm_up\n"
        "from pool.classad import ClassAd\n"
        "from pool.classad.eval.expression import READER\n"
        "from pool.execute.plan import ExecuteSurroundings, plan_job\n"
        "from pool.slots.ad import limits_expr\n"
        "warm_up()\n"
        "read, re._compiler.compile = READER.characters, print\n"
        "slot = ClassAd({'MachineResources': 'Cpus Memory Disk Swap GPUs'})\n"
        "limits_expr(['Cpus', 'Memory', 'Disk', 'GPUs'])\n"
        "plan_job(ClassAd({'Cmd': '/bin/true'}), slot, ExecuteSurroundings(sandbox='/x', slot='slot1', starter_pid=1))\n"
        "print(READER.characters - read, machine_processes.cache_info().currsize)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["0 1"]
