"""Graphs of jobs as their user meets them: `python3 dag_probe.py WHAT NODES` prints what one cost, as JSON.

It knows only the commands and files that condor_dagman has wherever it comes from, and imports nothing but the standard
library, so that the same file measures HTCondor inside of HTCondor's own file system.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp

POLL_S = 0.02
GIVE_UP_S = float(os.environ.get("DAG_GIVE_UP_S", "900"))
MB = 1024 / 1e6
TICKS = os.sysconf("SC_CLK_TCK")
ENDED = "\n005 ("
JOB = "universe = vanilla\nshould_transfer_files = NO\nrequest_memory = 16\nrequest_disk = 16\nrequest_cpus = 1\n"
STAMP = f"{JOB}executable = /bin/date\ntransfer_executable = false\narguments = +%s.%N\noutput = $(JOB).stamp\nqueue\n"
TRUE = f"{JOB}executable = /bin/true\ntransfer_executable = false\nqueue\n"
ONCE = "test $0 != b || test -e failed || { touch failed; exit 1; }"
RETRIED = f"{JOB}executable = /bin/sh\ntransfer_executable = false\narguments = \"-c '{ONCE}' $(JOB)\"\nqueue\n"
HELD = f"hold = true\n{TRUE}"
SLEEP = f"{JOB}executable = /bin/sleep\ntransfer_executable = false\narguments = 3600\nqueue\n"
WORDS = ("ULOG_EXECUTE", "ULOG_SUBMIT", "done with RECOVERY")
STRANDS = 50
"""How many chains of quick nodes run beside each other."""


# ---- the graphs


def chain(count: int) -> str:
    """Each node waits for the one before it."""
    nodes = [f"JOB n{n} node.sub\n" for n in range(count)]
    return "".join([*nodes, *(f"PARENT n{n} CHILD n{n + 1}\n" for n in range(count - 1))])


def diamond(_: int) -> str:
    """Four nodes, one of which fails once."""
    return "".join(f"JOB {name} node.sub\n" for name in "abcd") + "PARENT a CHILD b c\nPARENT b c CHILD d\nRETRY b 1\n"


def strands(count: int) -> str:
    """Chains beside each other."""
    nodes = [f"JOB n{n} node.sub\n" for n in range(count)]
    return "".join([*nodes, *(f"PARENT n{n} CHILD n{n + STRANDS}\n" for n in range(count - STRANDS))])


def tree(count: int) -> str:
    """Nodes that do nothing, each but the first with one that it waits for."""
    nodes = [f"JOB n{n} node.sub NOOP\n" for n in range(count)]
    return "".join([*nodes, *(f"PARENT n{n // 2} CHILD n{n + 1}\n" for n in range(count - 1))])


def beside(count: int) -> str:
    """Nodes that wait for nothing, all of which may be queued."""
    return "CONFIG all.config\n" + "".join(f"JOB n{n} node.sub\n" for n in range(count))


def stays(graph: str, leaves: range) -> str:
    """The graph, and then a node that stays."""
    return f"{graph}JOB last last.sub\nPARENT {' '.join(f'n{n}' for n in leaves)} CHILD last\n"


# ---- processes


def cpu_of(pid: int) -> float:
    """The seconds of CPU that the process has used; 0 when it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / TICKS


def peak_of(pid: int) -> float:
    """The most memory that it has had, in MB."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) * MB if found else 0.0


def schedd_of(pid: int) -> int:
    """The schedd whose job the process is; 0 where it has none."""
    while pid > 1:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return 0
        if "Name:\tcondor_schedd" in status:
            return pid
        (pid,) = map(int, re.findall(r"PPid:\s+(\d+)", status))
    return 0


class Run:
    """A graph that runs: what it has used so far, looked at again and again."""

    def __init__(self, dag: str, files: dict[str, str]) -> None:
        for name, text in {"x.dag": dag, **files}.items():
            Path(name).write_text(text)
        self.pid = self.schedd = self._place = 0
        self.said: Counter[str] = Counter()
        """How often each of WORDS stands in the log so far."""
        self.cpu = self.peak = self.schedd_cpu = self._schedd_before = 0.0
        self.began = time.time()
        said = run("condor_submit_dag", "x.dag")
        (self.cluster,) = re.findall(r"submitted to cluster (\d+)", said)

    def look(self) -> None:
        """Take the figures of the moment."""
        pid = self._read()
        if pid and pid != self.pid:
            self.pid, self.cpu = pid, 0.0
            if not self.schedd and (schedd := schedd_of(pid)):
                self.schedd, self._schedd_before = schedd, cpu_of(schedd)
        self.cpu, self.peak = max(self.cpu, cpu_of(self.pid)), max(self.peak, peak_of(self.pid))
        self.schedd_cpu = cpu_of(self.schedd) - self._schedd_before

    def _read(self) -> int:
        """What is new in DAGMan's log; the process that has begun to write there, or 0."""
        try:
            with open("x.dag.dagman.out", "rb") as file:
                file.seek(self._place)
                text = file.read()
        except OSError:
            return 0
        text = text[: text.rfind(b"\n") + 1]
        self._place += len(text)
        for word in WORDS:
            self.said[word] += text.count(word.encode())
        pids = re.findall(rb"\*\* PID = (\d+) ", text)
        return int(pids[-1]) if pids else 0

    def until(self, condition: Callable[[], bool], what: str) -> float:
        """Look on until it is so; the seconds since the submit."""
        while not condition():
            if time.time() - self.began > GIVE_UP_S:
                raise SystemExit(f"{what} did not come: {run('tail', '-n', '5', 'x.dag.dagman.out')}")
            self.look()
            time.sleep(POLL_S)
        self.look()
        return time.time() - self.began

    def until_over(self) -> float:
        """Look on until DAGMan's job has ended."""
        return self.until(lambda: ENDED in "\n" + Path("x.dag.dagman.log").read_text(), "the graph's end")


