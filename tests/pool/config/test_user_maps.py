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
* /^d(.)?(.)$/ \0-\2-\9
* "a \"b\"" one two
* dave late
"""


def test_the_first_line_that_matches_counts_in_the_order_of_the_file() -> None:
    found = read_user_map(MAP)
    assert found("dave") == "late"
    assert found("dan") == r"dan-n-\9"
    assert found('a "b"') == "one"
    assert read_user_map("* /./ all\n* ann one")("ann") == "all"
    assert found("ann") == "physics,chemistry"
    assert found("bob b") == "two words"
    assert found("x17") == r"group17,\2all"
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


def test_a_map_may_have_submaps_and_lines_for_prefixes(tmp_path: Path) -> None:
    lines = [
        "NEGOTIATOR_CLASSAD_USER_MAP_NAMES = Shifts, Places",
        "CLASSAD_USER_MAP_PREFIX_Places = true",
        "CLASSAD_USER_MAPDATA_Shifts @=end",
        "Day ann early",
        "* ann any",
        "ann",
        "@include more",
        "  * /^ann/i",
        "* /(/ any",
        "@end",
        "CLASSAD_USER_MAPDATA_Places @=end",
        "* s3://bucket/ here",
        "* /home there",
        "@end",
    ]
    (tmp_path / "config").write_text("\n".join(lines) + "\n")
    maps = user_maps(load_config([str(tmp_path / "config")], environ={}), "NEGOTIATOR")
    assert {name: found("ann") for name, found in maps.found.items()} == {
        "shifts": "any",
        "shifts.day": "early",
        "places": None,
    }
    assert (maps.found["places"]("s3://bucket/x"), maps.found["places"]("/home/ann")) == ("here", "there")
    where = "CLASSAD_USER_MAPDATA_Shifts"
    assert list(maps.ignored) == [
        f"{where}:3:4: 'ann' (expected USER of METHOD USER GROUPS)",
        f"{where}:4:1: '@include more' (expected METHOD of METHOD USER GROUPS)",
        f"{where}:5:10: '* /^ann/i' (expected GROUPS of METHOD USER GROUPS)",
        f"{where}:6:3: /(/ is no regular expression",
    ]


def test_what_only_unicode_takes_for_a_blank_or_a_line_end_belongs_to_the_name() -> None:
    read = read_user_map("* ann\u00a0b one\n* c\x85d two\r\n")
    assert (read("ann\u00a0b"), read("c\x85d")) == ("one", "two")
