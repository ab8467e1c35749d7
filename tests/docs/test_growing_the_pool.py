"""docs/growing-the-pool.md: every command is given, with real processes."""

from __future__ import annotations

import pytest

from tests.docs import pages
from tests.whole.real_pool import real_pool


@pytest.mark.slow
def test_every_command_of_the_page_prints_what_it_shows() -> None:
    with real_pool(start=False, NUM_CPUS=1, DAEMON_LIST="MASTER COLLECTOR STARTD", UPDATE_INTERVAL=1) as pool:
        examples = pages.blocks("growing-the-pool.md", {})
        pages.install(examples, pool, pool.directory / "programs")
        pool.start()
        pages.perform(examples, pool)
