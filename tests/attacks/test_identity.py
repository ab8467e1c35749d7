"""Nobody runs, charges or writes as somebody else by what his jobs' ads say: on root's pool, with ordinary accounts."""

from __future__ import annotations

import json
import pwd
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.attacks.actors import ATTACKER, VICTIM, needs_accounts, python_as, run_as
from tests.whole.real_pool import RealPool, real_pool

pytestmark = needs_accounts

HELD = 5
TRANSFORM = "REQUIREMENTS Wanted isnt undefined\n" + "\n".join(
    f"COPY Wanted {name}" for name in ("Owner", "OsUser", "User", "NTDomain")
)
RAW = """
    import json, sys
    from pool.classad import ClassAd, expr
    from protocol.wire.ad_table import pack_table
    from protocol.rpc.blocking import connect
    from protocol.wire.codec import pack_ads
    from protocol.messages.schedd import EditJobs, Selection
    from protocol.messages.submit import SubmitJobs
    from protocol.rpc.remote import RemoteError
    from protocol.security.credentials import Security

    def submit(cluster, procs, **more):
        with connect(sys.argv[1], Security()) as peer:
            answer = peer.call(SubmitJobs(cluster_ad=ClassAd(cluster), procs=procs, **more))
        return answer.cluster, answer.warnings

    def job(command, **more):
        return {
            "Cmd": command[0], "Args": " ".join(command[1:]), "Iwd": sys.argv[2], "ShouldTransferFiles": "NO",
            "RequestMemory": 1, "RequestCpus": 1, "RequestDisk": 1, "TransferExecutable": False,
            "Requirements": True, "Out": "/dev/null", "Err": "/dev/null", "In": "/dev/null", **more,
        }
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        user=ATTACKER,
        NUM_CPUS="4",
        JOB_TRANSFORM_NAMES="Copies",
        JOB_TRANSFORM_Copies=TRANSFORM,
        SCHEDD_INTERVAL="1",
    ) as pool:
        home = pool.directory / "home"
        home.mkdir()
        home.chmod(0o777)
        yield pool


@pytest.fixture
def home(pool: RealPool) -> Path:
    """A directory in which everybody may write."""
    return pool.directory / "home"


def raw(pool: RealPool, home: Path, code: str) -> list[Any]:
    """What a client of the protocol says as the attacker; the list of values that it printed as JSON."""
    socket = str(pool.run_dir / "schedd.sock")
    said = python_as(ATTACKER, dedent(RAW) + dedent(code), socket, str(home), env=pool.env())
    return [json.loads(line) for line in said.splitlines()]


def id_of(account: str) -> int:
    return pwd.getpwnam(account).pw_uid


def users_of(home: Path, stem: str) -> set[int]:
    """As whom jobs ran that wrote the output of `id -u` to files of this name."""
    return {int(path.read_text()) for path in home.glob(f"{stem}.[0-9]") if path.read_text()}


def assert_ran_as_the_attacker(pool: RealPool, home: Path, cluster: int, stem: str) -> None:
    ads = pool.until_done(cluster)
    assert users_of(home, stem) == {id_of(ATTACKER)}
    for ad in ads:
        assert (ad.eval_str("Owner"), ad.eval_str("OsUser")) == (ATTACKER, None)
        assert ad.eval_str("User", "").startswith(f"{ATTACKER}@")


TWO_LINES = """
    executable = /usr/bin/id
    arguments = -u
    transfer_executable = false
    should_transfer_files = no
    output = {stem}.$(Process)
    {more}
