"""The table of submit commands, `commands.txt`, and those that are refused."""

import os
from typing import Final, NamedTuple

from pool.config.knobs import KnobTableError
from pool.jobs.vocabulary.universes import UNIVERSES as NAMES
from pool.jobs.vocabulary.universes import Universe

FILE: Final = os.path.join(os.path.dirname(__file__), "commands.txt")
READINGS: Final = frozenset(
    (
        *("string", "unquoted", "list", "int", "uint", "bool", "expr", "file", "log", "unquoted log"),
        *("alias int", "alias expr", "policy", "special"),
    )
)


class SubmitCommand(NamedTuple):
    """What a line of the table says."""

    section: str
    name: str
    attribute: str
    """The job attribute that it sets; empty for none."""
    kind: str
    """How its text is read: one of READINGS."""
    step: str
    """The step that reads it, as MODULE.FUNCTION; empty where the table alone says how."""
    sentence: str

    @property
    def is_family(self) -> bool:
        return "<" in self.name


def read_table(text: str) -> list[SubmitCommand]:
    """The commands in a table's text."""
    section = ""
    found: list[SubmitCommand] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("["):
            section = line.strip("[]")
        elif line and line[0] != "#":
            found.append(_command(section, number, line))
    return found


def _command(section: str, number: int, line: str) -> SubmitCommand:
    said, _, sentence = line.partition(" # ")
    parts = said.split()
    step = parts.pop() if "." in parts[-1] else ""
    kind = " ".join(parts[2:]) or "special"
    if len(parts) < 2 or kind not in READINGS or (kind in ("special", "policy")) != bool(step):
        raise KnobTableError(f"{FILE}:{number}: expected COMMAND ATTRIBUTE READING # One sentence.: {line}")
    return SubmitCommand(section, parts[0], "" if parts[1] == "-" else parts[1], kind, step, sentence)


def _read() -> list[SubmitCommand]:
    with open(FILE, encoding="utf-8") as file:
        return read_table(file.read())


COMMANDS: Final = _read()

# Commands of htcondor-jdl that belong to what is not built here, and why. The counts of the parallel universe are not
# among them: front ends write `machine_count = 1` for every job; the line is warned of as unused.
REFUSED_PREFIXES: Final[tuple[tuple[str, str], ...]] = (
    ("ec2_", "the EC2 cloud"),
    ("gce_", "the Google cloud"),
    ("azure_", "the Azure cloud"),
    ("cloud_label_", "clouds"),
    ("arc_", "the ARC grid"),
    ("xen_", "Xen"),
    ("batch_extra_submit_args", "the grid universe"),
    ("batch_project", "the grid universe"),
    ("batch_queue", "the grid universe"),
    ("batch_runtime", "the grid universe"),
    ("grid_resource", "the grid universe"),
    ("remote_grid_resource", "the grid universe"),
    ("remote_universe", "the grid universe"),
    ("parallel_script_", "the parallel universe"),
)

UNIVERSES: Final = {
    **{name.lower(): number for number, name in NAMES.items()},
    "globus": Universe.GRID.value,
}
"""Universes as descriptions name them, with those that are not built here."""


def names() -> list[str]:
    """The names of all commands that are no families."""
    return [one.name for one in COMMANDS if not one.is_family]


def why_refused(name: str) -> str | None:
    """What the command belongs to that is not built here; None for any other name."""
    lower = name.lower()
    return next((what for prefix, what in REFUSED_PREFIXES if lower.startswith(prefix)), None)
