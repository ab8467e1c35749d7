"""Descriptions and what HTCondor 25.14 makes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pool.base.errors import SubmitError
from tests.pool.submit.build import CASES, Place, long

_LINES = (CASES / "cases.jsonl").read_text().splitlines()
USUAL: dict[str, str] = json.loads(_LINES[0])["usual"]
ROWS: list[dict[str, Any]] = [json.loads(line) for line in _LINES[1:]]


@pytest.mark.parametrize("row", ROWS, ids=[row["tag"] for row in ROWS])
def test_a_description_means_what_it_means_to_htcondor(place: Place, row: dict[str, Any]) -> None:
    config = row.get("config", {})
    if row["exit"]:
        with pytest.raises(SubmitError) as caught:
            place.ads(row["description"], knobs=config)
        assert caught.value.message
        return
    plan = place.plan(row["description"], knobs=config)
    ads = [long(ad.flat()) for ad in plan.procs()]
    assert len(ads) == len(row["procs"])
    for ad, wanted in zip(ads, row["procs"], strict=True):
        expected = {name: value for name, value in USUAL.items() if name not in wanted.get("unsaid", [])}
        expected.update(wanted["ad"])
        for name, value in expected.items():
            value = value.replace("@CWD@", str(place.where)).replace("@USER@", "peer")
            assert ad.get(name.lower()) == value, name
    if "$INT() macro" not in "".join(plan.warnings) and "$CHOICE() macro" not in "".join(plan.warnings):
        assert len([line for line in (*plan.warnings, *plan.unused()) if "has no effect" not in line]) == len(
            row.get("warnings", [])
        )
