"""What cron jobs print, and which slots it goes to."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd
from pool.cron_jobs.jobs import CronJob, CronMode, Metric
from pool.cron_jobs.merge import Published, merge
from pool.cron_jobs.output import CronAd, OutputReader

NOW = 1_700_000_000.0


def a_job(**options: object) -> CronJob:
    return CronJob("job", "/bin/job", CronMode.PERIODIC, 60, **options)  # type: ignore[arg-type]


def read(text: str, job: CronJob, *, piece: int = 7) -> tuple[list[CronAd], list[str]]:
    ads: list[CronAd] = []
    complaints: list[str] = []
    reader = OutputReader(job, ads.append, complaints.append)
    raw = text.encode()
    for at in range(0, len(raw), piece):
        reader.take(raw[at : at + piece])
    reader.end()
    return ads, complaints


def slots(count: int = 4) -> list[ClassAd]:
    return [
        ClassAd({"Name": f"slot{n}@host", "SlotID": n, "SlotTypeID": 1 + (n > 2), "Memory": 100 * n})
        for n in range(1, count + 1)
    ]


def shown(text: str, name: str, job: CronJob | None = None) -> list[object]:
    """The value of an attribute in four slots after one run of a job."""
    job = job or a_job()
    current: dict[str, Published] = {"": Published(job, "", ClassAd(), ClassAd())}
    for said in read(text, job)[0]:
        current.setdefault(said.tag, Published(job, said.tag, ClassAd(), ClassAd())).update(said, NOW)
    ads = slots()
    for ad in ads:
        merge(current.values(), ad)
    return [ad.get(name) for ad in ads]


EXAMPLE = "Value=1\nSlotId=1\n-s1\nValue=2\nSlotId=2\n-s2\nValue=10\n- update:true\n"


def test_the_manuals_example_on_four_slots() -> None:
    assert shown(EXAMPLE, "Value") == [1, 2, 10, 10]
    assert shown(EXAMPLE, "SlotId") == [1, 2, 3, 4]


def test_with_a_prefix_the_attributes_that_say_where_an_ad_belongs_are_still_known() -> None:
    assert shown(EXAMPLE, "test_Value", a_job(prefix="test_")) == [1, 2, 10, 10]
    prefixed = EXAMPLE.replace("SlotId", "test_SlotId")
    assert shown(prefixed, "test_Value", a_job(prefix="test_")) == [1, 2, 10, 10]
    assert shown(prefixed, "test_SlotId", a_job(prefix="test_")) == [None] * 4


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ("SlotMergeConstraint = TARGET.Memory > 250", [None, None, 1, 1]),
        ("SlotMergeConstraint = SlotID == 2 && A == 1", [None, 1, None, None]),
        ("SlotMergeConstraint = undefined", [None] * 4),
        ('SlotName = "slot2"', [None, 1, None, None]),
        ('SlotName = "slot"', [1, 1, 1, 1]),
        ('Name = "slot3@host"', [None, None, 1, None]),
        ('Name = "elsewhere"', [None] * 4),
        ("SlotTypeId = 2", [None, None, 1, 1]),
        ("SlotId = 4", [None, None, None, 1]),
        ("SlotId = 4\nSlotTypeId = 1", [1, 1, None, None]),
        ('SlotTypeId = 1\nSlotName = "slot4"', [None, None, None, 1]),
        ('SlotName = "slot1"\nSlotMergeConstraint = true', [1, 1, 1, 1]),
        ("# a comment", [1, 1, 1, 1]),
    ],
)
def test_where_an_ad_belongs(control: str, expected: list[int | None]) -> None:
    assert shown(f"A = 1\n{control}\n- x\n", "A") == expected


def test_the_slots_of_a_job_limit_what_its_output_says() -> None:
    assert shown("A = 1\n", "A", a_job(slots=frozenset({1, 4}))) == [1, None, None, 1]


def test_output_without_a_dash_counts_at_the_end() -> None:
    ads, _ = read("A = 1\nB = A + 1", a_job())
    assert [ad.ad.long() for ad in ads] == ["A = 1\nB = A + 1\n"]


@pytest.mark.parametrize(
    ("line", "tag", "update"),
    [
        ("-", "", None),
        ("- s1", "s1", None),
        ("-s1", "s1", None),
        ("- update:true", "", True),
        ("- s1 update:false", "s1", False),
        ("- s1 update:TRUE", "s1", True),
        ("- update", "", True),
        ("-s1 update", "s1", True),
    ],
)
def test_the_line_that_ends_an_ad(line: str, tag: str, update: bool | None) -> None:
    (ad,), _ = read(f"A = 1\n{line}\n", a_job())
    assert (ad.tag, ad.update) == (tag, update)


def test_output_that_is_no_attribute_is_reported_with_its_line() -> None:
    ads, complaints = read("A = 1\nnonsense\n\nB = 1 +\nC = 3\n", a_job())
    assert [name for ad in ads for name in ad.ad] == ["A", "C"]
    assert complaints[0].startswith("line 2 of the output is not an attribute: ")
    assert complaints[0].endswith(": nonsense")
    assert complaints[1].startswith("line 4 of the output is not an attribute: ")
    assert len(complaints) == 2


def test_a_line_without_an_end_costs_no_memory_without_end() -> None:
    _, complaints = read("x" * 3_000_000, a_job(), piece=65536)
    assert 1 <= len(complaints) <= 3


def test_bytes_that_are_no_text_are_reported() -> None:
    complaints: list[str] = []
    reader = OutputReader(a_job(), lambda _ad: None, complaints.append)
    reader.take(b"\xff\xfe\x00\n")
    reader.end()
    assert len(complaints) == 1


def test_a_change_is_told_from_the_same_again() -> None:
    job = a_job(prefix="p_")
    one = Published(job, "", ClassAd(), ClassAd())
    assert one.update(CronAd("", ClassAd({"p_A": 1}), ClassAd()), NOW)
    assert not one.update(CronAd("", ClassAd({"p_A": 1}), ClassAd()), NOW + 5)
    assert one.ad["p_LastUpdate"] == int(NOW + 5)
    assert one.update(CronAd("", ClassAd({"p_A": 2}), ClassAd()), NOW + 6)


def test_metrics_add_up_over_time_and_over_the_resources_of_a_slot() -> None:
    job = a_job(metrics={"uptimesquidsseconds": Metric.SUM, "uptimesquidsmemorypeakusage": Metric.PEAK})
    text = (
        'SlotMergeConstraint = StringListMember("SQUID0", AssignedSQUIDs)\n'
        "UptimeSQUIDsSeconds = 5.0\nUptimeSQUIDsMemoryPeakUsage = 50\n- SQUIDsReport0\n"
        'SlotMergeConstraint = StringListMember("SQUID1", AssignedSQUIDs)\n'
        "UptimeSQUIDsSeconds = 1.0\nUptimeSQUIDsMemoryPeakUsage = 10\n- SQUIDsReport1\n"
    )
    current: dict[str, Published] = {}
    for _ in range(2):
        for said in read(text, job)[0]:
            current.setdefault(said.tag, Published(job, said.tag, ClassAd(), ClassAd())).update(said, NOW)
    both = ClassAd({"Name": "slot1@host", "SlotID": 1, "AssignedSQUIDs": "SQUID0,SQUID1"})
    one = ClassAd({"Name": "slot2@host", "SlotID": 2, "AssignedSQUIDs": "SQUID1"})
    for ad in (both, one):
        merge(current.values(), ad, age_s=24.0)
    assert (both["DeviceSQUIDsAverageUsage"], both["DeviceSQUIDsMemoryPeakUsage"]) == (0.5, 50)
    assert (one["DeviceSQUIDsAverageUsage"], one["DeviceSQUIDsMemoryPeakUsage"]) == (2.0 / 24, 10)
    assert not any(name.startswith("Uptime") for name in both)
    merge(current.values(), one, age_s=24.0, raw=True)
    assert (one["UptimeSQUIDsSeconds"], "UptimeSQUIDsMemoryPeakUsage" in one) == (2.0, False)
