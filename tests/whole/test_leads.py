"""The checker of two central managers sees what it is there for."""

from __future__ import annotations

import pytest

from tests.whole.leads import complaints

A, B = "10 (D_ALWAYS) Leads. term=2 schedds=2\n", "20 (D_ALWAYS) Leads. term=3 schedds=2\n"


def leases(at: int, term: int) -> str:
    return f"{at} (D_ALWAYS) Leases to a negotiator. term={term} rank=0 address=x\n"


def takes(at: int, term: int) -> str:
    return f"{at} (D_FULLDEBUG) Takes matches. term={term} offered=1\n"


GOOD = leases(9, 2) + takes(12, 2) + leases(19, 3) + takes(21, 3)


def test_one_after_the_other_is_right() -> None:
    assert complaints({"a": A, "b": B}, {"s": GOOD, "t": leases(9, 2) + takes(12, 2)}) == []


@pytest.mark.parametrize(
    ("negotiators", "schedds", "said"),
    [
        ({"a": A, "b": A + B}, {"s": GOOD}, "b and a both lead in the term 2"),
        ({"a": A, "b": B + A}, {"s": GOOD}, "b leads in the terms [3, 2]"),
        ({"a": A, "b": B}, {"s": GOOD + leases(22, 2)}, "s leases in the term 2 after 3, at 22"),
        ({"a": A, "b": B}, {"s": GOOD + takes(22, 2)}, "s takes matches of the term 2, and leases to 3, at 22"),
        ({"a": A}, {"s": GOOD}, "s takes matches of the term 3, in which nobody leads, at 21"),
        (
            {"a": A, "b": B},
            {"s": GOOD, "t": leases(9, 2) + takes(22, 2)},
            "t takes matches of the term 2 after others took some of 3, at 22",
        ),
    ],
)
def test_every_sign_of_two_is_seen(negotiators: dict[str, str], schedds: dict[str, str], said: str) -> None:
    assert said in complaints(negotiators, schedds)
