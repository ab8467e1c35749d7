"""Event logs: written as HTCondor 25.14 writes them, read as it reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.base.ids import JobId
from pool.classad import ClassAd, parse_ad
from pool.jobs.userlog import event_log as log
from pool.jobs.userlog.event import LogEvent, event_text
from pool.jobs.userlog.reader import EventReader, LoggedEvent
from pool.jobs.userlog.requests import answer_line, events_of
from pool.jobs.userlog.usage import Usage
from pool.jobs.userlog.usage_table import usage_lines

CASES = Path(__file__).parents[3] / "cases" / "eventlog"
AT = 1_795_218_668.0
JOB = JobId(8, 0)
TABLE = {
    "Cpus": 1,
    "RequestCpus": 1,
    "CpusUsage": 0,
    "Disk": 10240,
    "RequestDisk": 10240,
    "DiskUsage": 65,
    "GPUs": 0,
    "Memory": 128,
    "RequestMemory": 50,
    "MemoryUsage": 0,
    "TimeExecuteUsage": 1,
    "TimeSlotBusyUsage": 2,
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logs are in local time; the cases were written in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def read(text: str) -> list[LoggedEvent]:
    return list(EventReader().feed(text))


@pytest.mark.parametrize("name", ["exitcode", "suspend", "all_kinds"])
def test_htcondors_own_logs_are_read_as_it_reads_them(name: str) -> None:
    events = read((CASES / f"{name}.log").read_text())
    expected = json.loads((CASES / f"{name}.events.json").read_text())
    assert len(events) == len(expected)
    for event, wanted in zip(events, expected, strict=True):
        assert (event.number, event.name) == (wanted["type"], wanted["name"])
        assert (event.job.cluster, event.job.proc, event.subproc) == (
            wanted["cluster"],
            wanted["proc"],
            wanted["subproc"],
        )
        assert int(event.at) == wanted["time"]
        ad = event.ad()
        assert {name.lower() for name in ad} == {name.lower() for name in wanted["attrs"]}, event
        for attribute, value in wanted["attrs"].items():
            if isinstance(value, dict):
                assert ad[attribute] == parse_ad(value["text"])
            else:
                assert ad[attribute] == value, attribute


def split_events(joined: str) -> list[str]:
    return [part + "\n...\n" for part in joined.split("\n...\n")[:-1]]


def written_and_expected() -> Iterator[tuple[str, str]]:
    """Each event of the cases, made here, and its text there."""
    texts = [text for name in ("exitcode", "suspend") for text in split_events((CASES / f"{name}.log").read_text())]
    host = "<127.0.0.1:3427?addrs=127.0.0.1-3427&alias=localhost>"
    startd = "<127.0.0.1:6687?addrs=127.0.0.1-6687&alias=localhost>"
    scratch = "/var/lib/condor/execute/dir_93/scratch"
    given = {"Cpus": 1, "Disk": 10240, "GPUs": 0, "Memory": 128, "CondorScratchDir": scratch}
    two = JobId(2, 0)
    exitcode: list[tuple[LogEvent, float]] = [
        (log.Submitted(host), 0),
        (log.FileTransfer(2, host="<127.0.0.1:16683?addrs=127.0.0.1-16683&alias=localhost>"), 0),
        (log.FileTransfer(3), 0),
        (log.Executing(startd, "slot1_3@localhost", given), 1),
        (log.ImageSize(1, 0, 0), 2),
        (log.FileTransfer(5), 2),
        (log.FileTransfer(6), 2),
        (
            log.Terminated(
                log.Exit(code=7), sent=51200, received=135, total_sent=51200, total_received=135, table=TABLE
            ),
            5,
        ),
    ]
    for (event, later), text in zip(exitcode, texts, strict=False):
        yield event_text(event, two, AT + later), text
    reason = "via condor_rm (by user peer)"
    table = {**TABLE, "Disk": 1048576, "RequestDisk": 1048576, "DiskUsage": 47, "RequestMemory": 128}
    table |= {"TimeExecuteUsage": 43, "TimeSlotBusyUsage": 43}
    suspend: dict[int, tuple[LogEvent, float]] = {
        3: (log.Suspended(2), 26),
        4: (log.Continued(), 29),
        5: (log.Evicted(reason, 1023, 0, table=table), 57),
        6: (log.Aborted(reason), 57),
    }
    for at, (event, later) in suspend.items():
        yield event_text(event, JOB, AT + later), texts[len(exitcode) + at]


@pytest.mark.parametrize(("made", "expected"), list(written_and_expected()))
def test_events_are_written_as_25_14_writes_them(made: str, expected: str) -> None:
    def without_time(text: str) -> str:
        head, _, rest = text.partition(") ")
        return f"{head}) {rest[20:]}"

    assert without_time(made) == without_time(expected)


EVENTS: list[LogEvent] = [
    log.Submitted("<1.2.3.4:9618>", attributes='[ JobBatchName = "a batch" ]'),
    log.Submitted("<1.2.3.4:9618>", log_notes="DAG Node: A", user_notes="mine"),
    log.Executing("<1.2.3.4:9618>", "slot1_1@host", {"Cpus": 2, "CondorScratchDir": "/x"}),
    log.ImageSize(100, 1, 90, 80),
    log.Terminated(log.Exit(signal=11, core_file="/tmp/core"), Usage(3725.0, 1.5), Usage(90061, 0), table=TABLE),
    log.Terminated(log.Exit(code=1), table={"Cpus": 1.5, "CpusUsage": 0.25, "RequestCpus": 1, "AssignedGPUs": '"g0"'}),
    log.Evicted("too slow", 1000, 3),
    log.Evicted("too slow", 1000, 3, checkpointed=True),
    log.Evicted("The job attribute OnExitRemove expression 'false' evaluated to FALSE", exit=log.Exit(code=2)),
    log.ShadowException("gone\nfor good"),
    log.Aborted("via condor_rm (by user ann)"),
    log.Suspended(4),
    log.Continued(),
    log.Held("via condor_hold (by user ann)", 1, 5),
    log.Held(),
    log.Released("via condor_release (by user ann)"),
    log.RemoteErrorEvent("starter", "slot1@host", "cannot\nrun", code=6, subcode=2),
    log.Disconnected("lost", "slot1@host", "<1.2.3.4:9618>"),
    log.Reconnected("slot1@host", "<1.2.3.4:9618>", "<1.2.3.4:1>"),
    log.ReconnectFailed("too late", "slot1@host"),
    log.AttributeUpdated("JobPrio", "5", "0"),
    log.AttributeUpdated("JobPrio", "5"),
    log.FileTransfer(2, host="<1.2.3.4:9618>", queueing_delay=3),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_is_read_back_by_htcondor(event: LogEvent, tmp_path: Path) -> None:
    htcondor2 = pytest.importorskip("htcondor2")
    path = tmp_path / "log"
    path.write_text(event_text(event, JOB, AT))
    (theirs,) = list(htcondor2.JobEventLog(str(path)).events(stop_after=0))
    (ours,) = read(path.read_text())
    assert (int(theirs.type), theirs.cluster, theirs.proc) == (event.number, 8, 0) == (ours.number, *ours.job)
    ad = ours.ad()
    for name in ("ReturnValue", "TerminatedNormally", "HoldReason", "HoldReasonCode", "HoldReasonSubCode", "Size"):
        if name in theirs:
            assert ad.eval(name) == theirs[name], name
    for name in ("SlotName", "ExecuteHost", "SubmitHost", "Message", "StartdName", "StartdAddr", "StarterAddr"):
        if name in theirs:
            assert ad.eval(name) == theirs[name], name
    for name in ("CpusUsage", "Cpus", "RequestCpus", "MemoryUsage", "DiskUsage", "Reason", "NumberOfPIDs"):
        if name in theirs and event.number != 4:
            assert ad.eval(name) == theirs[name], name


def test_a_log_is_read_as_it_grows() -> None:
    text = event_text(log.Held("why", 1), JOB, AT) + event_text(log.Released(), JOB, AT)
    reader = EventReader()
    numbers = [event.number for at in range(len(text)) for event in reader.feed(text[at])]
    assert numbers == [12, 13]
    assert reader.unfinished == ""
    assert list(reader.feed("012 (008.000.000) 2026-11-20 23:51:08 Job was")) == []
    assert reader.unfinished != ""


def test_a_reason_with_line_ends_stays_on_its_line() -> None:
    (event,) = read(event_text(log.Held("one\ntwo\r\n...\nthree", 1), JOB, AT))
    assert event.attributes["HoldReason"] == "one|two |...|three"


def test_programs_get_events_by_json_lines_whatever_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    for name in ("exitcode", "suspend", "all_kinds"):
        request = {"id": name, "op": "eventlog", "text": (CASES / f"{name}.log").read_text()}
        answer = json.loads(answer_line(json.dumps(request), year=2026))
        assert answer["id"] == name
        expected = json.loads((CASES / f"{name}.events.json").read_text())
        assert len(answer["events"]) == len(expected)
        for event, wanted in zip(answer["events"], expected, strict=True):
            assert event | {"attrs": {}} == wanted | {"attrs": {}}
            assert {key.lower() for key in event["attrs"]} == {key.lower() for key in wanted["attrs"]}
            for key, value in event["attrs"].items():
                if isinstance(value, dict):
                    assert parse_ad(value["text"]) == parse_ad(wanted["attrs"][key]["text"])
                elif key != "EventTime":
                    assert value == wanted["attrs"][key], (name, key)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "this line is no JSON"),
        ("[1]", "a request is a JSON object"),
        ('{"id": 1, "op": "classad"}', "there is no op 'classad'"),
        ('{"id": 1, "op": "eventlog"}', "this op needs 'text'"),
    ],
)
def test_a_question_about_nothing_is_answered_with_an_error(line: str, said: str) -> None:
    assert json.loads(answer_line(line, year=2026))["error"].startswith(said)


def test_what_is_no_event_is_skipped() -> None:
    good = event_text(log.Continued(), JOB, AT)
    assert [event.number for event in read(f"rubbish\n...\n{good}999 nonsense\n...\n{good}")] == [11, 11]


def test_old_dates_get_the_year_that_is_given() -> None:
    (event,) = EventReader(year=2024).feed("011 (001.000.000) 05/03 09:30:20 Job was unsuspended.\n...\n")
    assert event.at == 1714728620


def test_an_event_is_an_ad() -> None:
    (event,) = read(event_text(log.Held("why", 1, 2), JOB, AT))
    assert isinstance(event.ad(), ClassAd)
    assert event.ad().eval("EventTypeNumber") == 12
    assert event.ad().eval("EventTime") == "2026-11-20T23:51:08"


@pytest.mark.parametrize(
    ("written", "seconds", "shown"),
    [
        ("2024-07-01T12:00:00", 1719849600, "2024-07-01T12:00:00"),
        ("2024-07-01T12:00:00Z", 1719835200, "2024-07-01T08:00:00"),
        ("2024-07-01T12:00:00.250", 1719849600, "2024-07-01T12:00:00.250"),
        ("2024-07-01T12:00:00.250Z", 1719835200, "2024-07-01T08:00:00.250"),
        ("2024-01-01T12:00:00", 1704128400, "2024-01-01T12:00:00"),
    ],
)
def test_times_in_json_are_local_unless_they_say_otherwise_as_htcondors_reader_has_them(
    written: str, seconds: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        ad = {"MyType": "ExecuteEvent", "EventTypeNumber": 1, "EventTime": written, "Cluster": 1, "Proc": 0}
        (event,) = events_of(json.dumps(ad), year=2024)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (event["time"], event["attrs"]["EventTime"]) == (seconds, shown)


def test_reals_beyond_the_largest_are_expressions_in_answers() -> None:
    ad = '{"MyType": "JobAdInformationEvent", "EventTypeNumber": 28, "Cluster": 1, "Big": 1e309, "Least": -1e400, "A": 1e308}'
    said = answer_line(json.dumps({"id": 1, "text": ad}), year=2024)
    assert "Infinity" not in said  # which is no JSON
    (event,) = json.loads(said)["events"]
    told = {name: event["attrs"][name] for name in ("Big", "Least", "A")}
    assert told == {"Big": '/Expr(real("INF"))/', "Least": '/Expr(real("-INF"))/', "A": 1e308}


@pytest.mark.parametrize("asked", [float("inf"), float("nan")])
def test_a_request_without_end_is_written_all_the_same(asked: float) -> None:
    (line,) = [line for line in usage_lines({"Cpus": 1, "RequestCpus": asked}) if "Cpus" in line]
    assert str(-(2**63)) in line


@pytest.mark.parametrize(
    "text",
    [
        "006 (1.0.0) 2026-11-20 10:00:00 Image size of job updated: many",
        "006 (1.0.0) 2026-11-20 10:00:00 Image size of job updated: ²",
        "008 (1.0.0) 2026-99-20 10:00:00Z of a thirteenth month",
        "008 (1.0.0) 0000-00-00 00:00:00Z of no year",
    ],
)
def test_an_event_that_somebody_else_wrote_into_the_log_is_read_as_far_as_it_goes(text: str) -> None:
    events = list(EventReader().feed(f"{text}\n...\n000 (2.0.0) 2026-11-20 10:00:00 Job submitted\n...\n"))
    assert [event.job for event in events] == [JobId(1, 0), JobId(2, 0)]
