"""A job of root's that moves files, and an attacker who wants root's: root's agent follows nobody into another's trap."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.actors import ATTACKER, VICTIM, needs_accounts, run_as
from tests.whole.real_pool import RealPool, real_pool

pytestmark = needs_accounts

MOVES = "should_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT\n"
SECRET = "of root alone\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """A pool in which root submits."""
    with real_pool(user=None, NUM_CPUS=4) as found:
        yield found


@pytest.fixture
def roots() -> Iterator[Path]:
    """A file that root alone may read and write."""
    with tempfile.TemporaryDirectory(prefix="root-", dir="/tmp") as directory:
        path = Path(directory) / "secret"
        path.write_text(SECRET)
        path.chmod(0o600)
        yield path


@pytest.fixture(params=["everybodys", "the attackers"])
def trap(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory in which the attacker makes names, and from which root submits all the same."""
    directory = Path(tempfile.mkdtemp(prefix="trap-", dir="/tmp"))
    directory.chmod(0o777)
    if request.param == "the attackers":
        shutil.chown(directory, ATTACKER)
        directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def _as_attacker(*argv: str | Path) -> None:
    done = run_as(ATTACKER, *map(str, argv))
    assert done.returncode == 0, done.stderr


def _ended(pool: RealPool, cluster: int) -> str:
    """Wait until the job is held or has left; why it is held."""

    def over() -> list[str]:
        left = pool.jobs(str(cluster))
        if not left:
            return ["left"]
        return [ad.eval_str("HoldReason", "") for ad in left if ad.eval_int("JobStatus") == 5]

    (found,) = pool.until(over, "the end of the job")
    pool.tool("condor_rm", str(cluster), check=False)
    return found


def test_output_is_not_written_through_anothers_link(pool: RealPool, trap: Path, roots: Path) -> None:
    _as_attacker("ln", "-s", roots, trap / "out")
    said = _ended(pool, pool.submit(f"executable = /bin/echo\n{MOVES}output = out\nqueue\n", cwd=trap))
    assert roots.read_text() == SECRET
    assert f"{trap} " in said
    assert "where root alone decides" in said


def test_input_is_not_read_through_anothers_link(pool: RealPool, trap: Path, roots: Path) -> None:
    _as_attacker("ln", "-s", roots, trap / "in")
    with tempfile.TemporaryDirectory(dir="/tmp") as own:
        said = _ended(
            pool,
            pool.submit(
                f"executable = /bin/cat\narguments = in\n{MOVES}transfer_input_files = {trap}/in\n"
                f"output = {own}/seen\nqueue\n",
                cwd=Path(own),
            ),
        )
        seen = Path(own) / "seen"
        assert not seen.exists() or SECRET not in seen.read_text()
    assert f"{trap} " in said
    assert "where root alone decides" in said


def test_the_event_log_is_not_written_through_anothers_link(pool: RealPool, trap: Path, roots: Path) -> None:
    _as_attacker("ln", "-s", roots, trap / "log")
    said = _ended(pool, pool.submit(f"executable = /bin/true\n{MOVES}log = {trap}/log\nqueue\n", cwd=Path("/tmp")))
    assert roots.read_text() == SECRET
    assert f"{trap} " in said
    assert "where root alone decides" in said


def test_a_second_name_in_a_shared_directory_is_no_way_to_roots_files(pool: RealPool, roots: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        os.chmod(shared, 0o1777)
        os.link(roots, Path(shared) / "log")  # an attacker can where protected_hardlinks is 0
        said = _ended(pool, pool.submit(f"executable = /bin/true\n{MOVES}log = log\nqueue\n", cwd=Path(shared)))
    assert roots.read_text() == SECRET
    assert "has several names" in said


def test_a_job_of_roots_cannot_open_roots_files(pool: RealPool, roots: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as own:
        script = Path(own) / "steal.sh"
        script.write_text(f"#!/bin/sh\ncondor_chirp fetch {roots} stolen\ncat stolen\n")
        script.chmod(0o755)
        pool.until_done(
            pool.submit(
                f"executable = steal.sh\n{MOVES}want_io_proxy = true\ntransfer_output_files = \n"
                f'environment = "PATH={Path(shutil.which("condor_chirp") or _bin()).parent}:/bin"\noutput = seen\nqueue\n',
                cwd=Path(own),
            )
        )
        assert SECRET not in (Path(own) / "seen").read_text()


def _bin() -> Path:
    import sys

    return Path(sys.executable).with_name("condor_chirp")


@pytest.mark.parametrize("name", [".profile", "tool"])
def test_what_the_description_does_not_name_replaces_nothing(pool: RealPool, name: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as own:
        there = Path(own) / name
        if name == "tool":
            there.write_text(SECRET)
            pool.until(lambda: there.stat().st_ctime < int(_now(own)), "a second to pass")
        script = Path(own) / "make.sh"
        script.write_text(f"#!/bin/sh\necho evil > {name}\n")
        script.chmod(0o755)
        said = _ended(pool, pool.submit(f"executable = make.sh\n{MOVES}queue\n", cwd=Path(own)))
        assert "transfer_output_files does not name it" in said
        assert (there.read_text() if there.exists() else SECRET) == SECRET
        again = pool.submit(f"executable = make.sh\n{MOVES}transfer_output_files = {name}\nqueue\n", cwd=Path(own))
        assert _ended(pool, again) == "left"
        assert there.read_text() == "evil\n"


def _now(directory: str) -> float:
    """The file system's clock."""
    mark = Path(directory) / ".now"
    mark.touch()
    return mark.stat().st_ctime


def test_roots_agent_has_no_capability_and_speaks_with_root_alone(pool: RealPool) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as own:
        cluster = pool.submit(f"executable = /bin/sleep\narguments = 600\n{MOVES}log = log\nqueue\n", cwd=Path(own))
        pool.until_status(cluster, 2)
        socket = pool.run_dir / "agents" / "0.sock"
        assert (socket.stat().st_uid, socket.stat().st_mode & 0o777) == (0, 0o600)
        agents = [
            status for status in map(_status, pool.processes()) if status.get("Name", "").strip() == "condor_agent"
        ]
        found = {(one["CapEff"].strip(), one["CapBnd"].strip(), one["NoNewPrivs"].strip()) for one in agents}
        assert found == {("0" * 16, "0" * 16, "1")}
        for account in (ATTACKER, VICTIM):
            tried = f"import socket; socket.socket(socket.AF_UNIX).connect({str(socket)!r})"
            assert "PermissionError" in run_as(account, "/usr/bin/env", "python3", "-c", tried).stderr
        pool.tool("condor_rm", str(cluster))


def _agents(pool: RealPool) -> list[int]:
    return [pid for pid in pool.processes() if _name(pid) == "condor_agent"]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines)
