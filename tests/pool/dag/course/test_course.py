"""What becomes of a graph's nodes, event by event."""

from __future__ import annotations

import pytest

from pool.dag.course import happenings as it
from pool.dag.course.course import S
from pool.dag.course.states import DagStatus, Limits, Settings
from tests.pool.dag.course.played import Played, course_of

DIAMOND = """
JOB A n.sub
JOB B n.sub
JOB C n.sub
JOB D n.sub
PARENT A CHILD B C
PARENT B C CHILD D
"""


def test_a_node_is_submitted_once_all_that_it_waits_for_are_done() -> None:
    played = Played(course_of(DIAMOND)).run()
    assert (played.ran, played.code) == (["A", "B", "C", "D"], 0)


def test_a_node_that_fails_runs_again_as_often_as_it_may() -> None:
    played = Played(course_of(f"{DIAMOND}RETRY C 1\n"), {"C": [1]}).run()
    assert (played.ran, played.code) == (["A", "B", "C", "C", "D"], 0)
    assert "Retrying node C (retry #1 of 1)..." in played.said


def test_a_node_is_not_retried_after_the_code_that_it_excepts() -> None:
    played = Played(course_of("JOB A n.sub\nRETRY A 3 UNLESS-EXIT 7\n"), {"A": [1, 7]}).run()
    assert (played.ran, played.code) == (["A", "A"], 1)


def test_a_failed_node_makes_futile_what_waits_for_it_and_all_else_runs_on() -> None:
    more = "JOB E n.sub\nPARENT C CHILD E\n"
    played = Played(course_of(DIAMOND + more), {"B": [3]}).run()
    assert played.ran == ["A", "B", "C", "E"]
    assert (played.state("B"), played.state("D"), played.code) == (S.ERROR, S.FUTILE, 1)
    assert it.WriteRescue in map(type, played.done)
    assert "          Error: Job proc (2.0.0) failed with status 3" in played.said


def test_a_weak_edge_lets_its_child_run_after_a_failure() -> None:
    played = Played(course_of("JOB A n.sub\nJOB B n.sub\nWEAK PARENT A CHILD B\n"), {"A": [1]}).run()
    assert (played.ran, played.state("B"), played.code) == (["A", "B"], S.DONE, 1)


def test_scripts_run_before_and_after_the_job_with_their_macros() -> None:
    text = "JOB A n.sub\nSCRIPT PRE A pre $JOB $RETURN\nSCRIPT POST A post $NODE $RETRY $MAX_RETRIES $RETURN $JOBID\n"
    played = Played(course_of(f"{text}RETRY A 2\n"), {"A": [4]}, {"POST A": [1]}).run()
    pre = "PRE A A $RETURN"
    assert played.ran == [pre, "A", "POST A A 0 2 4 1.0", pre, "A", "POST A A 1 2 0 2.0"]
    assert played.code == 0


def test_a_post_script_alone_says_whether_the_node_has_failed() -> None:
    good = Played(course_of("JOB A n.sub\nSCRIPT POST A post\n"), {"A": [9]}).run()
    bad = Played(course_of("JOB A n.sub\nSCRIPT POST A post\n"), {}, {"POST A": [2]}).run()
    assert (good.code, bad.code) == (0, 1)
    assert it.LogPost(0, 1, 2) in bad.done


def test_a_pre_script_may_skip_the_node() -> None:
    text = "JOB A n.sub\nJOB B n.sub\nPARENT A CHILD B\nSCRIPT PRE A pre\nSCRIPT POST A post\nPRE_SKIP A 5\n"
    played = Played(course_of(text), {}, {"PRE A": [5]}).run()
    assert (played.ran, played.code) == (["PRE A", "B"], 0)
    assert it.LogSkipped(0) in played.done


