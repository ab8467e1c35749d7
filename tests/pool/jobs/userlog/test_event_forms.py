"""Event logs in XML, in JSON and with other times: read by HTCondor as the text form is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.base.ids import JobId
from pool.jobs.userlog import cluster_events
from pool.jobs.userlog import event_log as log
from pool.jobs.userlog.forms import TEXT, Form, read_form, write, write_cluster
from tests.pool.jobs.userlog.test_event_log import AT, EVENTS, JOB


@pytest.fixture(autouse=True)
def an_hour_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ([], TEXT),
        (["ISO_DATE"], TEXT),
        (["XML"], Form(xml=True)),
        (["json", "UTC", "SUB_SECOND"], Form(json=True, utc=True, sub_second=True)),
        (["UTC", "LEGACY"], Form(legacy=True)),
        (["LEGACY", "!LEGACY"], TEXT),
        (["XML", "!XML"], TEXT),
    ],
)
def test_options_add_up(options: list[str], form: Form) -> None:
    assert read_form(options) == form
    assert (read_form(options) is TEXT) == (form == TEXT)


@pytest.mark.parametrize(
    ("options", "moment"),
    [
        ([], "2026-11-21 00:51:08"),
        (["UTC"], "2026-11-20 23:51:08Z"),
        (["SUB_SECOND"], "2026-11-21 00:51:08.250"),
        (["UTC", "SUB_SECOND"], "2026-11-20 23:51:08.250Z"),
        (["LEGACY"], "11/21 00:51:08"),
    ],
)
def test_times_are_written_as_the_options_say(options: list[str], moment: str) -> None:
    text = write(log.Continued(), JOB, AT + 0.25, read_form(options))
    assert text == f"011 (008.000.000) {moment} Job was unsuspended.\n...\n"
    text = write_cluster(cluster_events.ClusterSubmitted("<h>"), 8, AT + 0.25, read_form(options))
    assert text == f"035 (008.-01.000) {moment} Cluster submitted from host: <h>\n...\n"


@pytest.mark.parametrize("kind", ["XML", "JSON"])
def test_htcondor_reads_each_event_as_it_reads_the_text(kind: str, tmp_path: Path) -> None:
    htcondor2 = pytest.importorskip("htcondor2")

    def read(name: str, form: Form) -> list[dict[str, object]]:
        path = tmp_path / name
        path.write_text("".join(write(event, JobId(8, at), AT, form) for at, event in enumerate(EVENTS)))
        return [{key: str(event[key]) for key in event} for event in htcondor2.JobEventLog(str(path)).events(0)]

    texts, others = read("text", TEXT), read(kind, read_form([kind]))
    assert len(others) == len(texts) == len(EVENTS)
    for text, other in zip(texts, others, strict=True):
        for name in (
            "EventTypeNumber",
            "EventTime",
            "Cluster",
            "Proc",
            "MyType",
            "Reason",
            "ReturnValue",
            "HoldReason",
        ):
            assert other.get(name) == text.get(name), (text["MyType"], name)
