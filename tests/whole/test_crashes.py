"""kill -9 of any process at any step of a job's way: the job ends once, and nothing of it is left (P1, P2, P3, P5, P6).

One pool serves all the fault points: FAULT_POINTS arms every one of them, and a point fires only while its marker is
missing in RUN/faults; so a test takes away one marker, runs a job, and finds the marker back.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons.base.linux import is_zombie
from tests.whole.probe import Probe
from tests.whole.real_pool import NotInTime, RealPool, real_pool

SUBMIT_POINTS = (
    "schedd.before_submit_commit",
    "schedd.submit_announced",
    "schedd.after_submit_commit",
    "schedd.before_submit_answer",
)
SCHEDD_POINTS = (
    "schedd.match_taken",
    "schedd.claim_requested",
    "schedd.claim_granted",
    "schedd.activated",
    "schedd.job_executing",
    "schedd.job_ended_received",
    "schedd.final_committed",
    "schedd.event_appended",
    "schedd.event_marked",
    "schedd.before_end_answer",
    "schedd.before_notes_commit",
    "schedd.after_notes_commit",
)
STARTD_POINTS = ("startd.claim_granted", "startd.starter_forked")
STARTER_POINTS = (
    "starter.sandbox_made",
    "starter.input_done",
    "starter.job_started",
    "starter.job_exited",
    "starter.output_pushed",
    "starter.reported",
)
POINTS = SUBMIT_POINTS + SCHEDD_POINTS + STARTD_POINTS + STARTER_POINTS


def some(points: tuple[str, ...]) -> list[object]:
    """All of the points, of which the suite of minutes takes each third."""
    return [pytest.param(point, marks=pytest.mark.slow) if at % 3 else point for at, point in enumerate(points)]


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        user="www-data", NUM_CPUS=4, MASTER_BACKOFF_CEILING=1, FAULT_POINTS=" ".join(POINTS), start=False
    ) as pool:
        faults = pool.run_dir / "faults"
        faults.mkdir(parents=True)
        faults.chmod(0o777)
        for point in POINTS:
            (faults / point).touch()
        pool.start()
        yield pool


def arm(pool: RealPool, point: str) -> Path:
    marker = pool.run_dir / "faults" / point
    marker.unlink()
    return marker


@pytest.mark.parametrize("point", SUBMIT_POINTS)
def test_p1_a_schedd_that_dies_while_it_takes_a_job_has_it_or_has_not(pool: RealPool, point: str) -> None:
    marker = arm(pool, point)
    lost = Probe(pool, 0.1)
    before = pool.pid_of("schedd")
    lost.submit(check=False)
    pool.until(marker.exists, f"{point} to fire")
    pool.until(lambda: pool.pid_of("schedd") not in (0, before), "another schedd")
    after = Probe(pool, 0.1)
    pool.until(lambda: _submits(after), "a submission to be taken again")
    after.assert_ended_once()
    known = _is_known(lost)
    if point == "schedd.before_submit_commit":
        assert not known
    elif point != "schedd.submit_announced":  # there the writer may have committed it of itself, or not
        assert known
    if known:
        lost.assert_ended_once()
    else:
        assert lost.trace() == []


def _submits(probe: Probe) -> bool:
    if not _is_known(probe):
        probe.submit(check=False)
    return _is_known(probe)


def _is_known(probe: Probe) -> bool:
    return bool(probe.in_queue() or probe.in_history())


@pytest.mark.parametrize("point", some(SCHEDD_POINTS))
def test_p5_a_job_does_not_notice_the_death_of_its_schedd(pool: RealPool, point: str) -> None:
    probe = Probe(pool)
    while not _is_known(probe):  # notes of the job before may be committed, and the schedd die of it, before the submit
        before, marker = pool.pid_of("schedd"), arm(pool, point)
        probe.submit(check=False)  # the schedd may die before it has answered, even before the job is durable
        pool.until(marker.exists, f"{point} to fire")
        pool.until(lambda: pool.pid_of("schedd") not in (0, before), "another schedd")  # noqa: B023
    ad = probe.assert_ended_once()
    assert probe.trace() == ["begin", "end"]
    assert ad["NumJobStarts"] == 1


@pytest.mark.parametrize("point", some(STARTD_POINTS + STARTER_POINTS))
def test_p4_a_job_ends_although_what_runs_it_dies(pool: RealPool, point: str) -> None:
    marker = arm(pool, point)
    probe = Probe(pool)
    probe.submit()
    pool.until(marker.exists, f"{point} to fire")
    probe.assert_ended_once()


def _starter_of(pool: RealPool, probe: Probe) -> int:
    """The process that runs the probe's program: the parent of its shell."""
    ours = pool.processes()
    for pid in ours:
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(probe.directory):
                parent = _parent(pid)
                if parent in ours and os.readlink(f"/proc/{parent}/cwd") != str(probe.directory):
                    return parent
        except OSError:
            continue
    raise NotInTime("nothing runs in the probe's directory")


