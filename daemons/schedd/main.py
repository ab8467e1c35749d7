"""The schedd: it wires its parts together, takes up what an earlier life left, and serves until told to stop.

Stopping never touches jobs that run in slots: they go on under their leases, and the next schedd comes back to them.
Those that run at the access point leave first (`local_jobs.py`).

HTCondor's manual: admin-manual/introduction-admin-manual ("condor_schedd"), admin-manual/configuration/schedd.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

import trio

from daemons.base.no_garbage import no_garbage
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.host.cron_manager import CronManager
from daemons.process.zygote import KINDS
from daemons.schedd.claims.claims import Claims
from daemons.schedd.claims.direct_attach import DirectAttach
from daemons.schedd.claims.flocking import Flocking
from daemons.schedd.claims.negotiate import Negotiation, Place
from daemons.schedd.claims.negotiators import Negotiators
from daemons.schedd.claims.recovery import take_up
from daemons.schedd.claims.run_now import RunNowHandler
from daemons.schedd.core.access_point import AccessPoint
from daemons.schedd.core.core import Core
from daemons.schedd.core.delivery import Delivery, Outcomes
from daemons.schedd.core.job_tasks import JobTasks
from daemons.schedd.core.listeners import Listeners
from daemons.schedd.core.settings import ScheddSettings
from daemons.schedd.core.writer import Writer
from daemons.schedd.execution.local_jobs import LocalJobs
from daemons.schedd.execution.starters import Starters
from daemons.schedd.files.agent_process import StartAgents
from daemons.schedd.files.agents import Agents
from daemons.schedd.files.checkpoint_cleanup import CheckpointCleanup
from daemons.schedd.files.directories import Directories
from daemons.schedd.files.transfer_turns import TransferTurns
from daemons.schedd.logs.global_log import GlobalLog
from daemons.schedd.logs.records import JobRecords
from daemons.schedd.queue.actions import Actions
from daemons.schedd.queue.advertise import Advertise, OwnAd
from daemons.schedd.queue.along import Along
from daemons.schedd.queue.factories import Factories
from daemons.schedd.queue.job_words import JobWords
from daemons.schedd.queue.live import Live
from daemons.schedd.queue.mailer import Mailer
from daemons.schedd.queue.policy_timer import PolicyTimer
from daemons.schedd.queue.query import Queries
from daemons.schedd.queue.spool import Spool
from daemons.schedd.queue.submit import Submits
from daemons.schedd.queue.users import Users
from pool.base.errors import PoolError
from pool.config import Config
from pool.cron_jobs.jobs import SCHEDD, read_table
from pool.jobs.queue import store
from pool.jobs.queue.history import HistoryReader
from pool.jobs.queue.job_queue import JobQueue
from protocol.rpc.service import Service
from protocol.security import needs

QUEUE_FILE: Final = "job_queue.sqlite"
CHILDREN: Final = {name: KINDS[name] for name in ("agent", "local")}
"""What the schedd's zygote makes."""
LAST_WORDS_S: Final = 3.0
CLOSE_S: Final = 5.0
"""How long the end of the connection to the queue's file may take: it waits for a commit that was left behind."""
FAREWELL_S: Final = 6.0
"""How long the end of file agents may take, those that do not heed it included."""


