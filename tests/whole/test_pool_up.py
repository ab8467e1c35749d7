"""`pool up` that cannot start a pool says why at once and leaves nothing; what a pool was first started with stays."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.whole.home import Home, a_home


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with a_home() as home:
        yield home


@pytest.fixture
def new_home() -> Iterator[Home]:
    """Where no pool was started yet."""
    with a_home() as home:
        yield home


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("START=1 +", "START = 1 + is not an expression"),
        ("MEMORY=4GB", "MEMORY = 4GB"),
        ("SCHEDD_INTERVAL=abc", "SCHEDD_INTERVAL = abc"),
        ("SCHEDD.MAX_JOBS_RUNNING=-5", "MAX_JOBS_RUNNING"),
        ("SLOT_TYPE_1=cpus=200%", "SLOT_TYPE_1"),
        ("DAEMON_LIST=", "DAEMON_LIST"),
        ("DAEMON_LIST=MASTER", "DAEMON_LIST"),
        ("DAEMON_LIST=STRATD", 'did you mean "STARTD"?'),
        ("NETWORK_INTERFACE=192.0.2.1", "192.0.2.1"),
    ],
)
def test_a_setting_that_a_daemon_cannot_use_is_told_at_once_and_nothing_is_left(
    home: Home, setting: str, said: str
) -> None:
    more = ("-c", "NUM_SLOTS_TYPE_1=1") if setting.startswith("SLOT_TYPE") else ()
    found = home.run("pool", "up", "-c", setting, *more)
    if found.returncode == 0:
        home.done("pool", "down", "-fast")
    assert found.returncode == 1
    assert "is not ready after" not in found.stderr  # as if it were slow to start
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert home.until_no_master()
    assert not (home.pool / "config").exists()
    assert home.run("pool", "down").returncode == 1


def test_a_misspelt_knob_is_named_with_the_one_that_was_meant(home: Home) -> None:
    found = home.run("pool", "up", "--dir", str(home.directory / "other"), "-c", "NUM_CPU=4")
    assert 'unknown knob "NUM_CPU" (did you mean "NUM_CPUS"?)' in found.stderr
    home.done("pool", "down", "--dir", str(home.directory / "other"))


@pytest.mark.parametrize("place", ["{home}/file", "{home}/file/below", "/proc/pool", "/dev/null"])
def test_a_place_that_can_be_no_directory_is_told(home: Home, place: str) -> None:
    (home.directory / "file").write_text("")
    path = place.format(home=home.directory)
    for argv in (("up", "--dir", path), ("down", "--dir", path)):
        found = home.run("pool", *argv)
        assert found.returncode == 1
        assert path in found.stderr
        assert "Traceback" not in found.stderr


def test_what_a_pool_was_first_started_with_stays_and_later_settings_hold_for_their_start(new_home: Home) -> None:
    home = new_home

    def number(*options: str) -> str:
        home.done("pool", "up", *options)
        try:
            return home.done("condor_config_val", "NUM_CPUS", "UID_DOMAIN")
        finally:
            home.done("pool", "down", "-fast")

    quick = ("-c", "DAEMON_LIST=MASTER, COLLECTOR")
    assert number(*quick, "-c", "NUM_CPUS=3", "-c", "UID_DOMAIN=first.test") == "3\nfirst.test\n"
    assert number() == "3\nfirst.test\n"
    assert number("-c", "NUM_CPUS=2") == "2\nfirst.test\n"
    assert number() == "3\nfirst.test\n"
    found = home.run("pool", "up", "-c", "START=1 +", "-c", "UID_DOMAIN=second.test")
    assert found.returncode == 1
    assert home.done("condor_config_val", "UID_DOMAIN") == "first.test\n"
    assert os.path.exists(home.pool / "config")
