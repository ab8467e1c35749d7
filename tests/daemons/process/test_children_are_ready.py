from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.daemons.mount_lines import mount_lines

PROGRAM = """
import sys
from {module} import {name}
for heavy in ("numpy", "rich", "lark", "sqlite3", "subprocess"):
    if heavy in sys.modules:
        print(heavy)
"""


@pytest.mark.parametrize(
    ("module", "allowed"),
    [("daemons.starter.born", {"subprocess"}), ("daemons.agent.main", {"subprocess"})],
)
def test_a_zygote_imports_nothing_that_its_children_do_not_need(module: str, allowed: set[str]) -> None:
    program = PROGRAM.format(module=module, name="child_main")
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert set(said) <= allowed


def test_a_starters_messages_are_learnt_before_there_are_starters() -> None:
    program = (
        "import threading\n"
        "from daemons.starter.launch import vfork\n"
        "from daemons.starter.born import warm_up\n"
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
        "from daemons.starter.born import warm_up\n"
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


@pytest.mark.parametrize(
    ("call", "rounds"),
    [
        ("warm_up()", "ROUNDS"),
        ("once_more(StarterSettings(execute=''))", "ONCE_MORE"),
        ("once_more(StarterSettings(execute='', job_namespaces=True, mount_under_scratch='/var/tmp'))", "ONCE_MORE"),
    ],
)
def test_before_it_is_needed_a_starter_runs_jobs_and_leaves_nothing_behind(call: str, rounds: str) -> None:
    program = (
        "import os, threading\n"
        "from daemons.base.linux import children_of\n"
        "from daemons.host.child_settings import StarterSettings\n"
        "from daemons.starter import rehearsal\n"
        "from protocol.messages.shadow import JobEnded\n"
        "ended, say = [], rehearsal._say\n"
        "def heard(peer, message):\n"
        "    ended.extend([message.ending.value] if isinstance(message, JobEnded) else [])\n"
        "    return say(peer, message)\n"
        "rehearsal._say = heard\n"
        "open_before = os.listdir('/proc/self/fd')\n"
        "mounts = os.readlink('/proc/self/ns/mnt')\n"
        f"rehearsal.{call}\n"
        "assert os.readlink('/proc/self/ns/mnt') == mounts\n"
        f"print(ended == ['exited'] * rehearsal.{rounds}, os.listdir('/proc/self/fd') == open_before)\n"
        "print(threading.active_count(), list(children_of(os.getpid())))\n"
    )
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)  # a job's account has to get through
        command, told = [sys.executable, "-c", program], {**os.environ, "TMPDIR": place}
        before = mount_lines(Path(place))
        said = subprocess.run(command, capture_output=True, text=True, check=True, env=told).stdout
        assert said.splitlines() == ["True True", "1 []"]
        assert mount_lines(Path(place)) == before
        assert not os.listdir(place)
