"""Why a job does not match: HTCondor's table of conditions, and sentences."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.explaining.analysis import Analysis
from pool.explaining.column_tests import ColumnTests, KeptTests
from pool.explaining.explain import analyze
from pool.explaining.slot_tests import EachSlot, MakeTests
from tests.own_attributes import own

REQUIREMENTS = (
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && '
    '(versionGE(split(TARGET.CondorVersion)[1],"25.12.0") || (TARGET.Disk >= RequestDisk)) && '
    "(TARGET.Memory >= RequestMemory) && ((TARGET.FileSystemDomain == MY.FileSystemDomain) || (TARGET.HasFileTransfer))"
)


def a_job(extra: str = "", **attributes: object) -> ClassAd:
    given = {"FileSystemDomain": "pool.test", "RequestCpus": 1, "RequestDisk": 10240, "RequestMemory": 64, **attributes}
    return ClassAd({**given, "Requirements": expr(f"{extra}{REQUIREMENTS}")})


def a_slot(**attributes: object) -> ClassAd:
    ad = {
        "Name": "slot1@ap1.pool.test",
        "Machine": "ap1.pool.test",
        "Arch": "X86_64",
        "OpSys": "LINUX",
        "CondorVersion": "$CondorVersion: 25.14.0 2026-11-20 $",
        "FileSystemDomain": "pool.test",
        "HasFileTransfer": True,
        "PartitionableSlot": True,
        "Cpus": 4,
        "Memory": 8192,
        "Disk": 77058188,
        "TotalSlotCpus": 4,
        "TotalSlotMemory": 8192,
        "TotalSlotDisk": 77058188,
        "Start": True,
        "WithinResourceLimits": expr("TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory"),
        "Requirements": expr("Start && WithinResourceLimits"),
    }
    return ClassAd({**ad, **attributes})


def of(memory: int) -> dict[str, object]:
    """A slot's memory, of which nothing is in use."""
    return {"Memory": memory, "TotalSlotMemory": memory}


def table(found: Analysis) -> list[tuple[int, int | None, int | None, str]]:
    return [(row.number, row.matched, row.drained, row.condition) for row in found.table]


def test_conditions_are_numbered_as_htcondor_numbers_them() -> None:
    found = analyze(a_job("(Memory > 99999999) && "), [a_slot()])
    assert [clause.text for clause in found.clauses] == [
        "Memory > 99999999",
        'TARGET.Arch == "X86_64"',
        "[0] && [1]",
        'TARGET.OpSys == "LINUX"',
        "[2] && [3]",
        'versionGE(split(TARGET.CondorVersion)[1],"25.12.0")',
        "TARGET.Disk >= RequestDisk",
        "[5] || [6]",
        "[4] && [7]",
        "TARGET.Memory >= RequestMemory",
        "[8] && [9]",
        "TARGET.FileSystemDomain == MY.FileSystemDomain",
        "TARGET.HasFileTransfer",
        "[11] || [12]",
        "[10] && [13]",
    ]


def test_the_table_holds_what_decides() -> None:
    found = analyze(a_job("(Memory > 99999999) && "), [a_slot()])
    assert table(found) == [
        (0, 0, 0, "Memory > 99999999"),
        (5, 1, 1, 'versionGE(split(TARGET.CondorVersion)[1],"25.12.0")'),
        (11, 1, 1, "TARGET.FileSystemDomain == MY.FileSystemDomain"),
    ]
    assert (found.rejected_by_job, found.reject_job, found.willing, found.if_drained) == (1, 0, 0, 0)
    assert found.attributes == (
        ("FileSystemDomain", '"pool.test"', ""),
        ("RequestDisk", "10240", "kb"),
        ("RequestMemory", "64", "mb"),
    )
    assert found.sentences() == ["No slot meets the condition Memory > 99999999; the best of Memory is 8192."]


def test_a_full_slot_would_match_if_it_were_drained() -> None:
    found = analyze(a_job(), [a_slot(Cpus=0)])
    assert [row.number for row in found.table] == [0, 1, 3, 7, 9]
    assert (found.rejected_by_job, found.reject_job, found.willing, found.if_drained) == (0, 0, 0, 1)
    assert found.sentences() == ["1 slot would match, but other jobs are using them now: the job waits."]


