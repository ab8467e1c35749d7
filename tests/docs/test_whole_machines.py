"""docs/whole-machines.md: a queue of whole-machine jobs beside small ones, with real processes."""

from __future__ import annotations

from tests.docs import pages
from tests.whole.real_pool import real_pool

PAGE = "whole-machines.md"
SOON = {"DEFRAG_INTERVAL": 2, "DEFRAG_DRAINING_MACHINES_PER_HOUR": 1800}


def test_every_command_of_the_page_prints_what_it_shows() -> None:
    with real_pool(start=False, NUM_CPUS=4, MEMORY=4096, NEGOTIATOR_MIN_INTERVAL=1, **SOON) as pool:
        examples = pages.blocks(PAGE, {})
        pages.install(examples, pool, pool.directory / "programs")
        with open(pool.directory / "config", "a") as config:
            config.write("NETWORK_HOSTNAME = robin\n")
        pages.start_in_use(pool)
        pages.perform(examples, pool)
