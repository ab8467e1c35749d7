"""Files of ads that only grow: what is written is read again in both directions, and old parts go."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd
from pool.jobs.queue import history_file
from pool.jobs.queue.history_file import HistoryRecord, records

ADS = [ClassAd({"ClusterId": number, "ProcId": 0, "Owner": "alice", "NumShadowStarts": 1}) for number in (1, 2, 3)]


def text_of(kinds: list[str]) -> str:
    parts = []
    for ad, kind in zip(ADS, kinds, strict=True):
        banner = history_file.job_banner(ad) if kind == "JOB" else history_file.run_banner(kind, ad, 1000.0)
        parts.append(history_file.own_lines(ad) + banner)
    return "".join(parts)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("tail", ["", "ClusterId = 9\n"])
def test_records_come_in_both_directions_even_without_a_last_banner(backwards: bool, tail: str) -> None:
    found = list(records(text_of(["JOB", "EPOCH", "INPUT"]) + tail, backwards=backwards))
    if backwards:
        found.reverse()
    assert [record.kind for record in found] == ["JOB", "EPOCH", "INPUT"] + (["JOB"] if tail else [])
    assert [record.ad().eval_int("ClusterId") for record in found] == [1, 2, 3] + ([9] if tail else [])


def test_a_text_without_banners_is_one_record() -> None:
    text = "ClusterId = 1\n\nClusterId = 2\n"
    assert list(records(text)) == list(records(text, backwards=True)) == [HistoryRecord("JOB", "", text)]


def test_the_banner_names_the_job_and_the_run() -> None:
    ad = ClassAd(history_file.run_attributes(ADS[0], "EPOCH", 1000.9), parent=ADS[0])
    assert history_file.run_banner("EPOCH", ad, 1000.9) == (
        '*** EPOCH ClusterId=1 ProcId=0 RunInstanceId=0 Owner="alice" CurrentTime=1000\n'
    )


def test_the_oldest_parts_go_and_other_files_stay() -> None:
    names = ["h.20260101T000000", "h.20250101T000000", "h.20270101T000000", "h", "h.x", "other.20200101T000000"]
    assert history_file.rotations("/spool/h", names) == ["h.20250101T000000", "h.20260101T000000", "h.20270101T000000"]
    assert history_file.surplus("/spool/h", names, 2) == ["h.20250101T000000"]