class Schedd:
    """The parts, wired: each is given what it needs of those that were made before it."""

    def __init__(self, start: DaemonStart, connection: sqlite3.Connection, path: str) -> None:
        self.start, self._connection, self._path = start, connection, path
        self._zygote = start.world.zygote(CHILDREN)
        settings = ScheddSettings.read(start.config, start.host)
        self.point = AccessPoint(start, _load(connection, settings.name), settings)

        self.tasks = JobTasks(start.log)
        self.core = self._make_core(connection)
        self._make_files()
        self._make_ads()
        self._make_executions()
        self._make_requests()
        self._wire()
        start.describe(self.advertise.ad)
        start.on_reconfigure(self.reconfigured)
        self._say_what_is_ignored()

    def _make_core(self, connection: sqlite3.Connection) -> Core:
        """The queue, and those who write down what becomes of it."""
        start, point = self.start, self.point
        self.writer = Writer(point.queue, connection, start.world.threads, lambda: point.settings.queue_clean_s)
        self.records = JobRecords(point)
        self.global_log = GlobalLog(point, self.writer)
        self.mailer = Mailer(point, self.writer)
        self.directories = Directories(start)
        return Core(point, self.tasks, self.writer, self.records, self.global_log, self.mailer, self.directories)

    def _make_files(self) -> None:
        """Who opens users' files, and when those move."""
        core, point = self.core, self.point
        self.turns = TransferTurns(core)
        outcomes = Outcomes(core)
        self.agents = Agents(
            StartAgents(self.start, self._zygote, self.tasks, self.turns, self.for_agent),
            self.start.log,
            written=outcomes.written,
            failed=outcomes.failed,
            cut_off=outcomes.cut_off,
            marked=self.writer.noted,
            timeout=lambda: point.settings.agent_timeout_s,
        )
        self.delivery = Delivery(core, self.agents)
        self.cleanup = CheckpointCleanup(core, self.agents)

    def _make_ads(self) -> None:
        """What the pool is told of the schedd."""
        start, own = self.start, OwnAd(self.core, self.turns)
        self.cron = CronManager(start, read_table(start.config, SCHEDD), scope=own.ad, published=self._cron_said)
        self.advertise = Advertise(self.core, own, self.cron)

    def _make_executions(self) -> None:
        """How jobs come to run: in slots, and here."""
        core = self.core
        self.claims = Claims(core, self.agents)
        self.negotiators = Negotiators(core.start)
        home = Place(
            core.flock_levels,
            core.holdings,
            self.negotiators.addresses,
            self.negotiators.changed,
            self.negotiators.connected,
        )
        self.negotiation = Negotiation(core, self.claims, self.turns, home)
        self.flocking = Flocking(core, self.claims, self.turns, home)
        self.advertise.elsewhere.adverts = self.flocking.adverts
        self.direct_attach = DirectAttach(core, self.claims, self.negotiation)
        self.run_now = RunNowHandler(core, self.claims)
        self.starters = Starters(core)
        self.local = LocalJobs(core, self._zygote, self.advertise.ad)

    def _make_requests(self) -> None:
        """What users ask and do, and what the clock does to jobs."""
        core, agents, name = self.core, self.agents, self.point.settings.name
        self.timer = PolicyTimer(core)
        self.users = Users(core, Path(self._path).parent)
        self.factories = Factories(core, self.advertise.ad)
        self.submits = Submits(core, self.factories, self.users, agents, self.advertise.ad)
        self.actions = Actions(core, self.claims, self.factories)
        self.queries = Queries(core, agents, lambda: HistoryReader(store.open_for_reading(self._path), name))
        self.spool = Spool(core, self.timer, agents)
        self.live = Live(core)
        self.job_words = JobWords(core, self.actions)

    def _wire(self) -> None:
        """Who hears of what, and answers what."""
        self.core.tell(
            Listeners(
                work_changed=(self.negotiation.work_changed, self.flocking.work_changed, self.claims.work_changed),
                waits_here=(self.local.waits_here,),
                has_left=(self.cleanup.has_left, self.claims.gangs.has_left),
                removed=(Along(self.core).removed,),
            )
        )
        self.writer.on_commit(self.factories.committed, self.delivery.committed, self.queries.committed)
        self._offer()

    def _offer(self) -> None:
        """All that the schedd answers. What file agents say is answered on connections of their own (`for_agent`)."""
        self.start.service.offer(
            self.submits.answers(),
            self.actions.answers(),
            self.queries.answers(),
            self.users.answers(),
            self.spool.answers(),
            self.live.answers(),
            self.run_now.answers(),
            self.direct_attach.answers(),
            self.starters.answers(),
            self.job_words.answers(),
        )
        self.claims.service.offer(self.claims.answers())
        self.negotiation.service.offer(self.negotiation.answers())

    def for_agent(self, owner: str) -> Service:
        """What the file agent of this user is answered."""
        service = Service("schedd", needs.SCHEDD_TO_AGENT)
        service.offer(self.turns.answers(owner))
        return service

    def reconfigured(self, config: Config) -> None:
        """The knobs may say something else now."""
        self.point.reconfigured(ScheddSettings.read(config, self.start.host))
        self._say_what_is_ignored()
        self.core.reconfigured()
        self.claims.leave_no_more_than(self.point.settings.jobs_running_max)
        self.flocking.reconfigured()
        self.tasks.start(self.timer.set_clocks)
        self.cron.reconfigure(self.cron.table)  # another table takes a restart

    def _say_what_is_ignored(self) -> None:
        settings, log = self.point.settings, self.start.log
        if settings.flock.trouble:
            log.always(f"WARNING: {settings.flock.trouble}")
        for knob in settings.system.ignored:
            log.always(f"WARNING: ignoring invalid {knob} expression")
        for said in settings.admission.ignored:
            log.always(f"WARNING: ignoring {said}")

    def _cron_said(self, changed: bool, send: bool) -> None:
        """A program has described the schedd."""
        if changed or send:
            self.start.adverts.refresh()

    async def run(self, nursery: trio.Nursery) -> None:
        """Start everything that lives as long as the schedd."""
        nursery.start_soon(self._zygote.run)
        await nursery.start(self.tasks.run)
        await nursery.start(self.agents.run)
        nursery.start_soon(self.writer.run)  # what it cannot commit is lost with the schedd
        kept = Tasks(nursery, self.start.log)
        for run in (self.global_log.run, self.records.run, self.turns.run, self.core.keep_sorted):
            kept.keep(run)
        await take_up(self.core, self.claims, self.delivery, self._connection)
        queue = self.point.queue
        kept.once(self.directories.sweep, lambda id: queue.get(id) is None, self.cleanup.left)
        kept.keep(self.timer.prune_history, self._path)
        parts = (
            self.cleanup,
            self.negotiators,
            self.negotiation,
            self.factories,
            self.local,
            self.mailer,
            self.timer,
            self.advertise,
        )
        for part in (*parts, self.cron):
            kept.keep(part.run)
        self.flocking.begin(kept)


