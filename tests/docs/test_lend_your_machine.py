"""docs/lend-your-machine.md: every policy is played through, every command is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from trio.testing import MockClock

from pool.config import load_config
from tests.daemons.startd.policy_case import Case, play
from tests.docs import pages
from tests.whole.real_pool import real_pool

PAGE = "lend-your-machine.md"
POLICIES = [block.text for block in pages.blocks(PAGE, {}) if block.kind == "policy"]


@pytest.mark.parametrize("number", range(len(POLICIES)))
async def test_every_policy_of_the_page_does_what_it_says(
    number: int, tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await play(Case.parse(f"policy {number} of {PAGE}", POLICIES[number]), tmp_path, monkeypatch)


def test_every_command_of_the_page_prints_what_it_shows() -> None:
    with real_pool(
        start=False,
        NUM_CPUS=1,
        MEMORY=1000,
        NEGOTIATOR_INTERVAL=2,
        NEGOTIATOR_MIN_INTERVAL=1,
        POLLING_INTERVAL=1,
    ) as pool:
        examples = pages.blocks(PAGE, {})
        pages.install(examples, pool, pool.directory / "programs")
        with open(pool.directory / "config", "a") as config:
            config.write("NETWORK_HOSTNAME = robin\n")
        pages.start_in_use(pool)
        pages.perform(examples, pool)


def test_the_backfill_configuration_of_the_page_can_be_read(tmp_path: Path) -> None:
    block = re.findall(r"(?:^    .*\n)+", (pages.PAGES / PAGE).read_text(), re.MULTILINE)[-1]
    file = tmp_path / "config"
    file.write_text("use POLICY : Desktop\n" + block)
    config = load_config([str(file)], environ={})
    assert config.expr("START_BACKFILL") is not None
    assert config.expr("EVICT_BACKFILL") is not None
    assert config.bool("ENABLE_BACKFILL")
    assert config.str("BOINC_InitialDir").endswith("/boinc")
    assert config.warnings == []
