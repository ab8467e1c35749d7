"""The page about virtual machines: every example of it, run as it stands."""

from __future__ import annotations

import pytest

from tests.docs import pages
from tests.whole.guests import REAL
from tests.whole.real_pool import real_pool


@pytest.mark.slow
@REAL
def test_every_command_of_the_page_prints_what_the_page_shows() -> None:
    with real_pool(start=False, NUM_CPUS="2") as pool:
        examples = pages.blocks("virtual-machines.md", {})
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pages.perform(examples, pool)