def _load(connection: sqlite3.Connection, name: str) -> JobQueue:
    """The queue as it was left."""
    queue = JobQueue(name, next_cluster=store.read_counter(connection, "next_cluster", 1))
    with no_garbage(when=store.has_many_jobs(connection)):
        queue.load(store.read_clusters(connection), store.read_jobs(connection), store.read_factories(connection))
    return queue


async def main(start: DaemonStart, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve until told to stop."""
    path = f"{start.config.path('SPOOL')}/{QUEUE_FILE}"
    try:
        connection = await start.world.threads.run_sync(store.open_queue, path)
    except sqlite3.Error as error:
        raise PoolError(f"the job queue {path} cannot be opened: {error}") from error
    try:
        schedd = await start.world.threads.run_sync(Schedd, start, connection, path)
        async with trio.open_nursery() as nursery:
            await schedd.run(nursery)
            await nursery.start(start.serve)
            nursery.start_soon(start.adverts.run)
            task_status.started()
            await start.stopping()
            schedd.claims.stopping = True
            await schedd.local.end(start)
            with trio.move_on_after(LAST_WORDS_S):
                await schedd.writer.durable()
            with trio.move_on_after(FAREWELL_S):
                await schedd.agents.end()
            nursery.cancel_scope.cancel()
    finally:
        with trio.move_on_after(CLOSE_S, shield=True):
            await start.world.threads.leave_behind(connection.close)
