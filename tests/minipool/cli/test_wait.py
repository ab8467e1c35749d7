"""condor_wait reads event logs, also while they grow."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from minipool.cli.entry.main import dispatch
from minipool.cli.log_tools.log_reader import LogReader, reader_of


def event(number: int, job: str, text: str) -> str:
    cluster, proc = job.split(".")
    return f"{number:03d} ({int(cluster):03d}.{int(proc):03d}.000) 2026-11-22 01:02:03 {text}\n...\n"


HOST = "<127.0.0.1:9618?sock=startd>"
LOG = (
    event(0, "7.0", "Job submitted from host: <127.0.0.1:9618?sock=schedd>")
    + event(0, "7.1", "Job submitted from host: <127.0.0.1:9618?sock=schedd>")
    + event(1, "7.0", f"Job executing on host: {HOST}")
    + event(5, "7.0", "Job terminated.\n\t(1) Normal termination (return value 0)")
)
END = event(9, "7.1", "Job was aborted.\n\tvia condor_rm (by user alice)")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_text(LOG)
    return path


def test_the_time_may_be_over_first(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("wait", ["-wait", "0", str(log)]) == 1
    assert capsys.readouterr() == ("Time expired.\n", "")


def test_all_jobs_of_the_log_are_waited_for(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(log, "a") as file:
        file.write(END)
    assert dispatch("wait", ["-status", str(log)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "7.0.0 submitted",
        "7.1.0 submitted",
        f"7.0.0 executing on host {HOST}",
        "7.0.0 completed",
        "7.1.0 aborted",
        "All jobs done.",
    ]


@pytest.mark.parametrize("job", ["7.0", "7.0.0"])
def test_one_job_may_be_waited_for(log: Path, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("wait", [str(log), job, "-wait", "0"]) == 0
    assert capsys.readouterr().out == "All jobs done.\n"


def test_a_number_of_jobs_may_be_waited_for(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("wait", ["-num", "1", str(log)]) == 0
    assert capsys.readouterr().out == "Specifed number of jobs (1) done.\n"


def test_events_are_echoed_with_dates_without_a_year(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("wait", ["-echo", "-wait", "0", str(log)]) == 1
    echoed = re.sub(r"\d{4}-(\d\d)-(\d\d) ", r"\1/\2 ", LOG)
    assert capsys.readouterr().out == echoed + "Time expired.\n"


def test_only_beginnings_and_ends_are_said_and_events_of_clusters_are_echoed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text(
        event(0, "7.0", "Job submitted from host: <a>")
        + "036 (007.-01.000) 2026-11-20 23:35:40 Cluster removed\n...\n"
        + event(12, "7.0", "Job was held.")
        + event(13, "7.0", "Job was released.")
        + END.replace("007.001", "007.000")
    )
    assert dispatch("wait", ["-status", "-wait", "0", str(path)]) == 0
    assert capsys.readouterr().out == "7.0.0 submitted\n7.0.0 aborted\nAll jobs done.\n"
    assert dispatch("wait", ["-echo", "-wait", "0", str(path)]) == 0
    assert "036 (007.-01.000) 11/20 23:35:40 Cluster removed" in capsys.readouterr().out


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nosuch.log"
    assert dispatch("wait", [str(path)]) == 1
    assert capsys.readouterr() == ("", f"Couldn't open {path}: No such file or directory\n")


@pytest.mark.parametrize(
    ("text", "job", "said"),
    [
        ("", "", "{path}: This log does not mention any jobs!"),
        ("", "7", "{path}: This log does not mention that job!"),
        (LOG, "8", "{path}: This log does not mention that job!"),
        (LOG, "7.2", "{path}: This log does not mention that job!"),
        ("#!/bin/sh\necho hello\n", "", "{path} is not a job event log: it holds no event"),
        ("#!/bin/sh\necho hello\n", "7", "{path} is not a job event log: it holds no event"),
        ("...\n...\n", "", "{path} is not a job event log: it holds no event"),
        ("<html></html>\n", "", "{path} is not a job event log: it holds no event"),
    ],
)
@pytest.mark.parametrize("options", [[], ["-wait", "60"], ["-status"]])
def test_nothing_to_wait_for_is_no_success(
    tmp_path: Path, text: str, job: str, said: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.log"
    path.write_text(text)
    assert dispatch("wait", [*options, str(path), *job.split()]) == 1
    found = capsys.readouterr()
    assert "done" not in found.out
    assert found.err == said.format(path=path) + "\n"


def test_a_cluster_that_still_makes_jobs_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    made = "035 (007.-01.000) 2026-11-20 23:35:40 Cluster submitted from host: <a>\n...\n"
    path.write_text(made + event(0, "7.0", "Job submitted from host: <a>") + event(9, "7.0", "Job was aborted."))
    for job in ([], ["7"], ["7.1"]):
        assert dispatch("wait", ["-wait", "0", str(path), *job]) == 1
        assert capsys.readouterr() == ("Time expired.\n", "")
    assert dispatch("wait", ["-wait", "0", str(path), "7.0"]) == 0
    with open(path, "a") as file:
        file.write("036 (007.-01.000) 2026-11-20 23:35:40 Cluster removed\n...\n")
    assert dispatch("wait", [str(path)]) == 0


def test_who_waits_for_a_held_job_is_told_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(log, "a") as file:
        file.write(event(12, "7.1", "Job was held.\n\tThe output is missing\n\tCode 12 Subcode 2"))
    assert dispatch("wait", ["-wait", "0", str(log)]) == 1
    held = "Job 7.1 is held: The output is missing (it is waited for until it is released or removed)\n"
    assert capsys.readouterr().err == held
    assert dispatch("wait", ["-wait", "0", str(log), "7.0"]) == 0
    assert capsys.readouterr().err == ""
    with open(log, "a") as file:
        file.write(event(13, "7.1", "Job was released.") + END)
    assert dispatch("wait", [str(log)]) == 0
    assert capsys.readouterr().err == ""


def test_it_waits_while_the_log_grows(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status: list[int] = []
    waiting = threading.Thread(target=lambda: status.append(dispatch("wait", [str(log)])))
    waiting.start()
    with open(log, "a") as file:
        file.write(END)
    waiting.join(60)
    assert (status, capsys.readouterr().out) == ([0], "All jobs done.\n")


def test_half_an_event_is_read_when_it_is_whole(log: Path) -> None:
    reader = LogReader(str(log))
    list(reader.new_events())
    with open(log, "a") as file:
        file.write(END[:40])
        file.flush()
        assert list(reader.new_events()) == []
        file.write(END[40:])
        file.flush()
        assert [one.number for one in reader.new_events()] == [9]
    reader.close()


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("", "000 (007.000.000) 11/22 01:02:03 Job submitted"),
        (":ISO_DATE", "000 (007.000.000) 2026-11-22 01:02:03 Job submitted"),
        (":JSON", "{\n"),
        (":XML", "<c>\n"),
    ],
)
def test_events_are_printed_in_the_form_that_is_asked_for(
    log: Path, form: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch("wait", [f"-echo{form}", "-wait", "0", str(log), "7.0"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(first)
    assert out.endswith("All jobs done.\n")


@pytest.mark.parametrize(
    ("form", "said"), [(":JSON", '-11-22T01:02:03"'), (":XML", "-11-22T01:02:03<"), ("", "11/22 01:02")]
)
def test_dates_without_a_year_are_of_this_one(
    log: Path, form: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text(log.read_text().replace("2026-11-22", "11/22"))
    assert dispatch("wait", [f"-echo{form}", "-wait", "0", str(log), "7.0"]) == 0
    assert said in capsys.readouterr().out


def test_a_date_that_is_none_is_told(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(log.read_text().replace("2026-11-22", "soon"))
    assert dispatch("wait", ["-echo:JSON", "-wait", "0", str(log), "7.0"]) == 1
    assert "an event's date cannot be read: soon 01:02:03" in capsys.readouterr().err


def test_with_allevents_the_end_of_the_jobs_is_not_the_end(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch("wait", ["-all", "-wait", "0", str(log), "7.0"]) == 1
    assert capsys.readouterr().out == "Time expired.\n"


@pytest.mark.parametrize(("argv", "said"), [("-num 0", "greater than zero"), ("-num 1 -all", "with -allevents")])
def test_numbers_that_make_no_sense_are_refused(
    log: Path, argv: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch("wait", [*argv.split(), str(log)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("form", ["XML", "JSON"])
def test_logs_in_other_forms_are_read_while_they_grow(
    tmp_path: Path, log: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(log, "a") as file:
        file.write(END)
    assert dispatch("wait", [f"-echo:{form}", str(log)]) == 0
    text = capsys.readouterr().out.removesuffix("All jobs done.\n")
    path = tmp_path / "other"
    path.write_text(text[:-40])
    reader = reader_of(str(path))
    before = list(reader.new_events())
    with open(path, "a") as file:
        file.write(text[-40:])
    events = [*before, *reader.new_events()]
    reader.close()
    assert (len(before), [event.number for event in events]) == (4, [0, 0, 1, 5, 9])
    assert events[2].headline == f"Job executing on host: {HOST}"
    assert dispatch("wait", ["-status", str(path)]) == 0
    assert "7.0.0 completed\n7.1.0 aborted\n" in capsys.readouterr().out
