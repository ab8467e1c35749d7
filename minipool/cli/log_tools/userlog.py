"""condor_userlog: how long jobs held which hosts, and how much of that was good for something, by their event logs.

A stay begins with an execute event and ends with what ends the execution; one without an end is not counted. It was
good for something up to the job's end or its last checkpoint. Source: HTCondor's manual page condor_userlog.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from minipool.cli.entry.options import MissingValue, Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, JSON, Tool, run
from minipool.cli.log_tools.log_reader import EVICTED, EXECUTE, TERMINATED
from minipool.cli.output.show import date, duration
from pool.base.ids import named_jobs

TOOL = Tool(
    "condor_userlog",
    "Summarize event logs: each allocation of a host, then totals for hosts and jobs.",
    "[options] LOG-FILE...",
    (
        Opt("hostname", 2, says="show hosts by name"),
        HELP,
        Opt("total", 1, says="only the totals"),
        Opt("raw", 1, says="only the allocations, without a heading"),
        Opt("debug", 1, says="say which events do not fit together"),
        Opt("evict", 1, says="only allocations that ended with an eviction"),
        Opt("j", 1, 1, "CLUSTER[.PROC]", "only these jobs"),
        Opt("all", 1, says="all jobs and all allocations (the default)"),
        JSON,
    ),
)

_CHECKPOINTED = 3
_CUT_SHORT = (2, 7, 24)  # the program could not run, the shadow failed, the connection was not restored
Events = Iterable[Mapping[str, Any]]


class Allocation(NamedTuple):
    """A job's stay on a host."""

    job: tuple[int, int]
    host: str
    start: int
    end: int
    good_s: int
    cpu_s: int
    evicted: bool = False


class Sums:
    """What several allocations come to."""

    def __init__(self) -> None:
        self.count = self.kills = self.wall = self.good = self.cpu = 0

    def add(self, one: Allocation) -> None:
        """One more."""
        wall = one.end - one.start
        self.count += 1
        # As HTCondor's userlog.cpp counts: whatever was not good to its end was cut off.
        self.kills += wall != one.good_s
        self.wall, self.good, self.cpu = self.wall + wall, self.good + one.good_s, self.cpu + one.cpu_s

    def line(self, name: str) -> str:
        """A row of the totals."""
        average = self.wall // self.count if self.count else 0
        lost = (self.wall - self.good) // self.kills if self.kills else 0
        goodput = self.good / self.wall * 100 if self.wall else 0.0
        used = self.cpu / self.good * 100 if self.good else 0.0
        spans = " ".join(_span(seconds) for seconds in (self.wall, self.good, self.cpu, average, lost))
        return f"{name:<15.15} {spans} {goodput:6.1f}% {used:5.1f}%\n"


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_userlog."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from pool.jobs.userlog.requests import events_of_file

    if not parsed.words:
        raise UsageError("")
    found: list[Allocation] = []
    read = False
    for path in parsed.words:
        try:
            events = events_of_file(path)
        except OSError as error:
            sys.stderr.write(f"Can't access file: {path} (errno={error.errno})\n")
            continue
        read = True
        found += allocations(_of_job(events, parsed.value("j")), debug=parsed.has("debug"))
    if parsed.has("evict") and not parsed.has("all"):
        found = [one for one in found if one.evicted]
    shown = [one._replace(host=_host(one.host, by_name=parsed.has("hostname"))) for one in found]
    if parsed.has("json"):
        from minipool.cli.output.json_output import write_list

        write_list(map(_as_ad, shown))
        return 0
    if not parsed.has("total"):
        sys.stdout.writelines(_rows(shown, heading=not parsed.has("raw")))
    if read and not parsed.has("raw"):
        sys.stdout.writelines(_totals(shown))
    return 0


def _of_job(events: Events, wanted: str | None) -> Events:
    if wanted is None:
        return events
    named = named_jobs(wanted)
    if named is None:
        raise MissingValue(f"-j requires a job id, not {wanted!r}")
    cluster, proc = named
    return (e for e in events if e["cluster"] == cluster and proc in (None, e["proc"]))


