"""The pages for people with jobs: every description and command of each, typed as it stands."""

from __future__ import annotations

import pytest

from tests.docs import pages
from tests.whole.real_pool import real_pool


@pytest.mark.parametrize(
    "page", ["submit-your-first-job.md", "policies-for-your-jobs.md", "jobs-on-a-clock.md", "from-htcondor.md"]
)
def test_every_command_of_the_page_prints_what_the_page_shows(page: str) -> None:
    with real_pool(start=False, NUM_CPUS="4", MEMORY="4000") as pool:
        examples = pages.blocks(page, {})
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pages.perform(examples, pool)
