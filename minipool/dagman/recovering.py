"""Going on where an earlier condor_dagman was when it ended: the nodes' log, the queue and the history say where.

The log has all that was submitted and how it ended; a job that was queued at the last moment may be in it later than
in the queue. So the log is read first, then all that the schedd has of this graph is heard, and jobs of which neither
says more are looked for in the history.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from minipool.dagman.nodes_log import Replay
from pool.base.ids import JobId
from pool.dag.course import happenings as it
from pool.dag.course.attempt import Attempt
from pool.dag.course.course import S
from pool.jobs.vocabulary.states import JobStatus

if TYPE_CHECKING:
    from minipool.dagman.manager import Manager


EVENTS_A_PIECE: Final = 200


async def recover(manager: Manager) -> None:
    """Bring the course to where it was."""
    course = manager.course
    manager.say("Running in RECOVERY mode... >>>>>>>>>>>>>>>>>>>>>>>>>>>>>>")
    await manager.told_all_since(0)
    manager.replay(it.Recover())
    replay = Replay(course.dag)
    with manager.own.statistics.log.timed():
        await _replay_log(manager, replay)
    manager.nodes_log.went_on(replay.last_fake)
    for cluster, node in replay.clusters.items():
        manager.submitter.last_cluster[node] = max(cluster, manager.submitter.last_cluster.get(node, -1))
    await _adopt_unlogged(manager)
    await _find_missing(manager)
    manager.say("...done with RECOVERY mode <<<<<<<<<<<<<<<<<<<<<<<<<<<<<<")


async def _replay_log(manager: Manager, replay: Replay) -> None:
    """What the log has, a piece at a time: others of the process wait for none of them long."""
    events = iter(manager.nodes_log.events())
    while piece := list(islice(events, EVENTS_A_PIECE)):
        with manager.out.in_one_piece():
            for logged in piece:
                for event in replay.events(logged):
                    manager.replay(event)
        await trio.lowlevel.checkpoint()


async def _adopt_unlogged(manager: Manager) -> None:
    """Jobs that are queued or have left, and that the log does not have, are those of their nodes."""
    jobs, last = manager.jobs, manager.submitter.last_cluster
    makers = {ad.eval_int("ClusterId", 0): ad for ad in await manager.schedd.factories(manager.mine)}
    sizes: dict[int, int] = {}
    names = {cluster: ad.eval_str("DAGNodeName") or "" for cluster, ad in makers.items()}
    for ad in await manager.schedd.history(constraint=manager.mine):
        cluster = ad.eval_int("ClusterId", 0)
        names[cluster] = ad.eval_str("DAGNodeName") or ""
        sizes[cluster] = max(ad.eval_int("TotalSubmitProcs", 1), sizes.get(cluster, 1))
    # The queue has the last word on how many there are: some may have left, and others not.
    for cluster, name in jobs.all_strange():
        names[cluster], sizes[cluster] = name, jobs.strange_size(cluster)
    numbers = {node.name: number for number, node in enumerate(manager.course.dag.nodes)}
    for cluster, name in sorted(names.items()):
        node = numbers.get(name)
        if node is not None and cluster > last.get(node, -1):
            is_factory = cluster in makers
            manager.replay(it.Submitted(node, cluster, 0 if is_factory else sizes[cluster], is_factory))
            last[node] = cluster


async def _find_missing(manager: Manager) -> None:
    """Nodes whose jobs are in the queue hear of them again; what has left meanwhile, the history knows."""
    course, jobs = manager.course, manager.jobs
    for node in list(course.active()):
        one = course.attempt(node)
        if course.states[node] != S.SUBMITTED:
            continue
        if not one.cluster:  # the log says that a node was submitted that does nothing: it has ended
            manager.replay(it.JobEnded(node, 0, 0, 0))
            continue
        cluster, known = one.cluster, {proc: _status(one, proc) for proc in _procs(one)}
        absent = [JobId(cluster, proc) for proc in known if not jobs.is_told(JobId(cluster, proc))]
        for told in jobs.belongs(cluster, node, known):
            manager.replay(told.event)
        # In the log without an end, and not in the queue: the history has it, or it was removed.
        if absent:
            ended = await manager.schedd.history(constraint=f"{manager.mine} && ClusterId == {cluster}")
            for told in jobs.leave(absent, ended):
                manager.replay(told.event)
        if one.factory and not await manager.schedd.factories(f"ClusterId == {cluster}"):
            manager.replay(it.ClusterOver(node, cluster))


def _procs(one: Attempt) -> list[int]:
    """The jobs of the attempt that have not ended, as far as is known."""
    return [proc for proc in range(one.jobs) if proc not in one.codes]


def _status(one: Attempt, proc: int) -> int:
    if proc in one.held:
        return JobStatus.HELD
    return JobStatus.IDLE if proc in one.idle else JobStatus.RUNNING
