"""The collector of a large pool: updates a second, what an ad costs it, and questions while updates run.

Synthetic slots, whose ads are that of this pool's own slot with other names, are advertised over one connection to a
real collector. `condor_status` runs as a process, its start included. HTCondor's figures (25.14, two cores): 8,900
updates/s, 18 kB an ad, `condor_status` of 5,000 slots in 85 ms.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import psutil

from benchmarks.measure import Figure, cpu_seconds, p50, p99, tree
from benchmarks.pool_run import Bench, bench
from pool.classad import ClassAd
from protocol.messages.collector import AdChanges, AdUpdate, ChangeAds, QueryAds, UpdateAds
from protocol.rpc.blocking import BlockingPeer, connect
from protocol.security.credentials import Security

SLOTS: Final = 10_000
A_MESSAGE: Final = 100
QUERIES: Final = 100
TOOLS: Final = 7
WAIT_S: Final = 60.0


def figures() -> Iterator[Figure]:
    """The suite."""
    with bench({"NUM_CPUS": "1", "START": "False"}) as pool:
        collector = daemon(pool, "collector")
        before = collector.memory_info().rss
        with connected(pool) as peer:
            model = pool.until(lambda: a_slot_of_the_pool(peer), "the pool's own slot")
            ads = [like(model, number) for number in range(SLOTS)]
            took = timed(lambda: advertise(peer, ads, 1))
            yield Figure("new ads a second", SLOTS / took, "1/s", f"whole, {A_MESSAGE} a message", ">= 10000")
            yield Figure("bytes an ad", (collector.memory_info().rss - before) / SLOTS, "B", "resident", "<= 4096")
            took = timed(lambda: advertise(peer, ads, 2))
            yield Figure("updates a second, whole", SLOTS / took, "1/s", f"{A_MESSAGE} a message", ">= 10000")
            took = timed(lambda: _change(peer, ads, 2))
            how = f"one attribute each, {A_MESSAGE} a message"
            yield Figure("updates a second, as changes", SLOTS / took, "1/s", how, ">= 20000")
            yield from _queries(pool, "quiet")
            with _updating(pool, ads):
                yield from _queries(pool, "while updates run")
        yield from _tool(pool, collector)


def daemon(pool: Bench, name: str) -> psutil.Process:
    """The process of a daemon that the pool has once."""
    listening = str(pool.run_dir / f"{name}.sock")
    (found,) = (one for one in tree(pool.root) if listening in _sockets(one))
    return found


def _sockets(process: psutil.Process) -> set[object]:
    try:
        return {link.laddr for link in process.net_connections("unix")}
    except psutil.Error:  # it has ended meanwhile
        return set()


def connected(pool: Bench) -> BlockingPeer:
    """A connection to the pool's collector."""
    return connect(str(pool.run_dir / "collector.sock"), Security())


def a_slot_of_the_pool(peer: BlockingPeer) -> ClassAd | None:
    """The ad of a slot that the pool has, once it is there."""
    return next((ad for batch in peer.stream(QueryAds(ad_type="Machine")) for ad in batch.ads), None)


def like(model: ClassAd, number: int) -> ClassAd:
    """The ad of another slot like that one."""
    ad, machine = model.copy(), f"node{number // 8}.pool.test"
    ad["Name"], ad["Machine"], ad["SlotID"] = f"slot{number % 8 + 1}@{machine}", machine, number % 8 + 1
    ad["EnteredCurrentActivity"] = ad.eval_int("MyCurrentTime", 0) - number
    return ad


def timed(act: Callable[[], object]) -> float:
    """The seconds that it takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def advertise(peer: BlockingPeer, ads: list[ClassAd], version: int) -> None:
    """Update slots' ads, whole."""
    for at in range(0, len(ads), A_MESSAGE):
        updates = [AdUpdate(ad=ad, version=version) for ad in ads[at : at + A_MESSAGE]]
        peer.call(UpdateAds(updates=updates), timeout=WAIT_S)


def _change(peer: BlockingPeer, ads: list[ClassAd], base: int) -> None:
    for at in range(0, len(ads), A_MESSAGE):
        changes = [
            AdChanges(ad_type="Machine", name=ad.eval_str("Name", ""), base=base, version=base + 1,
                      changed=ClassAd({"CondorLoadAvg": base / 10}))
            for ad in ads[at : at + A_MESSAGE]
        ]  # fmt: skip
        kept = peer.call(ChangeAds(changes=changes), timeout=WAIT_S)
        assert not kept.whole, "the collector knows another version of the ads"


def _queries(pool: Bench, when: str) -> Iterator[Figure]:
    """How long a question takes whose answer is one ad."""
    asked = QueryAds(ad_type="Scheduler", projection=["Name"])
    with connected(pool) as peer:
        times = [timed(lambda: [*peer.stream(asked)]) * 1e3 for _ in range(QUERIES)]
    yield Figure(f"query of the schedds, p50, {when}", p50(times), "ms", f"{QUERIES} times")
    yield Figure(f"query of the schedds, p99, {when}", p99(times), "ms", f"{QUERIES} times")


@contextmanager
def _updating(pool: Bench, ads: list[ClassAd]) -> Iterator[None]:
    """Slots that report in one after another, as quickly as they are taken, for the time of the block."""
    over = threading.Event()

    def report() -> None:
        with connected(pool) as peer:
            while not over.is_set():
                advertise(peer, ads[:1000], 9)

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _tool(pool: Bench, collector: psutil.Process) -> Iterator[Figure]:
    """condor_status of all slots, its start included; the best of several, as other work only makes it slower."""
    for options in ((), ("-totals",), ("-compact",)):
        before = cpu_seconds(collector.pid)
        ask = partial(pool.tool, "condor_status", *options, cwd=pool.home)
        times = [timed(ask) * 1e3 for _ in range(TOOLS)]
        spent = (cpu_seconds(collector.pid) - before) / TOOLS * 1e3
        name = " ".join(("condor_status", *options))
        aim = "" if options else "<= 150"
        yield Figure(f"{name} of {SLOTS}, best", min(times), "ms", f"of {TOOLS} runs", aim)
        yield Figure(f"{name} of {SLOTS}, p50", p50(times), "ms", f"of {TOOLS} runs")
        yield Figure(f"collector's CPU for a {name}", spent, "ms", f"mean of {TOOLS} runs")
