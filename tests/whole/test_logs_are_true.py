"""Each line of StartLog, StarterLog and SchedLog that names a job is true: logs are read against what jobs came to.

The truth is the users' own log, and what was done to each job here. A line of a kind that this test does not know fails it.
"""

from __future__ import annotations

import os
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

SLOTS = 8
ONCE = "test -e seen.$(Cluster).$(Process) && exit 0; touch seen.$(Cluster).$(Process); sleep 1000"
KINDS: dict[str, tuple[int, str, str]] = {
    "ok": (200, "exit 0", ""),
    "failing": (90, "exit 3", ""),
    "signalled": (40, "kill -9 $$$$", ""),
    "held by policy": (40, "exit 7", "on_exit_hold = ExitCode =?= 7\n"),
    "requeued": (20, "test -e seen.$(Cluster).$(Process) && exit 0; touch seen.$(Cluster).$(Process); exit 9",
                 "on_exit_remove = ExitCode =?= 0\n"),
    "cannot run": (10, "", "executable = /etc/passwd\n"),
    "removed": (25, "sleep 1000", ""),
    "held": (25, "sleep 1000", ""),
    "vacated": (15, ONCE, ""),
    "evicted": (SLOTS, ONCE, ""),
    "lost": (12, ONCE, ""),
    "never run": (15, "exit 0", "requirements = false\n"),
}  # fmt: skip
"""How many jobs there are of each kind, the script that they run, and what else their description says."""

EVENT = re.compile(r"^(\d{3}) \((\d+)\.(\d+)\.000\) .*?^\.\.\.$", re.MULTILINE | re.DOTALL)
JOB = re.compile(r"(?<![\d.:/])(\d+\.\d+)(?![\d.:])")
STAMP = re.compile(r"^\S+ \S+ \(D_\w+\) ")
START_LOG = [
    ("started", re.compile(r"(?P<slot>slot1_\d+): started job (?P<job>\S+) pid=(?P<pid>\d+)$")),
    ("over", re.compile(r"(?P<slot>slot1_\d+): job (?P<job>\S+) is over\.$")),
    ("gone", re.compile(r"(?P<slot>slot1_\d+): the starter (?P<pid>\d+) of (?P<job>\S+) is gone\.$")),
    ("must leave", re.compile(r"(?P<slot>slot1_\d+): job (?P<job>\S+) must leave \(graceful\): (?P<why>.*)$")),
]
STARTER_LOG = [
    ("begins", re.compile(r"Activation begins job=(?P<job>\S+) activation=\w+$")),
    ("runs", re.compile(r"The job runs job=(?P<job>\S+) pid=\d+ user=\w+$")),
    ("asked", re.compile(r"The job is asked to leave job=(?P<job>\S+) signal=15$")),
    ("ended", re.compile(r'The job ended job=(?P<job>\S+) ending=(?P<ending>\w+) reason="(?P<why>.*)"$')),
]
SCHED_LOG = [("claimed", re.compile(r"Claimed (?P<slot>slot1_\d+)@\S+ claim=\S+ job=(?P<job>\S+)$"))]
NAMES_NO_JOB = re.compile(r"\*\* |is ready\. address=|The queue has|Submitted |CondorVersion")

Line = tuple[str, dict[str, str]]


@dataclass
class Run:
    """One execution of a job, as logs tell of it."""

    job: str
    slot: str
    pid: str
    end: str = ""
    orders: list[str] = field(default_factory=list)
    starter: list[Line] = field(default_factory=list)

    def words(self) -> list[str]:
        """What the starter said, without its words' details."""
        return [kind for kind, _ in self.starter]

    def ending(self) -> str:
        return self.starter[-1][1].get("ending", "") if self.starter else ""

    def why(self) -> str:
        return self.starter[-1][1].get("why", "") if self.starter else ""


def _lines(path: Path, known: list[tuple[str, re.Pattern[str]]]) -> Iterator[Line]:
    """The lines that name a job, each by its kind; one of no known kind is an error."""
    for line in path.read_text().splitlines():
        text = STAMP.sub("", line)
        for kind, pattern in known:
            if found := pattern.fullmatch(text):
                yield kind, found.groupdict()
                break
        else:
            named = JOB.findall(re.sub(r"<[^>]*>|\d+\.\d+\.\d+\S*", "", text))
            assert not named or NAMES_NO_JOB.search(text), f"{path.name}: {text}"


