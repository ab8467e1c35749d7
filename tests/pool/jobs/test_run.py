"""One execution: what its beginning, its end and everything in between make of the job."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.jobs import conclusion, holds, run
from pool.jobs.changes import Changes, End, Fate, StopReason
from pool.jobs.policy import SystemPolicy
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.queue.pack import EMPTY
from pool.jobs.userlog.event import LogEvent
from pool.jobs.userlog.event_log import Executing
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.priority import ORDINARY
from pool.jobs.vocabulary.states import JobStatus

NOW = 1_700_000_000.0
NOTHING = SystemPolicy()
SLOT = ClassAd(
    {
        "Name": "slot1_1@host",
        "SlotID": 1,
        "Cpus": 2,
        "Memory": 128,
        "Disk": 1024,
        "SlotWeight": expr("Cpus"),
        "MachineResources": "Cpus Memory Disk",
    }
)


class Life:
    """A job to which things happen, as the schedd carries them out."""

    def __init__(self, **attributes: object) -> None:
        self.queue = JobQueue("ap")
        ad = ClassAd({"QDate": int(NOW) - 10, "RequestCpus": 1, "ExitBySignal": False, **attributes})
        cluster = Cluster(1, ad, user="ann@here", owner="ann")
        self.job = Job(cluster, 0, JobStatus.IDLE, ORDINARY, EMPTY)
        self.queue.add(cluster, [self.job])
        self.events: list[LogEvent] = []
        self.now = NOW

    @property
    def ad(self) -> ClassAd:
        return self.queue.ad(self.job)

    def do(self, changes: Changes) -> None:
        self.queue.change(self.job, changes.attributes, changes.drop)
        if changes.move is not None:
            self.queue.move(self.job, changes.move, self.now)
        self.events += changes.events

    def begin(self, pool: str = "") -> None:
        self.do(run.begin(self.ad, SLOT, "<a>#1#1#...", "<a>", self.now, pool=pool))

    def execute(self) -> None:
        self.do(run.executing(self.ad, SLOT, "<a>", ClassAd({"CondorScratchDir": "/x", "JobPid": 7}), self.now))

    def end(self, ending: Ending, stop: StopReason | None = None, reason: str = "", **ad: object) -> Fate:
        end = End(ending, ClassAd(ad), reason, self.now)
        changes, fate = conclusion.ended(self.ad, self.job.status, end, stop, self.now, NOTHING)
        self.do(changes)
        return fate

    @property
    def numbers(self) -> list[int]:
        return [event.number for event in self.events]


def a_running_life(**attributes: object) -> Life:
    life = Life(**attributes)
    life.begin()
    life.now += 2
    life.execute()
    life.now += 60
    return life


def test_the_beginning_counts_and_says_where() -> None:
    life = Life()
    life.begin()
    ad = life.ad
    assert life.job.status is JobStatus.RUNNING
    assert (ad["NumShadowStarts"], ad["JobRunCount"], ad["NumJobMatches"]) == (1, 1, 1)
    assert (ad["RemoteHost"], ad["CpusProvisioned"], ad["MachineAttrSlotWeight0"]) == ("slot1_1@host", 2, 2)
    assert (ad["JobStartDate"], ad["InitialWaitDuration"], ad["LastJobStatus"]) == (int(NOW), 10, 1)
    assert ad.eval_int("NumJobStarts", 0) == 0
    assert life.numbers == []


def test_an_exit_completes_the_job() -> None:
    life = a_running_life()
    fate = life.end(Ending.EXITED, ExitCode=3, ExitBySignal=False, RemoteUserCpu=1.5)
    ad = life.ad
    assert (fate, life.job.status, life.numbers) == (Fate.LEAVES, JobStatus.COMPLETED, [1, 5])
    assert (ad["ExitCode"], ad["ExitStatus"], ad["CompletionDate"], ad["NumJobStarts"]) == (3, 3, int(life.now), 1)
    assert (ad["RemoteWallClockTime"], ad["CumulativeSlotTime"], ad["CommittedTime"]) == (62.0, 124.0, 62)
    assert (ad["LastRemoteHost"], ad["ActivationExecutionDuration"]) == ("slot1_1@host", 60)
    assert (ad["CumulativeRemoteUserCpu"], ad["CurrentHosts"]) == (1.5, 0)
    assert "RemoteHost" not in ad
    assert "ShadowBday" not in ad


def test_leave_in_queue_keeps_a_completed_job() -> None:
    life = a_running_life(LeaveJobInQueue=expr("JobStatus == 4 && CompletionDate > 0"))
    assert life.end(Ending.EXITED, ExitCode=0) is Fate.STAYS


def test_a_signal_is_an_abnormal_end() -> None:
    life = a_running_life()
    life.end(Ending.EXITED, ExitBySignal=True, ExitSignal=11)
    assert "\t(0) Abnormal termination (signal 11)" in list(life.events[-1].lines())
    assert (life.ad["ExitStatus"], life.ad["ExitBySignal"]) == (11, True)


def test_times_add_up_over_executions() -> None:
    life = a_running_life(OnExitRemove=expr("NumJobStarts > 1"))
    assert life.end(Ending.EXITED, ExitCode=1, BytesSent=10.0) is Fate.WAITS
    assert (life.job.status, life.numbers[-1], life.ad["VacateReasonCode"]) == (JobStatus.IDLE, 4, 1005)
    assert "ExitCode" not in life.ad
    life.begin()
    life.now += 8
    life.execute()
    assert life.end(Ending.EXITED, ExitCode=0, BytesSent=5.0) is Fate.LEAVES
    ad = life.ad
    assert (ad["NumJobStarts"], ad["RemoteWallClockTime"], ad["LastRemoteWallClockTime"]) == (2, 70.0, 8.0)
    assert (ad["TotalBytesSent"], ad["JobStartDate"]) == (15.0, int(NOW))
    assert (ad["NumJobCompletions"], "NumVacates" in ad) == (2, False)
    assert ad.eval_str("RequeueReason", "").endswith("evaluated to FALSE")


def test_max_retries_end_after_so_many_ends() -> None:
    life = a_running_life(JobMaxRetries=1, OnExitRemove=expr("NumJobCompletions > JobMaxRetries || ExitCode =?= 0"))
    assert life.end(Ending.EXITED, ExitCode=3) is Fate.WAITS
    for _ in range(2):  # evictions are no ends
        life.begin()
        life.execute()
        assert life.end(Ending.EVICTED, StopReason("Startd was draining", 1014)) is Fate.WAITS
    life.begin()
    life.execute()
    assert life.end(Ending.EXITED, ExitCode=3) is Fate.LEAVES
    assert (life.ad["NumJobCompletions"], life.ad["NumJobStarts"], life.ad["ExitCode"]) == (2, 4, 3)


def test_an_eviction_says_why_and_lets_the_job_wait_again() -> None:
    life = a_running_life()
    assert life.end(Ending.EVICTED, StopReason("Startd was draining", 1014)) is Fate.WAITS
    assert (life.job.status, life.numbers) == (JobStatus.IDLE, [1, 4])
    lines = list(life.events[-1].lines())
    assert lines[0] == "Job was evicted. Code 1014 Subcode 0"
    assert "\tReason: Startd was draining" in lines
    assert (life.ad["NumVacates"], life.ad["VacateReasonCode"]) == (1, 1014)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("Preempted for a higher Ranked job", 1018),
        ("Preempted for a Priority user", 1019),
        ("PREEMPT expression evaluated to True", 1011),
        ("the machine is draining", 1014),
        ("The machine ran out of memory", 0),
        ("", 0),
    ],
)
def test_an_eviction_that_the_starter_reports_first_has_the_code_of_its_cause(reason: str, code: int) -> None:
    life = a_running_life()
    assert life.end(Ending.EVICTED, reason=reason) is Fate.WAITS
    assert life.ad["VacateReasonCode"] == code


def test_a_hold_while_running_is_told_when_the_job_is_off_its_slot() -> None:
    life = a_running_life()
    life.do(holds.hold(life.ad, "via condor_hold (by user ann)", 1, 5))
    assert (life.job.status, life.numbers) == (JobStatus.HELD, [1])
    assert life.end(Ending.EVICTED) is Fate.HELD
    assert life.numbers == [1, 4, 12]
    assert list(life.events[-1].lines())[1:] == ["\tvia condor_hold (by user ann)", "\tCode 1 Subcode 5"]
    assert life.ad["NumHoldsByReason"] == ClassAd({"UserRequest": 1})
    assert life.ad.eval_int("NumSystemHolds", 0) == 0


def test_a_removal_while_running_ends_with_004_and_009() -> None:
    life = a_running_life()
    life.do(holds.remove("via condor_rm (by user ann)"))
    assert life.end(Ending.EXITED, ExitCode=0) is Fate.LEAVES
    assert (life.job.status, life.numbers) == (JobStatus.REMOVED, [1, 4, 9])
    assert list(life.events[1].lines())[0] == "Job was evicted. Code 1023 Subcode 0"


def test_a_job_that_cannot_run_is_held_with_the_slots_words() -> None:
    life = Life()
    life.begin()
    reason = "Error from slot1_1@host: Failed to execute '/x': (errno=2: 'No such file or directory')"
    assert life.end(Ending.HOLD, HoldReason=reason, HoldReasonCode=6, HoldReasonSubCode=2) is Fate.HELD
    assert life.numbers == [21, 4, 12]
    assert list(life.events[0].lines()) == [
        "Error from starter on slot1_1@host:",
        "\tFailed to execute '/x': (errno=2: 'No such file or directory')",
        "\tCode 6 Subcode 2",
    ]
    assert (life.ad["HoldReason"], life.ad["NumSystemHolds"]) == (reason, 1)


def test_a_failure_of_the_slot_is_not_the_jobs() -> None:
    life = a_running_life()
    assert life.end(Ending.FAILED, reason="the starter died") is Fate.WAITS
    assert (life.job.status, life.numbers) == (JobStatus.IDLE, [1, 7])
    assert (life.ad["NumShadowExceptions"], life.ad["LastShadowException"]) == (1, "the starter died")


def test_on_exit_hold_holds() -> None:
    life = a_running_life(OnExitHold=expr("ExitCode == 3"), OnExitHoldReason="three", OnExitHoldSubCode=9)
    assert life.end(Ending.EXITED, ExitCode=3) is Fate.HELD
    assert (life.ad["HoldReason"], life.ad["HoldReasonCode"], life.ad["HoldReasonSubCode"]) == ("three", 3, 9)
    assert life.numbers == [1, 12]


def test_a_lost_job_runs_again_and_says_so() -> None:
    life = a_running_life()
    changes, fate = conclusion.lost(life.ad, life.job.status, "the lease expired", life.now, NOTHING)
    life.do(changes)
    assert (fate, life.job.status, life.numbers) == (Fate.WAITS, JobStatus.IDLE, [1, 24])


def test_connections_come_and_go_once_in_the_log() -> None:
    life = a_running_life()
    assert run.reconnected(life.ad, "") == Changes()
    life.do(run.disconnected(life.ad, "lost", life.now))
    assert run.disconnected(life.ad, "lost", life.now) == Changes()
    life.do(run.reconnected(life.ad, "<s>"))
    assert life.numbers == [1, 22, 23]
    assert (life.ad["NumJobReconnects"], life.ad["NumJobStarts"]) == (1, 1)


def test_suspended_time_is_counted() -> None:
    life = a_running_life()
    life.do(run.suspended(life.ad, life.now))
    assert life.job.status is JobStatus.SUSPENDED
    life.now += 30
    life.do(run.continued(life.ad, life.now))
    assert (life.ad["CumulativeSuspensionTime"], life.ad["TotalSuspensions"]) == (30, 1)
    life.do(run.suspended(life.ad, life.now))
    life.now += 5
    life.end(Ending.EXITED, ExitCode=0)
    assert (life.ad["CumulativeSuspensionTime"], life.numbers) == (35, [1, 10, 11, 10, 5])


def test_the_log_hears_of_the_jobs_size_when_it_grows() -> None:
    life = a_running_life(MemoryUsage=expr("((ResidentSetSize + 1023) / 1024)"))
    life.do(run.used(life.ad, ClassAd({"ImageSize": 5000, "ResidentSetSize": 3000})))
    life.do(run.used(life.ad, ClassAd({"ImageSize": 5000, "ResidentSetSize": 3000})))
    life.do(run.used(life.ad, ClassAd({"ImageSize": 9000, "ResidentSetSize": 8000})))
    assert life.numbers == [1, 6, 6]
    assert list(life.events[1].lines())[1] == "\t3  -  MemoryUsage of job (MB)"


def test_what_a_job_uses_makes_no_commit_unless_its_log_hears_of_it() -> None:
    life = a_running_life()
    for report, is_note in (
        ({"ImageSize": 5000, "ResidentSetSize": 3000}, False),
        ({"ImageSize": 5000, "RemoteUserCpu": 1.0}, True),
        ({"RemoteUserCpu": 2.0}, True),
        ({"CheckpointNumber": 1}, False),
    ):
        changes = run.used(life.ad, ClassAd(report))
        assert changes.is_note is is_note
        life.do(changes)


def test_a_checkpoint_that_is_made_takes_back_why_the_one_before_it_was_not() -> None:
    life = a_running_life()
    life.do(run.used(life.ad, ClassAd({"CheckpointFailedReason": "a socket"})))
    life.do(run.used(life.ad, ClassAd({"ImageSize": 5000})))
    assert life.ad["CheckpointFailedReason"] == "a socket"
    life.do(run.used(life.ad, ClassAd({"CheckpointNumber": 0})))
    assert "CheckpointFailedReason" not in life.ad


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_log_says_whether_a_job_was_written_down_as_it_left(checkpointed: bool) -> None:
    for held in (False, True):
        life = a_running_life()
        if held:
            life.do(holds.hold(life.ad, "via condor_hold (by user ann)", 1, 0))
        end = End(Ending.EVICTED, ClassAd(), at=NOW, checkpointed=checkpointed)
        changes, _ = conclusion.ended(life.ad, life.job.status, end, None, NOW, NOTHING)
        (left,) = [event for event in changes.events if event.number == 4]
        assert list(left.lines())[1] == ("\t(1) Job was checkpointed." if checkpointed else "\t(0) CPU times")


def test_a_release_remembers_the_hold() -> None:
    life = Life()
    life.do(holds.hold(life.ad, "why", 3, 4))
    life.do(holds.release(life.ad, "via condor_release (by user ann)"))
    ad = life.ad
    assert (life.job.status, life.numbers) == (JobStatus.IDLE, [13])
    assert (ad["LastHoldReason"], ad["LastHoldReasonCode"], ad["LastHoldReasonSubCode"]) == ("why", 3, 4)
    assert "HoldReason" not in ad


def test_a_refused_start_leaves_no_trace_in_the_log() -> None:
    life = Life()
    life.begin()
    life.do(run.not_started())
    assert (life.job.status, life.numbers) == (JobStatus.IDLE, [])
    assert "RemoteHost" not in life.ad


def test_the_last_pool_is_that_of_the_last_run_also_when_a_slot_refused_the_job_since() -> None:
    life = Life()
    life.begin(pool="far.test:9618")
    life.end(Ending.EVICTED)
    assert (life.ad["LastRemotePool"], "RemotePool" in life.ad) == ("far.test:9618", False)
    life.begin(pool="far.test:9618")
    life.do(run.not_started())
    assert (life.ad["LastRemotePool"], "RemotePool" in life.ad) == ("far.test:9618", False)
    life.begin()
    life.end(Ending.EVICTED)
    assert "LastRemotePool" not in life.ad


@pytest.mark.parametrize("ending", Ending)
def test_every_end_leads_to_a_state_from_which_the_job_goes_on_or_out(ending: Ending) -> None:
    for before in ("run", "hold", "remove", "hold and release"):
        life = a_running_life()
        if before.startswith("hold"):
            life.do(holds.hold(life.ad, "why", 1, 0))
        if before == "remove":
            life.do(holds.remove("why"))
        if before.endswith("release"):
            life.do(holds.release(life.ad, "why"))
        fate = life.end(ending, ExitCode=0, HoldReason="x", HoldReasonCode=6)
        expected = {
            Fate.WAITS: {JobStatus.IDLE},
            Fate.HELD: {JobStatus.HELD},
            Fate.LEAVES: {JobStatus.COMPLETED, JobStatus.REMOVED},
        }
        assert life.job.status in expected[fate], (before, ending)


def test_the_execute_event_shows_the_scratch_directory_and_the_slots_attributes_that_were_asked_for() -> None:
    life = Life(UserLogExecuteEventAttrs="SlotID, NoSuch, Name")
    life.begin()
    life.execute()
    event = life.events[-1]
    assert isinstance(event, Executing)
    assert event.properties["CondorScratchDir"] == "/x"
    assert event.properties["SlotID"] == SLOT["SlotID"]
    assert event.properties["Name"] == SLOT["Name"]
    assert "NoSuch" not in event.properties


@pytest.mark.parametrize(
    ("wanted", "rests"), [("30", 30), ('real("INF")', None), ('real("NaN")', None), ("1e300", 10**9)]
)
def test_a_rest_is_a_time_that_a_clock_can_show(wanted: str, rests: int | None) -> None:
    changes = conclusion.resting(ClassAd(), Changes({"A": 1}), expr(wanted), NOW)
    assert changes.attributes.get("JobCoolDownExpiration") == (None if rests is None else NOW + rests)


@pytest.mark.parametrize("moment", ['real("INF")', 'real("NaN")'])
def test_a_starter_that_knows_no_time_is_told_of_nothing(moment: str) -> None:
    said = ClassAd({"TransferInStarted": expr(moment).eval(ClassAd()), "TransferInFinished": int(NOW)})
    life = Life()
    life.begin()
    changes = run.executing(life.ad, SLOT, "<a>", said, NOW)
    assert [at for at, _ in changes.earlier] == [NOW]


@pytest.mark.parametrize("used", [float("inf"), float("nan")])
def test_a_starter_that_counts_without_end_adds_nothing(used: float) -> None:
    life = Life(RemoteUserCpu=1.0, CumulativeRemoteUserCpu=5.0)
    life.begin()
    life.execute()
    life.end(Ending.EXITED, ExitBySignal=False, ExitCode=0, RemoteUserCpu=used)
    assert life.ad["CumulativeRemoteUserCpu"] == 6.0
