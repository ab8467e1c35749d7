from __future__ import annotations

from pathlib import Path

import pytest

from tests.pool.submit.build import Place, make_workspace


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, make_workspace(tmp_path))