class Told:
    """What the daemons' logs tell of all jobs."""

    def __init__(self, log: Path) -> None:
        self.runs: dict[str, list[Run]] = defaultdict(list)
        starters = {path.suffix[1:]: list(_lines(path, STARTER_LOG)) for path in log.glob("StarterLog.slot1_*")}
        self._read_start_log(log / "StartLog", starters)
        assert not any(starters.values()), f"starters speak of runs that the startd does not know: {starters}"
        self.claimed = [(found["slot"], found["job"]) for _, found in _lines(log / "SchedLog", SCHED_LOG)]
        text = (log / "SchedLog").read_text()
        self.slots_told_of = {
            word: len(re.findall(rf"slot1_\d+@\S+: {word}: ", text)) for word in ("vacating", "starter_gone")
        }

    def _read_start_log(self, path: Path, starters: dict[str, list[Line]]) -> None:
        running: dict[str, Run] = {}
        for kind, found in _lines(path, START_LOG):
            slot, job = found["slot"], found["job"]
            if kind == "started":
                assert slot not in running, f"{slot}: {job} was started beside {running[slot].job}"
                running[slot] = Run(job, slot, found["pid"], starter=_activation(starters[slot], job))
                self.runs[job].append(running[slot])
                continue
            there = running[slot].job if slot in running else "nothing"
            assert there == job, f"{slot}: {kind} is said of {job}, but {there} is there"
            if kind == "must leave":
                running[slot].orders.append(found["why"])
            else:
                assert kind == "over" or found["pid"] == running[slot].pid
                running.pop(slot).end = kind
        assert running == {}, "jobs that began and did not end"


def _activation(said: list[Line], job: str) -> list[Line]:
    """What a slot's starter said of its next job; it is taken off."""
    first = [(kind, found["job"]) for kind, found in said[:1]]
    assert first == [("begins", job)], f"{job} was started, its starter says {first}"
    count = next((number for number, (kind, _) in enumerate(said) if number and kind == "begins"), len(said))
    taken = said[:count]
    del said[:count]
    assert {found["job"] for _, found in taken} == {job}
    return taken


def _user_log(path: Path) -> dict[str, list[tuple[str, str]]]:
    """Each job's events, by number and text."""
    events: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for found in EVENT.finditer(path.read_text()):
        events[f"{int(found[2])}.{int(found[3])}"].append((found[1], found[0]))
    return events


class Mixed:
    """The jobs, what is done to them, and what they came to."""

    def __init__(self, pool: RealPool) -> None:
        self.pool, self.home, self.clusters = pool, pool.place("mixed"), dict[int, str]()

    def submit(self, kind: str) -> int:
        count, script, more = KINDS[kind]
        words = "" if kind == "cannot run" else f"executable = /bin/sh\narguments = \"-c '{script}'\"\n"
        description = f"{words}should_transfer_files = NO\nlog = log\n{more}queue {count}\n"
        cluster = self.pool.submit(description, cwd=self.home)
        self.clusters[cluster] = kind
        return cluster

    def evict_all_of_the_machine(self) -> None:
        """condor_vacate, when each slot runs a job; they begin again elsewhere."""
        cluster = self.submit("evicted")
        self._until_begun(cluster, SLOTS)
        self.pool.tool("condor_vacate", "-graceful")
        self.pool.until(lambda: not self.pool.jobs(str(cluster)), "the second run of what was evicted")

    def _until_begun(self, cluster: int, count: int) -> None:
        self.pool.until(lambda: len(list(self.home.glob(f"seen.{cluster}.*"))) >= count, "jobs to begin")

    def act(self) -> None:
        """Whatever has begun and waits for it is removed, held, vacated or bereft of its starter."""
        done: set[str] = set()
        tools = {"removed": "condor_rm", "held": "condor_hold", "vacated": "condor_vacate_job"}
        deadline_s = 400

        def over() -> bool:
            for job, kind in self._running():
                if job in done or (kind in ("vacated", "lost") and not (self.home / f"seen.{job}").exists()):
                    continue
                if kind == "lost":
                    os.kill(self._starter_of(job), signal.SIGKILL)
                elif kind in tools:
                    self.pool.tool(tools[kind], job)
                done.add(job)
            return not [ad for ad in self.pool.jobs() if ad.eval_int("JobStatus") in (1, 2)]

        self.pool.until(over, "the end of all jobs", deadline_s=deadline_s)

    def _running(self) -> list[tuple[str, str]]:
        # Those whose program runs: a start is counted when the starter has told of it, and a job is running before that.
        ads = [ad for ad in self.pool.jobs() if ad.eval_int("JobStatus") == 2 and ad.eval_int("NumJobStarts")]
        ids = [(ad.eval_int("ClusterId", 0), ad.eval_int("ProcId", 0)) for ad in ads]
        return [(f"{cluster}.{proc}", self.clusters[cluster]) for cluster, proc in ids]

    def _starter_of(self, job: str) -> int:
        text = (self.pool.directory / "log" / "StartLog").read_text()
        return int(re.findall(rf"started job {re.escape(job)} pid=(\d+)", text)[-1])


