"""Two thousand jobs are submitted, held, released, removed and edited while their schedd is killed again and again.

Each job then has exactly one end, the same in its log, in the history and in what its program wrote; what was answered
stays true; and no job starts twice that nobody sent away.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import htcondor2
import pytest

from pool.classad import ClassAd
from tests.whole.probe import patiently
from tests.whole.real_pool import RealPool, as_account, real_pool

CLUSTERS = 8
PROCS = 250
KILLS = 8
TOOL_S = 120
END_S = 600

PROGRAM = """#!/bin/sh
echo "begin $1" >> {starts}
[ "$2" = 0 ] || sleep "$2"
echo "end $1" >> {starts}
"""
DESCRIPTION = """executable = {home}/job.sh
arguments = $(Cluster).$(Process) $(Seconds)
hold = $(Held)
log = {home}/log
should_transfer_files = NO
+StormBatch = {number}
queue Held, Seconds from (
{rows}
)
"""
KNOBS: dict[str, object] = {
    "NUM_CPUS": 16,
    "MASTER_BACKOFF_CEILING": 1,
    "MASTER_RECOVER_FACTOR": 1,
    "EVENT_LOG": "$(LOG)/EventLog",
    "EVENT_LOG_MAX_SIZE": 0,
}
ENDS = {5: 4, 9: 3}
"""What ends a job in its log, and the JobStatus that the history then has."""


@dataclass
class Storm:
    """What was asked for, and what was answered."""

    pool: RealPool
    home: Path
    clusters: list[int] = field(default_factory=list)
    """Those whose submission was answered."""
    asked: int = 0
    """How many submissions there were, answered or not."""
    edited: dict[int, int] = field(default_factory=dict)
    """The last value that was answered, for each cluster."""
    removed: set[int] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)

    def ask(self, *argv: str, text: str = "") -> str | None:
        """What a tool said; None when it was not successful, as when there is no schedd."""
        found = subprocess.run(
            [str(Path(sys.executable).with_name(argv[0])), *argv[1:]],
            cwd=self.home,
            env=self.pool.env(),
            input=text,
            capture_output=True,
            text=True,
            timeout=TOOL_S,
            check=False,
            **as_account(self.pool.user),
        )
        return found.stdout if found.returncode == 0 else None

    # What goes on at the same time, each in a thread of its own.

    def submit(self) -> None:
        rows = "\n".join(f"{held(proc)}, {2 if proc % 10 == 5 else 0}" for proc in range(PROCS))
        number = 0
        while len(self.clusters) < CLUSTERS:
            said = self.ask("condor_submit", text=DESCRIPTION.format(home=self.home, number=number, rows=rows))
            number += 1
            if said is not None:
                found = re.search(r"submitted to cluster (\d+)", said)
                assert found is not None, said
                self.clusters.append(int(found[1]))
        self.asked = number

    def hold(self) -> None:
        for number in range(1000):
            chosen = f"JobStatus < 3 && ProcId % 7 == {number % 7}"
            self.ask("condor_hold", "-constraint", chosen)
            if self.over.is_set():
                return

    def release(self) -> None:
        while not self.over.is_set():
            self.ask("condor_release", "-constraint", "HoldReasonCode == 1")

    def remove(self) -> None:
        while not self.over.is_set():
            for cluster in self.clusters[:]:
                self.ask("condor_rm", "-constraint", f"ClusterId == {cluster} && ProcId % 11 == 3")
                chosen = f"ClusterId == {cluster} && ProcId % 40 == 0"
                if cluster not in self.removed and self.ask("condor_rm", "-constraint", chosen) is not None:
                    self.removed.add(cluster)

    def edit(self) -> None:
        value = 0
        while not self.over.is_set():
            for cluster in self.clusters[:]:
                value += 1
                chosen = f"ClusterId == {cluster} && ProcId % 40 == 20"
                if self.ask("condor_qedit", "-constraint", chosen, "StormEdit", str(value)) is not None:
                    self.edited[cluster] = value

    def run(self, *work: Callable[[], None]) -> list[threading.Thread]:
        def guarded(one: Callable[[], None]) -> None:
            try:
                one()
            except BaseException as error:
                self.failures.append(error)

        threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        return threads


def held(proc: int) -> bool:
    """Whether a job is submitted on hold: half of these are edited and released, the others removed."""
    return proc % 20 == 0


def _home(pool: RealPool) -> Path:
    home = Path(tempfile.mkdtemp(prefix="storm-", dir=pool.directory))
    (home / "job.sh").write_text(PROGRAM.format(starts=home / "starts"))
    (home / "job.sh").chmod(0o755)
    home.chmod(0o755)
    if identity := as_account(pool.user):
        shutil.chown(home, identity["user"], identity["group"])
    return home


@pytest.fixture(scope="module")
def storm() -> Iterator[Storm]:
    """A storm that is over: all jobs have left the queue."""
    with real_pool(user="www-data", **KNOBS) as pool:
        storm = Storm(pool, _home(pool))
        chance = random.Random(7)
        submits = storm.run(storm.submit)
        others = storm.run(storm.hold, storm.release, storm.remove, storm.edit)
        try:
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.5, 4))  # the moment of the next kill: any is right
                pool.restart_of("schedd")
        finally:
            for thread in submits:
                thread.join()
            storm.over.set()
            for thread in others:
                thread.join()
        assert not storm.failures
        pool.until(lambda: storm.ask("condor_release", "-all") is not None or not _left(pool), "the last release")
        pool.until(lambda: not _left(pool), "the end of all jobs", deadline_s=END_S)
        yield storm


def _left(pool: RealPool) -> list[ClassAd]:
    return patiently(pool, pool.jobs)


@pytest.fixture(scope="module")
def history(storm: Storm) -> dict[str, ClassAd]:
    """The ads of all jobs: each is there once."""
    ads = patiently(storm.pool, storm.pool.history)
    found = {f"{ad['ClusterId']}.{ad['ProcId']}": ad for ad in ads}
    assert len(found) == len(ads)
    return found


@pytest.fixture(scope="module")
def events(storm: Storm) -> dict[str, list[int]]:
    """What the log says of each job, as HTCondor's own reader reads it."""
    return read_log(storm.home / "log")


