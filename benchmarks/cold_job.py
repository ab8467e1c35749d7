"""What one short job on an idle pool takes: each process's CPU, and the calls, notices, synced commits and forks.

`make bench ARGS=cold_job`; `python -m benchmarks.cold_job` shows the steps of one job in their order as well, each with
its time since the submit. These figures hardly depend on what else runs on the machine, unlike a job's time. The system
calls are those that strace sees (root's, or of processes that may be traced); the CPU is measured without it.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgpack
import psutil

from benchmarks.measure import Figure, tree
from benchmarks.pool_run import SLOTS, USER, Bench, bench
from protocol.rpc.envelope import EnvelopeKind
from tests.whole.real_pool import as_account

JOBS: Final = 20
TRACED_JOBS: Final = 6
WARM_JOBS: Final = 2
QUIET_S: Final = 0.7
"""Longer than what follows a job takes: the slot's ad, the next spare starter."""
ATTACHED_S: Final = 2.0
CALLS: Final = "sendto,sendmsg,write,fdatasync,fsync,clone,clone3,fork,vfork,execve"
LONGEST_TEXT: Final = 16384
"""Longer than what is said for one job; of longer messages the first is seen."""
_LINE: Final = re.compile(r"(\d+)<([^>]*)> +(\d+\.\d+) (\w+)\((.*)")
_BYTES: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
LAST_WORD: Final = "starter.leave"
SAID: Final = {EnvelopeKind.CALL: "call", EnvelopeKind.STREAM: "call", EnvelopeKind.NOTICE: "notice"}


class Step(NamedTuple):
    """Something that a process of the pool did: a `call`, a `notice`, a `sync`, a `fork` or an `exec`, and which."""

    at: float
    process: str
    kind: str
    what: str
    pid: int


class Job(NamedTuple):
    """When one was submitted, and when its log had its end."""

    began: float
    ended: float


# ---- the user


class Submitter:
    """A process of the user's, on one open connection."""

    def __init__(self, pool: Bench) -> None:
        command = [sys.executable, "-m", "benchmarks.paired", "submit", str(pool.directory)]
        env = {**pool.env(), "PYTHONPATH": os.getcwd()}
        self._home, self._count = pool.home, 0
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=env, **as_account(USER)
        )

    def run(self) -> Job:
        """Run a job."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        began = time.time()
        self._process.stdin.write(f"api {self._home}/cold.{self._process.pid}.{self._count}.log\n")
        if not self._process.stdout.readline():
            raise SystemExit("the submitting process ended")
        return Job(began, time.time())

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@contextmanager
def submitter(pool: Bench) -> Iterator[Submitter]:
    """Somebody who submits, with a pool that has run jobs already."""
    user = Submitter(pool)
    try:
        for _ in range(WARM_JOBS):
            user.run()
            time.sleep(QUIET_S)
        yield user
    finally:
        user.close()


# ---- what it takes


def cpu_ns(pool: Bench) -> Counter[str]:
    """The CPU that the pool's processes have used so far, by their names, in ns."""
    used: Counter[str] = Counter()
    for process in tree(pool.root):
        try:
            name = process.name().removeprefix("condor_")
            for task in os.listdir(f"/proc/{process.pid}/task"):
                text = Path(f"/proc/{process.pid}/task/{task}/schedstat").read_text(encoding="ascii")
                used[name] += int(text.split()[0])
        except (OSError, psutil.Error):
            continue
    return used


