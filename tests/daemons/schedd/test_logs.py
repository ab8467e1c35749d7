"""Logs in other forms than text, and the log of all jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio.testing

from daemons.schedd.files.agent_process import LIMITS
from daemons.schedd.logs.global_log import GlobalLogSettings, append
from pool.classad import ClassAd
from pool.jobs.userlog.requests import events_of
from protocol.messages.submit import SubmitJobs
from protocol.wire.codec import pack_ads
from tests.daemons.schedd.bench import LOG, USER, a_bench, a_job

Clock = trio.testing.MockClock


async def test_a_job_may_have_its_log_in_xml_and_its_dag_still_reads_text(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    nodes = f"{LOG}.nodes"
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(UserLogUseXML=True, DAGManNodesLog=nodes))
        await bench.match(await bench.startd())
        await bench.until(lambda: bench.agents.logs.get(nodes, "").count("\n...\n") == 3)
        await bench.until(lambda: bench.agents.logs.get(LOG, "").count("EventTypeNumber") == 3)
        assert bench.agents.logs[LOG].startswith("<c>\n")
        told = [event["type"] for event in events_of(bench.agents.logs[LOG], year=2026)]
        assert told == [event["type"] for event in events_of(bench.agents.logs[nodes], year=2026)] == [0, 1, 5]


async def test_the_pool_may_want_all_logs_in_json_and_utc(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, DEFAULT_USERLOG_FORMAT_OPTIONS="JSON, UTC") as bench:
        await bench.submit(a_job())
        await bench.match(await bench.startd())
        await bench.until(lambda: bench.agents.logs.get(LOG, "").count('"EventTime"') == 3)
        log = bench.agents.logs[LOG]
        assert [event["name"] for event in events_of(log, year=2026)] == ["SUBMIT", "EXECUTE", "JOB_TERMINATED"]
        written = re.findall(r'"EventTime":\s*"([^"]*)"', log)
        assert [time for time in written if not time.endswith("Z")] == []


async def test_many_jobs_at_once_have_all_their_events_in_one_log(tmp_path: Path, autojump_clock: Clock) -> None:
    """More than an agent's answers may be long is sent to it at once."""
    async with a_bench(tmp_path) as bench:
        chunk = pack_ads([ClassAd() for _ in range(500)])
        async with bench.connected(USER) as peer:
            await peer.call(SubmitJobs(cluster_ad=a_job(), procs=[chunk] * 6))
        log = bench.agents.logs[LOG]
        assert log.count("\n...\n") == 3000
        assert len(log) > LIMITS.frame_bytes_max
        assert bench.agents.requests < 10


async def test_one_log_has_the_events_of_all_jobs(tmp_path: Path, autojump_clock: Clock) -> None:
    path = tmp_path / "EventLog"
    knobs = {"EVENT_LOG": str(path), "EVENT_LOG_JOB_AD_INFORMATION_ATTRS": "Owner"}
    async with a_bench(tmp_path, **knobs) as bench:
        await bench.submit(a_job(), {}, {})
        await bench.match(await bench.startd(slots=2))
        await bench.until(lambda: path.exists() and path.read_text().count("TriggerEventTypeNumber = 5") == 2)
    events = list(events_of(path.read_text(), year=2026))
    assert events[0]["attrs"]["Info"].startswith("Global JobLog: ctime=")
    told = [(event["proc"], event["type"]) for event in events[1:]]
    assert [number for proc, number in told if proc == 0] == [0, 28, 1, 28, 5, 28]
    assert [event["attrs"]["Owner"] for event in events if event["type"] == 28] != []


@pytest.mark.parametrize(
    ("rotations", "names"), [(0, {"log"}), (1, {"log", "log.old"}), (3, {"log", "log.1", "log.2", "log.3"})]
)
def test_the_log_of_all_jobs_is_rotated_by_size_between_events(tmp_path: Path, rotations: int, names: set[str]) -> None:
    settings = GlobalLogSettings(path=str(tmp_path / "log"), bytes_max=30, rotations=rotations)
    for number in range(10):
        append(settings, settings.path, [(f"event {number}\n", False)], "H\n")
    append(settings, settings.path, [(f"event {number}\n", False) for number in range(10, 31)], "H\n")
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "log").read_text().startswith("H\n") or (tmp_path / "log").read_text() == ""
    for path in tmp_path.iterdir():
        for line in path.read_text().splitlines():
            assert line == "H" or line.startswith("event ")
            assert path.stat().st_size < 30 + len("event 30\n")
    newest = "".join((tmp_path / name).read_text() for name in sorted(names, reverse=True))
    assert rotations == 0 or "event 30\n" in newest


def test_a_log_without_a_limit_is_not_rotated(tmp_path: Path) -> None:
    append(GlobalLogSettings(bytes_max=0), str(tmp_path / "log"), [("event\n", False)] * 100, "H\n")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    assert (tmp_path / "log").read_text() == "H\n" + "event\n" * 100


async def test_p3_the_log_of_all_jobs_has_each_event_once_after_a_crash(tmp_path: Path, autojump_clock: Clock) -> None:
    directory = tmp_path / "logs"
    path = directory / "EventLog"
    async with a_bench(tmp_path, EVENT_LOG=str(path)) as bench:
        await bench.submit(a_job(), {}, {})  # there is no such directory yet
        await bench.host.kill("schedd")
        directory.mkdir()
        await bench.host.start("schedd")
        await bench.until(lambda: path.exists() and path.read_text().count("\n000 (") == 2)
        whole = path.read_text()
        path.rename(directory / "EventLog.old")  # as if it had been rotated, with half an event after that
        await bench.submit(a_job(), {})
        await bench.until(lambda: path.exists() and path.read_text().count("\n000 (") == 1)
        await bench.restart()
        await bench.submit(a_job(), {})
        await bench.until(lambda: path.read_text().count("\n000 (") == 2)
        assert (directory / "EventLog.old").read_text() == whole


@pytest.mark.parametrize("there", [0, 1, 40, 60, 150, 10_000])
@pytest.mark.parametrize("rotated", [False, True])
def test_p3_what_a_crash_cut_short_is_completed_in_the_log_of_all_jobs(
    tmp_path: Path, there: int, rotated: bool
) -> None:
    texts = [f"000 ({number:03d}.000.000) 2026-11-22 10:00:00 Job submitted\n...\n" for number in range(20)]
    settings = GlobalLogSettings(bytes_max=2000)
    (tmp_path / "log").write_text("".join(texts)[:there])
    if rotated and there >= len("".join(texts)):
        (tmp_path / "log").rename(tmp_path / "log.old")
    append(settings, str(tmp_path / "log"), [(text, True) for text in texts], "")
    found = "".join(path.read_text() for path in sorted(tmp_path.iterdir(), reverse=True))
    assert found == "".join(texts)
