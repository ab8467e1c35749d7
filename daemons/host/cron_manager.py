"""Runs the cron jobs of a daemon: starts each when it is due and there is room, and keeps what they have last said.

manager = CronManager(start, read_table(config, STARTD), scope=lambda: ad, published=startd.cron_published)
nursery.start_soon(manager.run)
merge(manager.ads, slot_ad)

Source: HTCondor's manual, "Configuration for Execution Points": "Startd Cron"; "HTCondor Hooks Configuration Options":
"Daemon Hook Configuration Options".
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.daemon_core.world import Process
from daemons.host.programs import MARK, Finished, daemons_identity, kill_session, run_program, sweep
from daemons.libexec.benchmark_programs import KFLOPS, MIPS
from pool.ads.limits import DAEMONS
from pool.base.errors import PoolError, UserError
from pool.classad import ClassAd
from pool.classad.values.truth import is_true
from pool.cron_jobs.jobs import CronJob, CronTable
from pool.cron_jobs.merge import Published
from pool.cron_jobs.output import CronAd, OutputReader
from pool.cron_jobs.schedule import Runs, has_room, next_start

_OURS: Final = {
    "condor_gpu_utilization": ("daemons.libexec.gpu_utilization",),
    "condor_kflops": ("daemons.libexec.benchmark_programs", KFLOPS),
    "condor_mips": ("daemons.libexec.benchmark_programs", MIPS),
}
TERM_S: Final = 1.0
"""How long a job that is to be killed may take for an end of its own."""
COMPLAINTS_MAX: Final = 20
"""Most lines of one run that are reported one by one."""
ADS_MAX: Final = 256
"""Ads of different names that one job may have."""
STDERR_LINES_MAX: Final = 200


@dataclass(eq=False)
class _Running:
    """A job, what it has done, and its process while it runs."""

    job: CronJob
    runs: Runs = field(default_factory=Runs)
    process: Process | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    dying: bool = False
    gone: bool = False
    unread: list[str] = field(default_factory=list)
    unread_count: int = 0
    news: tuple[bool, bool] | None = None
    """Whether any of the ads that were read and not told of yet is new, and whether to send them."""

    def complain(self, line: str) -> None:
        """A line of the output cannot be read."""
        self.unread_count += 1
        if self.unread_count <= COMPLAINTS_MAX:
            self.unread.append(line)


class CronManager:
    """The jobs of one table. `published` is told of each ad: whether anything in it is new, whether to send it now."""

    def __init__(
        self,
        start: DaemonStart,
        table: CronTable,
        *,
        scope: Callable[[], ClassAd],
        published: Callable[[bool, bool], None],
    ) -> None:
        self._start = start
        self._scope = scope
        self._published = published
        self._jobs: dict[str, _Running] = {}
        self._ads: dict[tuple[str, str], Published] = {}
        self._wake = Signal()
        self._ended = Signal()
        self._mark = f"{start.run_dir}/{start.name}/{table.manager}"
        self.table = table
        self._take(table)

    @property
    def ads(self) -> list[Published]:
        """What all jobs have last said, in the order of the table; of each job the ad without a name first."""
        return list(self._ads.values())

    async def run(self) -> None:
        """Start what is due, for ever. Cancelled, running jobs are killed."""
        if self._jobs and (left := await self._start.world.threads.run_sync(sweep, self._mark)):
            self._start.log.always(f"{self.table.manager}: ended {left} processes of an earlier life")
        async with trio.open_nursery() as nursery:
            tasks = Tasks(nursery, self._start.log)
            while True:
                wake = self._wake.next()
                until = self._start_due(tasks)
                with trio.move_on_at(until):
                    await wake.wait()

    def reconfigure(self, table: CronTable) -> None:
        """Another table, or the same again: jobs that have changed begin anew, others hear of it as they wish."""
        now = trio.current_time()
        before = dict(self._jobs)
        self._take(table)
        for name, known in before.items():
            current = self._jobs.get(name)
            if current is not known:
                known.gone = True
                known.scope.cancel()
                self._forget(name)
                continue
            # HTCondor sends SIGHUP to those whose <JOB>_RECONFIG is true.
            if known.job.hears_of_reconfiguration and known.process is not None:
                kill_session(known.process.pid, signal.SIGHUP)
            if known.job.runs_at_reconfiguration:
                known.runs.due_at = now
        self._wake.fire()

    def slept(self, seconds: float) -> None:
        """The machine has slept for so long: what would have been due meanwhile is due now."""
        for one in self._jobs.values():
            if not one.runs.running and one.runs.started_at is not None and one.runs.ended_at is not None:
                one.runs.started_at -= seconds
                one.runs.ended_at -= seconds
        self._wake.fire()

    async def run_all(self) -> None:
        """Run every job once, on demand; returns when all have ended."""
        now = trio.current_time()
        for one in self._jobs.values():
            one.runs.due_at = now
        self._wake.fire()
        await self._ended.until(
            lambda: not any(one.runs.due_at is not None or one.runs.running for one in self._jobs.values())
        )

    # ---- inside

    def _take(self, table: CronTable) -> None:
        self.table = table
        for problem in table.problems:
            self._start.log.always(problem)
        known, self._jobs = self._jobs, {}
        for name, job in table.jobs.items():
            old = known.get(name)
            # A job that has not changed goes on, with what it has last said.
            self._jobs[name] = old if old is not None and old.job == job else _Running(job)

    def _forget(self, name: str) -> None:
        gone = [key for key in self._ads if key[0] == name]
        for key in gone:
            del self._ads[key]
        if gone:
            self._published(True, True)

    def _start_due(self, tasks: Tasks) -> float:
        """Start all that is due and has room; when to look again."""
        now = trio.current_time()
        load = sum(one.job.load for one in self._jobs.values() if one.runs.running)
        later = float("inf")
        due = sorted(((next_start(one.job, one.runs), one) for one in self._jobs.values()), key=lambda pair: pair[0])
        for at, one in due:
            if at > now:
                later = min(later, at)
            elif one.runs.running:
                self._end_early(tasks, one)
            elif not self._wanted(one.job):
                one.runs = Runs(now, now)
                later = min(later, next_start(one.job, one.runs))
                self._ended.fire()
            elif has_room(one.job, load, self.table.max_load):
                load += one.job.load
                one.runs = Runs(now)
                later = min(later, next_start(one.job, one.runs))  # when it is to be killed, if it may be
                tasks.once(self._run, one)
            elif one.job.load > self.table.max_load:
                one.runs = Runs(now, now)  # never: it was said when the table was read
                later = min(later, next_start(one.job, one.runs))
                self._ended.fire()
        return later

    def _wanted(self, job: CronJob) -> bool:
        """Whether the job's CONDITION is true."""
        if job.condition is None:
            return True
        value = job.condition.eval(self._scope())
        return is_true(value)

    def _end_early(self, tasks: Tasks, one: _Running) -> None:
        """The next run is due, and this one is to make room for it."""
        if not one.dying and one.process is not None:
            one.dying = True
            one.runs.due_at = trio.current_time()
            self._start.log.always(f"{self.table.manager} job {one.job.name} still runs; ending it")
            tasks.once(self._end, one.process)

    async def _end(self, process: Process) -> None:
        kill_session(process.pid, signal.SIGTERM)
        with trio.move_on_after(TERM_S):
            await process.wait()
            return
        kill_session(process.pid)

    async def _run(self, one: _Running) -> None:
        job, start = one.job, self._start
        one.unread, one.unread_count = [], 0
        reader = OutputReader(job, lambda said: self._keep(job, said), one.complain)

        def take(piece: bytes) -> None:
            reader.take(piece)
            self._publish(one)

        def started(process: Process) -> None:
            one.process = process

        try:
            with trio.CancelScope() as one.scope:
                if one.gone:
                    return
                executable, words = command_of(job)
                end = await run_program(
                    start.world.spawner,
                    words,
                    executable=executable,
                    environment={**start.world.env, **job.environment, MARK: self._mark},
                    directory=job.directory,
                    taken=take,
                    started=started,
                    **daemons_identity(start.config),
                )
                reader.end()
                self._publish(one)
                self._report(one, end)
        except (PoolError, ValueError) as error:
            start.log.always(f"{self.table.manager} job {job.name} does not run: {job.executable}: {error}")
        finally:  # whatever it was: a job that counts as running is never due again, and others wait for its end
            one.process, one.dying = None, False
            one.runs.ended_at = trio.current_time()
            self._ended.fire()
            self._wake.fire()

    def _publish(self, one: _Running) -> None:
        """Tell of the ads that were read just now, all at once: whoever hears of it looks at all of them."""
        if one.news is not None:
            (changed, send), one.news = one.news, None
            self._published(changed, send)

    def _keep(self, job: CronJob, said: CronAd) -> None:
        if self._jobs.get(job.name) is None or self._jobs[job.name].job is not job:
            return
        key = (job.name, said.tag)
        if (job.name, "") not in self._ads:  # the ad without a name goes first: those with one say more
            self._ads[job.name, ""] = Published(job, "", ClassAd(), ClassAd())
        # A program may make up names for ever, and each ad is kept.
        if key not in self._ads and sum(name == job.name for name, _ in self._ads) >= ADS_MAX:
            self._jobs[job.name].complain(f"more than {ADS_MAX} ads; {said.tag} is left out")
            return
        try:
            DAEMONS.check(said.ad, f"the ad {said.tag}")
        except UserError as error:
            self._jobs[job.name].complain(f"{error}")
            return
        known = self._ads.setdefault(key, Published(job, said.tag, ClassAd(), ClassAd()))
        changed = known.update(said, self._start.world.wall()) if len(said.ad) or len(said.controls) else False
        send = not job.metrics and self._to_be_sent(said, changed)  # a monitor's figures change all the time
        before = self._jobs[job.name].news or (False, False)
        self._jobs[job.name].news = before[0] or changed, before[1] or send

    def _to_be_sent(self, said: CronAd, changed: bool) -> bool:
        if said.update is not None:
            return said.update
        return self.table.autopublish == "always" or (self.table.autopublish == "if_changed" and changed)

    def _report(self, one: _Running, end: Finished) -> None:
        """What could not be read, and how the job ended where that is of interest."""
        log, name = self._start.log, f"{self.table.manager} job {one.job.name}"
        for complaint in one.unread:
            log.always(f"{name}: {complaint}")
        if more := one.unread_count - len(one.unread):
            log.always(f"{name}: {more} more lines of the output are not attributes")
        say = log.always if (end.status > 0 and self.table.logs_failures) or end.status < 0 else log.full
        how = f"exit_status={end.status}" if end.status >= 0 else f"exit_signal={-end.status}"
        say(f"CronJob: '{one.job.name}' (pid {one.process.pid if one.process else 0}) {how}")
        for line in end.stderr.splitlines()[:STDERR_LINES_MAX]:
            say(f"{name}: {line}")


def command_of(job: CronJob) -> tuple[str, tuple[str, ...]]:
    """The program and its words, its name first. Some are parts of this very program, wherever they are looked for."""
    ours = _OURS.get(os.path.basename(job.executable))
    if ours is not None and not os.access(job.executable, os.X_OK):
        return sys.executable, (sys.executable, "-I", "-m", *ours, *job.arguments)
    return job.executable, (job.name, *job.arguments)
