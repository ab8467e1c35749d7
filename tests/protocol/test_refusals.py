"""What is said of those who are refused."""

from __future__ import annotations

import pytest

from protocol.network.refusals import LINE_CHARS_MAX, LINES_MAX, LINES_OF_ONE_MAX, PERIOD_S, Refusals


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_of_one_so_many_lines_are_logged_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    refusals = Refusals(clock)
    for number in range(LINES_OF_ONE_MAX + 90):
        refusals.say("uid 5", f"line {number}")
    refusals.say("uid 6", "of another")
    assert len(caplog.records) == LINES_OF_ONE_MAX + 1
    refusals.flush()
    assert len(caplog.records) == LINES_OF_ONE_MAX + 1
    clock.now += PERIOD_S
    refusals.flush()
    assert caplog.records[-1].getMessage().startswith("90 more refusals")
    refusals.say("uid 5", "again")
    assert caplog.records[-1].getMessage() == "again"


def test_many_who_are_refused_fill_no_log_either(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(Clock())
    for number in range(10_000):
        refusals.say(f"10.0.0.{number}", "refused")
    assert len(caplog.records) == LINES_MAX
    assert len(refusals._said) <= LINES_MAX


def test_a_line_has_an_end(caplog: pytest.LogCaptureFixture) -> None:
    Refusals(Clock()).say("uid 5", "x" * 10_000)
    assert len(caplog.records[0].getMessage()) <= LINE_CHARS_MAX + 3
