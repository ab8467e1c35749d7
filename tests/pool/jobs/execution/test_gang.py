"""What the ends of nodes make of a parallel job, what a node is told, and how the log tells of it."""

from __future__ import annotations

from itertools import permutations

import pytest

from pool.classad import ClassAd
from pool.jobs.changes import Changes, End
from pool.jobs.execution import gang
from pool.jobs.execution.gang import ShutdownPolicy
from pool.jobs.execution.states import ByReport, ByWord, Lost, Outcome, Unstarted
from pool.jobs.userlog import event_log as log
from pool.jobs.vocabulary import nodes
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.states import JobEvent, JobStatus

EXITED = ByReport(End(Ending.EXITED, ClassAd({"ExitCode": 0})))
EVICTED = ByReport(End(Ending.EVICTED, ClassAd()))
BROKEN = (EVICTED, ByWord(End(Ending.FAILED, ClassAd())), Lost("gone"), Unstarted("refused"))
NODE0, ALL = ShutdownPolicy.NODE0, ShutdownPolicy.ALL


def node_of(policy: ShutdownPolicy, ended: dict[int, Outcome]) -> int | None:
    """Whose end is that of a job of three nodes."""
    said = gang.verdict(policy, 3, ended)
    return None if said is None else said.node


@pytest.mark.parametrize("policy", ShutdownPolicy)
def test_a_job_goes_on_while_nodes_end_that_it_does_not_wait_for(policy: ShutdownPolicy) -> None:
    assert node_of(policy, {}) is None
    assert node_of(policy, {1: EXITED, 2: EXITED}) is None


def test_the_end_of_node_0_is_the_jobs_unless_it_waits_for_all() -> None:
    assert node_of(NODE0, {0: EXITED}) == 0
    assert node_of(ALL, {0: EXITED, 2: EXITED}) is None
    assert node_of(ALL, {0: EXITED, 1: EXITED, 2: EXITED}) == 0


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("policy", ShutdownPolicy)
def test_a_node_that_is_lost_ends_all(policy: ShutdownPolicy, broken: Outcome) -> None:
    assert node_of(policy, {1: broken}) == 1
    assert node_of(policy, {0: broken}) == 0


@pytest.mark.parametrize("policy", ShutdownPolicy)
def test_the_order_in_which_ends_become_known_does_not_matter(policy: ShutdownPolicy) -> None:
    ended: dict[int, Outcome] = {0: EXITED, 1: EVICTED, 2: Lost("gone")}
    orders = [{node: ended[node] for node in order} for order in permutations(ended)]
    assert {node_of(policy, one) for one in orders} == {0 if policy is NODE0 else 1}


def test_any_other_text_is_the_default_policy() -> None:
    said = [ClassAd(), *(ClassAd({"ParallelShutdownPolicy": text}) for text in ("wait_for_all", "sometimes"))]
    assert [gang.policy_of(ad) for ad in said] == [NODE0, ALL, NODE0]


def test_a_node_is_told_its_number_and_how_many_there_are() -> None:
    job = ClassAd(
        {"JobUniverse": 11, "MaxHosts": 1, "CurrentHosts": 3, "Out": f"o.{nodes.NODE_MARK}", "Cmd": "/bin/true"}
    )
    ad = nodes.for_node(job, 2)
    assert (ad["Out"], ad["Cmd"]) == ("o.2", "/bin/true")
    assert nodes.environment(ad) == {"_CONDOR_PROCNO": "2", "_CONDOR_NPROCS": "3"}
    assert nodes.environment(ClassAd({"JobUniverse": 5, "Node": 2})) == {}


def test_a_further_proc_shares_what_becomes_of_the_job_and_not_what_node_0_used() -> None:
    told = {"HoldReason": "policy", "RemoteUserCpu": 7.0, "LastRemoteHost": "slot1@here", "CurrentHosts": 0}
    held = Changes(told, drop=("RemoteHost",), move=JobEvent.HOLD, events=(log.Held("policy", 3, 0),))
    shared = gang.alongside(held, JobStatus.RUNNING)
    assert shared == Changes({"HoldReason": "policy", "CurrentHosts": 0}, drop=("RemoteHost",), move=JobEvent.HOLD)
    assert gang.alongside(held, JobStatus.HELD).move is None


def test_the_log_tells_of_nodes_as_htcondor_does() -> None:
    started = gang.node_executing(1, log.Executing("<host>", "slot1_2@localhost", {"Cpus": 1}))
    assert list(started.lines()) == ["Node 1 executing on host: <host>", "\tSlotName: slot1_2@localhost", "\tCpus = 1"]
    ended = gang.node_terminated(0, ClassAd({"ExitBySignal": False, "ExitCode": 0}))
    no_time = "\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  "
    assert list(ended.lines()) == [
        "Node 0 terminated.",
        "\t(1) Normal termination (return value 0)",
        *(f"{no_time}{whose}" for whose in ("Run Remote Usage", "Run Local Usage")),
        *(f"{no_time}{whose}" for whose in ("Total Remote Usage", "Total Local Usage")),
        "\t0  -  Run Bytes Sent By Node",
        "\t0  -  Run Bytes Received By Node",
        "\t0  -  Total Bytes Sent By Node",
        "\t0  -  Total Bytes Received By Node",
    ]
