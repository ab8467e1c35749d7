"""The tables of what HTCondor's manual has on virtual machines and on power are true, and nothing of it is ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from minipool.cli.pool_tools.power import TOOL
from pool.base.errors import SubmitError
from pool.submit.commands import COMMANDS
from tests.pool.submit.build import Place
from tests.pool.submit.test_virtual_machines import VM
from tests.tables import ROOT, assert_acts_or_is_warned_of, assert_tests_are_there, read_table

TABLES: Final = {
    name: read_table(ROOT / "tests" / "cases" / "slots" / name) for name in ("virtual_machines.txt", "power.txt")
}
KNOBS: Final = {name: where for table in TABLES.values() for name, where in table["knobs"].items()}
SUBMIT: Final = TABLES["virtual_machines.txt"]["commands"]


@pytest.mark.parametrize(("table", "section"), [(table, section) for table in TABLES for section in TABLES[table]])
def test_tests_that_the_tables_name_are_there(table: str, section: str) -> None:
    assert_tests_are_there(TABLES[table][section])


@pytest.mark.parametrize("name", KNOBS)
def test_a_knob_acts_or_is_warned_of(name: str, tmp_path: Path) -> None:
    assert_acts_or_is_warned_of(name, KNOBS[name], tmp_path)


@pytest.mark.parametrize("name", SUBMIT)
def test_a_submit_command_acts_or_is_refused(name: str, place: Place) -> None:
    if not SUBMIT[name].startswith("- "):
        assert name in {one.name for one in COMMANDS}
        return
    (place.where / "a.img").write_bytes(b"")
    with pytest.raises(SubmitError, match=name):
        place.plan(f"{VM}{name} = true\nqueue\n")


def test_every_option_of_condor_power_is_in_the_table() -> None:
    listed = TABLES["power.txt"]["options of condor_power"]
    ours = {f"-{option.names.split()[0][0]}" for option in TOOL.options}
    assert set(listed) - {"ClassAdFile"} == ours - {"-v", "-p"}, "-version and -p are our own"
