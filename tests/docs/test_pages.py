"""How pages are followed: which numbers of a page stand for the reader's."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import Reader
from tests.whole.real_pool import RealPool


def test_a_number_of_the_page_is_one_number_of_the_pool_and_no_other() -> None:
    reader = Reader(RealPool(Path("/nowhere"), {}))
    assert reader.is_as_shown("7.0 - 7.2\n", "501.0 - 501.2\n")
    assert reader.is_as_shown("Job 7.1 released\n", "Job 501.1 released\n")
    assert not reader.is_as_shown("Job 8.1 released\n", "Job 501.1 released\n")
    assert not reader.is_as_shown("Job 7.1 released\n", "Job 502.1 released\n")
    assert not reader.is_as_shown("7.0 - 8.2\n", "503.0 - 503.2\n")
    assert not reader.is_as_shown("7.0\n", "2.0\n")
