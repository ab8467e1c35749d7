"""The forms of the queue statement."""

from __future__ import annotations

import pytest

from pool.submit.queue_statement import BadQueue, Slice, parse_queue, split_row, statement_arguments


@pytest.mark.parametrize(
    ("text", "count", "mode", "variables", "items"),
    [
        ("", 1, "", [], []),
        ("3", 3, "", [], []),
        ("2*3", 6, "", [], []),
        ("in (a b, c)", 1, "in", ["Item"], ["a", "b", "c"]),
        ("2 x in a b", 2, "in", ["x"], ["a", "b"]),
        ("x1,y from (a 1)", 1, "from", ["x1", "y"], ["a 1"]),
        ("3 x y from (a 1)", 3, "from", ["x", "y"], ["a 1"]),
        ("f matching files *.dat", 1, "matching", ["f"], ["*.dat"]),
        ("matching (*.a *.b)", 1, "matching", ["Item"], ["*.a", "*.b"]),
        ("x from table.txt", 1, "from", ["x"], []),
    ],
)
def test_forms(text: str, count: int, mode: str, variables: list[str], items: list[str]) -> None:
    queue = parse_queue(text)
    assert (queue.count, queue.mode, queue.variables, queue.items) == (count, mode, variables, items)


@pytest.mark.parametrize(
    "text", ["x", "-1", "3000000000", "in files (a)", "from files x", "matching table (a)", "in [x] (a)"]
)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(BadQueue):
        parse_queue(text)


@pytest.mark.parametrize(
    ("slice_", "picked"),
    [
        (Slice(2), [2, 3, 4]),
        (Slice(None, 2), [0, 1]),
        (Slice(1, 4, 2), [1, 3]),
        (Slice(-2), [3, 4]),
        (Slice(None, -2), [0, 1, 2]),
        (Slice(9), []),
        (Slice(None, None, 2), [0, 2, 4]),
    ],
)
def test_slices(slice_: Slice, picked: list[int]) -> None:
    assert slice_.picks(5) == picked


@pytest.mark.parametrize(
    ("row", "columns", "values"),
    [
        ("a b c", 2, ["a", "b c"]),
        ("a, b", 2, ["a", "b"]),
        ("a", 2, ["a", ""]),
        ("a\x1fb c\x1fd", 3, ["a", "b c", "d"]),
        ("a,b", 1, ["a,b"]),
    ],
)
def test_rows(row: str, columns: int, values: list[str]) -> None:
    assert split_row(row, columns) == values


def test_what_a_queue_statement_is() -> None:
    assert statement_arguments("QUEUE 3") == "3"
    assert statement_arguments("iterate 2") == "2"
    assert statement_arguments("queued = 1") is None


@pytest.mark.parametrize("slice_", ["[{0}]", "[:{0}]", "[::{0}]", "[1:-{0}]"])
def test_a_slice_of_thousands_of_digits_is_none(slice_: str) -> None:
    with pytest.raises(BadQueue):
        parse_queue("x in " + slice_.format("9" * 5000) + " (a b)")
