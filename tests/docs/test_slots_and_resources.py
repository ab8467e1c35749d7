"""docs/slots-and-resources.md: every way to divide a machine, and every configuration and command of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages
from tests.pool.slots.provision.test_layouts import configured, divided
from tests.whole.real_pool import real_pool

PAGE = "slots-and-resources.md"
DIVISIONS = [block.text.splitlines() for block in pages.blocks(PAGE, {}) if block.kind == "slots"]


@pytest.mark.parametrize("lines", DIVISIONS, ids=[lines[0] for lines in DIVISIONS])
def test_every_division_of_the_page_gives_the_slots_that_it_shows(lines: list[str], tmp_path: Path) -> None:
    knobs = [line for line in lines if not line.startswith(("->", "!!"))]
    made = divided(configured(tmp_path, ["DETECTED_CPUS_LIMIT = 4", *knobs]))
    shown = [
        f"-> slot{slot.slot_id} {slot.kind.value} "
        f"{slot.amounts.of('Cpus')} {slot.amounts.of('Memory')} {slot.amounts.of('Disk')}"
        for slot in made.slots
    ]
    assert shown == [line for line in lines if line.startswith("->")]
    reasons = [line.removeprefix("!! ") for line in lines if line.startswith("!!")]
    assert [made.broken[number][: len(says)] for number, says in enumerate(reasons, 1)] == reasons


def test_every_example_of_the_page_does_what_it_says() -> None:
    with real_pool(start=False, NUM_CPUS=8, MEMORY=8192, GPU_MONITOR="/bin/true") as pool:
        stock = pool.directory / "stock"
        examples = pages.blocks(PAGE, {"/etc/minipool/stock": str(stock)})
        pages.install(examples, pool, stock)
        pages.start_in_use(pool)
        pages.perform(examples, pool)
