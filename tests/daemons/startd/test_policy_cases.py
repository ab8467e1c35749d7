"""The policies of the manual and the templates, each played through on a virtual clock (tests/cases/policy)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from pool.base.errors import ConfigError
from tests.daemons.startd.policy_case import CASES, Case, play
from tests.daemons.startd.schedd import a_bench


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.policy")))
async def test_p8_a_machine_behaves_as_its_policy_says(
    name: str, tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await play(Case.read(CASES / f"{name}.policy"), tmp_path, monkeypatch)


@pytest.mark.parametrize("name", sorted(path.stem for path in (CASES / "as_printed").glob("*.config")))
async def test_an_example_with_a_slip_stops_the_start_and_names_its_line(
    name: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    text = (CASES / "as_printed" / f"{name}.config").read_text()
    _, _, error = text.rstrip().rpartition("# error: config")
    line, _, knob = error[1:].partition(": ")
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.RaisesGroup(ConfigError, flatten_subgroups=True) as caught:
        async with a_bench(tmp_path, files=(str(file),)):
            raise AssertionError("it must not start")
    said = "".join(str(one) for one in _leaves(caught.value))
    assert f"{file}:{line}" in said
    assert knob in said


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
