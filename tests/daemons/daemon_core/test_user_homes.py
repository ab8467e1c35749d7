"""Homes of accounts for userHome() in daemons."""

from __future__ import annotations

import threading
import time

from daemons.daemon_core.user_homes import WAIT_S, UserHomes, home_of


def test_the_home_is_that_of_the_account() -> None:
    homes = UserHomes()
    assert [homes(name) for name in ("root", "no-such-account", "nul\0")] == [home_of("root"), None, None]
    assert home_of("root") == "/root"


def test_a_slow_answer_does_not_hold_the_daemon_and_counts_when_it_is_there() -> None:
    may_answer, asked = threading.Event(), []

    def look(name: str) -> str | None:
        asked.append(name)
        may_answer.wait(30)
        return f"/home/{name}"

    homes = UserHomes(look)
    before = time.monotonic()
    assert homes("ann") is None
    assert homes("ann") is None
    assert time.monotonic() - before < 100 * WAIT_S
    waiting = homes._ask("ann")
    may_answer.set()
    assert waiting.wait(30)
    assert homes("ann") == "/home/ann"
    assert asked == ["ann"]


def test_answers_are_asked_for_again_in_time() -> None:
    now, homes_of_ann = [0.0], iter(["/old", "/new"])
    homes = UserHomes(lambda _name: next(homes_of_ann), lambda: now[0])

    def home() -> str | None:
        homes("ann")
        homes._asked.get("ann", threading.Event()).wait(0 if "ann" not in homes._asked else 30)
        return homes("ann")

    assert home() == "/old"
    now[0] = 301.0
    assert home() == "/new"
