"""condor_config_val asks the daemon that is named, and changes what the daemon's configuration allows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

ALLOWED = {
    "ENABLE_RUNTIME_CONFIG": "True",
    "ENABLE_PERSISTENT_CONFIG": "True",
    "PERSISTENT_CONFIG_DIR": "$(SPOOL)",
    "SETTABLE_ATTRS_ADMINISTRATOR": "MAX_JOBS_*, START",
}


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(user=None, start=False, NETWORK_INTERFACE="127.0.0.1", SHARED_PORT_PORT="0", **ALLOWED) as pool:
        lines = (f"{name} = {value}\n" for name, value in {"LOCAL_DIR": pool.directory, **pool.settings}.items())
        (pool.directory / "config").write_text("".join(lines))
        pool.settings = {}
        pool.start()
        yield pool


def config_val(pool: RealPool, *argv: str, tool: str = "condor_config_val") -> tuple[int, str, str]:
    program = Path(sys.executable).with_name(tool)
    done = subprocess.run([program, *argv], env=pool.env(), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_daemon_is_asked_and_not_the_files_of_this_host(pool: RealPool) -> None:
    file = pool.directory / "config"
    before = file.read_text()
    file.write_text(before + "MAX_JOBS_PER_OWNER = 77\n")  # no daemon has read it
    address = (pool.run_dir / "schedd.address").read_text().splitlines()[0]
    try:
        assert config_val(pool, "MAX_JOBS_PER_OWNER") == (0, "77\n", "")
        name = pool.until(lambda: pool.tool("condor_status", "-schedd", "-af", "Name").strip(), "the schedd's ad")
        for which in (["-schedd"], ["-startd"], ["-master"], ["-schedd", "-name", name], ["-addr", address]):
            assert config_val(pool, *which, "MAX_JOBS_PER_OWNER") == (0, "100000\n", ""), which
        assert config_val(pool, "-schedd", "NOSUCHPARAM") == (1, "", "Not defined: NOSUCHPARAM\n")
        status, out, _ = config_val(pool, "-startd", "-dump", "^MAX_JOBS_PER_OWNER$")
        assert (status, "MAX_JOBS_PER_OWNER = 100000\n" in out) == (0, True)
    finally:
        file.write_text(before)


def test_a_daemon_that_is_not_there_is_no_reason_to_answer_for_another(pool: RealPool) -> None:
    status, out, err = config_val(pool, "-schedd", "-name", "nosuch.host", "LOG")
    assert (status, out) == (1, "")
    assert "Can't find address for schedd 'nosuch.host'" in err
    assert config_val(pool, "-pool", "127.0.0.1", "LOG") == (1, "", "Error: you must specify -name with -pool\n")


@pytest.mark.parametrize(("one", "un"), [("-rset", "-runset"), ("-set", "-unset")])
def test_a_knob_is_set_at_a_daemon_and_counts_after_its_reconfiguration(pool: RealPool, one: str, un: str) -> None:
    status, out, err = config_val(pool, "-schedd", one, "MAX_JOBS_PER_OWNER = 55")
    assert (status, err) == (0, "")
    assert "Successfully set" in out
    assert config_val(pool, "-schedd", "MAX_JOBS_PER_OWNER")[1] == "100000\n"
    pool.tool("condor_reconfig", "-schedd")
    assert config_val(pool, "-schedd", "MAX_JOBS_PER_OWNER")[1] == "55\n"
    assert config_val(pool, "-startd", "MAX_JOBS_PER_OWNER")[1] == "100000\n"
    pool.restart_of("schedd")
    lasts = "55\n" if one == "-set" else "100000\n"
    assert pool.until(lambda: config_val(pool, "-schedd", "MAX_JOBS_PER_OWNER")[1], "the schedd") == lasts
    assert config_val(pool, "-schedd", un, "MAX_JOBS_PER_OWNER")[0] == 0
    pool.tool("condor_reconfig", "-schedd")
    assert config_val(pool, "-schedd", "MAX_JOBS_PER_OWNER")[1] == "100000\n"


def test_what_is_not_settable_or_not_readable_is_refused(pool: RealPool) -> None:
    for setting, said in (
        ("MAX_JOBS_RUNNING=many", "MAX_JOBS_RUNNING = many"),
        ("START=1 +", "START = 1 + is not an expression"),
        ("SPOOL=/tmp", "may not set SPOOL"),
        ("SETTABLE_ATTRS_READ=*", "may not set SETTABLE_ATTRS_READ"),
    ):
        status, out, err = config_val(pool, "-schedd", "-rset", setting)
        assert (status, out) == (1, "")
        assert said in err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs an ordinary account beside root")
def test_an_ordinary_account_may_set_nothing(pool: RealPool) -> None:
    command = [Path(sys.executable).with_name("condor_config_val"), "-schedd", "-rset", "MAX_JOBS_RUNNING=3"]
    found = subprocess.run(command, env=pool.env(), capture_output=True, text=True, check=False, user=65534)
    assert "may not set MAX_JOBS_RUNNING" in found.stderr


def test_condor_reconfig_with_an_expression_that_cannot_be_read_says_so_and_changes_nothing(pool: RealPool) -> None:
    file = pool.directory / "config"
    before = file.read_text()
    file.write_text(before + "MAX_JOBS_PER_OWNER = 66\nSTART = 1 +\n")
    try:
        status, out, err = config_val(pool, tool="condor_reconfig")
        assert status == 1
        assert "START = 1 + is not an expression" in err
        assert "Sent" not in out
        assert config_val(pool, "-master", "MAX_JOBS_PER_OWNER")[1] == "100000\n"
    finally:
        file.write_text(before)


def test_the_configuration_is_written_as_one_file(pool: RealPool) -> None:
    path = pool.directory / "whole"
    assert config_val(pool, "-writeconfig", str(path)) == (0, "", "")
    assert "SETTABLE_ATTRS_ADMINISTRATOR = MAX_JOBS_*, START\n" in path.read_text()
    assert config_val(pool, "-writeconfig:upgrade", "-")[1].startswith("# Written by")