@pytest.mark.parametrize("always", [True, False])
def test_a_post_script_runs_after_a_failed_pre_script_only_if_that_is_wanted(always: bool) -> None:
    course = course_of(
        "JOB A n.sub\nSCRIPT PRE A pre\nSCRIPT POST A post $RETURN $PRE_SCRIPT_RETURN\n",
        Settings(always_run_post=always),
    )
    played = Played(course, {}, {"PRE A": [6]}).run()
    assert played.ran == (["PRE A", "POST A -1004 6"] if always else ["PRE A"])
    assert played.code == (0 if always else 1)


def test_a_deferred_script_runs_again_later() -> None:
    played = Played(course_of("JOB A n.sub\nSCRIPT DEFER 7 60 PRE A pre\n"), {}, {"PRE A": [7]}).run()
    assert (played.ran, played.code) == (["PRE A", "PRE A", "A"], 0)
    assert it.DeferScript(0, "PRE", 60) in played.done


@pytest.mark.parametrize(("returns", "code"), [("", 3), ("RETURN 9", 9), ("RETURN 0", 0)])
def test_a_code_may_end_the_whole_graph(returns: str, code: int) -> None:
    text = f"JOB A n.sub\nJOB B n.sub\nABORT-DAG-ON A 3 {returns}\nRETRY A 5\n"
    played = Played(course_of(text), {"A": [3]}).run()
    assert (played.code, played.ran.count("A")) == (code, 1)
    assert any(isinstance(one, it.RemoveAll) for one in played.done)
    assert (it.WriteRescue in map(type, played.done)) == (code != 0)


def test_the_final_node_runs_last_and_is_told_how_the_graph_fares() -> None:
    text = f"{DIAMOND}FINAL F n.sub\nSCRIPT POST F post $DAG_STATUS $FAILED_COUNT $RETURN\n"
    good, bad = Played(course_of(text)).run(), Played(course_of(text), {"B": [4]}).run()
    assert good.ran == ["A", "B", "C", "D", "F", "POST F 0 0 0"]
    assert bad.ran == ["A", "B", "C", "F", "POST F 2 1 0"]
    assert (good.code, bad.code) == (0, 0)


def test_a_graph_whose_final_node_fails_has_failed() -> None:
    played = Played(course_of("JOB A n.sub\nFINAL F n.sub\n"), {"F": [1]}).run()
    assert (played.ran, played.code) == (["A", "F"], 1)


def test_the_final_node_of_a_removed_graph_runs_after_its_jobs_are_gone() -> None:
    played = Played(course_of("JOB A n.sub\nFINAL F n.sub\n")).begin()
    played.happens(it.Submitted(0, 1, 1))
    played.happens(it.Remove())
    assert [type(one) for one in played.done if isinstance(one, it.RemoveAll)] == [it.RemoveAll]
    played.happens(it.JobEnded(0, 1, 0))
    played.happens(it.Submitted(1, 2, 1))
    assert played.code is None
    played.happens(it.JobEnded(1, 2, 0, 0))
    assert (played.ran, played.code) == (["A", "F"], 0)


def test_a_removed_graph_ends_with_a_rescue_file_and_without_its_jobs() -> None:
    played = Played(course_of(DIAMOND)).begin()
    played.happens(it.Remove())
    assert played.finished == it.Finish(2, DagStatus.RM)
    assert it.WriteRescue in map(type, played.done)


def test_limits_hold_back_nodes_and_may_be_changed_meanwhile() -> None:
    jobs = "".join(f"JOB N{number} n.sub\n" for number in range(6))
    played = Played(course_of(jobs, jobs=2)).begin()
    assert played.ran == ["N0", "N1"]
    played.happens(it.NewLimits(Limits(jobs=4)))
    assert played.ran == ["N0", "N1", "N2", "N3"]


def three_of_which_two_are_in_the_queue(enforced: bool) -> Played:
    text = "JOB A n.sub\nJOB B n.sub\nJOB C n.sub\nSERVICE S n.sub\n"
    played = Played(course_of(text, Settings(enforce_new_limit=enforced))).begin()
    for node in (3, 0, 1):
        played.happens(it.Submitted(node, 10 + node, 1))
    return played


