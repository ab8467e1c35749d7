"""Tools that do a whole thing by themselves, on a real pool: run a command, find a host, give the collector ads."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=2) as started:
        home = started.directory / "home"
        home.mkdir()
        home.chmod(0o777)
        yield started


def ran(pool: RealPool, *argv: str, text: str = "", user: str | None = None) -> tuple[int, str, str]:
    """A verb of `pool`: exit status and what it printed."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("pool")), *argv],
        cwd=pool.directory / "home",
        env={**pool.env(), "SHELL": "/bin/sh"},
        input=text,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        **as_account(user),
    )
    return done.returncode, done.stdout, done.stderr


def test_a_command_runs_as_a_job_and_its_output_and_status_are_the_tools(pool: RealPool) -> None:
    command = "echo out; echo err >&2; exit 7"
    assert ran(pool, "run", command, user=pool.user) == (7, "out\n", "err\n")
    assert ran(pool, "run", "kill -9 $$", user=pool.user) == (137, "", "Condor job killed by signal 9.\n")
    assert ran(pool, "run", "-a", "arguments = a b", 'echo "$@"', user=pool.user) == (0, "a b\n", "")
    assert os.listdir(pool.directory / "home") == []


def test_what_warns_at_submission_is_said_of_a_commands_job_too(pool: RealPool) -> None:
    misspelt = 'requrements=(OpSys=="LINUX")'
    status, out, err = ran(pool, "run", "-a", misspelt, "exit 3", user=pool.user)
    assert (status, out) == (3, "")
    said = "WARNING: the line 'requrements = (OpSys==\"LINUX\")' was unused by condor_submit. Is it a typo?"
    assert err.startswith(said)


def test_a_commands_job_knows_the_number_of_its_cluster(pool: RealPool) -> None:
    shown = 'environment = "CLUSTER=$(Cluster)"'
    first, second = (ran(pool, "run", "-a", shown, "echo $CLUSTER", user=pool.user)[1] for _ in range(2))
    assert 1 < int(first) < int(second)


def test_a_host_that_can_be_spared_is_found(pool: RealPool) -> None:
    machine = pool.slots()[0].eval_str("Machine")
    assert ran(pool, "findhost") == (0, f"{machine}\n", "")
    assert ran(pool, "findhost", "-m", "-n", "3", "-r", "Cpus") == (2, f"{machine}\n", "")
    assert ran(pool, "findhost", "-c", "Cpus > 1000") == (1, "", "")
    assert ran(pool, "findhost", "-c", "Cpus >")[0] == 1


def test_ads_are_given_to_the_collector_and_taken_from_it(pool: RealPool) -> None:
    ads = 'MyType = "Generic"\nName = "one"\nKept = 1\n\nMyType = "Generic"\nName = "two"\nKept = 2\n'
    status, out, err = ran(pool, "advertise", "-multiple", "UPDATE_AD_GENERIC", "-", text=ads)
    assert (status, err) == (0, "")
    assert out.startswith("Sent 2 of 2 ads to ")
    shown = "status", "-any", "-constraint", "Kept > 0", "-af", "Name", "Kept"
    assert sorted(ran(pool, *shown)[1].splitlines()) == ["one 1", "two 2"]
    query = 'MyType = "Query"\nTargetType = "Generic"\nRequirements = Kept == 2\n'
    assert ran(pool, "advertise", "INVALIDATE_ADS_GENERIC", text=query)[0] == 0
    assert ran(pool, *shown)[1] == "one 1\n"
    assert ran(pool, "advertise", "INVALIDATE_ADS_GENERIC", text='MyType = "Query"\n')[0] == 1
    assert ran(pool, *shown)[1] == "one 1\n"
    assert ran(pool, "advertise", "UPDATE_NONSENSE", "-", text=ads)[0] == 1
    account = 'MyType = "Accounting"\nName = "somebody@here"\nNegotiatorName = "other"\n'
    assert ran(pool, "advertise", "UPDATE_ACCOUNTING_AD", "-", text=account)[0] == 0
    assert "somebody@here" in ran(pool, "status", "-subsystem", "Accounting", "-af", "Name")[1]


