"""When jobs on a clock run next."""

from __future__ import annotations

import calendar
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.classad import ClassAd, expr
from pool.jobs.crontab import CronError, CronTab
from pool.jobs.deferral import Deferral, DeferralError, Late, deferral_of, next_deferral

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases/cron/cron.jsonl").read_text().splitlines()]
FROM = 1714728620  # Friday 2024-05-03 09:30:20 UTC


def runs(table: CronTab, after: float, count: int) -> list[str]:
    """The next runs by the process's own local time."""
    shown = []
    for _ in range(count):
        found = table.next_run(after)
        assert found is not None
        assert found > after
        assert found % 60 == 0
        shown.append(time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(found)))
        after = found
    return shown


@pytest.fixture(autouse=True)
def utc_everywhere() -> Iterator[None]:
    yield from in_zone("UTC0")


@pytest.fixture
def new_york(utc_everywhere: None) -> Iterator[None]:
    yield from in_zone("EST5EDT,M3.2.0,M11.1.0")


def in_zone(zone: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def utc(*fields: int) -> int:
    return calendar.timegm((*fields, 0, 0, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_crontab_means_what_it_means_to_htcondor(case: dict[str, object]) -> None:
    names = ("minute", "hour", "day_of_month", "month", "day_of_week")
    fields = [str(case["cron_" + name]) for name in names]
    if case.get("invalid"):
        with pytest.raises(CronError):
            CronTab.parse(*fields)
        return
    assert CronTab.parse(*fields).next_run(float(str(case["base"]))) == case["next"]


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        (("0", "*", "*", "*", "*"), ["2024-05-03 10:00", "2024-05-03 11:00"]),
        (("23", "0-23/2", "*", "*", "*"), ["2024-05-03 10:23", "2024-05-03 12:23", "2024-05-03 14:23"]),
        (("10-30/5", "*/3", "*", "*", "*"), ["2024-05-03 12:10", "2024-05-03 12:15", "2024-05-03 12:20"]),
        (("30", "20", "10-20", "5", "2"), ["2024-05-07 20:30", "2024-05-10 20:30", "2024-05-11 20:30"]),
        (("*/10,*/6", "0-11", "18", "1", "*"), ["2025-01-18 00:00", "2025-01-18 00:06", "2025-01-18 00:10"]),
        (("*", "*", "*", "*", "*"), ["2024-05-03 09:31", "2024-05-03 09:32"]),
        (("0", "0", "29", "2", "*"), ["2028-02-29 00:00", "2032-02-29 00:00"]),
    ],
)
def test_the_manuals_examples(fields: tuple[str, ...], first: list[str]) -> None:
    assert runs(CronTab.parse(*fields), FROM, len(first)) == [f"{moment} UTC" for moment in first]


def test_by_day_of_week_alone_across_months() -> None:
    assert runs(CronTab.parse("0", "0", "*", "*", "1"), utc(2024, 4, 29, 1), 2) == [
        "2024-05-06 00:00 UTC",
        "2024-05-13 00:00 UTC",
    ]


@pytest.mark.parametrize(("field", "values"), [("10-20/3", (12, 15, 18)), ("99", tuple(range(60))), ("5,5,1", (1, 5))])
def test_minutes(field: str, values: tuple[int, ...]) -> None:
    assert CronTab.parse(field).minutes == values


@pytest.mark.parametrize("field", ["7/5", "", "5-2", "a", "*/0", "1.5", "5:30", "@daily"])
def test_fields_that_are_refused(field: str) -> None:
    with pytest.raises(CronError):
        CronTab.parse(field)


def test_a_date_that_never_comes() -> None:
    assert CronTab.parse("0", "0", "30", "2", "*").next_run(FROM) is None


SPRING = utc(2024, 3, 10, 6)  # 01:00 EST; 02:00 becomes 03:00
AUTUMN = calendar.timegm((2024, 11, 3, 4, 30, 0))  # 00:30 EDT; 02:00 becomes 01:00
AUTUMN_AGAIN = AUTUMN + 5700  # 01:05 EST, after 01:05 EDT


@pytest.mark.usefixtures("new_york")
def test_a_run_inside_the_gap_comes_later_by_the_jump() -> None:
    assert runs(CronTab.parse("30", "2"), SPRING, 2) == [
        "2024-03-10 03:30 EDT",
        "2024-03-11 02:30 EDT",
    ]


@pytest.mark.usefixtures("new_york")
def test_hourly_runs_go_on_across_the_gap() -> None:
    assert runs(CronTab.parse("*/30"), SPRING, 3) == [
        "2024-03-10 01:30 EST",
        "2024-03-10 03:00 EDT",
        "2024-03-10 03:30 EDT",
    ]


@pytest.mark.usefixtures("new_york")
def test_a_fixed_hour_runs_once_when_it_comes_twice() -> None:
    assert runs(CronTab.parse("30", "1"), AUTUMN, 2) == [
        "2024-11-03 01:30 EDT",
        "2024-11-04 01:30 EST",
    ]


@pytest.mark.usefixtures("new_york")
def test_a_fixed_hour_that_is_past_is_past_though_the_clock_shows_it_again() -> None:
    second_pass = AUTUMN_AGAIN
    assert runs(CronTab.parse("30", "1"), second_pass, 1) == ["2024-11-04 01:30 EST"]
    assert runs(CronTab.parse("30", "1-3"), second_pass, 1) == ["2024-11-03 02:30 EST"]
    assert runs(CronTab.parse("30"), second_pass, 1) == ["2024-11-03 01:30 EST"]


@pytest.mark.usefixtures("new_york")
def test_hourly_runs_come_in_both_of_two_equal_hours() -> None:
    assert runs(CronTab.parse("*/30"), AUTUMN, 6) == [
        "2024-11-03 01:00 EDT",
        "2024-11-03 01:30 EDT",
        "2024-11-03 01:00 EST",
        "2024-11-03 01:30 EST",
        "2024-11-03 02:00 EST",
        "2024-11-03 02:30 EST",
    ]


def test_a_jobs_crontab() -> None:
    assert CronTab.of(ClassAd({"Cmd": "x"})) is None
    assert CronTab.of(ClassAd({"CronHour": "3"})) == CronTab.parse("*", "3")
    ad = ClassAd({"CronDayOfMonth": "30", "CronMonth": "2"})
    with pytest.raises(DeferralError, match="never comes"):
        next_deferral(ad, FROM, time.gmtime, calendar.timegm)
    assert next_deferral(ClassAd({"CronMinute": "0"}), FROM, time.gmtime, calendar.timegm) == 1714730400


def test_how_late_counts() -> None:
    one = Deferral(1000, window=120, preparation=300)
    assert one.judge(999) is Late.WAIT
    assert one.judge(1045) is Late.START
    assert one.left(1045) == 75
    assert one.judge(1120) is Late.START
    assert one.judge(1121) is Late.MISSED


def test_a_jobs_deferral() -> None:
    ad = ClassAd({"QDate": 1000, "DeferralTime": expr("QDate + 60")})
    assert deferral_of(ad) == Deferral(1060, 0, 300)
    assert deferral_of(ClassAd()) is None
    for wrong in ("x", -1, True, expr("nope"), 1.5):
        with pytest.raises(DeferralError, match="DeferralTime"):
            deferral_of(ClassAd({"DeferralTime": wrong}))


@pytest.mark.parametrize("text", [",".join(["5"] * 1000), "9" * 5000, "0-" + "9" * 5000, "*/" + "9" * 5000])
def test_a_field_is_not_a_book(text: str) -> None:
    with pytest.raises(CronError, match="characters"):
        CronTab.parse(text)