def test_a_slot_that_refuses_says_by_which_of_its_conditions() -> None:
    slots = [a_slot(Start=expr('TARGET.Owner == "carol"')), a_slot(Name="slot2", RequestCpus=1)]
    found = analyze(a_job(RequestCpus=9, Owner="alice"), slots)
    assert (found.rejected_by_job, found.reject_job, found.willing) == (0, 2, 0)
    assert found.sentences() == [
        "2 slots refuse the job.",
        '1 slot: TARGET.Owner == "carol" does not hold for the job.',
        "1 slot: TARGET.RequestCpus <= MY.Cpus does not hold for the job.",
        "With a smaller RequestCpus (it is 9), 1 slot would suit; the largest has 4.",
    ]


def test_conditions_that_never_meet_are_told_together() -> None:
    slots = [a_slot(HasGpu=True, Memory=1), a_slot(HasGpu=False, Memory=9000)]
    job = ClassAd({"Requirements": expr("TARGET.HasGpu && TARGET.Memory > 8000")})
    found = analyze(job, [ClassAd({**slot, "TotalSlotMemory": slot["Memory"]}) for slot in slots])
    assert found.sentences() == [
        "Each of these is true for some slot, but for none all of them: TARGET.HasGpu, TARGET.Memory > 8000."
    ]


def test_a_job_that_matches_needs_no_words() -> None:
    found = analyze(a_job(), [a_slot(), a_slot(DynamicSlot=True)])
    assert (found.slots, found.willing, found.sentences()) == (1, 1, [])
    assert analyze(a_job(), []).sentences() == ["The pool has no slots."]


def test_a_slot_that_others_use_is_not_said_to_be_free() -> None:
    found = analyze(a_job(), [a_slot(PartitionableSlot=False, State="Claimed"), a_slot(Offline=True)])
    assert (found.willing, found.takers) == (2, 0)
    assert [sentence.partition(" would match, but ")[2][:25].rstrip() for sentence in found.sentences()] == [
        "other jobs are using them",
        "its machine is asleep.",
    ]


def test_a_request_that_no_slot_can_give_is_named() -> None:
    found = analyze(a_job(RequestCpus=-1.5), [a_slot()])
    assert found.willing == 1
    [sentence] = found.sentences()
    assert "cannot give what the job asks for: the job's RequestCpus is -1.5" in sentence


def test_a_row_of_the_table_that_joins_names_rows_of_the_table() -> None:
    slots = [a_slot(**own(HasLaser=n % 3 == 0, HasJava=n % 2 == 0), **of(500 * 2**n)) for n in range(6)]
    job = a_job('(TARGET.OpSys == "LINUX") && (TARGET.HasJava) && TARGET.HasLaser && ', RequestMemory=3000)
    joining = [(row.matched, row.condition) for row in analyze(job, slots).table if row.joins]
    # Not [2] and [12], which are as [1] and [4] are.
    assert joining == [(1, "[1] && [3]"), (0, "[4] && [13]")]


def test_a_condition_that_only_drained_slots_tell_from_another_is_in_the_table() -> None:
    slots = [a_slot(Memory=0), a_slot(Memory=0, **own(HasLaser=True))]
    job = ClassAd({"Requirements": expr("TARGET.Memory >= 500 && TARGET.HasLaser")})
    assert table(analyze(job, slots)) == [
        (0, 0, 2, "TARGET.Memory >= 500"),
        (1, 1, 1, "TARGET.HasLaser"),
        (2, 0, 1, "[0] && [1]"),
    ]


