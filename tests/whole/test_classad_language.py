"""What the configuration adds to the language of expressions counts in the daemons and tools of a running pool."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.whole.real_pool import DEADLINE_S, RealPool, pool_directory, real_pool

USER = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
CONFIG = """\
CLASSAD_USER_PYTHON_MODULES = pool.classad.extend.example_functions, site_functions
START = triple(TARGET.Weight) =?= 63
CLASSAD_ENABLE_USER_HOME = true
SCHEDD_CLASSAD_USER_MAP_NAMES = Trust
TOOL_CLASSAD_USER_MAP_NAMES = Trust
CLASSAD_USER_MAPDATA_Trust @=end
  * {user} Admin
  * /.*/  Nobody
  * /(/ Broken
  night {user} Sleeper
@end
use FEATURE : AssignAccountingGroup({directory}/groups)
"""
MODULE = """\
from pool.classad.extend.user import register

@register
def triple(number):
    return number * 3
"""
JOB = "executable = /bin/true\nMy.Weight = {weight}\nrequest_memory = 1 MB\nrequest_disk = 1 MB\n{more}\nqueue\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with pytest.MonkeyPatch.context() as patch, real_pool(start=False) as one:
        library = one.directory / "python"
        library.mkdir(mode=0o755)
        (library / "site_functions.py").write_text(MODULE)
        patch.setenv("PYTHONPATH", str(library))
        (one.directory / "groups").write_text(f"* {USER} physics,chemistry\n")
        (one.directory / "config").write_text(CONFIG.format(user=USER, directory=one.directory))
        one.start()
        yield one


def test_functions_of_the_site_work_in_tools_and_in_the_collector(pool: RealPool) -> None:
    days = time.strftime("%Y-%m-%d"), pool.tool("condor_status", "-format", "%s\n", "todays_date()", "-limit", "1")
    assert days[1].strip() in (days[0], time.strftime("%Y-%m-%d"))
    pool.until(lambda: pool.tool("condor_status", "-master", "-af", "Name"), "the master's ad")
    assert pool.tool("condor_status", "-master", "-af", "Name", "-constraint", "double(21) == 42").strip()
    assert not pool.tool("condor_status", "-master", "-af", "Name", "-constraint", "triple(21) == 42").strip()
    assert pool.tool("condor_status", "-master", "-af", 'python_invoke("site_functions", "triple", 4)').strip() == "12"


def test_functions_of_the_site_work_in_the_policies_of_machines_and_jobs(pool: RealPool) -> None:
    light = pool.submit(JOB.format(weight=1, more=""))
    refused = pool.submit(JOB.format(weight=21, more='requirements = todays_date() == "1970-01-01"'))
    cluster = pool.submit(JOB.format(weight=21, more="requirements = double(TARGET.Cpus) >= 2"))
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ExitCode") == 0
    assert [job["JobStatus"] for job in pool.jobs(str(light), str(refused))] == [1, 1]
    told = pool.tool("condor_q", "-allusers", "-af", "Weight", "-constraint", f"triple(ClusterId) == {3 * light}")
    assert told.split() == ["1"]


def test_a_map_gives_jobs_their_accounting_group(pool: RealPool) -> None:
    cluster = pool.submit(JOB.format(weight=1, more=""))
    chosen = pool.submit(JOB.format(weight=1, more="accounting_group = chemistry"))
    said = [(ad["AcctGroup"], ad["AccountingGroup"]) for ad in pool.jobs(str(cluster), str(chosen))]
    assert said == [("physics", f"physics.{USER}"), ("chemistry", f"chemistry.{USER}")]
    asked = JOB.format(weight=1, more="accounting_group = astrology")
    with pytest.raises(AssertionError, match="Permission denied setting accounting_group to astrology"):
        pool.submit(asked)


def test_user_maps_and_homes_are_known_to_tools_and_to_the_schedd(pool: RealPool) -> None:
    cluster = str(pool.submit(JOB.format(weight=1, more="")))
    asked = ['userMap("Trust", Owner)', 'userMap("Trust", "eve")', 'userMap("trust.NIGHT", Owner)', "userHome(Owner)"]
    home = pwd.getpwnam(USER).pw_dir
    assert pool.tool("condor_q", "-allusers", cluster, "-af:,", *asked).strip() == f"Admin, Nobody, Sleeper, {home}"
    constraint = f'ClusterId == {cluster} && userMap("Trust", Owner) == "Admin" && userHome(Owner) == "{home}"'
    assert pool.tool("condor_q", "-allusers", "-af", "Owner", "-constraint", constraint).strip() == USER
    log = (pool.directory / "log" / "SchedLog").read_text()
    assert "WARNING: ignoring CLASSAD_USER_MAPDATA_Trust:3:3: /(/ is no regular expression" in log


def test_a_reconfiguration_brings_new_maps_and_functions(pool: RealPool) -> None:
    function = f"fivefold_{uuid.uuid4().hex}"  # a daemon that has learnt one knows it until its end
    later = MODULE.replace("triple", function).replace("* 3", "* 5")
    (pool.directory / "python" / f"for_{function}.py").write_text(later)
    constraint = f"{function}(ClusterId) > 0"
    pool.submit(JOB.format(weight=1, more=""))
    assert not pool.tool("condor_q", "-allusers", "-af", "Owner", "-constraint", constraint).strip()
    with also(pool, f"for_{function}", group="biology"):
        pool.until(
            lambda: pool.tool("condor_q", "-allusers", "-af", "Owner", "-constraint", constraint), "the new function"
        )
        assert group_of_a_new_job(pool) == "biology"
    pool.until(lambda: group_of_a_new_job(pool) == "physics", "the earlier map")


@contextmanager
def also(pool: RealPool, module: str, group: str) -> Iterator[None]:
    """The pool is reconfigured to have this module too, and another map of groups; and back again."""
    files = [pool.directory / name for name in ("groups", "config")]
    before = [file.read_text() for file in files]
    assert pool.master is not None
    files[0].write_text(f"* {USER} {group}\n")
    files[1].write_text(before[1].replace("site_functions", f"site_functions, {module}", 1))
    pool.master.send_signal(signal.SIGHUP)
    yield
    for file, text in zip(files, before, strict=True):
        file.write_text(text)
    pool.master.send_signal(signal.SIGHUP)


def group_of_a_new_job(pool: RealPool) -> str | None:
    (ad,) = pool.jobs(str(pool.submit(JOB.format(weight=1, more=""))))
    return ad.eval_str("AcctGroup")


def test_in_strict_mode_plain_names_stay_in_their_own_ad() -> None:
    with real_pool(start=False, STRICT_CLASSAD_EVALUATION="true", STARTD_ATTRS="Colour", Colour='"red"') as pool:
        (pool.directory / "config").write_text("STRICT_CLASSAD_EVALUATION = true\n")
        pool.start()
        plain = pool.submit(JOB.format(weight=1, more='requirements = Colour == "red"'))
        scoped = pool.submit(JOB.format(weight=1, more='requirements = TARGET.Colour == "red"'))
        pool.until_done(scoped)
        assert [ad["JobStatus"] for ad in pool.jobs(str(plain))] == [1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "CLASSAD_USER_LIBS = /usr/lib/shared.so",
            "CLASSAD_USER_LIBS = /usr/lib/shared.so: libraries cannot be loaded",
        ),
        ("CLASSAD_USER_PYTHON_MODULES = no_such_module", "cannot import no_such_module"),
    ],
)
def test_functions_that_cannot_be_had_are_refused_with_file_and_line(line: str, said: str) -> None:
    with pool_directory() as directory:
        (directory / "config").write_text(f"# a site's own\n{line}\n")
        pool = RealPool(directory, {})
        argv = [sys.executable, "-m", "daemons", "master", "--dir", str(directory)]
        process = subprocess.Popen(argv, env=pool.env(), stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            _, errors = process.communicate(timeout=DEADLINE_S)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(DEADLINE_S)
            pool.kill()
        assert process.returncode == 2
        assert f"{directory}/config:2" in errors
        assert said in errors