"""


def two_lines(pool: RealPool, home: Path, stem: str, more: str) -> tuple[int, str]:
    text = dedent(TWO_LINES).format(stem=stem, more=more)
    (home / f"{stem}.sub").write_text(text)
    said = run_as(ATTACKER, "env", "-C", str(home), tool("condor_submit"), f"{stem}.sub", env=pool.env())
    assert said.returncode == 0, said.stderr
    return int(said.stdout.split("cluster ")[1].split(".")[0]), said.stderr


def tool(name: str) -> str:
    import sys

    return str(Path(sys.executable).with_name(name))


def test_a_table_of_owners_runs_no_job_as_them(pool: RealPool, home: Path) -> None:
    more = f'My.Owner = "$(who)"\nMY.User = "$(who)@$(UID_DOMAIN)"\nqueue who in ({VICTIM}, {ATTACKER}, daemon)'
    cluster, said = two_lines(pool, home, "table", more)
    assert_ran_as_the_attacker(pool, home, cluster, "table")
    assert "WARNING: only the schedd sets these attributes" in said
    assert said.rstrip().endswith("Owner, User")


def test_jobs_made_later_run_as_their_submitter(pool: RealPool, home: Path) -> None:
    more = f'max_materialize = 1\nMy.Owner = "$(who)"\nqueue who in ({VICTIM}, {ATTACKER}, daemon)'
    cluster, _ = two_lines(pool, home, "later", more)
    assert_ran_as_the_attacker(pool, home, cluster, "later")


def test_a_transform_that_copies_what_users_say_changes_no_identity(pool: RealPool, home: Path) -> None:
    cluster, _ = two_lines(pool, home, "copied", f'My.Wanted = "$(who)"\nqueue who in ({VICTIM}, daemon)')
    assert_ran_as_the_attacker(pool, home, cluster, "copied")


@pytest.mark.parametrize("universe", ["local", "scheduler"])
def test_jobs_at_the_access_point_run_as_their_submitter(pool: RealPool, home: Path, universe: str) -> None:
    more = f'universe = {universe}\nMy.Owner = "$(who)"\nMy.Wanted = "$(who)"\nqueue who in ({VICTIM}, daemon)'
    cluster, _ = two_lines(pool, home, universe, more)
    assert_ran_as_the_attacker(pool, home, cluster, universe)


@pytest.mark.parametrize("form", ["map", "table", "shared", "cluster"])
def test_no_form_of_a_raw_submission_says_whose_the_job_is(pool: RealPool, home: Path, form: str) -> None:
    code = f"""
        victim = {{"oWNER": {VICTIM!r}, "OsUser": {VICTIM!r}, "User": {VICTIM!r} + "@nowhere", "NTDomain": "x"}}
        mine = {{"Out": "raw-{form}.0"}}
        ad = job(["/usr/bin/id", "-u"])
        said = {{
            "map": lambda: submit(ad, [pack_ads([ClassAd({{**mine, **victim}})])]),
            "table": lambda: submit(
                ad, [pack_table([*mine, *victim], [[value] for value in [*mine.values(), *victim.values()]], 1)]
            ),
            "shared": lambda: submit(ad, [pack_table(["Out"], [["raw-{form}.0"]], 1, victim)]),
            "cluster": lambda: submit({{**ad, **victim}}, [pack_ads([ClassAd(mine)])]),
        }}[{form!r}]()
        print(json.dumps(said))
    """
    ((cluster, warnings),) = raw(pool, home, code)
    assert_ran_as_the_attacker(pool, home, cluster, f"raw-{form}")
    assert any("owner" in warning.lower() for warning in warnings)


def test_edits_do_not_change_whose_the_job_is(pool: RealPool, home: Path) -> None:
    code = f"""
        cluster, _ = submit(job(["/usr/bin/id", "-u"], JobStatus=5), [pack_ads([ClassAd({{"Out": "edited.0"}})])])
        refused = []
        with connect(sys.argv[1], Security()) as peer:
            for name in ("Owner", "uSER", "OsUser", "NTDomain", "ClusterId", "JobUniverse", "QDate", "MyType"):
                try:
                    peer.call(EditJobs(select=Selection(ids=[str(cluster)]), assignments={{name: '"{VICTIM}"'}}))
                except RemoteError as error:
                    refused.append(name)
        print(json.dumps([cluster, refused]))
    """
    ((cluster, refused),) = raw(pool, home, code)
    assert len(refused) == 8
    pool.tool("condor_release", str(cluster))
    assert_ran_as_the_attacker(pool, home, cluster, "edited")


@pytest.mark.parametrize(
    "said",
    [
        f"accounting_group_user = {VICTIM}",
        f'+AccountingGroup = "{VICTIM}"',
        f"accounting_group = physics\naccounting_group_user = {VICTIM}",
        f'+AccountingGroup = strcat("{VICTIM[:3]}", "{VICTIM[3:]}")',
        f"nice_user = true\naccounting_group_user = {VICTIM}",
    ],
)
def test_nobody_is_charged_for_anothers_jobs(pool: RealPool, home: Path, said: str) -> None:
    (home / "charge.sub").write_text(f"executable = /bin/true\n{said}\nqueue\n")
    done = run_as(ATTACKER, tool("condor_submit"), str(home / "charge.sub"), env=pool.env())
    assert done.returncode != 0, done.stdout
    assert f"{ATTACKER} may not charge" in done.stderr


def test_nobody_is_charged_after_an_edit_or_in_a_later_job(pool: RealPool, home: Path) -> None:
    cluster, _ = two_lines(pool, home, "charged", "hold = true\nqueue")
    done = run_as(ATTACKER, tool("condor_qedit"), str(cluster), "AccountingGroup", f'"{VICTIM}"', env=pool.env())
    assert done.returncode != 0, done.stdout
    (home / "late.sub").write_text(
        f"executable = /bin/true\nmax_materialize = 1\n+AccountingGroup = $(who)\nhold = true\n"
        f'queue who in ("g.{ATTACKER}", "{VICTIM}")\n'
    )
    done = run_as(ATTACKER, tool("condor_submit"), str(home / "late.sub"), env=pool.env())
    if done.returncode == 0:
        late = int(done.stdout.split("cluster ")[1].split(".")[0])
        pool.tool("condor_rm", f"{late}.0")
        pool.until(lambda: not pool.jobs(str(late)) or "0" not in _procs(pool, late), "the next job, or none")
        assert all(ad.eval_str("AccountingGroup") != VICTIM for ad in pool.jobs(str(late)))


def _procs(pool: RealPool, cluster: int) -> set[str]:
    return {str(ad.eval_int("ProcId")) for ad in pool.jobs(str(cluster))}


PATHS = ["UserLog", "DAGManNodesLog", "Out", "Err", "In", "Iwd", "Cmd", "TransferInput", "X509UserProxy"]


def path_job(attribute: str, bad: str, form: str) -> str:
    """Code that submits a job with this bad name for a file: as a text, or as an expression whose value it is."""
    return f"""
        bad = sys.argv[2] + "/" + json.loads({json.dumps(json.dumps(bad))})
        ad = job(["/bin/true"], ShouldTransferFiles="YES", WhenToTransferOutput="ON_EXIT")
        ad[{attribute!r}] = bad
        if {form == "list"}:
            ad["Bad"], ad[{attribute!r}] = [bad], expr("Bad[0]")
        if {attribute != "UserLog"}:
            ad["UserLog"] = sys.argv[2] + "/paths.log"
        try:
            print(json.dumps(submit(ad, [])))
        except RemoteError as error:
            print(json.dumps([0, [str(error)]]))
    """


@pytest.mark.parametrize("attribute", PATHS)
def test_a_text_with_a_nul_is_refused(pool: RealPool, home: Path, attribute: str) -> None:
    ((cluster, said),) = raw(pool, home, path_job(attribute, "a\0b", "text"))
    assert (cluster, said) == (0, [f"{attribute} contains the character 0 (expected a text without it)"])


@pytest.mark.parametrize("attribute", ["UserLog", "Out", "TransferInput"])
def test_a_nul_comes_in_no_list_either(pool: RealPool, home: Path, attribute: str) -> None:
    ((cluster, said),) = raw(pool, home, path_job(attribute, "a\0b", "list"))
    assert (cluster, said) == (0, ["Bad contains the character 0 (expected a text without it)"])


def test_names_that_are_no_utf_8_cost_their_own_job_only(pool: RealPool, home: Path) -> None:
    """Each such job runs, or is held with a reason; nobody is started over and over, and the queue is written."""
    before = pool.pid_of("SCHEDD")
    code = "".join(path_job(attribute, "a\udc80b", "list") for attribute in PATHS)
    good = """
        print(json.dumps(submit(job(["/bin/true"], UserLog=sys.argv[2] + "/good.log"), [])))
    """
    clusters = [cluster for cluster, _ in raw(pool, home, code + good)]
    pool.until_done(clusters[-1])
    assert "Normal termination" in (home / "good.log").read_text()
    pool.until(lambda: states(pool) <= {HELD}, "the end of all that can run")
    assert "" not in held_for(pool)
    pool.tool("condor_rm", "-all")
    assert pool.pid_of("SCHEDD") == before


def states(pool: RealPool) -> set[int]:
    """The states of all jobs in the queue, asked for without names that are no UTF-8."""
    return set(map(int, pool.tool("condor_q", "-allusers", "-af", "JobStatus").split()))


def held_for(pool: RealPool) -> set[str]:
    """The codes for which jobs are on hold."""
    return set(pool.tool("condor_q", "-allusers", "-hold", "-af", "HoldReasonCode").splitlines())


def test_every_ad_that_leaves_the_queue_names_its_submitter(pool: RealPool) -> None:
    for query in ("condor_history", "condor_q"):
        said = pool.tool(query, "-af", "Owner", 'split(User, "@")[0]', "OsUser", "NTDomain", "MyType")
        assert set(said.splitlines()) <= {f"{ATTACKER} {ATTACKER} undefined undefined Job"}
