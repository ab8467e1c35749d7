"""The centre of pools of a thousand, ten thousand and a hundred thousand slots: what each slot costs it.

Synthetic slots report to a real collector, and a process of its own updates them while questions are asked. What is
said of an update is the collector's processor time, which depends less than a rate on what else the machine does. A
thousand startds report in, each over its own connection. The negotiation cycle is measured in this process
(`scale_cycle`). SCALE_SIZES has other sizes: `SCALE_SIZES=1000,2000`.

HTCondor's figures (25.14, two cores): 8,900 updates/s at 45 us, 18 kB an ad, 6 to 9 us for an autocluster and a slot,
`condor_status` of 5,000 slots in 85 ms.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

import psutil

from benchmarks.collector import a_slot_of_the_pool, connected, daemon, like, timed
from benchmarks.measure import Figure, p50, p99
from benchmarks.pool_run import Bench, bench
from benchmarks.scale_cycle import cycle
from pool.ads.kept import KeptAd
from pool.classad import ClassAd
from protocol.messages.collector import AdChanges, AdUpdate, ChangeAds, QueryAds, UpdateAlike
from protocol.rpc.blocking import BlockingPeer
from protocol.wire.ad_rows import pack_rows

SIZES: Final = tuple(int(size) for size in os.environ.get("SCALE_SIZES", "1000,10000,100000").split(","))
STARTDS: Final = 1000
A_MESSAGE: Final = 100
QUESTIONS: Final = 1000
TOOLS: Final = 5
WAIT_S: Final = 120.0
KNOBS: Final = {"NUM_CPUS": "1", "START": "False", "DAEMON_LIST": "MASTER COLLECTOR STARTD"}


def figures() -> Iterator[Figure]:
    """The suite."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each startd has a connection
    for size in SIZES:
        with bench(KNOBS) as pool:
            collector = daemon(pool, "collector")
            with connected(pool) as peer:
                model = pool.until(lambda: a_slot_of_the_pool(peer), "the pool's own slot")
                yield from _reports(peer, model, collector, size)
                yield from _questions(pool, model, size)
            yield from _tool(pool, collector, size)
            if size == SIZES[0] and most > 2 * STARTDS:
                yield from _startds(pool, model, collector)
        yield from cycle(model, size)


def _reports(peer: BlockingPeer, model: ClassAd, collector: psutil.Process, size: int) -> Iterator[Figure]:
    """All slots are new, then report whole, then what is different."""
    memory = collector.memory_info().rss
    whole = partial(_whole, peer, model, size)
    yield from _updates(collector, size, "new ad", partial(whole, 1))
    yield Figure(
        f"memory an ad, {size} slots", (collector.memory_info().rss - memory) / size, "B", "resident", "<= 4096"
    )
    yield from _updates(collector, size, "whole update", partial(whole, 2), "<= 100")
    yield from _updates(collector, size, "change", partial(_changes, peer, model, size, 2), "<= 50")


def _updates(
    collector: psutil.Process, size: int, name: str, act: Callable[[], None], aim: str = ""
) -> Iterator[Figure]:
    before = _cpu(collector)
    took = timed(act)
    spent, how = _cpu(collector) - before, f"{A_MESSAGE} a message"
    yield Figure(f"{name}, {size} slots", spent / size * 1e6, "us of CPU", how, aim)
    yield Figure(f"{name}s in a second, {size} slots", size / took, "1/s", f"{how}, the sender's work included")


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _whole(peer: BlockingPeer, model: ClassAd, size: int, version: int) -> None:
    for at in range(0, size, A_MESSAGE):
        updates = [_update(model, number, version) for number in range(at, at + A_MESSAGE)]
        peer.call(_as_rows(updates), timeout=WAIT_S)


def _as_rows(updates: list[AdUpdate]) -> UpdateAlike:
    privates = [KeptAd(one.private) for one in updates if one.private is not None]
    table, private = pack_rows([KeptAd(one.ad) for one in updates]), pack_rows(privates)
    return UpdateAlike(table=table, private=private, versions=[one.version for one in updates])


