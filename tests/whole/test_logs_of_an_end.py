"""What logs tell of jobs' ends is what has happened: a slot whose job has reported its end is given back in peace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

RUNNING, HELD = 2, 5
JOB = """executable = /bin/sh
arguments = "-c '{script}'"
should_transfer_files = NO
log = log
queue 2
"""
CONCLUDED = "schedd.final_committed"
"""Where a schedd dies that has made the end of a job durable, and has told nobody yet."""
STAYS = "echo begun >> begun; sleep 1000"
WAITS = "echo begun >> begun; while [ ! -e go ]; do sleep 0.1; done"
IN_PEACE = [
    ("Owner/Idle -> Claimed/Idle", "claimed by a schedd"),
    ("Claimed/Idle -> Claimed/Busy", "claim activated"),
    ("Claimed/Busy -> Claimed/Idle", "the job is gone, or there was none"),
    ("Claimed/Idle -> Preempting/Vacating", "released by its schedd"),
    ("Preempting/Vacating -> Owner/Idle", "the job is gone, or there was none"),
]
"""All that a slot goes through for a job that ends in it."""
MOVE = re.compile(r"(slot\d+_\d+): (\S+ -> \S+): (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        NUM_CPUS=2,
        ALLOW_ADMINISTRATOR="*",
        STARTD_DEBUG="D_FULLDEBUG",
        SCHEDD_DEBUG="D_FULLDEBUG",
        MASTER_BACKOFF_CEILING=1,
        FAULT_POINTS=CONCLUDED,
        start=False,
    ) as pool:
        _marker(pool).parent.mkdir(parents=True)
        _marker(pool).parent.chmod(0o777)
        _marker(pool).touch()
        pool.start()
        yield pool


def _marker(pool: RealPool) -> Path:
    """While it is missing the schedd dies at CONCLUDED, which brings it back."""
    return pool.run_dir / "faults" / CONCLUDED


class Told:
    """What logs have gained since this was made."""

    def __init__(self, pool: RealPool) -> None:
        self.pool = pool
        self._before = {path: path.stat().st_size for path in self._paths("")}

    def _paths(self, name: str) -> list[Path]:
        return sorted((self.pool.directory / "log").glob(f"{name}*"))

    def since(self, name: str) -> str:
        return "".join(path.read_text()[self._before.get(path, 0) :] for path in self._paths(name))

    def moves(self) -> dict[str, list[tuple[str, str]]]:
        """What each dynamic slot went through, and why."""
        found: dict[str, list[tuple[str, str]]] = {}
        for slot, move, why in MOVE.findall(self.since("StartLog")):
            found.setdefault(slot, []).append((move, why))
        return found

    def until_slots_are_free(self, count: int = 2) -> None:
        """So many claims have begun, and are over."""
        self.pool.until(lambda: self.since("StartLog").count(" is over. ") >= count, f"the end of {count} claims")

    def endings(self) -> list[str]:
        return re.findall(r"The job ended .*ending=(\w+)", self.since("StarterLog"))

    def assert_all_ended_in_peace(self, ending: str, count: int = 2) -> None:
        """So many jobs ended so; each slot was given back by its schedd, and nobody was told to leave it."""
        self.until_slots_are_free(count)
        assert self.endings() == [ending] * count
        assert [moves for moves in self.moves().values() if moves != IN_PEACE] == []
        assert "must leave" not in self.since("StartLog")
        assert "vacating" not in self.since("SchedLog")


def _submit(pool: RealPool, name: str, script: str) -> tuple[int, Path]:
    home = pool.place(name)
    return pool.submit(JOB.format(script=script), cwd=home), home


def _run(pool: RealPool, name: str, script: str = STAYS) -> tuple[int, Path]:
    cluster, home = _submit(pool, name, script)
    pool.until(lambda: (home / "begun").exists() and (home / "begun").read_text() == "begun\n" * 2, "jobs to begin")
    pool.until_status(cluster, RUNNING, count=2)
    return cluster, home


@pytest.mark.parametrize("code", [0, 3])
def test_a_slot_whose_job_has_exited_is_released_and_not_preempted(pool: RealPool, code: int) -> None:
    told = Told(pool)
    cluster, _ = _submit(pool, f"exits{code}", f"exit {code}")
    assert [ad.eval_int("ExitCode") for ad in pool.until_done(cluster)] == [code, code]
    told.assert_all_ended_in_peace("exited")


def test_a_slot_that_cannot_run_its_job_is_released_and_not_preempted(pool: RealPool) -> None:
    told = Told(pool)
    cluster = pool.submit(JOB.format(script="true").replace("/bin/sh", "/etc/passwd"), cwd=pool.place("cannot"))
    pool.until_status(cluster, HELD, count=2)
    told.assert_all_ended_in_peace("hold")
    pool.tool("condor_rm", str(cluster))


@pytest.mark.parametrize("verb", ["rm", "hold", "vacate_job"])
def test_a_slot_whose_job_was_called_back_is_released_and_not_preempted(pool: RealPool, verb: str) -> None:
    told = Told(pool)
    cluster, _ = _run(pool, verb)
    if verb == "vacate_job":  # where it shall not run again at once
        pool.tool("condor_qedit", str(cluster), "Requirements", "false")
    pool.tool(f"condor_{verb}", str(cluster))
    told.assert_all_ended_in_peace("evicted")
    if verb != "rm":
        pool.tool("condor_rm", str(cluster))


def test_a_job_that_the_machine_evicts_is_told_to_leave_once(pool: RealPool) -> None:
    told = Told(pool)
    cluster, _ = _run(pool, "evicted")
    pool.tool("condor_qedit", str(cluster), "Requirements", "false")
    pool.tool("condor_vacate", "-graceful")
    told.until_slots_are_free()
    assert told.endings() == ["evicted", "evicted"]
    assert told.since("StartLog").count("must leave") == 2
    pool.until(lambda: told.since("SchedLog").count(": vacating: ") >= 2, "the schedd to hear of it")
    assert told.since("SchedLog").count(": vacating: ") == 2
    pool.tool("condor_rm", str(cluster))


def test_p5_slots_whose_jobs_had_ended_are_given_back_in_peace_by_the_schedd_that_comes_after_a_crash(
    pool: RealPool,
) -> None:
    told, before = Told(pool), pool.pid_of("schedd")
    # Both run before one ends: a slot that is only being claimed when the schedd dies has another way.
    cluster, home = _run(pool, "crash", WAITS)
    _marker(pool).unlink()
    (home / "go").touch()
    pool.until(_marker(pool).exists, "the schedd to die")
    pool.until(lambda: pool.pid_of("schedd") not in (0, before), "another schedd")
    assert [ad.eval_int("ExitCode") for ad in pool.until_done(cluster)] == [0, 0]
    told.assert_all_ended_in_peace("exited")