def removed(effects: list[it.Effect]) -> list[int]:
    return [one.cluster for one in effects if isinstance(one, it.RemoveCluster)]


def test_a_limit_that_is_lowered_leaves_jobs_in_the_queue_unless_that_is_wanted() -> None:
    assert removed(three_of_which_two_are_in_the_queue(False).happens(it.NewLimits(Limits(jobs=1)))) == []
    assert removed(three_of_which_two_are_in_the_queue(True).happens(it.NewLimits(Limits(jobs=2)))) == []
    assert removed(three_of_which_two_are_in_the_queue(True).happens(it.NewLimits(Limits(jobs=1)))) == [11]


def test_a_node_whose_jobs_a_lowered_limit_removes_runs_again_though_it_has_no_retry() -> None:
    played = three_of_which_two_are_in_the_queue(True)
    played.happens(it.NewLimits(Limits(jobs=1)))
    # The third was on its way: it is removed when its cluster is known.
    assert removed(played.happens(it.Submitted(2, 12, 1))) == [12]
    for node in (1, 2):
        played.happens(it.JobEnded(node, 10 + node, 0, beyond_limit=True))
    assert (played.ran, played.state("B"), played.state("C")) == (["S", "A", "B", "C"], S.READY, S.READY)
    played.happens(it.JobEnded(0, 10, 0, 0))
    assert played.ran == ["S", "A", "B", "C", "B"]
    # What fails by itself then has no more retries than it had.
    played.happens(it.Submitted(1, 21, 1))
    played.happens(it.JobEnded(1, 21, 0, 1))
    assert (played.state("B"), played.ran[-1]) == (S.ERROR, "C")


def test_nodes_wait_while_as_many_jobs_are_idle_as_may() -> None:
    played = Played(course_of("JOB A n.sub\nJOB B n.sub\n", idle=1)).begin()
    played.happens(it.Submitted(0, 1, 1))
    assert played.ran == ["A"]
    played.happens(it.JobRuns(0, 1, 0))
    assert played.ran == ["A", "B"]


def test_a_category_has_a_limit_of_its_own() -> None:
    text = "".join(f"JOB N{number} n.sub\n" for number in range(4))
    text += "CATEGORY N0 big\nCATEGORY N1 big\nCATEGORY N2 big\nMAXJOBS big 1\n"
    played = Played(course_of(text)).begin()
    assert played.ran == ["N0", "N3"]
    played.happens(it.Submitted(0, 1, 1))
    played.happens(it.JobEnded(0, 1, 0, 0))
    assert played.ran == ["N0", "N3", "N1"]


def test_scripts_have_limits_of_their_own() -> None:
    text = "".join(f"JOB N{number} n.sub\nSCRIPT PRE N{number} pre\n" for number in range(3))
    played = Played(course_of(text, pre=1)).begin()
    assert played.ran == ["PRE N0"]
    played.happens(it.ScriptEnded(0, "PRE", 0))
    assert played.ran == ["PRE N0", "N0", "PRE N1"] or played.ran == ["PRE N0", "PRE N1", "N0"]


def test_nodes_of_higher_priority_are_submitted_first() -> None:
    text = "JOB A n.sub\nJOB B n.sub\nJOB C n.sub\nPRIORITY B 5\n"
    played = Played(course_of(text, jobs=1)).run()
    assert played.ran == ["B", "A", "C"]


def test_a_node_of_several_jobs_is_over_when_all_have_left() -> None:
    played = Played(course_of("JOB A n.sub\n")).begin()
    played.happens(it.Submitted(0, 1, 3))
    for proc in (2, 0):
        played.happens(it.JobEnded(0, 1, proc, 0))
    assert played.code is None
    played.happens(it.JobEnded(0, 1, 1, 0))
    assert played.code == 0


