"""How fast ClassAds are parsed, evaluated and matched, beside the real library where it is installed.

Each figure is the best of several rounds, calls per second in one process; ratios are what counts on a shared machine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from random import Random
from typing import Any

from pool.classad import ClassAd, expr, is_match, parse_ad, parse_long

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


def measure() -> dict[str, dict[str, float]]:
    """Every figure by name: ours, the library's and the ratio where it is there."""
    job, machine = parse_ad(JOB), parse_ad(MACHINE)
    requirements = expr(str(job["Requirements"])).compile()
    ours: dict[str, float] = {
        "requirements": rate(lambda: requirements.eval(job, machine), 20_000),
        "match": rate(lambda: is_match(job, machine), 10_000),
        "parse_long": _parse_rate(parse_long),
    }
    assert requirements.eval(job, machine) is True
    assert is_match(job, machine)
    theirs = _library() if find_spec("classad2") else {}
    return {
        name: {"ours": value} | ({"classad2": theirs[name], "ratio": value / theirs[name]} if name in theirs else {})
        for name, value in ours.items()
    }


def _library() -> dict[str, float]:
    import classad2

    job, machine = classad2.parseOne(JOB), classad2.parseOne(MACHINE)
    requirements: Any = job.lookup("Requirements")
    return {
        "requirements": rate(lambda: requirements.eval(job, machine), 5_000),
        "match": rate(lambda: job.symmetricMatch(machine), 3_000),
        "parse_long": _parse_rate(classad2.parseOne),
    }


def main() -> int:
    """Print the figures as JSON."""
    json.dump(measure(), sys.stdout, indent=2)
    print()
    return 0


__all__ = ["ClassAd", "machine_ads", "measure"]

if __name__ == "__main__":
    sys.exit(main())
