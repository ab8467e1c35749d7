"""condor_userlog, condor_check_userlogs and `pool eventlog`: what they say about event logs."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minipool.cli.entry.main import dispatch
from pool.base.ids import JobId
from pool.classad import ClassAd, parse_longs
from pool.jobs.userlog import event_log as log
from pool.jobs.userlog.event import LogEvent, event_text
from pool.jobs.userlog.usage import Usage

CASES = Path(__file__).parents[2] / "cases" / "eventlog"
AT = 1_795_218_668
HOST = "<10.0.0.1:9618?addrs=10.0.0.1-9618&alias=one>"
A, B = JobId(104, 0), JobId(104, 1)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def two_jobs(tmp_path: Path) -> str:
    """One job that is evicted and then done, and one that still runs."""
    done = log.Terminated(log.Exit(code=0), Usage(1800, 0), Usage(1800, 0))
    path = tmp_path / "log"
    path.write_text(
        event_text(log.Submitted("<10.0.0.9:1>", log_notes="DAG Node: A"), A, AT)
        + event_text(log.Submitted("<10.0.0.9:1>"), B, AT)
        + event_text(log.Executing(HOST), A, AT + 60)
        + event_text(log.Evicted("too hot", 1, 2), A, AT + 660)
        + event_text(log.Executing("<10.0.0.2:9618>"), A, AT + 720)
        + event_text(log.Executing(HOST), B, AT + 720)
        + event_text(done, A, AT + 720 + 3600)
    )
    return str(path)


def all_of(ads: str) -> list[ClassAd]:
    return list(parse_longs(ads.splitlines()))


def test_condor_q_and_history_show_jobs_as_a_log_tells_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for tool in ("q", "history"):
        assert dispatch(tool, ["-userlog", two_jobs(tmp_path), "-long"]) == 0
        ended, runs = sorted(all_of(capsys.readouterr().out), key=lambda ad: ad.eval_int("ProcId", 0))
        assert [ended[name] for name in ("JobStatus", "LastJobStatus", "ExitCode", "ExitBySignal")] == [4, 2, 0, False]
        assert [ended[name] for name in ("QDate", "CompletionDate", "NumJobStarts")] == [AT, AT + 4320, 2]
        assert (ended["RemoteWallClockTime"], ended["LastRemoteWallClockTime"]) == (4200.0, 3600.0)
        assert (ended["LastRemoteHost"], "RemoteHost" in ended) == ("<10.0.0.2:9618>", False)
        assert (runs["JobStatus"], runs["RemoteHost"], runs["UserLog"]) == (2, HOST, str(tmp_path / "log"))


def test_what_a_log_tells_of_holds_suspensions_and_removals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def ads() -> list[ClassAd]:
        assert dispatch("q", ["-userlog", str(path), "-long"]) == 0
        return all_of(capsys.readouterr().out)

    path = tmp_path / "log"
    path.write_text(
        event_text(log.Submitted("<10.0.0.9:1>"), A, AT) + event_text(log.Held("no such file", 13, 2), A, AT + 10)
    )
    (held,) = ads()
    assert [held[name] for name in ("JobStatus", "HoldReason", "HoldReasonCode", "HoldReasonSubCode")] == [
        5, "no such file", 13, 2,
    ]  # fmt: skip
    with open(path, "a") as file:
        file.write(event_text(log.Released("try again"), A, AT + 20))
    (free,) = ads()
    assert [free[name] for name in ("JobStatus", "LastHoldReason", "EnteredCurrentStatus")] == [
        1, "no such file", AT + 20,
    ]  # fmt: skip
    assert "HoldReason" not in free
    path.write_bytes((CASES / "suspend.log").read_bytes())
    (gone,) = ads()
    said = [gone[name] for name in ("JobStatus", "TotalSuspensions", "RemoveReason", "ImageSize")]
    assert said == [3, 1, "via condor_rm (by user peer)", 2600]


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "none")
    for tool, said in (
        ("q", f"\nCan't open user log: {missing}\n"),
        ("history", f"Error: Can't open userlog {missing}\n"),
    ):
        assert dispatch(tool, ["-userlog", missing]) == 1
        assert capsys.readouterr() == ("", said)


def test_allocations_and_their_totals_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("userlog", [two_jobs(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "\n"
        "Job      Host            Start Time  Evict Time  Wall Time Good Time CPU Usage\n"
        "104.0    10.0.0.1        11/20 23:52 11/21 00:02   0+00:10   0+00:00   0+00:00\n"
        "104.0    10.0.0.2        11/21 00:03 11/21 01:03   0+01:00   0+01:00   0+00:30\n"
        "\n"
        "Host/Job        Wall Time Good Time CPU Usage Avg Alloc  Avg Lost Goodput  Util.\n"
        "\n"
        "10.0.0.1          0+00:10   0+00:00   0+00:00   0+00:10   0+00:10    0.0%   0.0%\n"
        "10.0.0.2          0+01:00   0+01:00   0+00:30   0+01:00   0+00:00  100.0%  50.0%\n"
        "\n"
        "104.0             0+01:10   0+01:00   0+00:30   0+00:35   0+00:10   85.7%  50.0%\n"
        "\n"
        "Total             0+01:10   0+01:00   0+00:30   0+00:35   0+00:10   85.7%  50.0%\n"
    )


@pytest.mark.parametrize(
    ("options", "lines", "heading"),
    [
        (["-raw"], 2, False),
        (["-raw", "-evict"], 1, False),
        (["-raw", "-evict", "-all"], 2, False),
        (["-raw", "-j", "104.1"], 0, False),
        (["-raw", "-j", "104"], 2, False),
        (["-total"], 0, True),
    ],
)
def test_options_choose_allocations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], lines: int, heading: bool
) -> None:
    assert dispatch("userlog", [*options, two_jobs(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert sum("11/2" in line for line in out.splitlines()) == lines
    assert ("Host/Job" in out) == heading


def test_logs_that_cannot_be_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("userlog", [str(tmp_path / "none")]) == 0
    assert capsys.readouterr() == ("", f"Can't access file: {tmp_path / 'none'} (errno=2)\n")
    assert dispatch("userlog", []) == 1
    assert dispatch("check_userlogs", [str(tmp_path / "none")]) == 1
    assert "Error monitoring log file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["executable = /bin/true\nqueue\n", "[ A = 1 ]\n", '{"A" 1}', '{"A": 1}', "<c><a/></c>\n", "...\n"]
)
@pytest.mark.parametrize("tool", ["userlog", "check_userlogs"])
def test_a_file_that_is_no_log_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str, text: str
) -> None:
    path = tmp_path / "job.sub"
    path.write_text(text)
    assert dispatch(tool, [str(path)]) == 1
    out, err = capsys.readouterr()
    assert f"{path} is not a job event log" in err
    assert out == ""


@pytest.mark.parametrize("tool", ["userlog", "check_userlogs"])
def test_an_empty_log_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str) -> None:
    (tmp_path / "log").write_text("")
    assert dispatch(tool, [str(tmp_path / "log")]) == 0
    assert capsys.readouterr().err == ""


def test_a_log_in_order_is_okay(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("check_userlogs", [str(CASES / "suspend.log")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith('Log event: ULOG_SUBMIT (8.0.0) ("")\n Total submitted: 1; net submitted: 1\n\n')
    assert out.endswith("Log outcome: ULOG_NO_EVENT \nLog(s) are okay\n")
    assert err == ""


def test_a_job_without_an_end_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("check_userlogs", [two_jobs(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "BAD EVENT: job (104.1.0) ended, total end count != 1 (0)\n" in err
    assert out.endswith("Log(s) have error(s)\n")


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([log.Executing(HOST)], "executing, submit count < 1 (0)"),
        ([log.Aborted()], "ended, submit count < 1 (0)"),
        ([log.Submitted("<h>"), log.Submitted("<h>")], "submitted, submit count != 1 (2)"),
        ([log.Submitted("<h>"), log.Aborted(), log.Executing(HOST)], "executing, total end count != 0 (1)"),
        ([log.Submitted("<h>"), log.Aborted(), log.Aborted()], "ended, total end count != 1 (2)"),
    ],
)
def test_what_cannot_be_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], events: list[LogEvent], said: str
) -> None:
    (tmp_path / "log").write_text("".join(event_text(event, A, AT + at) for at, event in enumerate(events)))
    assert dispatch("check_userlogs", [str(tmp_path / "log")]) == 1
    assert f"BAD EVENT: job (104.0.0) {said}" in capsys.readouterr().err


def test_the_events_of_a_log_are_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("eventlog", [str(CASES / "suspend.log")]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        {**event, "attrs": {**event["attrs"], **_properties(line)}}
        for event, line in zip(json.loads((CASES / "suspend.events.json").read_text()), lines, strict=True)
    ]


def _properties(event: dict[str, dict[str, object]]) -> dict[str, object]:
    """A nested ad is compared elsewhere; here it is as it is shown."""
    return {name: value for name, value in event["attrs"].items() if isinstance(value, dict)}


def test_programs_ask_line_by_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    request = {"id": 7, "op": "eventlog", "text": (CASES / "exitcode.log").read_text()}
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{json.dumps(request)}\n\nnonsense\n"))
    assert dispatch("eventlog", ["--jsonl"]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["id"], [event["type"] for event in first["events"]]) == (7, [0, 40, 40, 1, 6, 40, 40, 5])
    assert second["id"] is None
