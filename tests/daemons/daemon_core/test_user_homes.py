"""Homes of accounts for userHome() in daemons."""

from __future__ import annotations

import threading

from daemons.daemon_core.user_homes import UserHomes, home_of


def answer(homes: UserHomes, name: str) -> str | None:
    """What is known of the account once somebody has looked, however long that takes."""
    homes(name)
    if asked := homes._asked.get(name):
        assert asked.wait(60)
    return homes(name)


def test_the_home_is_that_of_the_account() -> None:
    homes = UserHomes()
    assert [answer(homes, name) for name in ("root", "no-such-account", "nul\0")] == [home_of("root"), None, None]
    assert home_of("root") == "/root"


def test_a_slow_answer_does_not_hold_the_daemon_and_counts_when_it_is_there() -> None:
    may_answer, asked = threading.Event(), []

    def look(name: str) -> str | None:
        asked.append(name)
        may_answer.wait()
        return f"/home/{name}"

    homes = UserHomes(look)
    assert homes("ann") is None
    assert homes("ann") is None
    waiting = homes._ask("ann")
    may_answer.set()
    assert waiting.wait(60)
    assert homes("ann") == "/home/ann"
    assert asked == ["ann"]


def test_answers_are_asked_for_again_in_time() -> None:
    now, homes_of_ann = [0.0], iter(["/old", "/new"])
    homes = UserHomes(lambda _name: next(homes_of_ann), lambda: now[0])

    assert answer(homes, "ann") == "/old"
    now[0] = 301.0
    assert answer(homes, "ann") == "/new"
