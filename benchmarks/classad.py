"""How fast ClassAds are parsed, evaluated and matched, beside the real library where it is installed.

Each figure is the best of several rounds, calls per second in one process; ratios are what counts on a shared machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Figure
from pool.classad import expr, is_match, parse_ad, parse_long

if TYPE_CHECKING:
    from pool.classad.columns import Table

JOB = """[ MyType = "Job"; Owner = "alice"; RequestCpus = 1; RequestMemory = 1024; RequestDisk = 50000; JobUniverse = 5;
  Rank = TARGET.Memory;
  Requirements = (TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk) &&
    (TARGET.Memory >= RequestMemory) && (TARGET.Cpus >= RequestCpus) && (TARGET.HasFileTransfer) ]"""
MACHINE = """[ MyType = "Machine"; Arch = "X86_64"; OpSys = "LINUX"; Disk = 8000000; Memory = 16000; Cpus = 8;
  HasFileTransfer = true; START = true; IsOwner = false; Rank = 0.0; Requirements = START && (WithinResourceLimits);
  WithinResourceLimits = MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus && MY.Memory > 0 &&
    TARGET.RequestMemory <= MY.Memory && MY.Disk > 0 && TARGET.RequestDisk <= MY.Disk ]"""


def rate(action: Callable[[], object], calls: int, rounds: int = 5) -> float:
    """Calls per second, the best of some rounds."""
    for _ in range(20):
        action()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            action()
        best = min(best, time.perf_counter() - start)
    return calls / best


def _parse_rate(parse: Callable[[str], object], count: int = 300, rounds: int = 4) -> float:
    """Ads per second; every round has ads of its own, as a collector gets them."""
    best = float("inf")
    for seed in range(rounds):
        texts = machine_ads(count, seed=seed)
        start = time.perf_counter()
        for text in texts:
            parse(text)
        best = min(best, time.perf_counter() - start)
    return count / best


def machine_ads(count: int, attributes: int = 160, seed: int = 1) -> list[str]:
    """Long-form machine ads: most lines are shared by all, a third differ from ad to ad, some are expressions."""
    rng = Random(seed)
    ads = []
    for number in range(count):
        lines = [f'Name = "slot{number}@host.example.org"', "Requirements = START && (WithinResourceLimits)"]
        lines += ["START = KeyboardIdle > 15 * 60 && LoadAvg - CondorLoadAvg <= 0.3 || TARGET.JobPrio > 10"]
        for i in range(attributes - len(lines)):
            match i % 6:
                case 0:
                    lines.append(f"Counter{i} = {rng.randrange(10**9)}")
                case 1:
                    lines.append(f"Has{i} = true")
                case 2:
                    lines.append(f'Text{i} = "some value {i}"')
                case 3:
                    lines.append(f"Load{i} = {rng.random():.6f}")
                case 4:
                    lines.append(f"Limit{i} = {i * 1000}")
                case _:
                    lines.append(f'Version{i} = "$CondorVersion: 25.14.{i} $"')
        ads.append("\n".join(lines) + "\n")
    return ads


SLOTS = 10_000


def figures() -> Iterator[Figure]:
    """Every figure, ours and the ratio to the library's where it is installed, both taken in this run."""
    job, machine = parse_ad(JOB), parse_ad(MACHINE)
    requirements = expr(str(job["Requirements"])).compile()
    assert requirements.eval(job, machine) is True
    assert is_match(job, machine)
    theirs = _library() if find_spec("classad2") else {}
    one = "one job and one machine, best of 5 rounds"
    ours = rate(lambda: requirements.eval(job, machine), 20_000)
    yield from _both("Requirements evaluated", ours, theirs.get("requirements"), "calls/s", one, "8x")
    ours = rate(lambda: is_match(job, machine), 10_000)
    yield from _both("symmetric match, per call", ours, theirs.get("match"), "calls/s", one, "5x")
    table, count = a_table(SLOTS), 50
    batch = f"one job and a table of {SLOTS} slots, classad2's symmetricMatch for each pair, best of 5 rounds"
    ours = rate(lambda: table.matches(job), count) * SLOTS
    yield from _both("symmetric match, batch", ours, theirs.get("match"), "pairs/s", batch, "8x")
    columns = rate(lambda: table.eval(requirements, my=job), count) * SLOTS
    yield from _both("Requirements over columns", columns, theirs.get("requirements"), "slots/s", batch, "1000x")
    assert table.fallbacks == 0
    ours = _parse_rate(parse_long)
    lines = "160-attribute machine ads, 300 new ones a round, best of 4 rounds"
    yield from _both("long form parsed", ours, theirs.get("parse_long"), "ads/s", lines, "2x")


def _both(name: str, ours: float, theirs: float | None, unit: str, how: str, aim: str) -> Iterator[Figure]:
    yield Figure(name, ours, unit, how)
    if theirs is not None:
        yield Figure(f"{name}, beside classad2", ours / theirs, "x", f"{how}; classad2: {theirs:.4g} {unit}", aim)


def a_table(count: int) -> Table:
    """Slots that differ in size, system and name, as a pool's do."""
    from pool.classad.columns import Table

    rng = Random(1)
    ads = []
    for number in range(count):
        ad = parse_ad(MACHINE)
        ad["Name"] = f"slot{number}@host.example.org"
        ad["Cpus"], ad["Memory"] = rng.choice([1, 2, 4, 8]), rng.choice([512, 1024, 2048, 4096])
        ad["Disk"] = rng.randrange(1_000_000)
        ad["OpSys"] = rng.choice(["LINUX", "LINUX", "macOS"])
        ads.append(ad)
    return Table(ads)


def _library() -> dict[str, float]:
    import classad2

    job, machine = classad2.parseOne(JOB), classad2.parseOne(MACHINE)
    requirements: Any = job.lookup("Requirements")
    return {
        "requirements": rate(lambda: requirements.eval(job, machine), 5_000),
        "match": rate(lambda: job.symmetricMatch(machine), 3_000),
        "parse_long": _parse_rate(classad2.parseOne),
    }
