"""Which devices say when the keyboard and the console were last used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pool.slots.idle import LastUse

NOW = 10_000.0


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """Three terminals, a mouse, and who has logged in, in a directory of their own."""
    found = tmp_path / "dev"
    (found / "pts").mkdir(parents=True)
    for name, at in (("tty1", 7000), ("pts/0", 9000), ("pts/7", 9990), ("mouse", 9500), ("null", 9999), ("tty", 9998)):
        (found / name).touch()
        os.utime(found / name, (at, at))
    return found


def last_use(dev: Path, *ttys: str, utmp: bool = True) -> LastUse:
    sessions = dev.parent / "sessions"
    if ttys:
        sessions.mkdir()
    for number, tty in enumerate(ttys):
        (sessions / str(number)).write_text(f"UID=1000\nTTY={tty}\n")
    if utmp:
        (dev.parent / "utmp").touch()
    return LastUse(dev, dev.parent / "utmp", sessions)


def test_the_terminals_of_people_who_are_logged_in_count(dev: Path) -> None:
    seen = last_use(dev, "pts/0", "tty1", "pts/99")
    assert seen.look(NOW, [], every_terminal=False) == (1000, None)


@pytest.mark.parametrize(("bad_utmp", "utmp"), [(True, True), (False, False)])
def test_all_ptys_count_where_utmp_is_bad_or_missing(dev: Path, bad_utmp: bool, utmp: bool) -> None:
    assert last_use(dev, utmp=utmp).look(NOW, [], every_terminal=bad_utmp) == (10, None)


def test_a_console_is_a_keyboard_too(dev: Path) -> None:
    assert last_use(dev, "tty1").look(NOW, ["mouse", "console"], every_terminal=False) == (500, 500)


def test_a_host_without_a_keyboard_is_idle_for_ever(dev: Path) -> None:
    assert last_use(dev).look(NOW, ["console"], every_terminal=False) == (NOW, NOW)


def test_who_has_logged_out_is_remembered(dev: Path) -> None:
    seen = last_use(dev, "pts/0")
    seen.look(NOW, [], every_terminal=False)
    (dev.parent / "sessions" / "0").unlink()
    assert seen.look(NOW + 60, [], every_terminal=False) == (1060, None)


def test_a_key_of_the_machine_itself_is_at_its_console(dev: Path) -> None:
    seen = last_use(dev)
    seen.used(NOW - 3)
    assert seen.look(NOW, [], every_terminal=False) == (3, 3)
