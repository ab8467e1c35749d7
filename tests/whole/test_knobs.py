"""What a configuration asks for is done, or said at the start not to be: no knob is accepted and ignored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.classad import ClassAd, parse_longs
from tests.whole.real_pool import DEADLINE_S, RealPool, pool_directory, real_pool

ODD = """\
JOB_ROUTER_MAX_JOBS = 9
JOB_ROUTER_POLLING_PERIOD = 11
JOB_ROUTER_SOURCE_JOB_CONSTRAINT = true
JOB_ROUTER_ROUTE_far = universe = vanilla
VM_GAHP_SERVER = /usr/sbin/condor_vm-gahp
USE_PROCD = true
SLOT_TYP_1 = cpus=1
NUM_CPU = 4
MY_HOST = there.example.org
COMMENT = $(MY_HOST)
SCHEDD_ATTRS = COLOUR
NEGOTIATOR_EXPRS = Weight
COLOUR = "green"
NEGOTIATOR.Weight = 3 + 4
MAX_NUM_DEFAULT_LOG = 3
TRUNC_SCHEDD_LOG_ON_OPEN = true
CONDOR_Q_ONLY_MY_JOBS = false
CONDOR_Q_DASH_BATCH_IS_DEFAULT = false
BOX_TOKEN_URL = far
"""


@pytest.fixture(scope="module")
def odd() -> Iterator[RealPool]:
    """A pool whose configuration asks for much that is not here."""
    with real_pool(start=False, DAEMON_LIST="MASTER, COLLECTOR, NEGOTIATOR, SCHEDD") as pool:
        (pool.directory / "config").write_text(ODD)
        (pool.directory / "log").mkdir()
        (pool.directory / "log" / "SchedLog").write_text("what an earlier schedd has said\n")
        pool.start()
        yield pool


def test_the_master_says_at_its_start_what_has_no_effect(odd: RealPool) -> None:
    log = (odd.directory / "log" / "MasterLog").read_text()
    file = odd.directory / "config"
    for name, line in {
        "JOB_ROUTER_MAX_JOBS": 1,
        "JOB_ROUTER_POLLING_PERIOD": 2,
        "JOB_ROUTER_SOURCE_JOB_CONSTRAINT": 3,
    }.items():
        assert f'{file}:{line}: warning: "{name}" has no effect' in log
    assert f'{file}:4: warning: "JOB_ROUTER_ROUTE_far" has no effect' in log
    assert "MY_HOST" not in log


def test_it_says_which_knobs_of_htcondors_and_which_misspelt_ones_it_does_not_know(odd: RealPool) -> None:
    log = (odd.directory / "log" / "MasterLog").read_text()
    file = odd.directory / "config"
    for name, line in {"VM_GAHP_SERVER": 5, "USE_PROCD": 6, "BOX_TOKEN_URL": 19}.items():
        assert f'{file}:{line}: warning: "{name}" is a knob of HTCondor\'s that has no effect here' in log
    assert f'{file}:7: warning: unknown knob "SLOT_TYP_1" (did you mean "SLOT_TYPE_1"?)' in log
    assert f'{file}:8: warning: unknown knob "NUM_CPU" (did you mean "NUM_CPUS"?)' in log
    assert "COLOUR" not in log


def test_the_attributes_that_a_configuration_lists_are_in_daemon_ads(odd: RealPool) -> None:
    def shown(kind: str) -> list[ClassAd]:
        return list(parse_longs(odd.tool("condor_status", kind, "-long").splitlines()))

    schedd = odd.until(lambda: shown("-schedd"), "the schedd's ad")[0]
    assert schedd.eval_str("COLOUR") == "green"
    negotiator = odd.until(lambda: shown("-negotiator"), "the negotiator's ad")[0]
    assert negotiator.eval_int("Weight") == 7


def test_a_log_begins_anew_where_that_is_wanted(odd: RealPool) -> None:
    assert not (odd.directory / "log" / "SchedLog").read_text().startswith("what an earlier")


def test_condor_q_shows_what_the_configuration_says(odd: RealPool) -> None:
    odd.submit("executable = /bin/true\nhold = true\nqueue\n")
    assert "HOLD_REASON" not in odd.tool("condor_q")
    assert " H " in odd.tool("condor_q"), "a line for each job, not one for the batch"


def refused(text: str, **settings: object) -> str:
    """What a master says that does not start with this configuration."""
    with real_pool(start=False, **settings) as pool:
        (pool.directory / "config").write_text(text)
        pool.start(wait=False)
        master = pool.master
        assert master is not None
        pool.until(lambda: master.poll() is not None or (pool.run_dir / "ready").exists(), "the master's decision")
        assert master.poll() == 2, "it has started"
        pool.master = None
        return (pool.directory / "master.err").read_text().replace(str(pool.directory), "DIR")


def test_a_daemon_that_does_not_exist_is_refused() -> None:
    said = refused("NUM_CPUS = 1\nDAEMON_LIST = MASTER, COLLECTOR, KBDD\n")
    assert "DIR/config:2:15: DAEMON_LIST: there is no daemon KBDD" in said


def test_pool_up_says_so_at_once_and_starts_nothing() -> None:
    with pool_directory() as directory:
        asked = ["up", "--dir", str(directory), "-c", "NUM_CPU=1", "-c", "DAEMON_LIST=MASTER KBDD"]
        pool = [str(Path(sys.executable).with_name("pool")), *asked]
        done = subprocess.run(pool, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == 1
        assert 'warning: unknown knob "NUM_CPU" (did you mean "NUM_CPUS"?)' in done.stderr
        assert "there is no daemon KBDD" in done.stderr
        assert not (directory / "run" / "master.pid").exists()
