"""What is dear to evaluate or to read, in every place where a daemon looks at it: nobody else waits long for that."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pool.classad import ClassAd
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.collector import QueryAds
from protocol.messages.schedd import QueryJobs, Selection
from protocol.rpc.blocking import connect
from protocol.rpc.endpoints import RemoteError
from protocol.security.credentials import Security
from tests.attacks.held_loops import nobody_held
from tests.attacks.test_evaluation import BOMB, HELD, jobs, said_by
from tests.whole.real_pool import RealPool, real_pool

BACKTRACKS = f'"{"a" * 60}X"'
MOUTH = """#!/usr/bin/env python3
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
bomb = {bomb!r}
print(f'Bomb = {{bomb}}\\nSlotMergeConstraint = {{bomb}}\\n- one\\n', end='')
for number in range(10_000):
    print(f'Word = "{{"x" * 400}}"\\n- tag{{number}}')
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """One pool for all attacks."""
    settings = {
        "NUM_CPUS": "2",
        "PERIODIC_EXPR_INTERVAL": "1",
        "MAX_JOB_BYTES_PER_OWNER": "10000000",
        "CLASSAD_USER_MAP_NAMES": "evil",
        "CLASSAD_USER_MAPDATA_evil": r"* /^(a|aa)+$/ x",
    }
    with real_pool(start=False, **settings) as one:
        mouth = one.directory / "mouth"
        mouth.write_text(MOUTH.format(bomb=BOMB))
        mouth.chmod(0o755)
        for daemon in ("SCHEDD", "STARTD"):
            one.settings |= {
                f"{daemon}_CRON_JOBLIST": "mouth",
                f"{daemon}_CRON_MOUTH_MODE": "OneShot",
                f"{daemon}_CRON_MOUTH_ARGS": str(one.directory / f"{daemon.lower()}.go"),
                f"{daemon}_CRON_MOUTH_EXECUTABLE": str(mouth),
            }
        one.start()
        yield one


@pytest.mark.parametrize("command", ["on_exit_hold", "on_exit_remove"])
def test_at_the_end_of_jobs(pool: RealPool, command: str) -> None:
    with nobody_held(pool, "schedd"):
        cluster = pool.submit(jobs(f"{command} = {BOMB}", 8))
        pool.until(lambda: all(ad.eval_int("NumJobStarts") for ad in pool.jobs(str(cluster))), "all jobs to have run")
    if pool.jobs(str(cluster)):
        pool.tool("condor_rm", str(cluster))


def filled_in(expression: str, times: int) -> str:
    """A job that asks so often for the value of an expression with the slot's ad."""
    return "My.Long = " + quoted(f"$$([{expression}])" * times)


def quoted(text: str) -> str:
    return ClassAd({"x": text}).text("x")


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        (BOMB, 30),
        (f'join("{"x" * 1000}", split("{"a " * 2000}"))', 30),
        ("1", 1000),
    ],
)
def test_in_what_a_slot_fills_in(pool: RealPool, expression: str, times: int) -> None:
    with nobody_held(pool, "schedd"):
        cluster = pool.submit(jobs(filled_in(expression, times)))
        if times < 1000:
            pool.until_status(cluster, HELD)
            pool.tool("condor_rm", str(cluster))
        pool.until_done(cluster)


@pytest.mark.parametrize(
    ("minute", "code"),
    [
        (",".join(["5"] * 300_000), HoldCode.INVALID_CRON_SETTINGS),
        ("9" * 5000, HoldCode.INVALID_CRON_SETTINGS),
        ("0-" + "9" * 5000, HoldCode.INVALID_CRON_SETTINGS),
        (None, HoldCode.EXPRESSION_TOO_COSTLY),
    ],
)
def test_in_crontabs(pool: RealPool, minute: str | None, code: HoldCode) -> None:
    with nobody_held(pool, "schedd"):
        cluster = pool.submit(jobs(f"My.CronMinute = {BOMB if minute is None else quoted(minute)}", 8))
        for ad in pool.until_status(cluster, HELD, count=8):
            assert ad["HoldReasonCode"] == code
    pool.tool("condor_rm", str(cluster))


def test_in_names_of_logs(pool: RealPool) -> None:
    """Each job of a submission with a log of its own has it looked up."""
    description = pool.directory / "logs.sub"
    description.write_text(jobs(f'My.UserLog = strcat("/tmp/log$(Process)", {BOMB})', 40))
    with nobody_held(pool, "schedd"):
        said = said_by(pool, "condor_submit", str(description))
    assert "costs too much" in said, said[-300:]


@pytest.mark.parametrize(("tool", "daemon"), [("condor_status", "collector"), ("condor_q", "schedd")])
def test_in_maps_of_users(pool: RealPool, tool: str, daemon: str) -> None:
    pool.submit(jobs("hold = true", 4))
    asked = " || ".join([f'userMap("evil", {BACKTRACKS}) == "x"'] * 3)
    with nobody_held(pool, daemon):
        pool.tool(tool, "-constraint", asked, check=False)


@pytest.mark.parametrize(
    ("request_of", "daemon"), [(QueryAds, "collector"), (QueryJobs, "schedd"), (QueryAds, "startd")]
)
def test_in_projections(pool: RealPool, request_of: type[QueryAds | QueryJobs], daemon: str) -> None:
    names = [f"a{number}" for number in range(6000)]
    request = (
        QueryAds(ad_type="Any", projection=names)
        if request_of is QueryAds
        else QueryJobs(select=Selection(), projection=names)
    )
    with (
        connect(str(pool.run_dir / f"{daemon}.sock"), Security()) as peer,
        pytest.raises(RemoteError, match="at most 5000"),
    ):
        for _ in peer.stream(request):
            pass


def test_in_constraints_for_a_startd(pool: RealPool) -> None:
    with nobody_held(pool, "startd"):
        pool.tool("condor_status", "-direct", socket.gethostname(), "-constraint", BOMB, check=False)


@pytest.mark.parametrize("daemon", ["schedd", "startd"])
def test_in_what_cron_jobs_say(pool: RealPool, daemon: str) -> None:
    log = pool.directory / "log" / ("SchedLog" if daemon == "schedd" else "StartLog")
    with nobody_held(pool, daemon, grows_mib=30):
        (pool.directory / f"{daemon}.go").touch()
        pool.until(lambda: "'mouth' (pid" in log.read_text(), "the end of the program")


def test_what_one_owner_has_in_all(pool: RealPool) -> None:
    description = pool.directory / "fat.sub"
    description.write_text(jobs(f"hold = true\nMy.Fat = {quoted('x' * 1_000_000)}"))
    accepted = 0
    while "MAX_JOB_BYTES_PER_OWNER exceeded" not in (said := said_by(pool, "condor_submit", str(description))):
        accepted += 1
        assert accepted < 12, said[-300:]
    pool.tool("condor_rm", "-all")
    pool.until(lambda: not pool.jobs(), "the end of all jobs")
    assert "submitted to cluster" in said_by(pool, "condor_submit", str(description))
