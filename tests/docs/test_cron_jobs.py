"""docs/cron-jobs.md: every program, configuration and command of the page."""

from __future__ import annotations

from tests.docs import pages
from tests.whole.real_pool import real_pool


def test_every_example_of_the_page_does_what_it_says() -> None:
    layout = {"SLOT_TYPE_1": "cpus=1", "NUM_SLOTS_TYPE_1": "4", "NUM_CPUS": "4"}
    with real_pool(start=False, POLLING_INTERVAL="1", **layout) as pool:
        cron = pool.directory / "cron"
        examples = pages.blocks("cron-jobs.md", {"/etc/minipool/cron": str(cron)})
        pages.install(examples, pool, cron)
        pages.start_in_use(pool)
        pages.perform(examples, pool)
