"""docs/parallel-jobs.md: the configuration, the job and the commands of the page."""

from __future__ import annotations

from tests.docs import pages
from tests.whole.real_pool import real_pool


def test_every_example_of_the_page_does_what_it_says() -> None:
    with real_pool(start=False, NUM_CPUS="4") as pool:
        examples = pages.blocks("parallel-jobs.md", {})
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pages.perform(examples, pool)
