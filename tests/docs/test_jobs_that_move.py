"""The page about jobs that move: every example of it, run as it stands."""

from __future__ import annotations

import os
import shutil

import pytest

from daemons.host.namespaces import can_isolate
from tests.docs import pages
from tests.whole.real_pool import real_pool


@pytest.mark.slow
@pytest.mark.skipif(
    not can_isolate() or shutil.which("criu", path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None,
    reason="takes root's rights and the program criu",
)
def test_every_command_of_the_page_prints_what_the_page_shows() -> None:
    with real_pool(start=False, NUM_CPUS="1") as pool:
        examples = pages.blocks("jobs-that-move.md", {})
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pages.perform(examples, pool)
