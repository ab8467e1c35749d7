"""How a job is to be run on this machine: as whom, with which command and surroundings, within which limits."""

from __future__ import annotations

import os
from dataclasses import replace

from daemons.host.account import Account, account_for, with_primary_group
from daemons.host.child_settings import StarterSettings
from daemons.host.process_limit import processes_of
from daemons.starter.launch.container_plan import image_of
from daemons.starter.live.requests import allows
from pool.classad import ClassAd, expr
from pool.containers.singularity import in_singularity, runs_in_singularity
from pool.execute.assigned import DEFAULTS as ASSIGNED_KNOBS
from pool.execute.cgroup import CgroupLimits, memory_limits
from pool.execute.isolation import private_in_image
from pool.execute.plan import ExecuteSurroundings, RunPlan, plan_job, wants_transfer, wrapped
from pool.execute.vm import is_vm
from protocol.messages.starter import RunJob


class Planner:
    """One activation's: the machine's rules, applied to the job's ad as it is by then."""

    def __init__(self, settings: StarterSettings, request: RunJob, sandbox: str, *, chirps: bool) -> None:
        self._settings, self._slot, self._sandbox = settings, request.slot_ad, sandbox
        self._has_agent, self._chirps = bool(request.agent_address), chirps

    def account(self, job: ClassAd) -> Account:
        """As whom it runs; NoAccount when there is none for it, NotInGroup when that lacks the group it asks for."""
        settings = self._settings
        account = account_for(
            job,
            uid_domain=settings.uid_domain,
            fallback=settings.fallback_account,
            run_as_owner=allows(settings.run_as_owner, self._slot, job),
            soft_uid_domain=settings.soft_uid_domain,
        )
        group = job.eval_str("PrimaryUnixGroup")
        return with_primary_group(account, group) if group else account

    def plan(self, job: ClassAd, account: Account) -> RunPlan:
        """What is started."""
        settings = self._settings
        plan = plan_job(job, self._slot, self.surroundings(job, account))
        if address_space := settings.address_space_mb << 20:  # this machine's limit, besides the job's own
            plan = replace(plan, rlimits={**plan.rlimits, "AS": address_space})
        if runs_in_singularity(job, self._slot, settings.docker):
            plan = in_singularity(
                plan,
                job,
                self._slot,
                settings.docker,
                self._sandbox,
                tuple(private_in_image(settings.mount_under_scratch, job, self._slot)),
                is_there=os.path.exists,
            )
        # A wrapper is a program of this machine: what it wraps runs there, as the program for images does.
        elif image_of(job, self._slot, settings) is not None or is_vm(job):
            return plan
        return wrapped(plan, settings.wrapper, self._sandbox) if settings.wrapper else plan

    def surroundings(self, job: ClassAd, account: Account) -> ExecuteSurroundings:
        """What the job finds around it."""
        settings = self._settings
        return ExecuteSurroundings(
            sandbox=self._sandbox,
            bin=settings.bin,
            slot=settings.slot.partition("@")[0],
            starter_pid=settings.number,
            home=account.home if settings.sets_home else None,
            user=account.name,
            thread_variables=settings.thread_variables,
            assigned_knobs=settings.assigned_knobs or ASSIGNED_KNOBS,
            starter_environment=settings.given_environment(),
            chirps=self._chirps,
            java=settings.java,
            vm=settings.vm,
            transfers=self._has_agent and wants_transfer(job, self._slot),
        )

    def _low_memory_mb(self, job: ClassAd) -> int:
        """How much memory is to be left to the job even where the machine lacks it."""
        text = self._settings.low_memory_expr
        value = expr(text).eval(self._slot, job) if text else 0
        return max(0, int(value)) if isinstance(value, int | float) else 0

    def limits(self, job: ClassAd) -> CgroupLimits:
        """What its control group allows."""
        settings, slot = self._settings, self._slot
        policy, memory = settings.memory_policy.strip().lower(), slot.eval_int("Memory") or 0
        if policy == "custom":
            value = expr(settings.hard_memory_expr).eval(slot, job) if settings.hard_memory_expr else 0
            memory = int(value) if isinstance(value, int | float) else 0
            policy = "hard"
        limits = memory_limits(
            policy,
            memory,
            machine_mb=settings.machine_memory_mb,
            disable_swap=settings.disable_swap,
            slot_swap_kb=slot.eval_int("VirtualMemory"),
        )
        return CgroupLimits(
            memory=limits.memory,
            memory_soft=limits.memory_soft,
            memory_and_swap=limits.memory_and_swap,
            memory_low=self._low_memory_mb(job) << 20,
            cpus=max(1, slot.eval_int("Cpus") or 1),
            processes=processes_of(settings, slot, job),
        )
