"""When a startd tries the program for images again: a job's image that did not run is a reason, and so is a failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemons.base.log import Log
from daemons.daemon_core.world import RealSpawner
from daemons.startd.machine.findings import Findings
from daemons.startd.machine.singularity import PAUSE_S, SingularityWatch, look
from pool.config import load_config

SCRIPT = """#!/bin/sh
[ "$1" = --version ] && { echo "apptainer version 1.4.5"; echo looked >> {notes}/looks; exit 0; }
echo "$@" >> {notes}/words
[ "$1" = build ] && exec cp -r "$3" "$2"
[ -e {notes}/broken ] && { echo "FATAL: no more namespaces" >&2; exit 255; }
exit 37
"""


@pytest.fixture
def fast_clock() -> MockClock:
    """A minute in two seconds; programs are waited for, so time cannot jump."""
    return MockClock(rate=30.0)


@pytest.fixture
def notes() -> Iterator[Path]:
    with TemporaryDirectory(prefix="watch-") as directory:
        place = Path(directory)
        place.chmod(0o777)
        (place / "looks").touch()
        (place / "looks").chmod(0o666)
        (place / "apptainer").write_text(SCRIPT.replace("{notes}", directory))
        (place / "apptainer").chmod(0o755)
        yield place


async def test_the_owner_says_with_which_directory_the_program_is_tried(notes: Path) -> None:
    (notes / "words").touch()
    (notes / "words").chmod(0o666)
    overrides = {
        "SINGULARITY": str(notes / "apptainer"),
        "SINGULARITY_TEST_SANDBOX": str(notes / "own"),
        "EXECUTE": str(notes / "execute"),
    }
    (notes / "own").mkdir()
    facts = await look(load_config([], environ={}, overrides=overrides), RealSpawner(), Log(None))
    assert facts["HasSandboxImage"] is True
    assert f"exec -C {notes}/own /exit_37" in (notes / "words").read_text()


async def test_an_image_that_did_not_run_has_the_program_tried_and_a_failure_is_tried_again(
    notes: Path, fast_clock: MockClock
) -> None:
    overrides = {
        "SINGULARITY": str(notes / "apptainer"),
        "SINGULARITY_TEST_SANDBOX_TIMEOUT": "100000",
        "EXECUTE": str(notes / "execute"),
    }
    start: Any = SimpleNamespace(
        config=load_config([], environ={}, overrides=overrides),
        world=SimpleNamespace(spawner=RealSpawner()),
        log=Log(None),
    )
    told: list[bool] = []
    watch = SingularityWatch(start, Findings({}, lambda facts: told.append(facts["HasSingularity"] is True)))

    def looks() -> int:
        return len((notes / "looks").read_text().split())

    async def until_told(count: int) -> None:
        with trio.fail_after(1000):
            while len(told) < count:
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await until_told(1)
        await trio.sleep(PAUSE_S + 1)
        assert (told, looks()) == ([True], 1)  # nobody doubts it
        (notes / "broken").touch()
        watch.trouble("an image did not run")
        watch.trouble("nor did another")
        await until_told(2)
        assert (told, looks()) == ([True, False], 2)
        (notes / "broken").unlink()
        await until_told(3)
        assert told == [True, False, True]
        nursery.cancel_scope.cancel()
