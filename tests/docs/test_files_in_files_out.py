"""The page about files: every example of it, run as it stands."""

from __future__ import annotations

from tests.docs import pages
from tests.whole.real_pool import real_pool


def test_every_command_of_the_page_prints_what_the_page_shows() -> None:
    with real_pool(start=False, NUM_CPUS="2", PERIODIC_EXPR_INTERVAL="1") as pool:
        examples = pages.blocks("files-in-files-out.md", {"/the/home": str(pool.directory / "home")})
        pages.install(examples, pool, pool.directory / "programs")
        pool.start()
        pages.perform(examples, pool)
