"""Backfill with real daemons: one client for the machine, which works while nobody else wants the slots."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_owner import admin, states

CLIENT = """#!/bin/sh
# Stands for a backfill client: it notes each start and has a child of its own.
echo $$ >> clients
echo "$GREETING $*" > said
echo trouble >&2
sleep 100000 &
echo $! >> children
trap 'echo asked >> asked; exit 0' TERM
while :; do sleep 0.1; done
"""
JOB = """executable = /bin/sleep
arguments = 1000
should_transfer_files = NO
request_memory = 100
request_disk = 1000
queue
"""
RUNNING = 2


@contextmanager
def backfilling_pool(executable: str, **settings: object) -> Iterator[tuple[RealPool, Path]]:
    """Two static slots with this backfill client, and the directory in which it runs."""
    with real_pool(
        start=False,
        NUM_CPUS=2,
        MEMORY=2000,
        SLOT_TYPE_1="50%",
        NUM_SLOTS_TYPE_1=2,
        ENABLE_BACKFILL="true",
        BACKFILL_SYSTEM="BOINC",
        START_BACKFILL="true",
        EVICT_BACKFILL="false",
        BOINC_Executable=executable,
        BOINC_InitialDir="$(LOCAL_DIR)/boinc",
        BOINC_Universe="vanilla",
        BOINC_Owner="nobody",
        POLLING_INTERVAL=1,
        NEGOTIATOR_INTERVAL=2,
        **settings,
    ) as pool:
        home = pool.directory / "boinc"
        home.mkdir()
        home.chmod(0o777)
        pool.start()
        yield pool, home


def words(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until_states(pool: RealPool, *wanted: str) -> None:
    pool.until(lambda: sorted(states(pool).values()) == sorted(wanted), f"slots {wanted}, not {states(pool)}")


@pytest.fixture(scope="module")
def pool_and_home() -> Iterator[tuple[RealPool, Path]]:
    script = Path("/tmp") / f"client-{os.getpid()}.sh"
    script.write_text(CLIENT)
    script.chmod(0o755)
    try:
        with backfilling_pool(
            str(script),
            BOINC_Arguments="--attach_project x",
            BOINC_Environment="GREETING=hello",
            BOINC_Output="$(LOCAL_DIR)/boinc/out",
            BOINC_Error="$(LOCAL_DIR)/boinc/err",
        ) as found:
            yield found
    finally:
        script.unlink()


def test_all_slots_share_one_client_which_is_started_again_when_it_ends(pool_and_home: tuple[RealPool, Path]) -> None:
    pool, home = pool_and_home
    until_states(pool, "Backfill/Busy", "Backfill/Busy")
    pool.until(lambda: 0 < len(words(home / "children")) == len(words(home / "clients")), "the client's child")
    clients = words(home / "clients")
    assert len([pid for pid in clients if lives(pid)]) == 1
    assert words(home / "said") == ["hello", "--attach_project", "x"]
    assert words(home / "err") == ["trouble"] * len(clients)
    os.kill(int(clients[-1]), signal.SIGKILL)
    pool.until(lambda: len(words(home / "children")) > len(clients), "another client")
    assert not lives(words(home / "children")[len(clients) - 1])  # what the first one had started is gone too
    until_states(pool, "Backfill/Busy", "Backfill/Busy")


def test_the_client_is_in_a_control_group_of_its_own(pool_and_home: tuple[RealPool, Path]) -> None:
    pool, home = pool_and_home
    if os.geteuid() != 0:
        pytest.skip("an ordinary account may have no control groups")
    until_states(pool, "Backfill/Busy", "Backfill/Busy")

    def grouped() -> bool:
        found = [pid for pid in words(home / "clients") + words(home / "children") if lives(pid)]
        return len(found) == 2 and all("_backfill" in Path(f"/proc/{pid}/cgroup").read_text() for pid in found)

    pool.until(grouped, "the client and its child in their group")


def test_jobs_take_the_slots_from_the_client_and_give_them_back(pool_and_home: tuple[RealPool, Path]) -> None:
    pool, home = pool_and_home
    until_states(pool, "Backfill/Busy", "Backfill/Busy")
    pool.until(lambda: words(home / "children"), "the client's child")
    first = pool.submit(JOB)
    pool.until_status(first, RUNNING)
    until_states(pool, "Backfill/Busy", "Claimed/Busy")
    assert lives(words(home / "clients")[-1])
    second = pool.submit(JOB)
    pool.until_status(second, RUNNING)
    pool.until(lambda: not any(map(lives, words(home / "clients") + words(home / "children"))), "the client's end")
    assert words(home / "asked")
    pool.tool("condor_rm", str(first), str(second))
    until_states(pool, "Backfill/Busy", "Backfill/Busy")


def test_a_vacated_slot_leaves_the_client(pool_and_home: tuple[RealPool, Path]) -> None:
    pool, home = pool_and_home
    until_states(pool, "Backfill/Busy", "Backfill/Busy")
    pool.until(lambda: words(home / "children"), "the client's child")
    before = words(home / "clients")
    admin(pool, "condor_vacate")
    pool.until(lambda: len(words(home / "clients")) > len(before), "another client")
    assert not lives(before[-1])
    (machine,) = {ad.eval_str("Machine", "") for ad in pool.slots()}
    admin(pool, "condor_drain", machine)
    until_states(pool, "Drained/Idle", "Drained/Idle")
    assert not any(map(lives, words(home / "clients") + words(home / "children")))
    admin(pool, "condor_drain", "-cancel", machine)
    until_states(pool, "Backfill/Busy", "Backfill/Busy")


@pytest.mark.skipif(shutil.which("boinc") is None, reason="the boinc client is not installed")
def test_the_real_boinc_client_runs_and_leaves_nothing() -> None:
    client = shutil.which("boinc")
    assert client is not None
    arguments = "--no_gui_rpc --allow_multiple_clients --dir $(LOCAL_DIR)/boinc"
    with backfilling_pool(client, BOINC_Arguments=arguments, BOINC_Output="$(LOCAL_DIR)/boinc/out") as (pool, home):
        until_states(pool, "Backfill/Busy", "Backfill/Busy")
        pool.until(lambda: (home / "client_state.xml").exists() or words(home / "out"), "boinc's files")
        until_states(pool, "Backfill/Busy", "Backfill/Busy")
