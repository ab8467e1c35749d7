"""The page about jobs that wait or are held: every command of it, typed as it stands."""

from __future__ import annotations

from tests.docs import pages
from tests.whole.real_pool import real_pool


def test_every_command_of_the_page_prints_what_the_page_shows() -> None:
    with real_pool(start=False, NUM_CPUS="4", MEMORY="4000") as pool:
        examples = pages.blocks("when-jobs-do-not-run.md", {})
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pages.perform(examples, pool)
