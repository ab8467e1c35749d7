"""What slots read of jobs: of those that there are."""

from __future__ import annotations

from pool.classad import ClassAd, expr
from pool.matching.reads import NAMES_MAX, SlotsRead


def a_slot(start: str, **attributes: object) -> ClassAd:
    return ClassAd({"Start": expr(start), "Requirements": expr("Start"), "Rank": 0, "Cpus": 1, **attributes})


def test_what_the_slots_own_expressions_read_counts() -> None:
    read = SlotsRead()
    read.learn("slot1", a_slot("MyPolicy", MyPolicy=expr("TARGET.Foo > 3")))
    read.learn("slot2", a_slot("MyPolicy", MyPolicy=expr("TARGET.Bar > 3 && RequestCpus < 9")))
    assert read.names == {"foo", "bar"}
    read.learn("slot1", a_slot("MyPolicy", MyPolicy=expr("Deep"), Deep=expr("Cpus > 1 && TARGET.Baz")))
    assert read.names == {"baz", "bar"}


def test_what_only_slots_have_read_that_are_gone_is_forgotten() -> None:
    read = SlotsRead()
    for number in range(3):
        read.learn(f"slot{number}", a_slot("TARGET.Foo > 3"))
    read.learn("slot0", a_slot("true"))
    read.forget("slot1")
    assert read.names == {"foo"}
    read.forget("slot2")
    read.forget("slot2")
    assert read.names == set()


def test_a_host_of_ever_new_policies_makes_it_no_larger() -> None:
    read = SlotsRead()
    for number in range(20_000):
        read.learn("slot1", a_slot(f"TARGET.A{number} > 3"))
    assert read.names == {"a19999"}
    assert len(read._readings) < 20_000


def test_where_slots_read_too_much_that_counts_which_most_of_them_read() -> None:
    read = SlotsRead()
    read.learn("odd", a_slot(" || ".join(f"TARGET.A{number}" for number in range(2 * NAMES_MAX))))
    for number in range(3):
        read.learn(f"slot{number}", a_slot("TARGET.Foo > TARGET.Bar"))
    assert len(read.names) == NAMES_MAX
    assert {"foo", "bar"} <= read.names