def run(*words: str) -> str:
    """What a command prints."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def run_measured(*words: str) -> dict[str, float]:
    """What a command took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": took, "cpu": cpu, "peak": after.ru_maxrss * MB}


# ---- what is measured


def measure_chain(count: int) -> dict[str, object]:
    """From what a node's job does to what its child's job does."""
    wall = Run(chain(count), {"node.sub": STAMP}).until_over()
    stamps = [float(Path(f"n{n}.stamp").read_text()) for n in range(count)]
    return {"wall": wall, "gaps": [after - before for before, after in zip(stamps, stamps[1:])]}  # noqa: B905, RUF007


def measure_diamond(_: int) -> dict[str, object]:
    """From condor_submit_dag to the end in DAGMan's log."""
    return {"wall": Run(diamond(0), {"node.sub": RETRIED}).until_over()}


def measure_load(count: int) -> dict[str, object]:
    """A process that loads the graph and ends."""
    Path("x.dag").write_text(tree(count))
    Path("node.sub").write_text(TRUE)
    os.environ["_CONDOR_DAGMAN_LOG"] = "x.dag.dagman.out"
    words = ["condor_dagman", "-p", "0", "-f", "-l", ".", "-Lockfile", "x.dag.lock", "-AutoRescue", "0", "-Dag"]
    return {**run_measured(*words, "x.dag", "-SetupOnly")}


def _through(dag: str, files: dict[str, str]) -> dict[str, object]:
    this = Run(dag, files)
    wall = this.until_over()
    return {"wall": wall, "cpu": this.cpu, "peak": this.peak, "schedd_cpu": this.schedd_cpu}


def measure_noop(count: int) -> dict[str, object]:
    """Nodes without jobs."""
    return _through(tree(count), {"node.sub": TRUE})


def measure_status(count: int) -> dict[str, object]:
    """The same, with a file that has all of them each second."""
    return _through(f"NODE_STATUS_FILE x.status 1\n{tree(count)}", {"node.sub": TRUE})


def measure_quick(count: int) -> dict[str, object]:
    """Nodes with jobs that end at once."""
    return _through(strands(count), {"node.sub": TRUE})


def measure_recovery(count: int) -> dict[str, object]:
    """Going on after the process was killed: its CPU until it has found out where the graph is."""
    return _recovered(stays(tree(count), range(count // 2, count)), 1)


def measure_recovery_of_jobs(count: int) -> dict[str, object]:
    """The same, of nodes that had jobs."""
    return _recovered(stays(strands(count), range(count - STRANDS, count)), count + 1)


def _recovered(dag: str, jobs: int) -> dict[str, object]:
    this = Run(dag, {"node.sub": TRUE, "last.sub": SLEEP})
    this.until(lambda: this.said["ULOG_EXECUTE"] >= jobs, "the last node")
    killed = this.pid
    os.kill(killed, signal.SIGKILL)
    this.until(lambda: this.pid != killed, "another condor_dagman")
    began = time.time()
    this.until(lambda: this.said["done with RECOVERY"] > 0, "the end of the recovery")
    found = {"wall": time.time() - began, "cpu": this.cpu, "peak": this.peak}
    _remove(this)
    return {**found}


def measure_queued(count: int) -> dict[str, object]:
    """Nodes whose jobs are all queued, and the questions about them."""
    this = Run(beside(count), {"node.sub": HELD, "all.config": "DAGMAN_MAX_JOBS_IDLE = 0\n"})
    wall = this.until(lambda: this.said["ULOG_SUBMIT"] >= count, "all jobs")
    found = {"wall": wall, "cpu": this.cpu, "peak": this.peak, "schedd_cpu": this.schedd_cpu}
    for name, words in (("q", ["condor_q"]), ("q_dag", ["condor_q", "-dag", "-nobatch"])):
        before = cpu_of(this.schedd)
        asked = run_measured(*words)
        found |= {f"{name}_wall": asked["wall"], f"{name}_cpu": asked["cpu"]}
        found[f"{name}_schedd_cpu"] = cpu_of(this.schedd) - before
    _remove(this)
    return {**found}


def _remove(this: Run) -> None:
    run("condor_rm", this.cluster)
    this.until(lambda: "\n009 (" in "\n" + Path("x.dag.dagman.log").read_text(), "the removal")


MEASURES = {
    "chain": measure_chain,
    "diamond": measure_diamond,
    "load": measure_load,
    "noop": measure_noop,
    "status": measure_status,
    "quick": measure_quick,
    "recovery": measure_recovery,
    "recovery_of_jobs": measure_recovery_of_jobs,
    "queued": measure_queued,
}


def main(words: Sequence[str]) -> None:
    """Measure one, in a directory of its own."""
    directory = mkdtemp(prefix="dag-", dir=".")
    os.chdir(directory)
    print(json.dumps(MEASURES[words[0]](int(words[1]))))
    os.chdir("..")
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