def test_qsub_runs_an_array_and_a_job_that_waits_for_it(pool: RealPool) -> None:
    home = pool.directory / "home"
    (home / "array.sh").write_text(
        "#!/bin/sh\n#PBS -N array -j oe\n#$ -cwd\necho task $SGE_TASK_ID of $SGE_TASK_LAST\n"
    )
    status, out, err = ran(pool, "qsub", "-S", "/bin/sh", "-t", "1-2", "array.sh", user=pool.user)
    assert (status, err) == (0, "")
    first = int(out.split()[2])
    assert out == f'Your job {first} ("array") has been submitted\n'
    status, out, err = ran(pool, "qsub", "-hold_jid", str(first), "-b", "y", "-cwd", "echo", "after", user=pool.user)
    assert (status, err) == (0, "")
    second = int(out.split()[2])
    pool.until_done(first)
    pool.until_done(second)
    assert (home / f"array.o{first}.1").read_text() == "task 1 of 2\n"
    assert (home / f"array.o{first}.2").read_text() == "task 2 of 2\n"
    assert (home / f"echo.o{second}").read_text() == "after\n"
    for path in home.iterdir():
        path.unlink()
    assert ran(pool, "qsub", "-print", "-test", "-b", "y", "true", user=pool.user)[1].startswith("universe = vanilla\n")
    assert ran(pool, "qsub", "-nonsense")[0] == 1


def test_a_log_is_fetched_by_who_may(pool: RealPool) -> None:
    machine = pool.slots()[0].eval_str("Machine") or ""
    status, out, err = ran(pool, "fetchlog", machine, "MASTER")
    assert (status, err) == (0, "")
    assert "MASTER" in out
    assert "SCHEDD" in ran(pool, "fetchlog", "-schedd", machine, "SCHEDD")[1]
    for wrong in ("NONSENSE", "MASTER.old", "MASTER/../x", "HISTORY"):
        status, out, err = ran(pool, "fetchlog", machine, wrong)
        assert (status, out) == (1, "")
        assert err
    if pool.user is not None and os.geteuid() == 0:
        assert "PERMISSION DENIED" in ran(pool, "fetchlog", machine, "MASTER", user=pool.user)[2]


def test_facts_are_gathered_about_a_host_and_a_job(pool: RealPool) -> None:
    home = pool.directory / "home"
    cluster = pool.submit("executable = /bin/sleep\nhold = true\nqueue\n", cwd=home)
    assert ran(pool, "gather_info", user=pool.user) == (0, "condor-profile.txt\n", "")
    assert "==== condor_config_val -dump -verbose ====" in (home / "condor-profile.txt").read_text()
    status, out, err = ran(pool, "gather_info", "--jobid", f"{cluster}.0", user=pool.user)
    assert (status, err) == (0, "")
    with tarfile.open(home / out.strip()) as archive:
        names = {name.rpartition("/")[2] for name in archive.getnames()}
    assert names >= {"condor-profile.txt", "job_q", "job_ad", "job_ad_analysis", "job_why"}
    assert ran(pool, "gather_info", "--jobid", "nonsense")[0] == 1
    pool.tool("condor_rm", str(cluster))
    for path in home.iterdir():
        path.unlink()


def test_daemons_are_asked_themselves(pool: RealPool) -> None:
    machine = pool.slots()[0].eval_str("Machine", "")
    assert ran(pool, "who", "-wait:60", "IsReady", "-af", "IsReady", "STARTD_State") == (0, "true Ready\n", "")
    assert ran(pool, "status", "-direct", machine, "-schedd", "-af", "MyType") == (0, "Scheduler\n", "")
    assert ran(pool, "status", "-direct", machine, "-snapshot", "-af", "MyType")[1].startswith("Machine\n")
    status, out, _ = ran(pool, "ping", "-type", "startd", "-table", "READ", user=pool.user)
    assert (status, out.splitlines()[1].split()[:2]) == (0, ["READ", "FS"])


def test_records_of_users_are_made_and_forgotten(pool: RealPool) -> None:
    user = "someone@else.where"
    said = f"The priority factor of {user} was set to 20.000000\n"
    assert ran(pool, "userprio", "-setfactor", user, "20") == (0, said, "")
    assert ran(pool, "userprio", "-allusers", user, "-af", "PriorityFactor") == (0, "20.0\n", "")
    said = f"The accountant record named {user} was deleted\n"
    assert ran(pool, "userprio", "-delete", user) == (0, said, "")
    assert ran(pool, "userprio", user, "-json") == (0, "[\n]\n", "")


