"""When a user gets no other file agent."""

from __future__ import annotations

from pool.jobs.agent_trust import REFUSED_S, AgentTrust


def test_agents_that_fail_again_and_again_are_the_last_for_a_while() -> None:
    trust = AgentTrust()
    assert not any(trust.failed(now, 60.0) for now in (0.0, 30.0, 59.0))
    assert not trust.refuses(59.0)
    assert trust.failed(60.0, 60.0)
    assert trust.refuses(61.0)
    assert not trust.refuses(60.0 + REFUSED_S)
    assert not trust.failed(500.0, 60.0)  # counted anew


def test_a_quick_row_of_failures_is_waited_out_with_longer_and_longer_pauses() -> None:
    trust = AgentTrust()
    pauses = []
    for number in range(12):
        assert not trust.failed(number * 0.1, 60.0)
        pauses.append(trust.pause_s)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 30.0)


def test_what_works_is_trusted_again() -> None:
    trust = AgentTrust()
    for now in (0.0, 40.0):
        assert not trust.failed(now, 60.0)
    trust.worked()
    assert trust.pause_s == 0.0
    assert not trust.failed(80.0, 60.0)
