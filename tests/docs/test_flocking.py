"""docs/flocking.md: two pools on one machine, as the page sets them up."""

from __future__ import annotations

import os
import re

import pytest

from tests.docs.pages import PAGES
from tests.docs.test_hosts import run
from tests.whole.real_pool import pool_directory


@pytest.mark.slow
def test_two_pools_are_set_up_and_a_job_flocks() -> None:
    text = (PAGES / "flocking.md").read_text().partition("## Two pools on one machine\n")[2].partition("\n## ")[0]
    script = "".join(f"{line}\n" for line in re.findall(r"^    (.*)$", text, re.MULTILINE))
    addresses = "127.{}.{}.".format(*divmod(os.getpid() % 62_500, 250))  # no other run's
    with pool_directory() as directory:
        done = run(f"set -e\n{script}".replace("/tmp/f", str(directory)).replace("127.0.0.", addresses))
        try:
            assert done.returncode == 0, done.stdout + done.stderr
        finally:
            run("; ".join(f"pool down --dir {directory}/{name} -fast" for name in ("a", "b")))
    assert f"2 slot1_1@cm.a.test undefined\n2 slot1_1@cm.b.test {addresses}3:19618\n" in done.stdout
    assert "slot1_1@cm.b.test Claimed root@a.test\n" in done.stdout or os.geteuid() != 0