def test_every_daemon_says_how_busy_it_is_and_where(pool: RealPool) -> None:
    expression = "RecentDaemonCoreDutyCycle >= 0.0 && RecentDaemonCoreDutyCycle <= 1.0"
    for kind in ("Master", "Collector", "Negotiator", "Schedd", "StartD"):
        address = f"{kind.capitalize()}IpAddr"
        _, out, _ = ran(pool, "status", f"-{kind.lower()}", "-af", expression, f"{address} == MyAddress")
        assert set(out.splitlines()) == {"true true"}, kind


def test_condor_wait_says_that_a_job_is_held_and_knows_no_job_that_is_not_in_the_log(pool: RealPool) -> None:
    home = pool.place("waits")
    never = "executable = /bin/sleep\nrequirements = false\n"  # one that runs is held when it has left its slot
    held = pool.submit(f"{never}log = waits.log\nhold = true\nqueue\n", cwd=home)
    pool.tool("condor_release", str(held))
    pool.tool("condor_hold", "-reason", "for a test", str(held))
    pool.until(lambda: "for a test" in (home / "waits.log").read_text(), "the hold in the log")
    program = Path(sys.executable).with_name("condor_wait")

    def wait(*argv: str) -> tuple[int, str, str]:
        done = subprocess.run([program, *argv], cwd=home, env=pool.env(), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    status, out, err = wait("-wait", "0", "waits.log")
    assert (status, out) == (1, "Time expired.\n")
    assert err.startswith(f"Job {held}.0 is held: for a test")
    assert wait("waits.log", f"{held + 1}") == (1, "", "waits.log: This log does not mention that job!\n")
    pool.tool("condor_rm", str(held))
    assert wait("waits.log") == (0, "All jobs done.\n", "")


def test_a_token_is_fetched_and_stands_for_whom_the_daemon_takes_one_for(pool: RealPool) -> None:
    home = pool.directory / "home"
    status, out, err = ran(pool, "token_fetch", "-lifetime", "600", "-authz", "READ", "-file", "kept", user=pool.user)
    assert (status, err) == (0, "")
    assert out == "Token stored in kept\n"
    assert (home / "kept").stat().st_mode & 0o777 == 0o600
    held = ran(pool, "token_list", "-dir", str(home), user=pool.user)[1]
    assert "Scopes: condor:/READ " in held
    assert "Expires: never" not in held
    (home / "kept").unlink()
    assert ran(pool, "token_fetch", user=pool.user)[1].startswith("eyJ")
    assert ran(pool, "token_fetch", "-token", "../kept", user=pool.user)[2] == "Token name isn't a plain filename\n"
    assert ran(pool, "token_fetch", "-key", "other", user=pool.user)[0] == 1
    assert ran(pool, "token_create", "-key", "other", user=pool.user)[0] == 1
    made = ran(pool, "token_create", "-id", "friend@there", "-file", "other")
    assert (made[0], (home / "other").exists()) == (0, True)
    held = ran(pool, "token_list", "-dir", str(home))[1]
    assert held.startswith("Subject: friend@there ")
    (home / "other").unlink()


def test_a_generic_ad_is_found_by_its_own_attributes(pool: RealPool) -> None:
    ad = 'MyType = "Generic"\nFauxType = "DBMS"\nName = "random-test"\nMachine = "f05"\nMyAddress = "<128.105.149.105:34000>"\n'
    assert ran(pool, "advertise", "UPDATE_AD_GENERIC", "-", text=f"{ad}DaemonStartTime = 1153192799\n")[0] == 0
    wanted = 'FauxType=="DBMS" && regexp("random.*", Name, "i")'
    _, out, _ = ran(pool, "status", "-any", "-constraint", wanted)
    assert [line.split() for line in out.splitlines() if line] == [
        ["MyType", "TargetType", "Name"],
        ["Generic", "None", "random-test"],
    ]


def test_one_query_may_be_quoted_in_several_ways(pool: RealPool) -> None:
    for written in (' OpSys == "LINUX"  ', 'OpSys=="LINUX"'):
        assert ran(pool, "status", "-const", written, "-af", "Name")[1] == f"{pool.slots()[0]['Name']}\n"
    assert ran(pool, "status", "-const", "KeyboardIdle > 60*60*24*1000 && Memory > 4000000", "-af", "Name")[1] == ""
    for option in ("-avail", "-available"):  # as HTCondor has it, and as its documents do
        assert ran(pool, "status", option, "-af", "State")[1].splitlines()[0] == "Unclaimed"