def test_a_failed_job_has_the_others_of_its_node_removed_once_no_more_may_fail() -> None:
    played = Played(course_of("JOB A n.sub\nTOLERANCE A 1\n")).begin()
    played.happens(it.Submitted(0, 1, 4))
    assert not [one for one in played.happens(it.JobEnded(0, 1, 0, 5)) if isinstance(one, it.RemoveCluster)]
    removed = [one for one in played.happens(it.JobEnded(0, 1, 1, 5)) if isinstance(one, it.RemoveCluster)]
    assert [(one.node, one.cluster) for one in removed] == [(0, 1)]


@pytest.mark.parametrize(("codes", "returned"), [((5, 0), "0"), ((0, 5), "5"), ((5, 0, 6), "0")])
def test_of_tolerated_failures_a_node_returns_the_first_unless_another_job_succeeds_later(
    codes: tuple[int, ...], returned: str
) -> None:
    played = Played(course_of("JOB A n.sub\nTOLERANCE A 2\nSCRIPT POST A act $RETURN\n")).begin()
    played.happens(it.Submitted(0, 1, len(codes)))
    for proc, code in enumerate(codes):
        played.happens(it.JobEnded(0, 1, proc, code))
    assert played.ran == ["A", f"POST A {returned}"]


def test_a_job_that_is_held_too_often_is_removed_and_each_hold_runs_the_hold_script() -> None:
    played = Played(course_of("JOB A n.sub\nSCRIPT HOLD A hold\n", Settings(job_holds_max=2))).begin()
    played.happens(it.Submitted(0, 1, 1))
    played.happens(it.JobHeld(0, 1, 0))
    played.happens(it.JobReleased(0, 1, 0))
    removed = [one for one in played.happens(it.JobHeld(0, 1, 0)) if isinstance(one, it.RemoveCluster)]
    assert (len(removed), played.ran) == (1, ["A", "HOLD A", "HOLD A"])


def test_a_submission_that_fails_is_tried_again_after_longer_and_longer_pauses() -> None:
    played = Played(course_of("JOB A n.sub\n", Settings(submit_attempts=3))).begin()
    pauses = []
    for _ in range(3):
        pauses += [
            one.seconds for one in played.happens(it.SubmitFailed(0, "gone", False)) if isinstance(one, it.Pause)
        ]
        played.happens(it.PauseOver())
    assert (pauses, played.ran, played.code) == ([1, 2], ["A", "A", "A"], 1)


@pytest.mark.parametrize("first", [True, False])
def test_a_node_whose_submission_failed_comes_first_or_last(first: bool) -> None:
    text = "JOB A n.sub\nJOB B n.sub\nJOB C n.sub\n"
    played = Played(course_of(text, Settings(retry_submit_first=first), jobs=1)).begin()
    played.happens(it.SubmitFailed(0, "gone", False))
    played.happens(it.PauseOver())
    assert played.ran == (["A", "A"] if first else ["A", "B"])


def test_a_removed_graph_leaves_its_jobs_to_the_schedd_if_that_is_wanted() -> None:
    for remove in (True, False):
        played = Played(course_of(DIAMOND, Settings(remove_node_jobs=remove))).begin()
        played.happens(it.Remove())
        assert (it.RemoveAll in map(type, played.done), played.code) == (remove, 2)


def test_submissions_that_fail_together_wait_together() -> None:
    played = Played(course_of("JOB A n.sub\nJOB B n.sub\nJOB C n.sub\n")).begin()
    pauses = []
    for _ in range(2):
        for node in range(3):
            effects = played.happens(it.SubmitFailed(node, "gone", False))
            pauses += [one.seconds for one in effects if isinstance(one, it.Pause)]
        played.happens(it.PauseOver())
    assert (pauses, sorted(played.ran)) == ([1, 2], sorted("ABC" * 3))
    assert "Job submit try 2/6 failed, will try again in >= 2 seconds." in played.said


