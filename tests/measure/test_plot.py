"""The picture of what figures cost by size."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.plot import lines_of, svg

RESULT = {
    "figures": [
        {"name": "change, 1000 slots", "value": 50.0, "unit": "us of CPU"},
        {"name": "change, 100 slots", "value": 40.0, "unit": "us of CPU"},
        {"name": "condor_status, 1000 slots", "value": 0.25, "unit": "s"},
        {"name": "changes in a second, 1000 slots", "value": 9000.0, "unit": "1/s"},
        {"name": "1000 startds connect", "value": 1.0, "unit": "s"},
    ]
}


def test_lines_are_what_is_shown_of_each_size_in_small_units() -> None:
    assert lines_of(RESULT) == {"a change, us": [(100, 40.0), (1000, 50.0)], "condor_status, ms": [(1000, 250.0)]}


def test_the_picture_has_a_line_and_its_points_within_it() -> None:
    root = ElementTree.fromstring(svg(lines_of(RESULT)))
    space = "{http://www.w3.org/2000/svg}"
    points = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in root.iter(f"{space}circle")]
    assert len(points) == 3
    assert all(0 < x < float(root.attrib["width"]) and 0 < y < float(root.attrib["height"]) for x, y in points)
    assert points[0][0] < points[1][0]
    assert points[0][1] > points[1][1]
    assert len([*root.iter(f"{space}polyline")]) == 2
