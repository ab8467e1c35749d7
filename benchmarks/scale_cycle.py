"""A negotiation cycle of a synthetic pool: snapshot, columns and matching as in the negotiator, in this process.

Slots are free and of a hundred sizes; what waits is the same for any number of them: submitters with autoclusters that
ask for other amounts. A cycle that comes to nothing new follows, in which nobody's slots have changed. Another one has
the same cores in partitionable slots, of which each match takes a piece.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from time import process_time
from typing import Final

from benchmarks.collector import like
from benchmarks.measure import Figure
from pool.ads.kept import KeptAd
from pool.ads.seen import AdChange, SeenAds
from pool.classad import ClassAd, expr
from pool.matching import JobRequest, Offers, RankOrder, Snapshot, Standing, negotiate
from pool.matching.candidates import Slots, Working, evaluate_each
from pool.matching.columnar import ColumnEvaluator
from pool.matching.offers import claim_ids_of
from pool.matching.preempt import Asker
from pool.matching.snapshot import CycleSettings
from pool.matching.submitters import Submitters
from protocol.messages.collector import AdDelta

SUBMITTERS: Final = 200
EACH: Final = 5
JOBS: Final = 1000
FEW: Final = 200
ASKERS: Final = 100
CORES: Final = 16
"""Of a partitionable slot."""
COUNTED: Final = 5000
"""Slots whose memory is counted, object by object."""


def requests() -> list[JobRequest]:
    """What waits: a million jobs of a thousand kinds."""
    found = []
    for submitter in range(SUBMITTERS):
        for kind in range(EACH):
            number = submitter * EACH + kind
            job = ClassAd(
                {
                    "MyType": "Job", "User": f"user{submitter}@pool.test", "Owner": f"user{submitter}",
                    "RequestCpus": 1, "RequestMemory": 100 + number, "RequestDisk": 1000 + number, "JobUniverse": 5,
                    "Requirements": expr(
                        'TARGET.Arch == "X86_64" && TARGET.OpSys == "LINUX" && TARGET.Disk >= RequestDisk'
                        " && TARGET.Memory >= RequestMemory && TARGET.HasFileTransfer"
                    ),
                    "Rank": 0.0,
                }
            )  # fmt: skip
            found.append(JobRequest("schedd", f"user{submitter}@pool.test", number, job, JOBS))
    return found


def offers(model: ClassAd, slots: int) -> Offers:
    """Free slots that the negotiator has heard of."""
    found = Offers()
    for number in range(slots):
        found.put(KeptAd(static(model, number)).view(), secret(number))
    return found


def secret(number: int) -> ClassAd:
    """The private half of a slot's ad."""
    return ClassAd({"ClaimId": f"<10.0.0.1:9618>#1#{number}#secret"})


def memory(model: ClassAd, slots: int) -> Figure:
    """What a slot takes in the negotiator: as it was told, and as it is offered."""
    seen, found = SeenAds(), Offers()
    tracemalloc.start()
    for number in range(slots):
        ad = static(model, number)
        told = AdDelta(change=AdChange.UPDATE, ad_type="Machine", name=ad.eval_str("Name", ""), ad=ad)
        for news in seen.take(told):
            found.put_with(news.kept.view(), claim_ids_of(secret(number)))
    found.current()
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Figure(f"memory of the negotiator, {slots} slots", taken / slots, "B", "counted, for each slot", "<= 4096")


def static(model: ClassAd, number: int) -> ClassAd:
    """A slot that one job fills."""
    ad = like(model, number)
    ad.update(
        {"PartitionableSlot": False, "SlotType": "Static", "State": "Unclaimed", "Activity": "Idle", "Start": True}
    )
    ad.update({"Cpus": 1, "Memory": 1000 + 32 * (number % 100), "Disk": 1_000_000 + number % 100, "IsOwner": False})
    return ad


def machines(model: ClassAd, cores: int) -> Offers:
    """Idle machines with so many cores together, a partitionable slot each."""
    found = Offers()
    for number in range(cores // CORES):
        ids = [f"<10.0.0.1:9618>#1#{number}.{core}#secret" for core in range(CORES)]
        found.put(KeptAd(partitionable(model, number)).view(), ClassAd({"ClaimIds": ids}))
    return found


def partitionable(model: ClassAd, number: int) -> ClassAd:
    """A machine's slot, which has room for a job on each core."""
    ad = static(model, number)
    ad.update({"PartitionableSlot": True, "SlotType": "Partitionable", "Cpus": CORES, "TotalSlotCpus": CORES})
    ad.update({"Memory": CORES * (1100 + 32 * (number % 100)), "Disk": 10_000_000 + number % 100})
    return ad


def cycle(model: ClassAd, slots: int) -> Iterator[Figure]:
    """What one cycle takes, and the next one, where nothing has changed."""
    yield memory(model, min(slots, COUNTED))
    known, waiting, evaluate = offers(model, slots), requests(), ColumnEvaluator()
    standings = {one.submitter: Standing() for one in waiting}
    for name, aim in (("cycle, all suit", "< 10"), ("cycle with the columns of the one before", "")):
        began = process_time()
        snapshot = Snapshot(known.current(), waiting, standings, CycleSettings(), 0.0, (), known.weight())
        taken = process_time() - began
        plan = negotiate(snapshot, evaluate)
        took = process_time() - began
        how = f"{len(waiting)} autoclusters, {sum(one.count for one in waiting)} jobs, {len(plan.matches)} matches"
        yield Figure(f"{name}, {slots} slots", took, "s of CPU", f"{how}, its snapshot {taken:.3f} s", aim)
    held = Snapshot([], waiting, standings, CycleSettings(), 0.0, (), known.weight())
    began = process_time()
    negotiate(held, evaluate)
    yield Figure(
        f"cycle, all in use, {slots} slots", process_time() - began, "s of CPU", f"{len(waiting)} autoclusters"
    )
    yield from pairs(snapshot, evaluate)
    yield _carving(machines(model, slots), waiting, standings, slots)


def _carving(known: Offers, waiting: list[JobRequest], standings: dict[str, Standing], cores: int) -> Figure:
    began = process_time()
    current = known.current()
    plan = negotiate(Snapshot(current, waiting, standings, CycleSettings(), 0.0, (), known.weight()), ColumnEvaluator())
    took = process_time() - began
    how = f"{len(waiting)} autoclusters, {len(current)} partitionable slots, {len(plan.matches)} matches"
    return Figure(f"cycle, partitionable, {cores} cores", took, "s of CPU", how)


def pairs(snapshot: Snapshot, evaluate: ColumnEvaluator) -> Iterator[Figure]:
    """Each autocluster against each slot, by columns and one by one."""
    slots = Slots(Working(offer, offer.ad, list(offer.claim_ids)) for offer in snapshot.slots)
    submitters, order = Submitters(snapshot), RankOrder()
    askers = [Asker(one.ad, one.submitter, submitters, 0.0) for one in snapshot.requests]
    for name, way, aim in (("by columns", evaluate, "<= 0.02"), ("one by one", evaluate_each, "")):
        few = slots if way is evaluate else slots[:FEW]
        some = askers[:ASKERS]
        way(askers[-1], few, order)
        began = process_time()
        for asker in some:
            way(asker, few, order)
        took = process_time() - began
        yield Figure(
            f"autocluster and slot {name}, {len(slots)} slots", took / len(some) / len(few) * 1e6, "us", "", aim
        )
