"""A place that was named is used or refused: never does another pool stand in for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.whole.home import Home, a_home

TCP = ("-c", "NETWORK_INTERFACE=127.0.0.1", "-c", "SHARED_PORT_PORT=0", "-c", "CONDOR_HOST=$(FULL_HOSTNAME)")
SUBMIT = "executable = /bin/true\nhold = true\nqueue\n"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with a_home() as home:
        home.done("pool", "up", "-c", "NUM_CPUS=1", "-c", "DAEMON_LIST=MASTER, COLLECTOR, NEGOTIATOR, SCHEDD", *TCP)
        yield home


def queue(home: Home) -> str:
    return home.done("condor_q", "-af", "ClusterId")


def test_pool_down_of_a_directory_without_a_pool_stops_no_other_pool(home: Home) -> None:
    for name in ("typo", "empty"):
        (home.directory / "empty").mkdir(exist_ok=True)
        found = home.run("pool", "down", "--dir", str(home.directory / name))
        assert found.returncode == 1
        assert str(home.directory / name) in found.stderr
        assert "is down" not in found.stdout
    assert queue(home) == ""  # it still answers


@pytest.mark.parametrize("tool", ["condor_q", "condor_status", "condor_submit", "condor_config_val"])
def test_pool_dir_without_a_pool_is_refused_by_every_tool(home: Home, tool: str) -> None:
    argv = (tool, "LOCAL_DIR") if tool == "condor_config_val" else (tool,)
    found = home.run(*argv, text=SUBMIT, POOL_DIR=str(home.directory / "typo"))
    assert found.returncode != 0
    assert f"POOL_DIR={home.directory}/typo" in found.stderr
    assert queue(home) == ""


@pytest.mark.parametrize("where", ["directory='{home}/typo'", "pool='nosuchhost.invalid'", "pool=''", "directory=''"])
def test_connect_to_a_place_that_is_not_there_submits_nowhere(home: Home, where: str) -> None:
    code = f"""
import minipool
try:
    with minipool.connect({where.format(home=home.directory)}) as pool:
        pool.submit(minipool.Submit(executable='/bin/true', hold=True))
except minipool.PoolError as error:
    print('refused:', error)
"""
    assert home.done("python", "-c", code).startswith("refused:")
    assert queue(home) == ""


def test_a_tool_with_the_name_of_a_pool_asks_no_other_pools_schedd(home: Home) -> None:
    for tool in ("condor_q", "condor_submit"):
        found = home.run(tool, "-pool", "nosuchhost.invalid", text=SUBMIT)
        assert found.returncode != 0
        assert "nosuchhost.invalid" in found.stderr
    assert queue(home) == ""


def test_the_schedd_of_this_host_is_used_when_the_named_pool_has_it(home: Home) -> None:
    address = (home.pool / "run" / "schedd.address").read_text()
    there = address.strip("<").partition("?")[0]
    assert home.done("condor_q", "-pool", there, "-af", "ClusterId") == ""


def test_a_copied_directory_is_not_the_pool_that_it_was_copied_from(home: Home) -> None:
    copy = home.directory / "copy"
    (copy / "run").mkdir(parents=True, exist_ok=True)
    (copy / "config").write_text((home.pool / "config").read_text())
    (copy / "config").chmod(0o644)
    found = home.run("pool", "down", "--dir", str(copy))
    assert found.returncode == 1
    assert f"LOCAL_DIR = {home.pool}" in found.stderr
    assert queue(home) == ""


def test_two_places_that_disagree_are_refused(home: Home) -> None:
    other = home.directory / "other"
    (other / "run").mkdir(parents=True, exist_ok=True)
    found = home.run("condor_q", CONDOR_CONFIG=str(home.pool / "config"), POOL_DIR=str(other))
    assert found.returncode != 0
    assert "CONDOR_CONFIG" in found.stderr
    assert str(other) in found.stderr
