"""What a recorded workload would have met: waits that can be reckoned by hand, shares, quotas, and bad input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from pool.base.errors import UserError
from pool.classad.forms.lists import write_ads
from pool.classad.forms.old_form import parse_longs
from pool.config import load_config
from pool.simulate.engine import Outcome, simulate
from pool.simulate.figures import Figures, figures_of
from pool.simulate.machines import read_machines
from pool.simulate.picture import svg
from pool.simulate.policy import Policy
from pool.simulate.workload import Workload, read_workload

HOUR = 3600


def a_job(number: int, owner: str, *, at: int = 1000, runs: int = 100, cpus: int = 1, **more: object) -> str:
    said = {
        "ClusterId": number,
        "ProcId": 0,
        "User": f'"{owner}@here"',
        "Owner": f'"{owner}"',
        "QDate": at,
        "JobUniverse": 5,
        "JobPrio": 0,
        "RequestCpus": cpus,
        "RequestMemory": 128,
        "RequestDisk": 1024,
        "RemoteWallClockTime": f"{float(runs)}",
        "Requirements": "TARGET.Cpus >= RequestCpus && TARGET.Memory >= RequestMemory",
        **more,
    }
    return "".join(f"{name} = {value}\n" for name, value in said.items()) + f"*** Offset = 0 ClusterId = {number}\n"


def a_machine(name: str, cpus: int, **more: object) -> str:
    said = {
        "MyType": '"Machine"',
        "Name": f'"slot1@{name}"',
        "Machine": f'"{name}"',
        "MyAddress": f'"<10.0.0.1:9618?alias={name}>"',
        "PartitionableSlot": "true",
        "State": '"Unclaimed"',
        "Cpus": cpus,
        "Memory": 1024 * cpus,
        "Disk": 1_000_000,
        "TotalSlotCpus": cpus,
        "TotalSlotMemory": 1024 * cpus,
        "TotalSlotDisk": 1_000_000,
        "MachineResources": '"Cpus Memory Disk Swap"',
        "SlotWeight": "Cpus",
        "Start": "true",
        "Requirements": "START && TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory",
        **more,
    }
    return "".join(f"{name} = {value}\n" for name, value in said.items()) + "\n"


def a_workload(jobs: Iterable[str]) -> Workload:
    text = "".join(jobs).splitlines(keepends=True)
    return read_workload(lambda: text, file="history", reads=["RequestCpus"])


def a_policy(**knobs: str) -> Policy:
    config = load_config([], environ={}, overrides=knobs, subsystem="NEGOTIATOR")
    return Policy.read(config)


def tried(jobs: Iterable[str], *machines: str, **knobs: str) -> Outcome:
    slots = read_machines("".join(machines).splitlines(), file="machines")
    return simulate(a_workload(jobs), slots, a_policy(**knobs))


def waits(outcome: Outcome) -> Mapping[str, float]:
    return {run.job.id: run.wait_s for run in outcome.runs}


def test_a_job_waits_for_the_core_that_one_before_it_has() -> None:
    # One core: the second job begins when the first ends, 100 s after 1000, the third 50 s later.
    jobs = [a_job(1, "ann", at=1000, runs=100), a_job(2, "bob", at=1010, runs=50), a_job(3, "cy", at=1020, runs=10)]
    outcome = tried(jobs, a_machine("a", 1), CLAIM_WORKLIFE="0")
    assert waits(outcome) == {"1.0": 0, "2.0": 90, "3.0": 130}
    figures = figures_of(outcome)
    assert (figures.waits.p50, figures.waits.max, figures.took_s) == (90, 130, 160)
    assert figures.utilisation == pytest.approx(1.0)


def test_a_job_that_completed_within_a_second_ran_and_one_that_was_removed_before_it_ran_is_counted_apart() -> None:
    recorded = [
        a_job(1, "ann", runs=0, JobStatus=4),
        a_job(2, "ann", runs=0, JobStatus=3),
        a_job(3, "ann", JobUniverse=7),
    ]
    outcome = tried(recorded, a_machine("a", 1))
    assert [(run.job.id, run.ended_at - run.started_at) for run in outcome.runs] == [("1.0", 0.5)]
    figures = figures_of(outcome)
    assert (figures.jobs, figures.never_ran, figures.elsewhere) == (1, 1, 1)


def test_a_partitionable_slot_is_split_and_whole_again() -> None:
    # Four cores: 3 + 1 run at once; the job of four cores starts when both have ended.
    jobs = [a_job(1, "ann", cpus=3, runs=100), a_job(2, "ann", cpus=1, runs=200), a_job(3, "ann", cpus=4, at=1001)]
    outcome = tried(jobs, a_machine("a", 4))
    assert waits(outcome) == {"1.0": 0, "2.0": 0, "3.0": 199}


def test_equal_users_get_equal_shares() -> None:
    jobs = [a_job(number, "ann", at=1000) for number in range(1, 401)]
    jobs += [a_job(number, "bob", at=1000) for number in range(401, 801)]
    figures = figures_of(tried(jobs, a_machine("a", 8)))
    assert {user.submitter: round(user.share, 3) for user in figures.users} == {"ann@here": 0.5, "bob@here": 0.5}
    mean = [user.waits.mean for user in figures.users]
    assert mean[0] == pytest.approx(mean[1], rel=0.02)


def test_a_group_never_holds_more_than_its_quota() -> None:
    jobs = [a_job(number, "ann", AccountingGroup='"physics.ann"') for number in range(1, 41)]
    knobs = {"GROUP_NAMES": "physics", "GROUP_QUOTA_physics": "2"}
    outcome = tried(jobs, a_machine("a", 8), **knobs)
    assert len(outcome.runs) == 40
    assert most_at_once(outcome) == 2
    assert most_at_once(tried(jobs, a_machine("a", 8))) == 8


def most_at_once(outcome: Outcome) -> int:
    """How many cores were in use at once, at most."""
    changes = [(run.started_at, 1, run.weight) for run in outcome.runs]
    changes += [(run.ended_at, 0, -run.weight) for run in outcome.runs]
    held = most = 0.0
    for _, _, weight in sorted(changes):
        held += weight
        most = max(most, held)
    return int(most)


def test_of_one_user_the_job_of_higher_priority_goes_first() -> None:
    jobs = [a_job(1, "ann"), a_job(2, "ann", at=1001), a_job(3, "ann", at=1002, JobPrio=5)]
    assert waits(tried(jobs, a_machine("a", 1))) == {"1.0": 0, "3.0": 98, "2.0": 199}


def test_a_claim_serves_its_user_until_its_worklife_is_over() -> None:
    jobs = [a_job(number, "ann", runs=HOUR) for number in (1, 2, 3)] + [a_job(4, "bob", at=1001)]
    for_ever = waits(tried(jobs, a_machine("a", 1), CLAIM_WORKLIFE="-1"))
    usual = waits(tried(jobs, a_machine("a", 1)))
    assert (for_ever["4.0"], usual["4.0"]) == (3 * HOUR - 1, HOUR - 1)


def test_who_waits_with_nothing_is_starved_and_who_never_fits_never_starts() -> None:
    figures = figures_of(tried([a_job(1, "ann"), a_job(2, "bob", at=1010), a_job(3, "bob", cpus=9)], a_machine("a", 1)))
    bob = next(user for user in figures.users if user.submitter == "bob@here")
    assert (bob.never_started, bob.starved_s) == (1, 100)


def test_what_jobs_and_dynamic_slots_held_is_free_when_the_run_begins() -> None:
    dynamic = a_machine("a", 3, Name='"slot1_1@a"', DynamicSlot="true", PartitionableSlot="false", State='"Claimed"')
    (slot,) = read_machines((a_machine("a", 4, Cpus=1, Memory=1) + dynamic).splitlines(), file="machines")
    assert (slot.whole.of("Cpus"), slot.whole.of("Memory")) == (4, 4096)


def test_a_record_that_says_nothing_of_when_the_job_came_is_named_with_its_line() -> None:
    good, bad = a_job(1, "ann"), a_job(2, "bob").replace("QDate = 1000\n", "")
    with pytest.raises(UserError, match=r"history:14: the job has no QDate"):
        a_workload([good, bad])


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("QDate = 1000", "QDate = soon", r"history:5:1: QDate = soon is no number"),
        ("QDate = 1000", "what is this", r"history:5:1: this is no attribute"),
        ("RequestCpus = 1", "RequestCpus = (1 +", r"history:8:"),
    ],
)
def test_bad_input_has_a_place(before: str, after: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        a_workload([a_job(1, "ann").replace(before, after)])


def in_another_form(text: str, form: str) -> list[str]:
    ads = parse_longs("" if line.startswith("***") else line for line in text.splitlines())
    return list(write_ads(ads, form))


@pytest.mark.parametrize("form", ["json", "xml", "new"])
def test_histories_and_slots_are_read_in_every_form_that_tools_write(form: str) -> None:
    jobs, machine = "".join(a_job(number, "ann") for number in (1, 2)), a_machine("a", 2)
    history, slots = (in_another_form(text, form) for text in (jobs, machine))
    workload = read_workload(lambda: history, file="history", reads=["RequestCpus"])
    outcome = simulate(workload, read_machines(slots, file="machines"), a_policy())
    assert (waits(outcome), outcome.size) == ({"1.0": 0, "2.0": 0}, 2)


def test_an_ad_in_another_form_is_named_with_its_number() -> None:
    text = in_another_form(a_job(1, "ann") + "ClusterId = 2\n", "json")
    with pytest.raises(UserError, match="history: ad 2: the job has no QDate"):
        read_workload(lambda: text, file="history", reads=[])


def test_of_a_jobs_executions_the_longest_counts() -> None:
    runs = [a_job(1, "ann", runs=seconds, GlobalJobId='"here#1.0#1000"') for seconds in (10, 300, 20)]
    assert [job.run_s for job in a_workload(runs).jobs] == [300]


def test_a_file_without_slots_or_jobs_is_refused() -> None:
    with pytest.raises(UserError, match="machines: no slot in it"):
        read_machines([], file="machines")
    with pytest.raises(UserError, match="history: no job in it has run"):
        a_workload([a_job(1, "ann", runs=0)])


def test_two_policies_stand_in_one_picture() -> None:
    jobs = [a_job(number, "ann") for number in range(1, 9)]
    two: list[tuple[str, Figures]] = [
        (name, figures_of(tried(jobs, a_machine("a", cpus)))) for name, cpus in (("one <core>", 1), ("four", 4))
    ]
    drawn = svg(two)
    assert drawn.count("<polyline") == 2
    assert "one &lt;core&gt;: 100.0% in use" in drawn
    assert drawn.rstrip().endswith("</svg>")