def read_log(path: Path) -> dict[str, list[int]]:
    """The numbers of each job's events."""
    found: dict[str, list[int]] = defaultdict(list)
    for event in htcondor2.JobEventLog(str(path)).events(0):
        found[f"{event.cluster}.{event.proc}"].append(int(event.type))
    return found


@pytest.fixture(scope="module")
def starts(storm: Storm) -> Counter[str]:
    """How often each job's program began, by its own word."""
    lines = (storm.home / "starts").read_text().splitlines()
    return Counter(line.removeprefix("begin ") for line in lines if line.startswith("begin "))


pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_p1_what_was_answered_is_there_and_nothing_is_half_submitted(storm: Storm, history: dict[str, ClassAd]) -> None:
    by_cluster: Counter[int] = Counter(ad.eval_int("ClusterId", 0) for ad in history.values())
    assert set(by_cluster.values()) == {PROCS}
    assert set(storm.clusters) <= set(by_cluster)
    assert CLUSTERS <= len(by_cluster) <= storm.asked
    for cluster, value in storm.edited.items():
        kept = [ad for ad in history.values() if ad["ClusterId"] == cluster and ad.eval_int("ProcId", 0) % 40 == 20]
        assert kept
        assert all(ad.eval_int("StormEdit", 0) >= value for ad in kept)
    for cluster in storm.removed:
        gone = [ad for ad in history.values() if ad["ClusterId"] == cluster and ad.eval_int("ProcId", 0) % 40 == 0]
        assert {ad["JobStatus"] for ad in gone} == {3}


def test_p3_each_job_has_one_end_and_log_and_history_agree(
    history: dict[str, ClassAd], events: dict[str, list[int]]
) -> None:
    assert set(events) == set(history)
    for job, numbers in events.items():
        assert numbers[0] == 0, job
        assert numbers.count(0) == 1, job
        assert [number in ENDS for number in numbers].count(True) == 1, (job, numbers)
        assert ENDS[numbers[-1]] == history[job]["JobStatus"], (job, numbers)


def test_p3_the_log_of_all_jobs_says_the_same(storm: Storm, events: dict[str, list[int]]) -> None:
    path = storm.pool.directory / "log" / "EventLog"
    storm.pool.until(lambda: sum(map(len, read_log(path).values())) > sum(map(len, events.values())), "the last event")
    overall = read_log(path)
    del overall["0.0"]  # the file's heading
    assert overall == events


def test_p5_no_job_starts_again_because_its_schedd_died(
    history: dict[str, ClassAd], events: dict[str, list[int]], starts: Counter[str]
) -> None:
    for job, ad in history.items():
        sent_away = events[job].count(12)
        if ad["JobStatus"] == 4:
            assert 1 <= starts[job] <= 1 + sent_away, (job, events[job])
        else:
            assert starts[job] <= 1 + sent_away, (job, events[job])


def test_p2_a_job_that_ended_by_itself_ended_once(
    storm: Storm, history: dict[str, ClassAd], events: dict[str, list[int]]
) -> None:
    lines = (storm.home / "starts").read_text().splitlines()
    ends = Counter(line.removeprefix("end ") for line in lines if line.startswith("end "))
    for job, ad in history.items():
        if ad["JobStatus"] == 4:
            assert 1 <= ends[job] <= 1 + events[job].count(12), (job, events[job])
