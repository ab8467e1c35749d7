"""Expressions that are meant to stop a daemon: they cost their user, and nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.jobs.vocabulary.hold_codes import HoldCode
from tests.attacks.actors import needs_accounts
from tests.whole.real_pool import RealPool, real_pool

BOMB = " && ".join(f'isError(regexp("(a|aa)+${i}", "{"a" * 50}X"))' for i in range(40))
"""Goes on after each match that takes too long."""
HELD = 5
ENDLESS_S = 15.0
"""A bomb without a budget costs more than this; one with it costs a second, and what a slow machine does beside it."""
MANY_PIECES_S = 3.0
"""What a daemon may compute while somebody waits for a tool, the tool's start included: 60 of the pieces of 50 ms."""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """One pool for all attacks; policies are asked often."""
    with real_pool(PERIODIC_EXPR_INTERVAL="1", NUM_CPUS="4") as one:
        yield one


def jobs(extra: str, count: int = 1) -> str:
    return f"executable = /bin/true\n{extra}\nqueue {count}\n"


def processor_s(pool: RealPool, daemon: str) -> float:
    """What the daemon has used of the processor."""
    fields = Path(f"/proc/{pool.pid_of(daemon)}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize(("tool", "daemon"), [("condor_status", "collector"), ("condor_q", "schedd")])
def test_a_constraint_that_costs_too_much_ends(pool: RealPool, tool: str, daemon: str) -> None:
    if daemon == "schedd":
        pool.submit(jobs("hold = true", 4))
    before = processor_s(pool, daemon)
    said = pool.tool(tool, "-any" if tool == "condor_status" else "-allusers", "-constraint", BOMB, check=False)
    assert processor_s(pool, daemon) - before < ENDLESS_S
    assert said.count("\n") < 12


def test_a_policy_that_costs_too_much_has_its_job_held(pool: RealPool) -> None:
    cluster = pool.submit(jobs(f"requirements = false\nperiodic_hold = {BOMB}"))
    (ad,) = pool.until_status(cluster, HELD)
    assert ad["HoldReasonCode"] == HoldCode.EXPRESSION_TOO_COSTLY
    assert "PeriodicHold costs too much processor time" in str(ad["HoldReason"])


@pytest.mark.slow
def test_a_held_job_whose_release_costs_too_much_is_not_asked_again(pool: RealPool) -> None:
    cluster = pool.submit(jobs(f"hold = true\nperiodic_release = {BOMB}"))

    def told() -> bool:
        return pool.jobs(str(cluster))[0].get("HoldReasonCode") == HoldCode.EXPRESSION_TOO_COSTLY

    pool.until(told, "the job to be found too costly")


def test_requirements_that_cost_too_much_are_held_and_others_run(pool: RealPool) -> None:
    before = processor_s(pool, "negotiator")
    dear = pool.submit(jobs(f"requirements = {BOMB}", 3))
    other = pool.submit(jobs("arguments = other"))
    assert len(pool.until_done(other)) == 1
    for ad in pool.until_status(dear, HELD, count=3):
        assert ad["HoldReasonCode"] == HoldCode.EXPRESSION_TOO_COSTLY
        assert "Requirements" in str(ad["HoldReason"])
    assert processor_s(pool, "negotiator") - before < ENDLESS_S


@pytest.mark.parametrize(("tool", "daemon"), [("condor_status", "collector"), ("condor_q", "schedd")])
def test_others_are_answered_between_the_pieces_of_a_bomb(pool: RealPool, tool: str, daemon: str) -> None:
    pool.submit(jobs("hold = true", 10))
    over = threading.Event()

    def attack() -> None:
        while not over.is_set():
            pool.tool(tool, "-any" if tool == "condor_status" else "-allusers", "-constraint", BOMB, check=False)

    attackers = [threading.Thread(target=attack) for _ in range(3)]
    for one in attackers:
        one.start()
    used: list[float] = []
    try:
        for _ in range(5):
            before = processor_s(pool, daemon)
            pool.tool(tool, "-collector" if daemon == "collector" else "-totals")
            used.append(processor_s(pool, daemon) - before)
    finally:
        over.set()
        for one in attackers:
            one.join()
    assert sorted(used)[len(used) // 2] < MANY_PIECES_S, used


def memory_mib(pool: RealPool, daemon: str) -> float:
    """What the daemon has in memory."""
    status = Path(f"/proc/{pool.pid_of(daemon)}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def said_by(pool: RealPool, *argv: str) -> str:
    """What a tool says, the reason why it fails included."""
    try:
        return pool.tool(*argv)
    except AssertionError as failure:
        return str(failure)


@pytest.mark.slow
def test_a_job_of_thirty_megabytes_is_refused(pool: RealPool) -> None:
    before = memory_mib(pool, "schedd")
    for number in range(3):
        description = pool.directory / f"large{number}.sub"
        description.write_text(jobs("".join(f'My.Large{i} = "{"x" * 7_500_000}"\n' for i in range(4))))
        said = said_by(pool, "condor_submit", str(description))
        assert "at most 4194304" in said, said[-300:]
    assert memory_mib(pool, "schedd") - before < 100


def test_a_job_does_not_grow_by_edits(pool: RealPool) -> None:
    cluster = pool.submit(jobs("hold = true"))
    many = [word for number in range(8) for word in (f"More{number}", f'"{"y" * 60_000}"')]
    assert "Set attribute" in said_by(pool, "condor_qedit", str(cluster), *many)
    for part in range(10):
        many[::2] = [f"Part{part}_{number}" for number in range(8)]
        said = said_by(pool, "condor_qedit", str(cluster), *many)
    assert "at most 4194304" in said


@needs_accounts  # the pool's owner may send more
def test_an_ad_of_thirty_megabytes_is_refused(pool: RealPool) -> None:
    before = memory_mib(pool, "collector")
    for number, size in enumerate((30_000_000, 1_040_000)):
        ad = pool.directory / f"large{number}.ad"
        ad.write_text(f'MyType = "Generic"\nName = "large{number}"\nLarge = "{"x" * size}"\n')
        said = said_by(pool, "condor_advertise", "UPDATE_AD_GENERIC", str(ad))
        assert "at most" in said, said[-300:]
    assert "large" not in pool.tool("condor_status", "-any", "-af", "Name")
    assert memory_mib(pool, "collector") - before < 100
