"""docs/fair-share.md, docs/quotas-and-limits.md and docs/preemption.md: every command is given, with real processes."""

from __future__ import annotations

import pytest

from tests.docs import pages
from tests.whole.real_pool import real_pool


@pytest.mark.slow
@pytest.mark.parametrize(("names", "cores"), [(("fair-share", "quotas-and-limits"), 6), (("preemption",), 2)])
def test_every_command_of_the_page_prints_what_it_shows(names: tuple[str, ...], cores: int) -> None:
    soon = {"NEGOTIATOR_INTERVAL": 2, "NEGOTIATOR_MIN_INTERVAL": 1, "POLLING_INTERVAL": 1}
    with real_pool(start=False, NUM_CPUS=cores, MEMORY=4000, UID_DOMAIN="example.org", **soon) as pool:
        examples = [block for name in names for block in pages.blocks(f"{name}.md", {})]
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pages.perform(examples, pool)
