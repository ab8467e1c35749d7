"""docs/hooks.md: every program, configuration, submit file and command of the page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from pool.config import load_config
from pool.hooks.table import STARTD_HOOKS, STARTER_HOOKS, TIMEOUTS, Hook, read_hooks
from tests.docs import pages
from tests.whole.real_pool import real_pool

EXAMPLES = Path(__file__).parent.parent.parent / "deploy" / "examples"


def test_every_example_of_the_page_does_what_it_says() -> None:
    with real_pool(start=False, NUM_CPUS="4", POLLING_INTERVAL="1") as pool:
        hooks = pool.directory / "hooks"
        places = {
            "/etc/minipool/hooks": str(hooks),
            "/etc/minipool/notes": str(pool.directory / "notes"),
            "/usr/java": str(pool.directory / "java"),
            "/usr/bin/java": str(pool.directory / "bin" / "java"),
        }
        examples = pages.blocks("hooks.md", places)
        pages.install(examples, pool, hooks)
        shutil.copy(EXAMPLES / "sqlite_work.py", hooks)
        for name, said in (("bin/java", "the wrong java"), ("java/java5/bin/java", "java5")):
            program = pool.directory / name
            program.parent.mkdir(parents=True)
            program.write_text(f'#!/bin/sh\n[ -e "$1.class" ] && echo {said} runs $1\n')
            program.chmod(0o755)
        (pool.directory / "home" / "Hello.class").touch()
        (pool.directory / "notes").mkdir()
        (pool.directory / "notes").chmod(0o777)
        pages.start_in_use(pool)
        pages.perform(examples, pool)


def test_the_four_slots_of_the_page(tmp_path: Path) -> None:
    text = (pages.PAGES / "hooks.md").read_text()
    block = next(text for text in re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if "SLOT4_" in text)
    file = tmp_path / "config"
    file.write_text(block)
    config = load_config([str(file)], environ={})
    table = read_hooks(config, (*STARTD_HOOKS, *STARTER_HOOKS))
    assert set(table.of(config.str("STARTD_JOB_HOOK_KEYWORD"))) == {Hook.FETCH_WORK, Hook.REPLY_FETCH}
    assert set(table.of(config.str("SLOT4_JOB_HOOK_KEYWORD"))) == {Hook.FETCH_WORK}


def test_the_page_names_every_hook_and_its_time() -> None:
    text = (pages.PAGES / "hooks.md").read_text()
    assert all(f"| `{hook.value}` |" in text for hook in Hook)
    assert (TIMEOUTS[Hook.JOB_EXIT], TIMEOUTS[Hook.PREPARE_JOB], TIMEOUTS[Hook.FETCH_WORK]) == (30, 3600, 300)