def _check(kind: str, events: list[tuple[str, str]], runs: list[Run]) -> None:
    """The daemons tell of one job what its user was told."""
    numbers = [number for number, _ in events if number in ("001", "004", "005", "007", "009", "012")]
    begun = [re.search(r"SlotName: (\S+)@", text) for number, text in events if number == "001"]
    assert [run.slot for run in runs if "runs" in run.words()] == [found[1] for found in begun if found], kind
    in_peace, called = ["begins", "runs", "ended"], ["begins", "runs", "asked", "ended"]
    exited = ("over", "exited", in_peace)
    by_kind = {
        "ok": (["001", "005"], [exited]),
        "failing": (["001", "005"], [exited]),
        "signalled": (["001", "005"], [exited]),
        "held by policy": (["001", "012"], [exited]),
        "requeued": (["001", "004", "001", "005"], [exited, exited]),
        "cannot run": (["004", "012"], [("over", "hold", ["begins", "ended"])]),
        "removed": (["001", "004", "009"], [("over", "evicted", called)]),
        "held": (["001", "004", "012"], [("over", "evicted", called)]),
        "vacated": (["001", "004", "001", "005"], [("over", "evicted", called), exited]),
        "evicted": (["001", "004", "001", "005"], [("over", "evicted", called), exited]),
        "lost": (["001", "007", "001", "005"], [("gone", "", ["begins", "runs"]), exited]),
        "never run": (["009"], []),
    }
    expected, ends = by_kind[kind]
    assert numbers == expected, kind
    assert [(run.end, run.ending(), run.words()) for run in runs] == ends, kind
    reasons = {"removed": "via condor_rm (by user nobody)", "held": "via condor_hold (by user nobody)",
               "vacated": "via condor_vacate_job (by user nobody)"}  # fmt: skip
    if kind in reasons:
        assert runs[0].why().startswith(reasons[kind])
    orders = [why for run in runs for why in run.orders]
    assert len(orders) == (kind == "evicted"), f"{kind}: {orders}"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_line_that_names_a_job_is_true() -> None:
    with real_pool(NUM_CPUS=SLOTS, MEMORY=32000, ALLOW_ADMINISTRATOR="*") as pool:
        mixed = Mixed(pool)
        mixed.evict_all_of_the_machine()
        for kind in KINDS:
            if kind != "evicted":
                mixed.submit(kind)
        mixed.pool.tool("condor_rm", *[str(number) for number, kind in mixed.clusters.items() if kind == "never run"])
        mixed.act()
        pool.tool("condor_rm", "-all")
        pool.until(lambda: not pool.jobs(), "an empty queue")
        pool.stop()
        told, events = Told(pool.directory / "log"), _user_log(mixed.home / "log")
        pool.start()
    assert told.slots_told_of == {"vacating": SLOTS, "starter_gone": KINDS["lost"][0]}
    ran = {(run.slot, job) for job, runs in told.runs.items() for run in runs}
    assert set(told.claimed) <= ran, "slots that were claimed for jobs that they did not run"
    seen: Counter[str] = Counter()
    for job, of_job in events.items():
        kind = mixed.clusters[int(job.partition(".")[0])]
        own = [
            event for event in of_job if not (kind in ("held", "held by policy", "cannot run") and event[0] == "009")
        ]
        _check(kind, own, told.runs.pop(job, []))
        seen[kind] += 1
    assert seen == {kind: count for kind, (count, _, _) in KINDS.items()}
    assert told.runs == {}, "runs of jobs that no user knows"
