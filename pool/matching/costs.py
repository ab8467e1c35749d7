"""Whose fault it is when the evaluations of a match cost too much: the job's, the slot's, or nobody's alone.

Each side is tried with a stranger that says nothing unusual. So no ad has the other's owner blamed: neither a slot with
a text for which somebody's harmless pattern takes long, nor a job with one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pool.classad import ClassAd, Expr
from pool.classad.eval.budget import Overruns, TooDear
from pool.jobs.vocabulary.universes import Universe
from pool.matching.candidates import RankOrder, Working, evaluate_one
from pool.matching.preempt import Asker

PAIRS_TRIED_MAX: Final = 8
"""Pairs that cost too much without being the slot's fault, after which no more are tried."""
_A_JOB: Final = ClassAd(
    {
        "MyType": "Job",
        "Owner": "nobody",
        "User": "nobody@example.org",
        "JobUniverse": Universe.VANILLA,
        "JobPrio": 0,
        "RequestCpus": 1,
        "RequestMemory": 1,
        "RequestDisk": 1,
        "Requirements": True,
        "Rank": 0.0,
    }
)
_A_SLOT: Final = ClassAd(
    {
        "MyType": "Machine",
        "Name": "slot1@example.org",
        "Machine": "example.org",
        "Arch": "X86_64",
        "OpSys": "LINUX",
        "Cpus": 1_000_000,
        "Memory": 1 << 40,
        "Disk": 1 << 50,
        "HasFileTransfer": True,
        "State": "Unclaimed",
        "Requirements": True,
        "Start": True,
        "Rank": 0.0,
    }
)


def jobs_fault(job: ClassAd) -> str:
    """Which of a job's own expressions costs too much with any slot; none when it is not the job's fault."""
    return _dear(job, _A_SLOT, first=("Requirements", "Rank"))


def slots_fault(slot: ClassAd) -> str:
    """The same of a slot's expressions."""
    return _dear(slot, _A_JOB, first=("Requirements", "Start", "Rank"))


def dear_slots(asker: Asker, slots: Iterable[Working], order: RankOrder) -> dict[str, str]:
    """The startds whose slots cost too much with any job, by address, with what is wrong; as this job finds them."""
    found: dict[str, str] = {}
    tried = 0
    for slot in slots:
        if slot.version < 0 or slot.offer.address in found:
            continue
        with Overruns(most=2) as seen:
            try:
                evaluate_one(asker, slot, order)
            except TooDear:
                pass
        if not seen.count:
            continue
        if fault := slots_fault(slot.ad):
            found[slot.offer.address] = f"{slot.offer.name}: {fault}"
            continue
        tried += 1
        if tried >= PAIRS_TRIED_MAX:
            break
    return found


def _dear(ad: ClassAd, other: ClassAd, first: tuple[str, ...]) -> str:
    # Plain values cost nothing, and most of an ad is plain.
    names = [name for name, value in ad.items() if type(value) is Expr]
    for name in sorted(names, key=lambda name: name not in first):
        with Overruns(most=2) as seen:
            try:
                ad.eval(name, other)
            except TooDear:
                pass
        if seen.count:
            return f"{name} ({seen.reason})"
    return ""
