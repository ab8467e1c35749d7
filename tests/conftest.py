"""What holds for every test: when its turn comes, and that it leaves neither an open descriptor nor a changed environment
of expressions to the next."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from pool.classad.values.environment import ENV
from tests.daemons.warm_zygotes import warm_zygotes
from tests.whole.warm_masters import warm_masters

# A shell that starts the tests in the background ignores these, and a script cannot trap what was ignored at its start.
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent

# An example may take as long as a busy machine needs for it.
settings.register_profile("unhurried", settings.default, deadline=None)
settings.load_profile("unhurried")

WAITING = ("whole", "attacks", "daemons", "minipool", "docs")
"""Folders with tests that start processes and wait for them; what the others do is reckoning."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of tests that wait come first, and large ones before small ones: so all workers have something to do until the end."""
    sizes = Counter(item.path for item in items)

    def place(path: Path) -> tuple[int, int]:
        folder = path.relative_to(HERE).parts[0] if path.is_relative_to(HERE) else ""
        return WAITING.index(folder) if folder in WAITING else len(WAITING), -sizes[path]

    items.sort(key=lambda item: (*place(item.path), str(item.path)))


def pytest_collection_finish() -> None:
    """Ten thousand tests are no garbage, nor is what they import: no search for it visits them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _zygotes_and_masters_can_be_forked() -> Iterator[None]:
    with warm_zygotes(), warm_masters():
        yield


def _open_descriptors() -> dict[int, str]:
    """What this process has open, by number."""
    found = {}
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the one that lists them
            continue
    return found


@pytest.fixture(autouse=True)
def _expressions_see_what_they_saw_before() -> Iterator[None]:
    """Take back the clock, the zone and all else that a test, or a daemon that it ran in this process, has installed."""
    before = {name: getattr(ENV, name) for name in ENV.__slots__}
    yield
    for name, value in before.items():
        setattr(ENV, name, value)


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Iterator[None]:
    """Fail the test that leaves more descriptors than it found, of which people have 1,024; those of fixtures with a wider
    scope are there before."""
    before = _open_descriptors()
    yield
    after = _open_descriptors()
    if len(after) > len(before):
        gc.collect()  # what only a cycle keeps open is not lost
        after = _open_descriptors()
    if len(after) > len(before):
        left = [what for number, what in after.items() if before.get(number) != what]
        pytest.fail(f"{len(after) - len(before)} descriptors are left open: {', '.join(sorted(left))}", pytrace=False)
