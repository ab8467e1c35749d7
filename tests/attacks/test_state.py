"""What a pool keeps is closed to other accounts: its files, directories and sockets, while jobs run and after an upgrade."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.attacks.actors import ATTACKER, VICTIM, needs_accounts, python_as
from tests.attacks.walk import SECRETS, too_much
from tests.whole.real_pool import RealPool, as_account, real_pool

pytestmark = needs_accounts

LATER = "backup"
"""An account that has no agent yet."""

KNOBS = {
    "NUM_CPUS": "6",
    "STARTD_HISTORY": "$(SPOOL)/startd_history",
    "EVENT_LOG": "$(LOG)/EventLog",
    "PERIODIC_CHECKPOINT": "time() - LastPeriodicCheckpoint >= 2",
}


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    """Root's pool; its tools run as the victim."""
    with real_pool(user=VICTIM, **KNOBS) as found:
        yield found


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Where the victim's jobs begin: the victim's own, and nobody else's."""
    directory = Path(tempfile.mkdtemp(prefix="victim-", dir="/tmp"))
    shutil.chown(directory, VICTIM, VICTIM)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def running(pool: RealPool, home: Path) -> Iterator[int]:
    """Jobs of the victim that transfer, have spooled, keep checkpoints, and run at the access point; one's cluster."""
    (home / "input").write_text("of the victim")
    (home / "count.sh").write_text('#!/bin/sh\necho 1 > count\n[ -n "$1" ] && exec sleep 600\nsleep 1\nexit 85\n')
    (home / "count.sh").chmod(0o755)
    transfer = "should_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT\ntransfer_input_files = input\n"
    sleeps = "executable = /bin/sleep\narguments = 600\n"
    clusters = [
        pool.submit(f"{sleeps}{transfer}log = log\nqueue\n", cwd=home),
        pool.submit(f"{sleeps}{transfer}queue\n", cwd=home, options=["-spool"]),
        pool.submit(f"{sleeps}universe = local\nqueue\n", cwd=home),
        pool.submit(
            "executable = count.sh\nshould_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT\n"
            "checkpoint_exit_code = 85\ntransfer_checkpoint_files = count\nqueue\n",
            cwd=home,
        ),
    ]
    for cluster in clusters[:3]:
        pool.until_status(cluster, 2)
    pool.until(lambda: list((pool.directory / "spool").glob("*/*/cluster*/_condor_checkpoint*")), "a checkpoint")
    yield clusters[0]
    for cluster in clusters:
        pool.tool("condor_rm", str(cluster), check=False)


def test_another_account_reads_and_writes_nothing_while_jobs_run(pool: RealPool, running: int) -> None:
    assert too_much(pool) == set()


_PING = r"""
import json, sys
from pathlib import Path
from protocol.rpc.blocking import connect
from protocol.messages.common import Ping
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings

levels = set()
for path in Path(sys.argv[1]).glob("*.sock"):
    with connect(str(path), Security()) as peer:
        levels.update(peer.call(Ping()).levels)
print(json.dumps(sorted(levels)))
"""


def test_who_may_connect_may_read_and_submit_and_no_more(pool: RealPool) -> None:
    assert set(json.loads(python_as(ATTACKER, _PING, str(pool.run_dir)))) <= {"READ", "WRITE"}


def _rows(pool: RealPool) -> list[dict[str, str]]:
    """All that the queue's file knows of claims."""
    with closing(sqlite3.connect(pool.directory / "spool" / "job_queue.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM claims")]


_USE_THEM = r"""
import hashlib, json, os, sys
from pool.base.errors import PoolError
from protocol.rpc.blocking import connect
from protocol.messages.agent import FileEntry, OutputStored, PushOutput
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobUpdate, StarterReady
from protocol.messages.startd import DeactivateClaim, KeepAlive
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from pool.base.ids import JobId

run, rows = json.load(open(sys.argv[1]))
words = sorted({str(value) for row in rows for value in row.values() if isinstance(value, str) and len(value) < 300})
tickets = [*words, *(hashlib.sha256(f"{word} files".encode()).hexdigest() for word in words)]
activations = [row["activation"] for row in rows]
agents = [os.path.join(run, "agents", name) for name in sys.argv[2:]]
managed = []
for ticket in tickets:
    for path in [*agents, os.path.join(run, "schedd.sock")]:
        try:
            with connect(path, Security(SecuritySettings(accept=(), offer=())).with_ticket(ticket)) as peer:
                managed.append(f"connects to {os.path.basename(path)} with a ticket")
                for activation in activations:
                    try:
                        entry = FileEntry(name="stolen", size=3, data=b"own")
                        peer.call(PushOutput(activation=activation, files=[entry]))
                        peer.call(OutputStored(activation=activation))
                    except PoolError:
                        pass
        except (PoolError, OSError):
            continue
try:
    with connect(os.path.join(run, "startd.sock"), Security()) as peer:
        if any(peer.call(KeepAlive(claim_ids=words)).held):
            managed.append("holds a claim")
except PoolError:
    pass
print(json.dumps(sorted(set(managed))))
"""