SUITS_NONE = {
    "slots in use, as if they were not": (
        'TARGET.OpSys == "WINDOWS" && TARGET.Cpus >= 2',
        {},
        'Without TARGET.OpSys == "WINDOWS", 4 slots would suit.',
    ),
    "two conditions that exclude each other": (
        "TARGET.Cpus <= 4 && TARGET.Memory >= 16000",
        {},
        "Without TARGET.Memory >= 16000, 3 slots would suit; the largest has 8192.",
    ),
    "a number that may be too great": (
        'TARGET.TotalSlotCpus < 4 && TARGET.OpSys == "LINUX"',
        {},
        "Without TARGET.TotalSlotCpus < 4, 4 slots would suit; the smallest has 4.",
    ),
    "the job's side first": (
        "RequestMemory <= TARGET.Memory",
        {"RequestMemory": 99999},
        "Without RequestMemory <= TARGET.Memory (RequestMemory is 99999), 4 slots would suit; the largest has 16384.",
    ),
    "more than a request": (
        "TARGET.Memory > MY.RequestMemory",
        {"RequestMemory": 16384},
        "Without TARGET.Memory > MY.RequestMemory (RequestMemory is 16384), 4 slots would suit; the largest has 16384.",
    ),
    "a request that is computed": (
        "TARGET.Memory >= RequestMemory",
        {"RequestMemory": expr("RequestCpus * 50000"), "RequestCpus": 2},
        "Without TARGET.Memory >= RequestMemory (RequestMemory is 100000), 4 slots would suit; the largest has 16384.",
    ),
    "a bound that is computed": (
        "TARGET.Memory >= RequestMemory * 9",
        {"RequestMemory": 4000},
        "Without TARGET.Memory >= RequestMemory * 9, 4 slots would suit; the largest has 16384.",
    ),
    "a request that slots compare": (
        "TARGET.Memory >= 1",
        {"RequestCpus": 64, "RequestMemory": 9000},
        "With a smaller RequestCpus (it is 64), 1 slot would suit; the largest has 16.",
    ),
    "two things at once": ('TARGET.OpSys == "WINDOWS" && TARGET.Arch == "aarch64"', {}, ""),
    "either of two": (
        'TARGET.OpSys == "WINDOWS" || TARGET.Arch == "aarch64"',
        {},
        'Without TARGET.OpSys == "WINDOWS" || TARGET.Arch == "aarch64", 4 slots would suit.',
    ),
    "what is true for no slot": ("TARGET.Cpus >= 1 && false", {}, "Without false, 4 slots would suit."),
}


@pytest.mark.parametrize("tests", [EachSlot, ColumnTests])
@pytest.mark.parametrize("name", SUITS_NONE)
def test_the_single_change_that_would_help_most_is_told(name: str, tests: MakeTests) -> None:
    requirements, attributes, change = SUITS_NONE[name]
    slots = [a_slot(Cpus=0, Memory=0), a_slot(), a_slot(), a_slot(Cpus=16, TotalSlotCpus=16, **of(16384))]
    job = ClassAd({"RequestCpus": 1, "RequestMemory": 64, "Requirements": expr(requirements)})
    job.update(attributes)
    assert analyze(job, slots, tests).change == change


def test_less_of_what_is_asked_for_is_still_some_of_it() -> None:
    start = expr("TARGET.RequestGPUs > 0 && TARGET.RequestGPUs <= MY.GPUs")
    slots = [a_slot(GPUs=count, TotalSlotGPUs=count, Start=start) for count in (0, 2, 4)]
    job = a_job("TARGET.GPUs >= RequestGPUs && ", RequestGPUs=8)
    told = "Without TARGET.GPUs >= RequestGPUs (RequestGPUs is 8), 2 slots would suit; the largest has 4."
    assert analyze(job, slots).change == told


def test_columns_are_kept_for_the_very_ads_that_are_asked_about_again() -> None:
    ads = [
        ClassAd({"Cpus": 1, "TotalSlotCpus": 4, "Memory": memory, "Requirements": True}) for memory in range(100, 120)
    ]
    job, kept = ClassAd({"Requirements": expr("TARGET.Memory >= 110 && TARGET.Cpus >= 2")}), KeptTests()
    first = kept(ads)
    assert kept([*ads]) is first
    assert (first.accepted(job), first.drained().accepted(job)) == (frozenset(), frozenset(range(10, 20)))
    changed = [ClassAd({"Cpus": 2, "Memory": 200, "Requirements": True}), *ads[1:]]
    assert kept(changed).accepted(job) == ColumnTests(changed).accepted(job) == {0}
    assert kept(changed).drained().accepted(job) == {0, *range(10, 20)}
    assert kept(ads[1:]).accepted(job) == frozenset()
