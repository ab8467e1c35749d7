"""A recipe of jobs that are made later is its user's program: making them costs others nothing to speak of."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from threading import Thread

import psutil
import pytest

from protocol.messages.schedd import CountJobs
from protocol.rpc.blocking import connect
from protocol.security.credentials import Security
from tests.attacks.actors import ATTACKER, VICTIM, needs_accounts, python_as
from tests.whole.real_pool import RealPool, real_pool

pytestmark = needs_accounts

SUBMIT = """
import json, sys, threading
from pool.classad import ClassAd
from protocol.rpc.blocking import connect
from protocol.messages.submit import SubmitJobs
from protocol.rpc.remote import RemoteError
from protocol.security.credentials import Security

lines = [["executable", "/bin/true"], ["transfer_executable", "false"], ["request_memory", "1"], *json.load(open(sys.argv[2]))]
recipe = {
    "lines": lines, "variables": ["Item"], "items": ["x"], "count": int(sys.argv[3]),
    "cwd": "/tmp", "user": "games", "now": 1, "file": "x", "env": {},
}
ad = ClassAd({"Cmd": "/bin/true", "Iwd": "/tmp", "RequestMemory": 1, "JobUniverse": 5, "Requirements": False})
ad["JobMaterializeMaxIdle"] = int(sys.argv[3])
try:
    with connect(sys.argv[1], Security()) as peer:
        print(peer.call(SubmitJobs(cluster_ad=ad, procs=[], factory=json.dumps(recipe)), timeout=60))
except RemoteError as error:
    print(error)
"""
STALL_S = 1.0
"""Of the schedd's processor time, which no other load adds to; such recipes took seconds of it, longer ones minutes."""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(user=VICTIM, ALL_DEBUG="") as pool:
        yield pool


def _submit(pool: RealPool, lines: list[list[str]], count: int) -> str:
    path = pool.directory / "lines.json"
    path.write_text(json.dumps(lines))
    return python_as(ATTACKER, SUBMIT, str(pool.run_dir / "schedd.sock"), str(path), str(count))


def _used_s(pid: int) -> float:
    """The processor time of a process, in all its threads."""
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


def _longest_wait(pool: RealPool, lines: list[list[str]], count: int) -> float:
    """How long the schedd computes, at most, before it answers others' questions while these jobs are made."""
    attack, schedd = Thread(target=_submit, args=(pool, lines, count)), pool.pid_of("schedd")
    longest, until = 0.0, time.monotonic() + 4
    attack.start()
    while attack.is_alive() or time.monotonic() < until:
        began = _used_s(schedd)
        with connect(str(pool.run_dir / "schedd.sock"), Security()) as peer:
            peer.call(CountJobs(), timeout=60)
        longest = max(longest, _used_s(schedd) - began)
    return longest


def test_what_a_recipe_expands_to_is_bounded(pool: RealPool) -> None:
    """The first: it counts all that the schedd does, also what the jobs of others have left it to do."""
    lines = [["big", "x" * 2000], *([f"a{number}", "$(big)" * 400] for number in range(100))]
    lines.append(["arguments", "".join(f"$(a{number})" for number in range(100))])
    schedd = pool.pid_of("schedd")
    began = _used_s(schedd)
    assert "too long to expand" in _submit(pool, lines, 1)
    assert _used_s(schedd) - began < STALL_S


def test_jobs_that_take_long_to_make_delay_nobody(pool: RealPool) -> None:
    lines = [[f"MY.A{number}", f"$(Process)+{number}"] for number in range(950)]
    assert _longest_wait(pool, lines, 100) < STALL_S


def test_a_recipe_has_not_any_number_of_lines(pool: RealPool) -> None:
    lines = [[f"MY.A{number}", str(number)] for number in range(5000)]
    assert "has 5003 lines" in _submit(pool, lines, 1)
