"""An option may be shortened as far as HTCondor's tools let it be, and a short form means the same there and here."""

from __future__ import annotations

import pytest

from minipool.cli.entry.options import find_row
from pool.base.errors import UserError
from pool.gpus.discover import parse_options
from tests.minipool.cli.fake_pool import CASES
from tests.minipool.cli.test_manual_options import table

ALL = [line.split() for line in (CASES / "shortest.options").read_text().splitlines() if line[:1] != "#"]
LINES = [line for line in ALL if line[0] != "condor_gpu_discovery"]
Order = list[list[tuple[str, int]]]


def read(words: list[str]) -> Order:
    """HTCondor's options in their order, each with its names."""
    pairs = [[name.partition(":") for name in word.split("|")] for word in words]
    return [[(name, len(name) if int(least) < 0 else int(least)) for name, _, least in row] for row in pairs]


def theirs(order: Order, short: str) -> set[str]:
    """All names of the option that HTCondor takes `short` for."""
    for row in order:
        if any(name.startswith(short) and len(short) >= least for name, least in row):
            return {name for name, _ in row}
    return set()


@pytest.mark.parametrize(("tool", "words"), [(line[0], line[1:]) for line in LINES], ids=[line[0] for line in LINES])
def test_a_short_form_means_what_it_means_to_htcondor(tool: str, words: list[str]) -> None:
    order, rows = read(words), table(tool).options
    ours = {name for row in rows for name in row.names.split()}
    shorts = {name[:length] for row in order for name, _ in row for length in range(1, len(name) + 1)}
    wrong = []
    for short in sorted(shorts - ours):
        wanted = theirs(order, short)
        row, _ = find_row(rows, f"-{short}")
        got = set(row.names.split()) if row else set()
        if not (got & wanted if wanted & ours else not got):
            wrong.append(f"-{short}: {row.key if row else None}, not {sorted(wanted)}")
    assert not wrong


def test_after_two_dashes_a_name_is_whole() -> None:
    rows = table("condor_q").options
    assert find_row(rows, "--constraint")[0] is not None
    assert find_row(rows, "--const")[0] is None


def test_short_options_of_condor_gpu_discovery() -> None:
    """Its table is in pool/gpus, for the startd asks the same function."""
    order = read(next(line[1:] for line in ALL if line[0] == "condor_gpu_discovery"))
    for short in sorted({name[:length] for row in order for name, _ in row for length in range(1, len(name))}):
        wanted = theirs(order, short)
        value = ["1"] if wanted & {"device", "tag", "prefix"} else []
        try:
            got = parse_options([f"-{short}", *value])
        except UserError:
            assert not wanted, short
        else:
            assert got == parse_options([f"-{min(wanted)}", *value]), short
