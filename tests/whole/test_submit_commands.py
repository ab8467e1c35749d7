"""Commands that a description may use have their effect, or draw a warning when the job is submitted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool

HELD = 5


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=4) as running:
        yield running


@pytest.fixture
def here(pool: RealPool) -> Path:
    """A directory that the pool's user may write to."""
    directory = pool.directory / f"jobs{len(list(pool.directory.glob('jobs*')))}"
    directory.mkdir()
    directory.chmod(0o777)
    return directory


def test_a_job_without_file_transfer_runs_in_its_remote_directory(pool: RealPool, here: Path) -> None:
    job = "executable = /bin/pwd\nremote_initialdir = /usr/lib\nshould_transfer_files = no\noutput = out\nqueue\n"
    pool.until_done(pool.submit(job, cwd=here))
    assert (here / "out").read_text() == "/usr/lib\n"


def test_common_and_public_input_comes_along(pool: RealPool, here: Path) -> None:
    for name in ("own", "common", "public"):
        (here / name).write_text(f"{name}\n")
    job = (
        "executable = /bin/cat\narguments = own common public\ntransfer_input_files = own\noutput = out\nerror = err\n"
    )
    job += "should_transfer_files = yes\ntransfer_common_input = common\npublic_input_files = public\nqueue\n"
    pool.until_done(pool.submit(job, cwd=here))
    assert (here / "err").read_text() == ""
    assert (here / "out").read_text() == "own\ncommon\npublic\n"


def test_a_proxy_comes_along(pool: RealPool, here: Path) -> None:
    (here / "proxy.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    job = "executable = /bin/sh\narguments = \"-c 'cat $X509_USER_PROXY; dirname $X509_USER_PROXY | grep -c ^$_CONDOR_SCRATCH_DIR'\"\nx509userproxy = proxy.pem\noutput = out\n"
    pool.until_done(pool.submit(f"{job}should_transfer_files = yes\nqueue\n", cwd=here))
    assert (here / "out").read_text() == "-----BEGIN CERTIFICATE-----\n1\n", "the copy in the sandbox"


def test_the_submit_event_has_the_attributes_that_are_asked_for(pool: RealPool, here: Path) -> None:
    job = 'executable = /bin/true\nlog = log\nbatch_name = mine\n+Colour = strcat("gr", "een")\n'
    job += "submit_event_notes_attrs = Colour, NoSuchThing, JobPrio\nhold = true\nqueue\n"
    pool.submit(job, cwd=here)
    notes = (here / "log").read_text().splitlines()[1]
    assert notes.startswith("    [ ")
    assert 'Colour = "green"' in notes
    assert "JobPrio = 0" in notes
    assert 'JobBatchName = "mine"' in notes
    assert "NoSuchThing" not in notes


def test_the_ad_of_a_job_lists_its_past_matches(pool: RealPool, here: Path) -> None:
    job = "executable = /bin/sh\narguments = \"-c 'exit $NUMBER'\"\nmatch_list_length = 2\n"
    job += "environment = NUMBER=0\non_exit_remove = NumJobStarts > 2\nqueue\n"
    cluster = pool.submit(job, cwd=here)
    [ad] = pool.until_done(cluster)
    assert ad.eval_str("LastMatchName0", "").startswith("slot1_")
    assert ad.eval_str("LastMatchName1", "").startswith("slot1_")
    assert "LastMatchName2" not in ad


@pytest.mark.skipif(os.geteuid() != 0, reason="without root's rights jobs have the pool's own group")
def test_a_primary_group_that_the_owner_does_not_have_holds_the_job(pool: RealPool, here: Path) -> None:
    cluster = pool.submit("executable = /bin/true\nprimary_unix_group = root\nqueue\n", cwd=here)
    [ad] = pool.until_status(cluster, HELD)
    assert ad["HoldReasonCode"] == 49
    assert "primary_unix_group: nobody is not a member of the group root" in str(ad["HoldReason"])


@pytest.mark.parametrize(
    ("erase", "left"), [("", "one\n"), ("erase_output_and_error_on_restart = false", "one\none\n")]
)
def test_output_begins_anew_after_an_eviction_unless_it_shall_not(
    pool: RealPool, here: Path, erase: str, left: str
) -> None:
    script = "echo one; test -e second && exit 0; touch second; sleep 1000"
    job = f"executable = /bin/sh\narguments = \"-c '{script}'\"\noutput = out\n{erase}\n"
    job += "should_transfer_files = yes\nwhen_to_transfer_output = ON_EXIT_OR_EVICT\nqueue\n"
    cluster = pool.submit(job, cwd=here)
    pool.until_status(cluster, 2)
    seen = pool.directory / "execute"
    pool.until(lambda: list(seen.glob("dir_*/second")), "the first run's mark")
    pool.tool("condor_vacate_job", str(cluster))
    pool.until_done(cluster)
    assert (here / "out").read_text() == left


def test_a_command_without_effect_draws_a_warning(pool: RealPool, here: Path) -> None:
    (here / "a.sub").write_text(
        "executable = /bin/true\ncontainer_is_common = true\nmanifest = true\n"
        "load_profile = false\nappend_files = x\ntool_daemon_cmd = /bin/true\nhold = true\nqueue\n"
    )
    submit = [str(Path(sys.executable).with_name("condor_submit")), "a.sub"]
    done = subprocess.run(
        submit,
        cwd=here,
        env=pool.env(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
        **as_account(pool.user),
    )
    for name in ("container_is_common", "manifest", "append_files", "tool_daemon_cmd"):
        assert f"WARNING: the command '{name}' has no effect: " in done.stderr
    assert "load_profile" not in done.stderr, "what is asked for is what is done anyway"
