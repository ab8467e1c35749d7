"""The hooks of a running job: started as the job's account, with the job's ad to read, in its sandbox.

A prepare hook is waited for, and its answer changes the job or refuses it. The job never waits for an update hook. The
exit hook is waited for as long as its timeout says. What hooks write to standard error goes to the starter's log. A job
without hooks has no JobHooks at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from daemons.base.log import Log
from daemons.host.account import Account
from daemons.host.helpers import HelperSpawner
from daemons.host.processes import Processes
from daemons.host.programs import Finished, ProgramError, refusal, run_program
from pool.classad import ClassAd
from pool.hooks.answers import Prepared, Verdict, prepared
from pool.hooks.table import Hook, HookProgram

STDERR_LINES_MAX: Final = 200
NOT_RUN: Final = 1
"""The status of a prepare hook that is refused or cannot be started."""


class JobHooks:
    """The hooks of one job."""

    def __init__(
        self,
        programs: Mapping[Hook, HookProgram],
        log: Log,
        processes: Processes,
        account: Account,
        directory: str,
        environment: Mapping[str, str],
    ) -> None:
        self._programs = programs
        self._log = log
        self._spawner = HelperSpawner(processes, account)
        self._directory = directory
        self._environment = {**os.environ, **environment}

    def has(self, hook: Hook) -> bool:
        """Whether there is such a hook."""
        return hook in self._programs

    async def prepare(self, hook: Hook, job: ClassAd) -> Prepared:
        """Run a prepare hook; what it has decided. Without one the job goes on."""
        program = self._programs.get(hook)
        if program is None:
            return Prepared(Verdict.GO)
        if reason := refusal(program.path):
            self._log.always(f"{hook.value} is refused: {reason}")
            return prepared(program, NOT_RUN, f"HookStatusMessage = {ClassAd({'m': f'refused: {reason}'}).text('m')}")
        try:
            end = await self._run(program, job)
        except ProgramError as error:
            self._log.always(f"{hook.value}: {error}")
            return prepared(program, NOT_RUN, f"HookStatusMessage = {ClassAd({'m': str(error)}).text('m')}")
        answer = prepared(program, end.status, end.stdout, timed_out=end.timed_out)
        self._log.always(answer.message or f"{hook.value} ({program.name}) {end}")
        return answer

    async def update(self, job: ClassAd) -> None:
        """Tell the update hook how the job is; returns when it has ended."""
        await self._tell(Hook.UPDATE_JOB_INFO, job)

    async def job_exit(self, job: ClassAd, how: str, *, at_most_s: float = float("inf")) -> None:
        """Run the exit hook, and wait for it as long as it may take."""
        await self._tell(Hook.JOB_EXIT, job, how, at_most_s=at_most_s)

    async def _tell(self, hook: Hook, job: ClassAd, *words: str, at_most_s: float = float("inf")) -> None:
        """Run a hook whose answer does not count."""
        program = self._programs.get(hook)
        if program is None:
            return
        if reason := refusal(program.path):
            self._log.always(f"{hook.value} is refused: {reason}")
            return
        try:
            end = await self._run(program, job, *words, at_most_s=at_most_s)
        except ProgramError as error:
            self._log.always(f"{hook.value}: {error}")
            return
        self._log.always(f"{hook.value} ({program.name}) {end}")

    async def _run(self, program: HookProgram, job: ClassAd, *words: str, at_most_s: float = float("inf")) -> Finished:
        end = await run_program(
            self._spawner,
            [program.path, *program.arguments, *words],
            text=job.long(),
            environment=self._environment,
            directory=self._directory,
            timeout_s=min(program.timeout_s, at_most_s) if program.timeout_s else at_most_s,
        )
        for line in end.stderr.splitlines()[:STDERR_LINES_MAX]:
            self._log.always(f"{program.hook.value} ({program.name}): {line}")
        return end