def _update(model: ClassAd, number: int, version: int) -> AdUpdate:
    ad = like(model, number)
    ad.update({"MyCurrentTime": version, "LoadAvg": number / version, "CondorLoadAvg": version / 7})
    return AdUpdate(ad=ad, private=ClassAd({"ClaimId": f"<10.0.0.1:9618>#1#{number}#secret"}), version=version)


def _changes(peer: BlockingPeer, model: ClassAd, size: int, base: int) -> None:
    for at in range(0, size, A_MESSAGE):
        changes = [_change(like(model, number).eval_str("Name", ""), base) for number in range(at, at + A_MESSAGE)]
        kept = peer.call(ChangeAds(changes=changes), timeout=WAIT_S)
        assert not kept.whole, "the collector knows another version of the ads"


def _change(name: str, base: int) -> AdChanges:
    changed = ClassAd({"CondorLoadAvg": base / 10, "MyCurrentTime": base})
    return AdChanges(ad_type="Machine", name=name, base=base, version=base + 1, changed=changed)


# ---- questions


def _questions(pool: Bench, model: ClassAd, size: int) -> Iterator[Figure]:
    """How long a question takes whose answer is one ad, while others report as fast as they are heard."""
    asked = QueryAds(ad_type="Scheduler", projection=["Name"])
    with _reporting(pool, model), connected(pool) as peer:
        times = [timed(lambda: [*peer.stream(asked)]) * 1e3 for _ in range(QUESTIONS)]
    for name, value in (("p50", p50(times)), ("p99", p99(times))):
        yield Figure(f"question while slots report {name}, {size} slots", value, "ms", f"{QUESTIONS} times")


@contextmanager
def _reporting(pool: Bench, model: ClassAd) -> Iterator[None]:
    """A process that updates slots, for the time of the block."""
    child = os.fork()
    if child == 0:
        try:
            with connected(pool) as peer:
                for version in range(10, 1 << 30):
                    _whole(peer, model, 1000, version)
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _tool(pool: Bench, collector: psutil.Process, size: int) -> Iterator[Figure]:
    """The best of several runs, as other work only makes it slower."""
    for options in ((), ("-totals",)):
        times, spent = [], []
        for _ in range(TOOLS):
            before = _cpu(collector) + _cpu_of_children()
            times.append(timed(partial(pool.tool, "condor_status", *options, cwd=pool.home)))
            spent.append(_cpu(collector) + _cpu_of_children() - before)
        name, aim = " ".join(("condor_status", *options)), "" if options or size > 10_000 else "<= 0.15"
        how = f"best of {TOOLS}, the tool's start included"
        yield Figure(f"{name}, {size} slots", min(times), "s", how, aim)
        yield Figure(f"{name}, {size} slots, CPU", min(spent), "s of CPU", f"{how}, and the collector's", aim)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---- startds


def _startds(pool: Bench, model: ClassAd, collector: psutil.Process) -> Iterator[Figure]:
    """Each over its own connection: one message for each ad."""
    with ExitStack() as stack:
        memory, before, began = collector.memory_info().rss, _cpu(collector), time.perf_counter()
        peers = [stack.enter_context(connected(pool)) for _ in range(STARTDS)]
        took, spent = time.perf_counter() - began, _cpu(collector) - before
        yield Figure(f"{STARTDS} startds connect", took, "s", f"{spent / STARTDS * 1e3:.2f} ms of the collector each")
        grown = (collector.memory_info().rss - memory) / STARTDS
        yield Figure("memory of a startd's connection", grown, "B", f"resident, of {STARTDS}")
        before = _cpu(collector)
        for number, peer in enumerate(peers):
            peer.call(_as_rows([_update(model, number, 3)]), timeout=WAIT_S)
        yield Figure("report of one startd", (_cpu(collector) - before) / STARTDS * 1e6, "us of CPU", "whole, one ad")
        before = _cpu(collector)
        for number, peer in enumerate(peers):
            name = like(model, number).eval_str("Name", "")
            peer.call(ChangeAds(changes=[_change(name, 3)]), timeout=WAIT_S)
        yield Figure("change of one startd", (_cpu(collector) - before) / STARTDS * 1e6, "us of CPU", "one message")