def allocations(events: Events, *, debug: bool = False) -> Iterator[Allocation]:
    """The stays that ended; an execution whose end is not in the log is none."""
    running: dict[tuple[int, int], Mapping[str, Any]] = {}
    checkpoints: dict[tuple[int, int], Mapping[str, Any]] = {}
    for event in events:
        job, number = (event["cluster"], event["proc"]), event["type"]
        if number == EXECUTE:
            if debug and job in running:
                sys.stderr.write(f"warning: the execute event before this one has no end (job {_id(job)})\n")
            running[job] = event
        elif number == _CHECKPOINTED:
            checkpoints[job] = event
        elif number in (EVICTED, TERMINATED, *_CUT_SHORT):
            began = running.pop(job, None)
            # The log may begin in the middle of a run; of that part nothing can be said.
            if began is not None:
                yield _stay(job, began, event, checkpoints.get(job))
            elif debug:
                sys.stderr.write(f"internal error: can't find execute event for job {_id(job)}!\n")


def _stay(
    job: tuple[int, int], began: Mapping[str, Any], ended: Mapping[str, Any], checkpoint: Mapping[str, Any] | None
) -> Allocation:
    start, end = began["time"], ended["time"]
    good, cpu = 0, 0
    if ended["type"] == TERMINATED or ended["attrs"].get("Checkpointed"):
        good, cpu = end - start, _cpu_seconds(ended)
    elif checkpoint is not None and checkpoint["time"] >= start:
        good, cpu = checkpoint["time"] - start, _cpu_seconds(checkpoint)
    return Allocation(job, began["attrs"].get("ExecuteHost", ""), start, end, good, cpu, ended["type"] == EVICTED)


def _cpu_seconds(event: Mapping[str, Any]) -> int:
    """The seconds in `Usr 0 00:00:01, Sys 0 00:00:02`."""
    total = 0
    for part in str(event["attrs"].get("RunRemoteUsage", "")).split(","):
        words = part.split()
        if len(words) == 3:
            hours, minutes, seconds = (int(word) for word in words[2].split(":"))
            total += int(words[1]) * 86400 + hours * 3600 + minutes * 60 + seconds
    return total


def _host(address: str, *, by_name: bool) -> str:
    plain = address.lstrip("<").rstrip(">")
    # A sinful string is <host:port?options>, with brackets around an IPv6 address.
    ip = plain[1:].partition("]")[0] if plain.startswith("[") else plain.partition(":")[0].partition("?")[0]
    if by_name:
        import socket

        try:
            return socket.gethostbyaddr(ip)[0]
        except OSError:
            pass
    return ip


def _id(job: tuple[int, int]) -> str:
    return f"{job[0]}.{job[1]}"


def _span(seconds: int) -> str:
    # Without the seconds, as format_time_nosecs of HTCondor.
    return f"{duration(seconds)[:-3]:>9}"


def _rows(found: Iterable[Allocation], *, heading: bool) -> Iterator[str]:
    for one in found:
        if heading:
            yield "\nJob      Host            Start Time  Evict Time  Wall Time Good Time CPU Usage\n"
            heading = False
        spans = " ".join(_span(seconds) for seconds in (one.end - one.start, one.good_s, one.cpu_s))
        yield f"{_id(one.job):<8.8} {one.host:<15.15} {date(one.start):>11} {date(one.end):>11} {spans}\n"


def _as_ad(one: Allocation) -> Mapping[str, Any]:
    return {
        "ClusterId": one.job[0],
        "ProcId": one.job[1],
        "Host": one.host,
        "StartTime": one.start,
        "EndTime": one.end,
        "WallTime": one.end - one.start,
        "GoodTime": one.good_s,
        "CpuTime": one.cpu_s,
        "Evicted": one.evicted,
    }


def _totals(found: Sequence[Allocation]) -> Iterator[str]:
    hosts: dict[str, Sums] = {}
    jobs: dict[tuple[int, int], Sums] = {}
    everything = Sums()
    for one in found:
        for sums in (hosts.setdefault(one.host, Sums()), jobs.setdefault(one.job, Sums()), everything):
            sums.add(one)
    yield "\nHost/Job        Wall Time Good Time CPU Usage Avg Alloc  Avg Lost Goodput  Util.\n\n"
    yield from (sums.line(host) for host, sums in sorted(hosts.items()))
    yield "\n"
    yield from (sums.line(_id(job)) for job, sums in sorted(jobs.items()))
    yield "\n" + everything.line("Total")
