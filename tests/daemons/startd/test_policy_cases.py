"""The policies of the manual and the templates, each played through on a virtual clock (tests/cases/policy)."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.daemons.startd.policy_case import CASES, Case, play


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.policy")))
async def test_p8_a_machine_behaves_as_its_policy_says(
    name: str, tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await play(Case.read(CASES / f"{name}.policy"), tmp_path, monkeypatch)
