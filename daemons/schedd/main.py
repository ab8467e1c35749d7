"""The schedd: it wires its parts together, takes up what an earlier life left, and serves until told to stop.

Stopping never touches jobs that run in slots: they go on under their leases, and the next schedd comes back to them.
Those that run at the access point leave first (`local_jobs.py`).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

import trio

from daemons.cron_manager import CronManager
from daemons.no_garbage import no_garbage
from daemons.run import DaemonStart
from daemons.schedd.actions import Actions
from daemons.schedd.advertise import Advertise
from daemons.schedd.agent_process import StartAgents
from daemons.schedd.agents import Agents
from daemons.schedd.claims import Claims
from daemons.schedd.core import Core
from daemons.schedd.factories import Factories
from daemons.schedd.global_log import GlobalLog
from daemons.schedd.job_words import JobWords
from daemons.schedd.live import Live
from daemons.schedd.local_jobs import LocalJobs
from daemons.schedd.mailer import Mailer
from daemons.schedd.negotiate import Negotiation
from daemons.schedd.policy_timer import PolicyTimer
from daemons.schedd.query import Queries
from daemons.schedd.recovery import take_up
from daemons.schedd.run_now import RunNowHandler
from daemons.schedd.settings import Settings
from daemons.schedd.spool import Spool
from daemons.schedd.starters import Starters
from daemons.schedd.submit import Submits
from daemons.schedd.transfer_turns import TransferTurns
from daemons.schedd.users import Users
from daemons.schedd.writer import Touched, Writer
from daemons.zygote import KINDS
from pool.classad.environment import install
from pool.config import Config
from pool.cron_jobs.jobs import SCHEDD, read_table
from pool.errors import PoolError
from pool.ids import JobId
from pool.jobs import run, store
from pool.jobs.codes import HoldCode
from pool.jobs.history import HistoryReader
from pool.jobs.job_queue import JobQueue
from pool.jobs.states import OVER, JobEvent, allowed
from pool.jobs.store import Batch, EventRow

QUEUE_FILE: Final = "job_queue.sqlite"
LAST_WORDS_S: Final = 3.0
FAREWELL_S: Final = 6.0
"""How long the end of file agents may take, those that do not heed it included."""


class Schedd:
    """The parts, wired."""

    def __init__(self, start: DaemonStart, connection: sqlite3.Connection, path: str) -> None:
        self.start = start
        self._connection = connection
        settings = Settings.read(start.config, start.host)
        self.queue = JobQueue(settings.name, next_cluster=store.read_counter(connection, "next_cluster", 1))
        with no_garbage(when=store.has_many_jobs(connection)):
            self.queue.load(
                store.read_clusters(connection), store.read_jobs(connection), store.read_factories(connection)
            )
        self.core = core = Core(start, settings, self.queue)
        core.writer = Writer(self.queue, connection, start.world.threads, lambda: core.settings.queue_clean_s)
        core.transfers = TransferTurns(core)
        self.claims = Claims(core)
        self.negotiation = Negotiation(core, self.claims)
        self.timer = PolicyTimer(core)
        self.advertise = Advertise(core)
        table = read_table(start.config, SCHEDD)
        self.cron = CronManager(start, table, scope=self.advertise.plain_ad, published=self._cron_said)
        self.advertise.cron = self.cron
        self.factories = Factories(core)
        JobWords(core, Actions(core, self.claims, self.factories))
        RunNowHandler(core, self.claims)
        core.users = Users(core, Path(path).parent)
        Submits(core, self.factories)
        Spool(core, self.timer)
        Starters(core)
        Live(core)
        core.writer.on_commit(self._committed)
        Queries(core, lambda: HistoryReader(store.open_for_reading(path), settings.name))
        start.describe(self.advertise.ad)
        core.own_ad = self.advertise.ad
        self._use_settings()
        start.on_reconfigure(self.reconfigured)

    def reconfigured(self, config: Config) -> None:
        """The knobs may say something else now."""
        self.core.settings = Settings.read(config, self.start.host)
        self._use_settings()
        self.claims.leave_no_more_than(self.core.settings.jobs_running_max)
        self.core.nursery.start_soon(self.timer.set_clocks)
        self.cron.reconfigure(self.cron.table)  # another table takes a restart

    def _use_settings(self) -> None:
        """Have expressions know the maps, and say what of the configuration is ignored."""
        install(user_maps=self.core.settings.user_maps.found)
        for knob in self.core.settings.system.ignored:
            self.start.log.always(f"WARNING: ignoring invalid {knob} expression")
        for said in (*self.core.settings.admission.ignored, *self.core.settings.user_maps.ignored):
            self.start.log.always(f"WARNING: ignoring {said}")

    def _cron_said(self, changed: bool, send: bool) -> None:
        """A program has described the schedd."""
        if changed or send:
            self.start.adverts.refresh()

    async def run(self, nursery: trio.Nursery) -> None:
        """Start everything that lives as long as the schedd."""
        core, start = self.core, self.start
        core.nursery = nursery
        zygote = start.world.zygote({"agent": KINDS["agent"], "local": KINDS["local"]})
        nursery.start_soon(zygote.run)
        self.local = LocalJobs(core, zygote)
        core.agents = Agents(
            StartAgents(start, zygote, nursery, core.transfers),
            start.log,
            written=self._events_written,
            failed=self._events_failed,
            cut_off=self._cut_off,
            marked=core.writer.durable,
            timeout=lambda: core.settings.agent_timeout_s,
        )
        await nursery.start(core.agents.run)
        nursery.start_soon(GlobalLog(core).run)
        nursery.start_soon(core.records.run)
        nursery.start_soon(core.transfers.run)
        nursery.start_soon(core.writer.run)
        nursery.start_soon(core.keep_sorted)
        await take_up(core, self.claims, self._connection)
        nursery.start_soon(core.directories.sweep, lambda id: self.queue.get(id) is None, core.cleanup.left)
        nursery.start_soon(core.cleanup.run)
        nursery.start_soon(self.negotiation.run)
        nursery.start_soon(self.factories.run)
        nursery.start_soon(self.local.run)
        nursery.start_soon(Mailer(core).run)
        nursery.start_soon(self.timer.run)
        nursery.start_soon(self.timer.prune_history, self._connection)
        nursery.start_soon(self.advertise.run)
        nursery.start_soon(self.cron.run)

    # ---- logs

    def _committed(self, batch: Batch, touched: Touched) -> None:
        if batch.events:
            self.core.deliver(batch.events)

    def _events_written(self, rows: list[EventRow]) -> None:
        self.queue.written(row.seq for row in rows)
        self.core.writer.soon()

    def _events_failed(self, rows: list[EventRow], reason: str) -> None:
        """A job whose log cannot be written is put on hold, so that its owner hears of it."""
        for row in rows:
            self.start.log.always(f"An event cannot be written to {row.log}: {reason}")
            for id in _jobs_of(row.text):
                job = self.queue.get(id)
                if job is None or job.status in OVER or not allowed(job.status, JobEvent.HOLD):
                    continue
                said = f"Failed to initialize user log to {row.log}: {reason}"
                ad = self.queue.ad(job)
                self.core.apply(job, run.hold(ad, said, HoldCode.UNABLE_TO_INIT_USER_LOG, 0, self.core.now()))
                execution = self.core.execution_of(job)
                if execution is not None:
                    execution.stop(said, HoldCode.UNABLE_TO_INIT_USER_LOG, 0)
        self.core.writer.soon()

    def _cut_off(self, activations: list[str], reason: str) -> None:
        """A job whose files cannot move, for want of a file agent, is put on hold."""
        for activation in activations:
            shadow = self.core.shadows.get(activation)
            if shadow is not None and allowed(shadow.job.status, JobEvent.HOLD):
                self.core.hold(shadow.job, reason, HoldCode.FAILED_TO_ACCESS_USER_ACCOUNT)
        self.core.writer.soon()


def _jobs_of(text: str) -> set[JobId]:
    """The jobs that events speak of."""
    found = set()
    for line in text.splitlines():
        head, _, rest = line.partition(" (")
        if len(head) == 3 and head.isdigit():
            cluster, _, more = rest.partition(".")
            proc = more.partition(".")[0]
            if cluster.isdigit() and proc.isdigit():
                found.add(JobId(int(cluster), int(proc)))
    return found


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
                await schedd.core.writer.durable()
            with trio.move_on_after(FAREWELL_S):
                await schedd.core.agents.end()
            nursery.cancel_scope.cancel()
    finally:
        connection.close()
