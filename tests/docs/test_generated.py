"""Pages that are made from tables say what the tables say now."""

from __future__ import annotations

import pytest

from docs.generate import HERE, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert (HERE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"
