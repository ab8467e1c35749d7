"""The maps behind userMap()."""

from __future__ import annotations

from pathlib import Path

from pool.config import load_config
from pool.config.user_maps import read_user_map, user_maps

MAP = r"""
# a comment, and a line of no form
nonsense
* ann  physics,chemistry
* "bob b" "two words"
* /^x(\d+)$/ group\1,\2all
* /^CAROL/i sea
* /(/ broken
* ann later
"""


def test_names_come_before_patterns_and_the_first_line_counts() -> None:
    found = read_user_map(MAP)
    assert found("ann") == "physics,chemistry"
    assert found("bob b") == "two words"
    assert found("x17") == "group17,all"
    assert found("carol2") == "sea"
    assert found("eve") is None


def test_maps_come_from_files_and_from_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("* ann a\n")
    lines = [
        "SCHEDD_CLASSAD_USER_MAP_NAMES = File Missing",
        "CLASSAD_USER_MAP_NAMES = Data",
        f"CLASSAD_USER_MAPFILE_File = {tmp_path}/map",
        f"CLASSAD_USER_MAPFILE_Missing = {tmp_path}/none",
        "CLASSAD_USER_MAPDATA_Data = * bob b",
    ]
    (tmp_path / "config").write_text("\n".join(lines) + "\n")
    maps = user_maps(load_config([str(tmp_path / "config")], environ={}), "SCHEDD")
    assert (maps.found["file"]("ann"), maps.found["data"]("bob")) == ("a", "b")
    assert set(maps.found) == {"file", "data"}
    assert "none cannot be read" in maps.ignored[0]
