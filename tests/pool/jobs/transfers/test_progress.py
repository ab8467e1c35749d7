"""What a job's ad and its log say of its transfers, from what is known of them."""

from __future__ import annotations

import htcondor2
import pytest

from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.jobs import run
from pool.jobs.changes import Changes
from pool.jobs.transfers.progress import MOMENTS, STATES
from pool.jobs.userlog.forms import read_form, write
from pool.jobs.userlog.reader import EventReader
from pool.jobs.vocabulary.endings import Ending
from tests.pool.jobs.test_run import NOW, SLOT, Life

MOVED_IN = {"TransferInStarted": int(NOW) + 1, "TransferInFinished": int(NOW) + 3}
MOVED_OUT = {"TransferOutStarted": int(NOW) + 8, "TransferOutFinished": int(NOW) + 9}


class Log(Life):
    """A life, and its log."""

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)
        self.told: list[tuple[int, str]] = []

    def do(self, changes: Changes) -> None:
        for at, event in [*changes.earlier, *((self.now, event) for event in changes.events)]:
            self.told.append(
                (int(at - NOW), " | ".join(line.strip() for line in event.lines()).partition(" on host")[0])
            )
        super().do(changes)

    def execute(self, **ad: object) -> None:
        self.do(run.executing(self.ad, SLOT, "<a>", ClassAd({"JobPid": 7, **ad}), self.now))


def test_a_job_whose_files_move_at_once_tells_of_it_with_what_it_tells_anyway() -> None:
    life = Log()
    life.begin()
    life.now = NOW + 4
    life.execute(**MOVED_IN)
    assert [life.ad.get(name) for name in STATES] == [False, False, None]
    life.now = NOW + 10
    life.end(Ending.EXITED, ExitBySignal=False, ExitCode=0, **MOVED_IN, **MOVED_OUT)
    assert [(at, said) for at, said in life.told if "transferring" in said] == [
        (1, "Started transferring input files | Transferring to host: <a>"),
        (3, "Finished transferring input files"),
        (8, "Started transferring output files"),
        (9, "Finished transferring output files"),
    ]
    assert [said.split(" ")[0] for _, said in life.told] == ["Started", "Finished", "Job", "Started", "Finished", "Job"]
    assert not any(name in life.ad for name in STATES)


def test_files_that_wait_for_their_turn_say_so_and_how_long() -> None:
    life = Log()
    life.begin()
    life.do(run.transfer_queued(life.ad, upload=True, now=NOW + 1))
    assert [life.ad.get(name) for name in STATES] == [True, True, None]
    life.do(run.transfer_queued(life.ad, upload=True, now=NOW + 2))  # asked again, after a cut connection
    life.do(run.used(life.ad, ClassAd({"TransferInStarted": int(NOW)})))  # its starter cannot know
    assert "TransferInStarted" not in life.ad
    life.do(run.transfer_started(life.ad, upload=True, now=NOW + 6))
    assert [life.ad.get(name) for name in STATES] == [False, True, None]
    life.now = NOW + 9
    life.execute(TransferInStarted=int(NOW), TransferInFinished=int(NOW) + 8)
    assert life.told[:3] == [
        (1, "Entered queue to transfer input files | Transferring to host: <a>"),
        (6, "Started transferring input files | Seconds spent in queue: 5"),
        (8, "Finished transferring input files"),
    ]
    assert (life.ad["TransferInQueued"], life.ad["TransferInStarted"]) == (int(NOW) + 1, int(NOW) + 6)
    life.do(run.transfer_queued(life.ad, upload=False, now=NOW + 20))
    life.do(run.transfer_started(life.ad, upload=False, now=NOW + 27))
    assert life.told[-1] == (27, "Started transferring output files | Seconds spent in queue: 7")


def test_the_input_of_a_job_that_is_over_in_a_moment_is_told_of_before_its_output() -> None:
    life = Log()
    life.begin()
    life.do(run.transfer_started(life.ad, upload=False, now=NOW + 3))
    assert [said.partition(" |")[0] for _, said in life.told] == [
        "Started transferring input files",
        "Finished transferring input files",
        "Started transferring output files",
    ]
    life.do(run.used(life.ad, ClassAd({"TransferInStarted": int(NOW) + 1, "TransferInFinished": int(NOW) + 2})))
    assert len(life.told) == 3


def test_a_transfer_that_takes_long_is_told_once() -> None:
    life = Log()
    life.begin()
    for _ in range(2):
        life.do(run.used(life.ad, ClassAd({"TransferInStarted": int(NOW) + 1})))
    assert life.ad["TransferringInput"] is True
    life.execute(**MOVED_IN)
    assert [said.split()[0] for _, said in life.told] == ["Started", "Finished", "Job"]


def test_input_that_fails_was_begun_and_is_over() -> None:
    life = Log()
    life.begin()
    life.end(Ending.HOLD, HoldReason="no file", HoldReasonCode=13, HoldReasonSubCode=2, **MOVED_IN)
    assert [said.split()[0] for _, said in life.told][:2] == ["Started", "Finished"]


def test_the_next_execution_tells_its_own() -> None:
    life = Log()
    life.begin()
    life.execute(**MOVED_IN)
    life.end(Ending.EVICTED)
    life.told.clear()
    life.begin()
    assert not any(name in life.ad for name in MOMENTS)
    life.execute(**MOVED_IN)
    assert len(life.told) == 3


@pytest.mark.parametrize("form", ["", "XML", "JSON"])
def test_other_readers_read_these_events(form: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    life = Log()
    life.begin()
    made = [run.transfer_queued(life.ad, upload=True, now=NOW)]
    life.do(made[0])
    made.append(run.transfer_started(life.ad, upload=True, now=NOW + 5))
    made.append(run.executing(life.ad, SLOT, "<a>", ClassAd(MOVED_IN), NOW + 4))
    events = [event for changes in made for _, event in changes.earlier]
    text = "".join(write(event, JobId(7, 0), NOW, read_form([form])) for event in events)
    path = tmp_path / "log"
    path.write_text(text)
    read = list(htcondor2.JobEventLog(str(path)).events(stop_after=0))
    assert [event.type for event in read] == [htcondor2.JobEventType.FILE_TRANSFER] * len(events)
    assert [event["Type"] for event in read][:2] == [1, 2]
    assert read[0]["Host"] == "<a>"
    assert read[1]["QueueingDelay"] == 5
    if not form:
        assert [event.number for event in EventReader().feed(text)] == [40] * len(events)
