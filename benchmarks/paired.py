"""Two checkouts side by side: `python -m benchmarks.paired BASE CANDIDATE`.

A machine's speed drifts by more than a change usually costs, so that figures taken minutes apart compare nothing. Here
each checkout runs a pool of its own at the same time, in its own environment (`make venv`), and both are asked the
same question by turns; a pool that is not asked idles. What is printed is the median of each, and the median of the
ratios of neighbours. Compile both checkouts first (`python -m compileall`), or tools of an ordinary account, which
cannot keep what they have compiled, start more slowly.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.measure import cpu_seconds
from benchmarks.pool_client import seconds, submitting
from benchmarks.pool_run import USER, Bench, _until_many_ended, bench
from tests.whole.real_pool import as_account

PAUSE_S: Final = 0.15
BATCH: Final = 200
QUEUED: Final = 10_000
QUESTIONS: Final = (
    "api",
    "condor_submit",
    "condor_q",
    "jobs",
    "jobs_transfer",
    "cpu",
    "cpu_transfer",
    "submit_10000",
)
UNITS: Final = {"cpu": "ms of CPU a job", "cpu_transfer": "ms of CPU a job"}


class Answers:
    """A process that answers each line with a number."""

    def __init__(self, argv: list[str], checkout: str, account: dict[str, Any]) -> None:
        env = {"PYTHONPATH": checkout, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        self.process = subprocess.Popen(
            argv, cwd=checkout, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **account
        )

    def ask(self, question: str) -> float:
        """The answer to one line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(question + "\n")
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.process.args!r}: it ended")
        return float(answer)

    def close(self) -> None:
        """End it, and what it has started."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


class Asked:
    """One checkout's pools, and the questions to them."""

    def __init__(self, busy: Bench, shut: Bench) -> None:
        self.busy, self.shut, self.count = busy, shut, 0
        argv = [sys.executable, __file__, "submit", str(busy.directory)]
        self.user = Answers(argv, os.getcwd(), as_account(USER))

    def questions(self) -> dict[str, Callable[[], float]]:
        """Each question by its name; the answer is in milliseconds."""
        return {
            "api": self.latency_of_the_api,
            "condor_submit": self.latency_of_the_tool,
            "condor_q": self.condor_q,
            "jobs": lambda: self.batch(transfer=False)[0],
            "jobs_transfer": lambda: self.batch(transfer=True)[0],
            "cpu": lambda: self.batch(transfer=False)[1],
            "cpu_transfer": lambda: self.batch(transfer=True)[1],
            "submit_10000": self.many,
        }

    def latency_of_the_api(self) -> float:
        """A submit on an open connection to the end in the log."""
        return self.user.ask(f"api {self._log()}")

    def latency_of_the_tool(self) -> float:
        """The exec of condor_submit to the end in the log."""
        return self.user.ask(f"condor_submit {self._log()}")

    def condor_q(self) -> float:
        """The exec of condor_q to its exit."""
        began = time.perf_counter()
        self.busy.tool("condor_q")
        return (time.perf_counter() - began) * 1e3

    def batch(self, *, transfer: bool) -> tuple[float, float]:
        """Many short jobs: the time, and all CPU of the pool's processes, for each."""
        description, log = self.busy.jobs_file(self._log().stem, count=BATCH, transfer=transfer)
        cpu, began = cpu_seconds(self.busy.root), time.perf_counter()
        self.busy.submit(description)
        _until_many_ended(log, BATCH)
        took, used = time.perf_counter() - began, cpu_seconds(self.busy.root) - cpu
        return took / BATCH * 1e3, used / BATCH * 1e3

    def many(self) -> float:
        """The exec of condor_submit to its exit, for a cluster of many procs."""
        began = time.perf_counter()
        self.shut.tool("condor_submit", cwd=self.shut.home, text=f"executable = /bin/true\nqueue {QUEUED}\n")
        took = (time.perf_counter() - began) * 1e3
        self.shut.tool("condor_rm", "-all")
        return took

    def _log(self) -> Path:
        self.count += 1
        return self.busy.home / f"paired.{self.count}.log"


def serve() -> None:
    """A checkout's side: answer one question a line."""
    with bench({"NUM_CPUS": "16"}) as busy, bench({"NUM_CPUS": "1", "START": "False"}) as shut:
        asked = Asked(busy, shut)
        for line in sys.stdin:
            print(f"{asked.questions()[line.strip()]():.4f}", flush=True)
        asked.user.close()


def submit(directory: str) -> None:
    """The submitting user's side: run a job for each line, which says how, and names its log."""
    with submitting(directory) as ways:
        for line in sys.stdin:
            way, log = line.split()
            print(f"{seconds(ways[way], Path(log)) * 1e3:.4f}", flush=True)


def compare(checkouts: list[str], rounds: int, questions: list[str]) -> None:
    """Ask both by turns and print the comparison."""
    base, candidate = (Answers([f"{tree}/.venv/bin/python", __file__, "serve"], tree, {}) for tree in checkouts)
    try:
        for question in questions:
            pairs = []
            for number in range(rounds + 1):
                taken = {}
                for side in (base, candidate) if number % 2 else (candidate, base):
                    time.sleep(PAUSE_S)
                    taken[side] = side.ask(question)
                pairs.append((taken[base], taken[candidate]))
            del pairs[0]  # the first is colder than what follows
            ratio = median(after / before for before, after in pairs)
            before, after = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
            print(
                f"{question:15} {before:9.2f} {after:9.2f} {UNITS.get(question, 'ms'):16} ratio {ratio:.3f}", flush=True
            )
    finally:
        base.close()
        candidate.close()


def main() -> None:
    """The words of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paired", description=__doc__)
    parser.add_argument("checkouts", nargs=2, metavar="CHECKOUT", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    words = parser.parse_args()
    compare(words.checkouts, words.rounds, words.only)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve()
    elif sys.argv[1:2] == ["submit"]:
        submit(sys.argv[2])
    else:
        main()
