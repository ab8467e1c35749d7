"""A job's files stay in the directories of LIMIT_DIRECTORY_ACCESS, however the job names them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

HELD = 5
CHIRP = Path(sys.executable).with_name("condor_chirp")


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(LIMIT_DIRECTORY_ACCESS="$(LOCAL_DIR)/5/dirA, /nowhere") as pool:
        for name in ("5/dirA", "5/dirB"):
            path = pool.directory / name
            path.mkdir(parents=True)
            path.chmod(0o777)
        (pool.directory / "5/dirA/given").write_text("given\n")
        (pool.directory / "5/dirB/secret").write_text("secret\n")
        (pool.directory / "5/dirA/way").symlink_to("../dirB")
        yield pool


def submit(pool: RealPool, script: str, more: str) -> int:
    text = f"""executable = /bin/sh
transfer_executable = false
should_transfer_files = YES
arguments = "-c '{script}'"
{more}
queue
"""
    return pool.submit(text, cwd=pool.directory / "5/dirA")


@pytest.mark.parametrize("target", ["../dirB/made", "way/made"])
def test_a_job_does_not_write_to_another_directory(pool: RealPool, target: str) -> None:
    cluster = submit(pool, "echo x > made", f'transfer_output_files = made\ntransfer_output_remaps = "made = {target}"')
    (ad,) = pool.until_status(cluster, HELD)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (12, 13)
    assert "LIMIT_DIRECTORY_ACCESS" in ad.eval_str("HoldReason", "")
    assert not (pool.directory / "5/dirB/made").exists()


def test_a_job_does_not_read_from_another_directory(pool: RealPool) -> None:
    (ad,) = pool.until_status(submit(pool, "true", "transfer_input_files = ../dirB/secret"), HELD)
    assert (ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (13, 13)
    assert "LIMIT_DIRECTORY_ACCESS" in ad.eval_str("HoldReason", "")


def test_a_running_job_reaches_no_other_directory(pool: RealPool) -> None:
    script = f"{CHIRP} fetch given here; cat here; {CHIRP} fetch ../dirB/secret there; {CHIRP} put here ../dirB/put; ls"
    pool.until_done(submit(pool, script, "want_io_proxy = true\noutput = sub/dir/out\nerror = err"))
    said = (pool.directory / "5/dirA/sub/dir/out").read_text().splitlines()
    assert said[0] == "given"
    assert "there" not in said
    assert not (pool.directory / "5/dirB/put").exists()
