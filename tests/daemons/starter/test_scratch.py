"""Sandboxes that have a size: every kind of file system that this kernel lets the tests have, with real jobs."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from daemons.startd.disk_limits import Found, look
from daemons.starter.leftovers import Trace, sweep
from daemons.starter.namespaces import can_isolate, mounted_below
from daemons.starter.scratch.leftovers import sandboxes_with_volumes
from daemons.starter.scratch.rootly import backing_files
from daemons.starter.tree import start_ticks
from pool.config.config import load_config
from pool.execute.cgroup import Trees
from pool.execute.scratch import ENCRYPTABLE, MOUNTED, Kind
from protocol.messages.schedd import Ending, JobExecuting, JobUpdate

from .bench import Bench, bench

DISK_KIB = 20 * 1024
WRITES_TOO_MUCH = "head -c 60000000 /dev/zero > $_CONDOR_SCRATCH_DIR/big; exit 3"


def _look(execute: Path, **knobs: str) -> Found:
    overrides = {
        "LOCAL_DIR": str(execute.parent),
        "EXECUTE": str(execute),
        "STARTD_ENFORCE_DISK_LIMITS": "true",
        "LVM_BACKING_FILE": str(execute.parent / "backing.img"),
        "LVM_BACKING_FILE_SIZE_MB": "300",
        "LVM_THIN_LV_EXTRA_SIZE_MB": "20",
        **knobs,
    }
    return look(load_config([], overrides=overrides, environ={}), str(execute))


@pytest.fixture(scope="module")
def machine() -> Iterator[dict[Kind, Found]]:
    """Which kinds can be had here, each with what was found out."""
    root = Path(tempfile.mkdtemp(prefix="minipool-scratch-"))
    root.chmod(0o755)
    (root / "execute").mkdir()
    found = {kind: _look(root / "execute", SCRATCH_FILE_SYSTEMS=kind) for kind in Kind if kind is not Kind.LVM}
    yield found
    shutil.rmtree(root)


def _settings(machine: dict[Kind, Found], kind: Kind, **others: Any) -> dict[str, Any]:
    found = machine[kind]
    if found.store.kind is not kind:
        pytest.skip(found.said[0])
    return {"scratch": found.store.packed(), "disk_poll_s": 0.1, **others}


def _nothing_is_left(b: Bench) -> bool:
    execute = str(b.execute)
    used = any(file.startswith(execute + "/") for file in backing_files())
    return not (mounted_below(execute) or os.listdir(execute) or sandboxes_with_volumes(execute) or used)


async def _until_nothing_is_left(b: Bench) -> None:
    with trio.fail_after(60):
        while not _nothing_is_left(b):
            await trio.sleep(0.02)


KINDS = [Kind.EXT4, Kind.TMPFS, Kind.BTRFS, Kind.QUOTA, Kind.WALK]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_that_fills_its_disk_is_held_and_its_neighbours_disk_is_not_touched(
    machine: dict[Kind, Found], kind: Kind
) -> None:
    async with bench(**_settings(machine, kind), job_namespaces=True) as b:
        end = await b.ended(await b.run(b.job_ad(WRITES_TOO_MUCH), disk=DISK_KIB))
        assert (end.ending, end.ad.eval_int("HoldReasonCode"), end.ad.eval_int("HoldReasonSubCode")) == (
            Ending.HOLD,
            34,
            104,
        )
        assert end.reason.startswith("Job has exceeded allocated disk (20.00 MB). Last measured usage: ")
        assert end.reason.endswith("MB. Consider increasing the value of request_disk.")
        assert (end.ad.eval_int("DiskUsage") or 0) > 0.9 * DISK_KIB
        await _until_nothing_is_left(b)
        end = await b.ended(await b.run(b.job_ad("echo fits > $_CONDOR_SCRATCH_DIR/file"), disk=DISK_KIB))
        assert (end.ending, end.ad.eval_int("ExitCode")) == (Ending.EXITED, 0)
        await _until_nothing_is_left(b)