def test_a_description_that_is_wrong_fails_its_node_at_once() -> None:
    played = Played(course_of("JOB A n.sub\nRETRY A 5\n")).begin()
    played.happens(it.SubmitFailed(0, "n.sub:1: no such command", True))
    assert (played.ran, played.code) == (["A"], 1)
    assert "          Error: Job submit failed: n.sub:1: no such command (after 5 node retries)" in played.said


def test_a_halted_graph_starts_nothing_and_ends_when_its_jobs_have() -> None:
    played = Played(course_of(DIAMOND)).begin()
    played.happens(it.Submitted(0, 1, 1))
    played.happens(it.Halt())
    played.happens(it.JobEnded(0, 1, 0, 0))
    assert (played.ran, played.finished) == (["A"], it.Finish(1, DagStatus.HALTED))


def test_a_graph_goes_on_when_the_halt_is_over() -> None:
    played = Played(course_of(DIAMOND)).begin()
    played.happens(it.Submitted(0, 1, 1))
    played.happens(it.Halt())
    played.happens(it.Resume())
    played.happens(it.JobEnded(0, 1, 0, 0))
    assert (played.ran, played.code) == (["A", "B", "C"], None)


def test_nothing_starts_before_the_provisioner_has_done_its_work() -> None:
    played = Played(course_of("JOB A n.sub\nPROVISIONER P n.sub\n")).begin()
    played.happens(it.Submitted(1, 1, 1))
    assert played.ran == ["P"]
    played.happens(it.ProvisionerReady())
    assert played.ran == ["P", "A"]


def test_service_nodes_start_first_and_are_removed_at_the_end() -> None:
    played = Played(course_of("JOB A n.sub\nSERVICE S n.sub\n")).begin()
    played.happens(it.Submitted(1, 1, 1))
    played.happens(it.Submitted(0, 2, 1))
    effects = played.happens(it.JobEnded(0, 2, 0, 0))
    assert (played.ran, played.code) == (["S", "A"], 0)
    assert (removed(effects), played.state("S")) == ([1], S.DONE)


def test_nodes_that_are_done_already_are_not_run() -> None:
    played = Played(course_of(DIAMOND.replace("JOB A n.sub", "JOB A n.sub DONE"))).run()
    assert (played.ran, played.code) == (["B", "C", "D"], 0)


def test_a_cycle_is_found_when_nothing_can_go_on() -> None:
    played = Played(course_of("JOB A n.sub\nJOB B n.sub\nPARENT A CHILD B\nPARENT B CHILD A\n")).run()
    assert played.finished == it.Finish(1, DagStatus.CYCLE)
    assert "PARENTS: B WAITING: 1 CHILDREN: B" in played.said


def test_a_node_that_has_failed_may_be_submitted_on_hold_for_somebody_to_mend_it() -> None:
    played = Played(course_of("JOB A n.sub\n", Settings(hold_failed_jobs=True))).begin()
    played.happens(it.Submitted(0, 1, 1))
    again = [one for one in played.happens(it.JobEnded(0, 1, 0, 1)) if isinstance(one, it.Submit)]
    assert again == [it.Submit(0, 1, on_hold=True)]


def test_a_save_file_is_written_as_its_node_first_starts() -> None:
    played = Played(course_of("JOB A n.sub\nSAVE_POINT_FILE A a.save\nRETRY A 1\n"), {"A": [1]}).run()
    assert [one for one in played.done if isinstance(one, it.WriteSave)] == [it.WriteSave(0)]


def test_a_factory_is_over_when_it_makes_no_more_jobs() -> None:
    played = Played(course_of("JOB A n.sub\n")).begin()
    played.happens(it.Submitted(0, 1, 0, is_factory=True))
    played.happens(it.JobMade(0, 1, 0))
    played.happens(it.JobEnded(0, 1, 0, 0))
    assert played.code is None
    played.happens(it.ClusterOver(0, 1))
    assert played.code == 0
