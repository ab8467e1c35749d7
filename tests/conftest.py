"""What holds for every test: it leaves no descriptor open. People run the suite with 1,024 of them."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A shell that starts the tests in the background ignores these, and a script cannot trap what was ignored at its start.
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# An example may take as long as a busy machine needs for it.
settings.register_profile("unhurried", settings.default, deadline=None)
settings.load_profile("unhurried")


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
def _no_descriptor_is_left() -> Iterator[None]:
    """Fail the test that leaves more descriptors than it found; those of fixtures with a wider scope are there before."""
    before = _open_descriptors()
    yield
    after = _open_descriptors()
    if len(after) > len(before):
        gc.collect()  # what only a cycle keeps open is not lost
        after = _open_descriptors()
    if len(after) > len(before):
        left = [what for number, what in after.items() if before.get(number) != what]
        pytest.fail(f"{len(after) - len(before)} descriptors are left open: {', '.join(sorted(left))}", pytrace=False)
