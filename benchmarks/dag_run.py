"""Graphs that run: how soon a node follows its parent, and what nodes cost condor_dagman and the schedd.

What is measured is in `dag_probe.py`. With HTCONDOR_SH in the environment (the words of a command that runs another
command in a pool of HTCondor's, as an ordinary account and in its home directory) the same is measured there, by turns,
and the ratios are told as well. That pool needs `DAGMAN_MAX_JOBS_IDLE = 0`, or not all nodes are queued that are to be.
DAG_CHAIN, DAG_LOADED, DAG_NOOP, DAG_QUICK and DAG_QUEUED are the numbers of nodes, for small or busy machines.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.measure import Figure, p50, p99
from benchmarks.pool_run import SLOTS, USER, Bench, bench
from tests.whole.real_pool import as_account

PEER: Final = "HTCONDOR_SH"
PROBE: Final = Path(__file__).with_name("dag_probe.py")


def _nodes(name: str, default: int) -> int:
    return int(os.environ.get(name, default))


CHAIN: Final = _nodes("DAG_CHAIN", 100)
LOADED: Final = _nodes("DAG_LOADED", 100_000)
NOOP: Final = _nodes("DAG_NOOP", 100_000)
QUICK: Final = _nodes("DAG_QUICK", 2_000)
QUEUED: Final = _nodes("DAG_QUEUED", 10_000)


class Shown(NamedTuple):
    """A figure of what a probe found: where it is, by what it is multiplied, and what is aimed at."""

    name: str
    key: str
    unit: str
    times: float = 1.0
    aim: str = ""


class Probe(NamedTuple):
    """Something that is measured: the probe's name for it, its number of nodes, how, and what of it is shown."""

    what: str
    nodes: int
    how: str
    shown: tuple[Shown, ...]


PROBES: Final = (
    Probe(
        "chain",
        CHAIN,
        f"{CHAIN} nodes in a chain; from what a node's job does to what its child's job does",
        (
            Shown("start after the parent's end, p50", "gap50", "ms", 1e3),
            Shown("the same, p99", "gap99", "ms", 1e3, "< 50"),
        ),
    ),
    Probe(
        "diamond",
        4,
        "four nodes, one retry; exec of condor_submit_dag to the end in DAGMan's log",
        (Shown("a diamond", "wall", "s", aim="< 1"),),
    ),
    Probe(
        "load",
        LOADED,
        f"a process of condor_dagman that loads {LOADED} nodes and ends",
        (
            Shown("loading", "wall", "s"),
            Shown("loading, CPU", "cpu", "s", aim="< 3"),
            Shown("loading, peak memory", "peak", "MB", aim="< 200"),
        ),
    ),
    Probe(
        "noop",
        NOOP,
        f"{NOOP} nodes without jobs, each with one that it waits for",
        (
            Shown("a node without a job, CPU of condor_dagman", "cpu", "us", 1e6 / NOOP),
            Shown("the same, CPU of the schedd", "schedd_cpu", "us", 1e6 / NOOP),
            Shown("nodes without jobs, peak memory", "peak", "MB"),
        ),
    ),
    Probe(
        "status",
        NOOP,
        "the same with a node status file each second",
        (Shown("a node with a status file, CPU of condor_dagman", "cpu", "us", 1e6 / NOOP),),
    ),
    Probe(
        "recovery",
        NOOP,
        f"condor_dagman is killed when {NOOP} nodes are done; a new process until it knows that",
        (Shown("recovery of a node, CPU", "cpu", "us", 1e6 / NOOP), Shown("recovery, peak memory", "peak", "MB")),
    ),
    Probe(
        "recovery_of_jobs",
        QUICK,
        f"the same, of {QUICK} nodes with jobs",
        (Shown("recovery of a node with a job, CPU", "cpu", "us", 1e6 / QUICK),),
    ),
    Probe(
        "quick",
        QUICK,
        f"{QUICK} x /bin/true in 50 chains on {SLOTS} slots",
        (
            Shown("nodes through", "rate", "nodes/s"),
            Shown("a node with a job, CPU of condor_dagman", "cpu", "ms", 1e3 / QUICK),
            Shown("the same, CPU of the schedd", "schedd_cpu", "ms", 1e3 / QUICK),
        ),
    ),
    Probe(
        "queued",
        QUEUED,
        f"{QUEUED} nodes, whose jobs are all queued and held",
        (
            Shown("a queued node, CPU of condor_dagman", "cpu", "ms", 1e3 / QUEUED),
            Shown("the same, CPU of the schedd", "schedd_cpu", "ms", 1e3 / QUEUED),
            Shown("queued nodes, peak memory", "peak", "MB"),
            Shown("condor_q of them", "q_wall", "s"),
            Shown("condor_q -dag -nobatch of them", "q_dag_wall", "s"),
            Shown("the same, CPU of the schedd", "q_dag_schedd_cpu", "s"),
        ),
    ),
)


def figures() -> Iterator[Figure]:
    """The suite."""
    peer = shlex.split(os.environ.get(PEER, ""))
    if not peer:
        print(f"{PEER} is not set: no HTCondor is measured beside", file=sys.stderr)
    with bench({"NUM_CPUS": str(SLOTS)}) as pool:
        # Where jobs read it as well.
        with open(pool.directory / "config", "a", encoding="utf-8") as config:
            config.write("DAGMAN_MAX_JOBS_IDLE = 0\n")
        for probe in PROBES:
            here = _here(pool, probe)
            there = _there(peer, probe) if peer else {}
            for one in probe.shown:
                yield Figure(one.name, here[one.key] * one.times, one.unit, probe.how, one.aim)
                if one.key in there:
                    yield Figure(f"{one.name}, HTCondor's", there[one.key] * one.times, one.unit, probe.how)
                    if there[one.key]:
                        yield Figure(f"{one.name}, to HTCondor's", here[one.key] / there[one.key], "", probe.how)


def _here(pool: Bench, probe: Probe) -> dict[str, float]:
    env = pool.env()
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    return _found([sys.executable, "-"], probe, {"cwd": pool.home, "env": env, **as_account(USER)})


def _there(peer: list[str], probe: Probe) -> dict[str, float]:
    return _found([*peer, "python3", "-"], probe, {})


def _found(python: list[str], probe: Probe, around: Mapping[str, Any]) -> dict[str, float]:
    words = [*python, probe.what, str(probe.nodes)]
    done = subprocess.run(words, input=PROBE.read_text(), capture_output=True, text=True, check=False, **around)
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: {done.returncode}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if gaps := found.pop("gaps", None):
        found |= {"gap50": p50(gaps), "gap99": p99(gaps)}
    if found.get("wall"):
        found["rate"] = probe.nodes / found["wall"]
    return found
