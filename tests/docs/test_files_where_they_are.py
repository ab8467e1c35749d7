"""The page about remote I/O: every example of it, run as it stands."""

from __future__ import annotations

import os

import pytest

from daemons.host.namespaces import can_isolate
from tests.docs import pages
from tests.whole.real_pool import real_pool


@pytest.mark.skipif(
    not can_isolate() or not os.path.exists("/dev/fuse"), reason="file systems take root's rights and /dev/fuse"
)
def test_every_command_of_the_page_prints_what_the_page_shows() -> None:
    with real_pool(start=False, NUM_CPUS="2") as pool:
        examples = pages.blocks("files-where-they-are.md", {})
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pages.perform(examples, pool)
