"""condor_status prints the same of columns as of ads, whatever the ads say, and asks twice only where it has to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from minipool.cli.pool_tools import status
from pool.classad import ClassAd, expr
from tests.minipool.cli.fake_pool import FakePeer, FakeSession, read_ads, run_tool

ADS = [*read_ads("files/slots.ads"), *read_ads("files/gpu.ads"), *read_ads("machines.ads")]
CALLS = (
    (), ("-wide",), ("-wide:132",), ("-totals",), ("-server",), ("-state",), ("-avail",), ("-claimed",), ("-vm",),
    ("-java",), ("-absent",), ("-natural:off",), ("-any",), ("-limit", "7"), ("-sort", "false"), ("-wide", "-server"),
    ("-aaf", "Cpus", "SlotType"), ("-constraint", "Cpus > 1"), ("-server", "-totals"), ("-state", "-totals"),
)  # fmt: skip
SHOWN = (
    "Name", "Machine", "Arch", "OpSys", "State", "Activity", "Memory", "Cpus", "CondorLoadAvg", "OCU", "LoadAvg",
    "EnteredCurrentActivity", "EnteredCurrentState", "MyCurrentTime", "LastHeardFrom", "BackfillSlot", "Mips", "KFlops",
    "Disk", "KeyboardIdle", "RemoteUser", "TargetType", "ClassAdLifetime", "SlotType",
)  # fmt: skip
PLAIN = (
    0, 1, -1, 7, 10**9, 2**62, 0.0, -0.0, 1.0, 0.25, 1e300, float("nan"), float("inf"), True, False, "", "1", "Owner",
    "Claimed", "Unclaimed", "Idle", "a\nb", "x" * 60, "slot10@Host2", "ä",
)  # fmt: skip


class Counting(FakeSession):
    """Knows how it was asked."""

    def __init__(self, ads: Sequence[ClassAd]) -> None:
        super().__init__(FakePeer([], {}), ads)
        self.asked: list[str] = []

    def query(self, *words: Any, **how: Any) -> list[ClassAd]:
        self.asked.append("ads")
        return super().query(*words, **how)

    def query_batches(self, *words: Any, **how: Any) -> Any:
        self.asked.append("columns")
        return super().query_batches(*words, **how)


def printed(monkeypatch: pytest.MonkeyPatch, argv: Sequence[str], ads: Sequence[ClassAd]) -> tuple[Any, list[str]]:
    session = Counting(ads)
    return run_tool(monkeypatch, "status", argv, session), session.asked


def assert_same(monkeypatch: pytest.MonkeyPatch, argv: Sequence[str], ads: Sequence[ClassAd]) -> list[str]:
    found, asked = printed(monkeypatch, argv, ads)
    with monkeypatch.context() as patch:
        patch.setattr(status, "columns_do", lambda _: False)
        expected, _ = printed(patch, argv, ads)
    assert found == expected
    return asked


def mutated(rng: random.Random, values: Sequence[Any]) -> list[ClassAd]:
    """Some of the ads, with other values for some of what is shown, and some of that left out."""
    ads = [ad.copy() for ad in rng.choices(ADS, k=12)]
    for ad in ads:
        for name in rng.sample(SHOWN, k=rng.choice((0, 1, 5))):
            if rng.random() < 0.2:
                ad.pop(name, None)
            else:
                ad[name] = rng.choice(values)
    return ads


@pytest.mark.parametrize("argv", CALLS, ids=" ".join)
def test_columns_print_what_ads_print(monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]) -> None:
    assert assert_same(monkeypatch, argv, ADS) == ["columns"]


@pytest.mark.parametrize("argv", CALLS, ids=" ".join)
def test_columns_print_what_ads_print_of_odd_values(monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]) -> None:
    rng = random.Random(f"odd {argv}")
    for _ in range(25):
        assert_same(monkeypatch, argv, mutated(rng, PLAIN))


@pytest.mark.parametrize("argv", [(), ("-wide",), ("-wide:90",), ("-wide:132",)], ids=" ".join)
@pytest.mark.parametrize("longest_s", [90_000, 10**7, 10**9])
def test_times_and_names_of_which_each_is_another_are_printed_the_same(
    monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], longest_s: int
) -> None:
    slots = [ad for ad in ADS if type(ad.get("EnteredCurrentActivity")) is int and type(ad.get("MyCurrentTime")) is int]
    ads = [slots[number % len(slots)].copy() for number in range(40)]
    for number, ad in enumerate(ads):
        ad["Name"] = f"slot{number}@{'n' * number}"
        ad["LastHeardFrom"] = ad["MyCurrentTime"]
        ad["EnteredCurrentActivity"] = ad.eval_int("MyCurrentTime", 0) + 60 - number * longest_s // 39
    assert assert_same(monkeypatch, argv, ads) == ["columns"]


def test_an_expression_or_a_list_among_the_values_takes_the_ads_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    for value in (expr("Cpus * 512"), [1, 2], ClassAd({"a": 1}), expr("undefined")):
        ads = [ad.copy() for ad in rng.choices(ADS, k=6)]
        ads[3]["MyType"] = "Machine"
        ads[3]["Memory"] = value
        assert assert_same(monkeypatch, (), ads) == ["columns", "ads"]


@pytest.mark.parametrize("argv", [("-long",), ("-compact",), ("-af", "Name"), ("-sort", "Memory"), ("-startd",)])
def test_what_no_columns_can_say_is_asked_for_as_ads(monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]) -> None:
    assert printed(monkeypatch, argv, ADS)[1] == ["ads"]


def test_an_empty_pool_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, (), [])[0] == (0, "", "")