def test_p6_when_its_starter_dies_the_job_dies_with_it_and_starts_again(pool: RealPool) -> None:
    probe = Probe(pool, None)
    probe.submit()
    probe.until_begun()
    starter = _starter_of(pool, probe)
    os.kill(starter, signal.SIGKILL)
    pool.until(lambda: probe.trace() == ["begin", "begin"], "another begin")
    probe.may_end()
    ad = probe.assert_ended_once()
    assert probe.trace() == ["begin", "begin", "end"]
    assert ad["NumJobStarts"] == 2


HIDING = """executable = /bin/sh
arguments = "-c '(env -i setsid sh -c ''echo $$ > {file}; exec sleep 600'' &) ; exec sleep 600'"
should_transfer_files = NO
queue
"""


def test_p6_what_has_neither_a_group_nor_a_mark_ends_when_its_starter_dies() -> None:
    with real_pool(NUM_CPUS=1, BASE_CGROUP="cgroup.procs") as pool:  # a file: there are no groups
        file = pool.directory / "home" / "hidden"
        file.parent.mkdir()
        file.parent.chmod(0o777)
        cluster = pool.submit(HIDING.format(file=file))
        pool.until(lambda: file.exists() and file.read_text().strip(), "the process that hides")
        hidden = int(file.read_text())
        assert b"_CONDOR" not in Path(f"/proc/{hidden}/environ").read_bytes()
        # Once the shell between them has ended.
        pool.until(lambda: _comm(_parent(hidden)) == b"condor_starter", "the starter to be its parent")
        os.kill(_parent(hidden), signal.SIGKILL)
        pool.until(lambda: is_zombie(hidden), "the end of the process that hid")
        pool.tool("condor_rm", str(cluster))


@pytest.mark.parametrize("daemon", ["collector", "negotiator", "schedd"])
def test_a_running_job_does_not_notice_the_death_of_another_daemon(pool: RealPool, daemon: str) -> None:
    probe = Probe(pool, None)
    probe.submit()
    probe.until_begun()
    pool.restart_of(daemon)
    probe.may_end()
    ad = probe.assert_ended_once()
    assert ad["NumJobStarts"] == 1
    later = Probe(pool, 0.1)
    later.submit()
    later.assert_ended_once()


def test_p4_a_job_starts_again_after_its_startd_died(pool: RealPool) -> None:
    probe = Probe(pool, None)
    probe.submit()
    probe.until_begun()
    pool.restart_of("startd")
    pool.until(lambda: probe.trace() == ["begin", "begin"], "another begin")
    probe.may_end()
    probe.assert_ended_once()


def test_p1_a_master_that_dies_takes_its_daemons_along_and_loses_no_job(pool: RealPool) -> None:
    probe = Probe(pool, None)
    probe.submit()
    probe.until_begun()
    pool.kill()
    assert not pool.processes()
    probe.may_end()
    pool.start()
    probe.assert_ended_once()


def _zygotes(pool: RealPool) -> list[int]:
    """The zygotes of the schedd and the startd."""
    owners = (b"condor_schedd", b"condor_startd")
    return [pid for pid in pool.processes() if _comm(pid) == b"condor_zygote" and _comm(_parent(pid)) in owners]


def _comm(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes().strip()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_jobs_go_on_after_the_zygotes_died(pool: RealPool) -> None:
    probe = Probe(pool, None)
    probe.submit()
    probe.until_begun()
    zygotes = _zygotes(pool)
    assert len(zygotes) == 2
    for pid in zygotes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    probe.may_end()
    probe.assert_ended_once()
    later = Probe(pool, 0.1)
    later.submit()
    later.assert_ended_once()
