"""docs/machines-that-sleep.md: a machine that pretends to sleep, with real daemons."""

from __future__ import annotations

from tests.docs import pages
from tests.whole.real_pool import real_pool

PAGE = "machines-that-sleep.md"
SOON = {"HIBERNATE_CHECK_INTERVAL": 1, "ROOSTER_INTERVAL": 1, "SleepAfter": 0}


def test_every_command_of_the_page_prints_what_it_shows() -> None:
    with real_pool(start=False, NEGOTIATOR_MIN_INTERVAL=1, **SOON) as pool:
        programs = pool.directory / "programs"
        places = {"/usr/local/libexec": str(programs), "/var/lib/minipool/run": str(pool.run_dir)}
        examples = pages.blocks(PAGE, places)
        pages.install(examples, pool, programs)
        with open(pool.directory / "config", "a") as config:
            config.write("NETWORK_HOSTNAME = robin\n")
        try:
            pages.start_in_use(pool)
            pages.perform(examples, pool)
        finally:
            (pool.run_dir / "awake").touch()
