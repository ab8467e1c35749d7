"""Tables of what HTCondor's manual has somewhere, and where it is held here: `name: FILE::TEST`, or `name: - why not`.

`why not`: a knob has no effect then, and is warned of; anything else is refused. A line `[section: ...]` begins a part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pool.config import load_config
from pool.config.knobs import find

ROOT: Final = Path(__file__).parents[1]


def read_table(path: Path) -> dict[str, dict[str, str]]:
    """Where each thing is held, by section."""
    found: dict[str, dict[str, str]] = {}
    section = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line[1:].partition(":")[0].rstrip("]")
            found[section] = {}
        elif line and line[0] != "#":
            name, _, where = line.partition(": ")
            found[section][name] = where
    return found


def assert_tests_are_there(table: dict[str, str]) -> None:
    """What the rows name exists."""
    for name, where in table.items():
        file, _, test = where.partition("::")
        assert where.startswith("- ") or f"def {test}(" in (ROOT / file).read_text(), name


def assert_acts_or_is_warned_of(name: str, where: str, directory: Path) -> None:
    """A knob is not taken and ignored."""
    (directory / "config").write_text(f"{name} = 1\n")
    config = load_config([str(directory / "config")], environ={})
    said = [*config.warnings, *config.without_effect]
    if where.startswith("- "):
        assert [line for line in said if name in line and "no effect here" in line], said
    else:
        knob = find(name)
        assert (knob is not None and knob.has_effect, said) == (True, [])