@contextmanager
def traced(pool: Bench, out: Path) -> Iterator[None]:
    """Have strace write down the system calls of all of the pool's processes during the block."""
    command = ["strace", "-f", "-ttt", "-xx", "-s", str(LONGEST_TEXT), "-e", f"trace={CALLS}"]
    command += ["--decode-pids=comm", "-o", str(out)]
    for process in tree(pool.root):
        command += ["-p", str(process.pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        time.sleep(ATTACHED_S)
        try:
            yield
        finally:
            strace.terminate()


def steps(text: str) -> list[Step]:
    """The steps in what strace wrote, without what a starter says to itself: one that rehearses is its own startd."""
    found = list(_all_steps(text))
    plays = {one.pid: at for at, one in enumerate(found) if (one.process, one.what) == ("condor_starter", LAST_WORD)}
    return [one for at, one in enumerate(found) if at > plays.get(one.pid, -1)]


def _all_steps(text: str) -> Iterator[Step]:
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        pid, name, at, call, rest = int(found[1]), _unescaped(found[2]).decode(), float(found[3]), found[4], found[5]
        if call in ("fdatasync", "fsync"):
            yield Step(at, name, "sync", call, pid)
        elif call == "execve":
            yield Step(at, name, "exec", "", pid)
        elif call in ("sendto", "sendmsg", "write"):
            sent = _BYTES.search(rest)
            for kind, tag in messages(_unescaped(sent[1]) if sent else b""):
                yield Step(at, name, kind, tag, pid)
        elif "CLONE_VM" not in rest:
            yield Step(at, name, "fork", "", pid)


def _unescaped(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def messages(sent: bytes) -> Iterator[tuple[str, str]]:
    """The calls and notices in what was sent at once."""
    while len(sent) > 4:
        end = 4 + int.from_bytes(sent[:4], "big")
        unpacker = msgpack.Unpacker()
        unpacker.feed(sent[4:end])
        try:
            length = unpacker.read_array_header()
            kind = unpacker.unpack()
            if kind in SAID and length > 2:
                words = [unpacker.unpack() for _ in range(1 if kind == EnvelopeKind.NOTICE else 2)]
                yield SAID[kind], str(words[-1])
        except (ValueError, msgpack.OutOfData, msgpack.FormatError, msgpack.StackError):
            return  # something else than a message
        sent = sent[end:]


# ---- the figures


def figures() -> Iterator[Figure]:
    """The CPU by process, then the numbers of steps."""
    with bench({"NUM_CPUS": str(SLOTS)}) as pool:
        yield from _cpu(pool)
        if shutil.which("strace") is None:
            return
        of_jobs = trace(pool)
        for kind, what, aim in (("call", "calls", "12"), ("notice", "notices", ""), ("fork", "forks", "1")):
            count = statistics.median(sum(step.kind == kind for step in done) for _, done in of_jobs)
            how = f"by strace, of all of the pool's processes until it is idle again; median of {len(of_jobs)}"
            yield Figure(f"{what} of a cold job", count, "", how, aim)
        count = statistics.median(
            sum(step.kind == "sync" and step.at < job.ended for step in done) for job, done in of_jobs
        )
        how = f"by strace, of the schedd and of the file agent until the log has the end; median of {len(of_jobs)}"
        yield Figure("synced commits of a cold job", count, "", how, "3")


def _cpu(pool: Bench) -> Iterator[Figure]:
    until_end: dict[str, list[float]] = {}
    with submitter(pool) as user:
        for _ in range(JOBS):
            before = cpu_ns(pool)
            user.run()
            after = cpu_ns(pool)
            for name in after:
                until_end.setdefault(name, []).append((after[name] - before[name]) / 1e6)
            time.sleep(QUIET_S)
    how = f"CPU until the log has the end, of processes that live on; median of {JOBS}, best %.1f"
    for name, used in sorted(until_end.items()):
        yield Figure(f"a cold job, {name}", statistics.median(used), "ms", how % min(used))


def trace(pool: Bench) -> list[tuple[Job, list[Step]]]:
    """Some jobs, each with its steps and those that follow it."""
    out = pool.directory / "strace.out"
    jobs = []
    with submitter(pool) as user:
        with traced(pool, out):
            for _ in range(TRACED_JOBS + 1):
                jobs.append(user.run())
                _until_quiet(out)
    done = steps(out.read_text(encoding="ascii", errors="replace"))
    ends = [*(job.began for job in jobs[1:]), time.time()]
    # Without the first, of which strace may have missed something.
    return [
        (job, [step for step in done if job.began <= step.at < end])
        for job, end in list(zip(jobs, ends, strict=True))[1:]
    ]


def _until_quiet(out: Path) -> None:
    """Wait until strace has nothing more to say; it slows everything down."""
    size = -1
    while (grown := out.stat().st_size) != size:
        size = grown
        time.sleep(QUIET_S)


def main() -> None:
    """The steps of the quickest of some jobs."""
    with bench({"NUM_CPUS": str(SLOTS)}) as pool:
        job, done = min(trace(pool), key=lambda one: one[0].ended - one[0].began)
    for step in done:
        after = "  (after its end)" if step.at > job.ended else ""
        print(f"{(step.at - job.began) * 1e3:8.1f} ms  {step.process:15} {step.kind:7} {step.what}{after}")
    print(
        f"{(job.ended - job.began) * 1e3:8.1f} ms  the log has the end; by kind: {Counter(step.kind for step in done)}"
    )


if __name__ == "__main__":
    main()
