"""docs/two-central-managers.md: two of them and two more hosts on one machine, as the page sets them up."""

from __future__ import annotations

import os
import re

import pytest

from tests.docs.pages import PAGES
from tests.docs.test_hosts import run
from tests.whole.real_pool import pool_directory

pytestmark = pytest.mark.slow


def test_the_second_of_the_page_takes_over() -> None:
    text = (PAGES / "two-central-managers.md").read_text().partition("## Two on one machine\n")[2].partition("\n## ")[0]
    script = "".join(f"{line}\n" for line in re.findall(r"^    (.*)$", text, re.MULTILINE))
    addresses = "127.{}.{}.".format(*divmod(os.getpid() % 62_500, 250))  # no other run's
    with pool_directory() as directory:
        done = run(f"set -e\n{script}".replace("/tmp/h", str(directory)).replace("127.0.0.", addresses))
        try:
            assert done.returncode == 0, done.stdout + done.stderr
        finally:
            run("; ".join(f"pool down --dir {directory}/{name} -fast" for name in ("ap", "ex", "cm1", "cm2")))
    assert re.search(r"^cm1\.pool\.test$.*^cm2\.pool\.test$", done.stdout, re.MULTILINE | re.DOTALL)
    assert re.search(r"^1 slot1_1@ex\.pool\.test$", done.stdout, re.MULTILINE)