def test_what_the_queues_file_says_of_claims_opens_nothing(pool: RealPool, running: int, home: Path) -> None:
    known = pool.directory / "known"  # as if the attacker had the file after all: from a backup, say
    known.write_text(json.dumps([str(pool.run_dir), _rows(pool)]))
    known.chmod(0o644)
    try:
        for account in (ATTACKER, None):
            uid = pwd.getpwnam(VICTIM).pw_uid
            said = python_as(account, _USE_THEM, str(known), f"{uid}.sock", "0.sock")
            assert json.loads(said) == []
    finally:
        known.unlink()
    assert not (home / "stolen").exists()


def test_no_secret_is_in_the_queues_files(pool: RealPool, running: int) -> None:
    files = (pool.directory / "spool").glob("job_queue.sqlite*")
    found = b"\n".join(path.read_bytes() for path in files).decode("latin-1")
    assert [name for name, pattern in SECRETS.items() if re.search(pattern, found)] == []


_BIND = r"""
import os, socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.bind(path)
            sock.listen()
            print("bound", path)
        except OSError as error:
            assert isinstance(error, PermissionError), error
"""


def test_nobody_binds_the_socket_of_anothers_agent_first(pool: RealPool, running: int) -> None:
    uid = pwd.getpwnam(LATER).pw_uid
    names = [f"agents/{uid}.sock", f"agents/{uid}-{LATER}.sock", f"agent-{uid}.port", "credd.sock"]
    assert python_as(ATTACKER, _BIND, *(str(pool.run_dir / name) for name in names)) == ""


# ---- after an upgrade

OLD_SECRET = "5ec4e7" * 8


def _as_it_was(pool: RealPool) -> None:
    """Give what a pool that was killed has left the modes, the names and the queue of the first layout."""
    for path in pool.directory.rglob("*"):
        relative = str(path.relative_to(pool.directory))
        if path.is_symlink() or relative.startswith(("execute/", "keys")) or not os.path.lexists(path):
            continue
        if path.is_dir():
            path.chmod(0o1777 if relative == "run/agents" else 0o755)
        elif path.is_file():
            path.chmod(0o644)
    with closing(sqlite3.connect(pool.directory / "spool" / "job_queue.sqlite", isolation_level=None)) as connection:
        connection.executescript(
            f"""CREATE TABLE old (claim_id TEXT PRIMARY KEY, startd TEXT NOT NULL, submitter TEXT NOT NULL,
                owner TEXT NOT NULL, slot_ad TEXT NOT NULL, ticket TEXT NOT NULL, lease_s REAL NOT NULL,
                alive_s REAL NOT NULL, renewed_at REAL NOT NULL, cluster INTEGER, proc INTEGER, activation TEXT NOT NULL
                ) WITHOUT ROWID;
            INSERT INTO old SELECT replace(claim, '...', '{OLD_SECRET}'), startd, submitter, owner, slot_ad,
                '{OLD_SECRET}', lease_s, alive_s, renewed_at, cluster, proc, activation FROM claims;
            DROP TABLE claims;
            ALTER TABLE old RENAME TO claims;
            PRAGMA user_version = 3;"""
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


_SQUAT = r"""
import os, socket, sys
directory = sys.argv[1]
sock = socket.socket(socket.AF_UNIX)
sock.bind(os.path.join(directory, sys.argv[2]))
sock.listen()
os.mkdir(os.path.join(directory, "mine"))
open(os.path.join(directory, "mine", "0.sock"), "w").close()
print("ready", flush=True)
sys.stdin.read()
"""


def test_an_upgrade_closes_what_was_open_and_gives_up_what_was_readable(home: Path) -> None:
    uid = pwd.getpwnam(VICTIM).pw_uid
    with real_pool(user=VICTIM, NUM_CPUS=2) as pool:
        cluster = pool.submit("executable = /bin/sleep\narguments = 600\nqueue\n", cwd=home)
        pool.until_status(cluster, 2)
        pool.kill()
        (pool.run_dir / "agents").mkdir(exist_ok=True)
        _as_it_was(pool)
        assert _rows(pool)[0]["ticket"] == OLD_SECRET
        squatter = subprocess.Popen(
            [sys.executable, "-c", _SQUAT, str(pool.run_dir / "agents"), f"{uid}.sock"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **as_account(ATTACKER),
        )
        with squatter:
            assert squatter.stdout is not None
            squatter.stdout.readline()
            pool.start()
            again = pool.submit("executable = /bin/sleep\narguments = 600\nlog = later\nqueue\n", cwd=home)
            pool.until_status(cluster, 2)
            pool.until_status(again, 2)
            assert too_much(pool) == set()
            squatter.kill()
        assert [row["ticket"] for row in _rows(pool) if len(row["ticket"]) != 64] == []
        for path in (pool.directory / "spool").glob("job_queue.sqlite*"):
            assert OLD_SECRET.encode() not in path.read_bytes()
        pool.tool("condor_rm", "-all")
