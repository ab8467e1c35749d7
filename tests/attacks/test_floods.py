"""What one account floods the daemons with costs that account: another's condor_q answers as ever."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.messages.common import Ping
from protocol.rpc.blocking import connect
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.wire.address import Address
from tests.attacks.actors import ATTACKER, VICTIM, needs_accounts, python_as
from tests.attacks.flood import flood
from tests.whole.real_pool import RealPool, real_pool

pytestmark = needs_accounts

SOFT_LIMIT = 1024
FILES_MAX = 1500
"""What a daemon may have open: less than a flood, which else would fill nothing."""
FLOOD = 1600


@contextmanager
def pool_of_a_login_shell(**knobs: object) -> Iterator[RealPool]:
    """A pool started where 1,024 files may be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT, hard))
    try:
        with real_pool(user=VICTIM, ALL_DEBUG="", **knobs) as started:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            yield started
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """A pool whose daemons have room for fewer than a flood."""
    with pool_of_a_login_shell(MAX_FILE_DESCRIPTORS=FILES_MAX) as started:
        yield started


@pytest.fixture
def quiet_pool() -> Iterator[RealPool]:
    """A pool that has refused nobody yet (of one account it logs so many lines a minute), with no limit of its own."""
    with pool_of_a_login_shell() as started:
        yield started


def assert_others_are_answered(pool: RealPool) -> None:
    """Another account's condor_q is answered, each time; it gives up what is not answered in the time of a call."""
    for _ in range(3):
        pool.tool("condor_q")


def port_of(pool: RealPool, daemon: str) -> Address:
    """Where a daemon is reached over TCP."""
    return Address.parse((pool.run_dir / f"{daemon}.address").read_text().splitlines()[0])


def log_of(pool: RealPool, name: str) -> str:
    return (pool.directory / "log" / name).read_text(errors="replace")


def test_silent_connections_of_one_account(pool: RealPool) -> None:
    with flood("silent", pool.run_dir / "schedd.sock", count=FLOOD, account=ATTACKER):
        assert_others_are_answered(pool)


@pytest.mark.parametrize("kind", ["mute_port", "prefaced"])
def test_strangers_at_the_port(pool: RealPool, kind: str) -> None:
    address = port_of(pool, "schedd")
    with flood(kind, address, count=FLOOD, account=ATTACKER):
        security = Security(
            SecuritySettings(
                trust_domain="",
                keys=str(pool.directory / "keys"),
                ca_files=(str(pool.run_dir / "ca.pem"),),
            )
        )
        with connect(address, security) as peer:
            assert peer.call(Ping()).daemon == "schedd"
        assert_others_are_answered(pool)


def test_authenticated_connections_that_idle(pool: RealPool) -> None:
    with flood("idle", pool.run_dir / "schedd.sock", count=FLOOD, account=ATTACKER):
        assert_others_are_answered(pool)
    assert "Too many open files" not in log_of(pool, "SchedLog")


def test_a_frame_of_empty_arrays_costs_little_memory(pool: RealPool) -> None:
    pid = pool.pid_of("schedd")
    before = peak_kib(pid)
    python_as(
        ATTACKER,
        """
import socket, sys
from protocol.rpc.blocking import connect
from protocol.security.credentials import Security
peer = connect(sys.argv[1], Security())
frame = b"\\x94\\x05\\x01" + b"\\xabcommon.ping" + b"\\xdd" + (16_000_000).to_bytes(4, "big") + b"\\x90" * 16_000_000
peer._socket.settimeout(60)
try:
    peer._socket.sendall(len(frame).to_bytes(4, "big") + frame)
    peer._socket.recv(100)
except OSError:
    pass
""",
        str(pool.run_dir / "schedd.sock"),
    )
    pool.tool("condor_q")
    assert peak_kib(pid) - before < 100_000


def peak_kib(pid: int) -> int:
    """The most memory that a process has had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


def test_refusals_fill_no_log_and_forge_no_line(quiet_pool: RealPool) -> None:
    before = len(log_of(quiet_pool, "SchedLog"))
    python_as(
        ATTACKER,
        """
import socket, sys
from protocol.rpc.blocking import connect
from protocol.security.credentials import Security
from protocol.messages.common import Reconfigure
from protocol.rpc.remote import RemoteError
with connect(sys.argv[1], Security()) as peer:
    for _ in range(2000):
        try:
            peer.call(Reconfigure())
        except RemoteError:
            pass
for _ in range(200):
    try:
        connect(sys.argv[1], Security(), name="x\\n11/22/26 01:02:03 (D_ALWAYS) root was here")
    except Exception:
        pass
""",
        str(quiet_pool.run_dir / "schedd.sock"),
    )
    said = log_of(quiet_pool, "SchedLog")[before:]
    assert "PERMISSION DENIED" in said
    assert len(said) < 20_000
    assert not any(line.startswith("11/22/26 01:02:03") for line in said.splitlines())


def test_jobs_have_the_limit_of_open_files_that_the_pool_was_started_with(quiet_pool: RealPool, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    cluster = quiet_pool.submit(
        f"executable = /bin/sh\narguments = \"-c 'ulimit -Sn'\"\noutput = {tmp_path}/limit\nqueue\n", cwd=Path("/")
    )
    quiet_pool.until_done(cluster)
    assert (tmp_path / "limit").read_text().strip() == str(SOFT_LIMIT)
    limits = Path(f"/proc/{quiet_pool.pid_of('schedd')}/limits").read_text()
    found = re.search(r"Max open files\s+(\d+)", limits)
    assert found is not None
    assert int(found[1]) > SOFT_LIMIT  # the daemons have what the machine lets them have
