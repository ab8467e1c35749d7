"""The page about files: every example of it, run as it stands."""

from __future__ import annotations

from tests.docs import pages
from tests.whole.real_pool import real_pool


def test_every_command_of_the_page_prints_what_the_page_shows() -> None:
    with real_pool(start=False, NUM_CPUS="2", PERIODIC_EXPR_INTERVAL="1") as pool:
        examples = pages.blocks("files-in-files-out.md", {})
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pages.perform(examples, pool)
