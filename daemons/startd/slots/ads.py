"""Makes the ads of this startd's slots out of what is known of them now.

* An ad is made in layers: what all slots share (`base`), what the configuration gives the slot, what the slot is now.
* The ad for matching is kept until something changes that it shows. Policy sees the owner's expressions in it besides,
  under their names, where they mention one another.
* Collectors are sent the public ad; claim ids are in the private one, which is never shown.

Source: HTCondor's manual, "Machine ClassAd Attributes"; "Configuration for Execution Points": "Custom and system slot
attributes".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import is_
from typing import Any, Final

import trio

from daemons.daemon_core.run import DaemonStart
from daemons.startd.machine.input_devices import InputDevices
from daemons.startd.machine.settings import CPU_BUSY, StartdSettings, policy_attributes
from daemons.startd.slots.load import Loads
from daemons.startd.slots.slot import Slot, Slots
from pool.classad import ClassAd, Expr, expr
from pool.classad.eval.budget import Patience
from pool.classad.values.truth import is_true
from pool.cron_jobs.job_usage import JobUsage
from pool.cron_jobs.merge import Published, merge
from pool.execute import hypervisor, vm
from pool.execute.cgroup import Trees
from pool.slots import latch
from pool.slots.ad import SlotView, look_attributes, private_ad, shape_ad, share_between_slots, slot_ad
from pool.slots.counters import MachineStatistics
from pool.slots.drain import Drain, drain_attributes
from pool.slots.draining import DrainingCost, RunningJob, expected_draining
from pool.slots.idle import LastUse
from pool.slots.policy import REFERABLE, retirement_s
from pool.slots.provision import detect
from pool.slots.provision.custom import Custom
from pool.slots.provision.detect import Look
from pool.slots.provision.resources import CPUS, DISK, MEMORY
from pool.slots.provision.slot_types import SlotKind
from pool.slots.state_machine import State

_NO_START: Final = expr("undefined")


class Ads:
    """The one who knows what a slot's ad says. `base` is the part that all slots share."""

    def __init__(
        self,
        start: DaemonStart,
        slots: Slots,
        settings: StartdSettings,
        base: ClassAd,
        trees: Trees,
        *,
        customs: Mapping[str, Custom],
        volumes: Mapping[str, int],
        cron: Callable[[], list[Published]],
    ) -> None:
        self._start = start
        self._slots = slots
        self.settings = settings
        self.base = base
        self.customs = customs
        """The custom resources whose pieces have names."""
        self.cgroups = bool(trees.version)
        """Whether jobs run in control groups of their own."""
        self.loads = Loads(slots, trees)
        self.volumes = volumes
        """The sizes of the file systems that execute directories are on, in KiB."""
        self.statistics = MachineStatistics()
        self.draining_cost = DrainingCost()
        self.virtual_machines: tuple[int, int] | None = None
        """How much memory all virtual machines may have, and how many there may be; None where there can be none."""
        self.overrides: dict[str, Any] = {}
        """What condor_update_machine_ad has changed."""
        self.cron = cron
        """What cron jobs and benchmarks have said."""
        self.cron_changes = 0
        """How often that has changed; a negotiator sees by it that there may be new matches."""
        self.scratch_trouble = ""
        """Why no sandbox can be made now."""
        self.drain: Drain | None = None
        self.drain_started = self.drain_stopped = 0.0
        self._last_use, self._input = LastUse(), InputDevices()
        self.seen = self._look()
        self._machine_wide: dict[str, Any] = {}
        self._looks = object()
        """Another one after each look at the machine, which `fixed_ad` of each slot then shows."""
        self.benchmarked_at = 0
        """When the machine was last measured (wall clock)."""

    def machine(self) -> dict[str, Any]:
        """What the ad of the startd itself shows beside what all slots share: the machine, and how much is in use."""
        top = [slot for slot in self._slots if slot.parent is None]
        used = {CPUS: 0.0, MEMORY: 0.0, DISK: 0.0}
        for slot in self._slots:
            if slot.state.state in (State.CLAIMED, State.PREEMPTING):
                # `free` of a claimed slot is what its claim holds: a dynamic slot has all of its own, and its parent
                # counts not at all.
                for name in used:
                    used[name] += float(slot.free.amounts.of(name))
        in_use = {f"TotalInUse{name}": amount if name == CPUS else int(amount) for name, amount in used.items()}
        volumes = sorted({slot.spec.disk for slot in top})
        return {**self._machine_wide, **in_use, "ExecuteVolumes": volumes}

    def refresh(self) -> None:
        """Look at the machine again; ads made from now on show what is seen."""
        self.seen = self._look()
        self._looks = object()
        self.loads.look(self.seen.load, self.seen.busy_s, trio.current_time())
        self._machine_wide = self._of_all_slots()
        for slot in self._slots:
            if slot.fixed_ad is not None:
                slot.fixed_ad.update(self._machine_wide)
            slot.matching_ad = None

    def benchmarked(self) -> None:
        """The machine was measured, and `cron` has the figures; all slots show them."""
        self.benchmarked_at = int(self._start.world.wall())
        for slot in self._slots:
            slot.fixed_ad = slot.matching_ad = None

    def matching(self, slot: Slot) -> ClassAd:
        """The ad for policy and matching: all but what is only for show (the lists about dynamic slots)."""
        if slot.matching_ad is not None and self.virtual_machines is not None:
            shown = slot.matching_ad
            if any(shown.get(name) != left for name, left in self._room_for_vms(slot).items()):
                slot.matching_ad = None  # those of other slots come and go
        if slot.matching_ad is None:
            slot.matching_ad = self._make(slot, [])
            self._latch(slot, slot.matching_ad)
            if self.settings.slot_attrs:
                self._share({slot.short: slot.matching_ad})
        return slot.matching_ad

    def for_policy(self, slot: Slot) -> ClassAd:
        """The ad with the owner's expressions under their names, where they mention one another."""
        ad, policy = self.matching(slot), slot.policy
        return ClassAd({name: policy.expr(name) for name in REFERABLE}, parent=ad) if policy.refers_to_itself else ad

    def public(self, slot: Slot) -> ClassAd:
        """The ad as the pool sees it."""
        ad = self.matching(slot)  # looks at the latches
        if slot.kind is not SlotKind.PARTITIONABLE:  # nothing is only for show
            return ad
        ad = self._make(slot, [self.matching(child) for child in slot.children.values()])
        self._show_latches(slot, ad)
        if self.settings.slot_attrs:
            self._share({slot.short: ad})
        return ad

    def published(self, slot: Slot) -> ClassAd:
        """The ad as collectors are told it: of slots that are offered to one schedd alone, a START that says so.

        So they take no match of a negotiator's.
        """
        ad, schedd = self.public(slot), self.settings.attached_to
        return ClassAd({"Start": f"Directly attached to schedd {schedd}"}, parent=ad).flat() if schedd else ad

    def _latch(self, slot: Slot, ad: ClassAd) -> None:
        """Note when the values of the latched expressions change."""
        names = dict.fromkeys((*self.settings.latches, CPU_BUSY))
        slot.latches = latch.look(slot.latches, names, ad, now=self._start.world.wall())
        self._show_latches(slot, ad)

    def _show_latches(self, slot: Slot, ad: ClassAd) -> None:
        latched = self.settings.latches
        busy = slot.latches[CPU_BUSY]
        ad["CpuIsBusy"] = bool(busy.value)
        ad[f"{CPU_BUSY}Time"] = int(self._start.world.wall() - busy.changed_at) if busy.value else 0
        shown = {name: slot.latches[name] for name in latched}
        for name, figure in latch.latch_attributes(shown, slot.attributes).items():
            ad[name] = figure

    def monitored(self) -> JobUsage:
        """For a job that starts now, what it will have used of the devices that monitors watch."""
        return JobUsage(self.cron())

    def private(self, slot: Slot) -> ClassAd:
        """The half of the ad with the claim ids."""
        return private_ad(slot.name, slot.kind, self._slots.offers_of(slot, while_draining=self.lets_in(slot)))

    def retirement_left(self, slot: Slot) -> float:
        """How long the slot's job may still run undisturbed."""
        if slot.claim is None or slot.claim.activation is None:
            return 0.0
        return max(0.0, self.retirement(slot) - slot.claim.activation.ran_s(now=trio.current_time()))

    def retirement(self, slot: Slot) -> float:
        """The whole time that the slot's job was granted."""
        if slot.retirement_cap is not None:
            return slot.retirement_cap
        job = slot.job
        return retirement_s(slot.policy, self.matching(slot), job) if job is not None else 0.0

    def _make(self, slot: Slot, children: list[ClassAd]) -> ClassAd:
        now = self._start.world.wall()
        view = self._view(slot, children, now)
        if slot.fixed_ad is None:
            slot.fixed_ad = self._fixed(slot)
        ad = slot_ad(slot.fixed_ad, view, self._shape(slot, slot.fixed_ad, view))
        if published := self.cron():
            merge(published, ad, age_s=now - self._start.started_at, raw=self.settings.raw_metrics)
            ad["StartdCronChanges"] = self.cron_changes
            for name, used in (slot.device_use.attributes() if slot.device_use is not None else {}).items():
                ad[name] = used
        if self.virtual_machines is not None:
            ad.update(self._room_for_vms(slot))
        if slot.busy and (job := slot.job) is not None and vm.is_vm(job):
            ad["VM_Guest_Mem"], ad["JobVM_VCPUS"] = job.eval_int("JobVMMemory") or 0, job.eval_int("JobVM_VCPUS") or 1
        if slot.checkpoint_at:
            ad["LastPeriodicCheckpoint"] = int(slot.checkpoint_at)
        for name, value in self.overrides.items():
            ad[name] = value
        if slot.kind is SlotKind.PARTITIONABLE:
            ad["NumDynamicSlots"] = len(slot.children)
        slot.matching_ad = slot.matching_ad or ad  # retirement is an expression of this very ad
        ad["RetirementTimeRemaining"] = int(min(self.retirement_left(slot), 2**31 - 1))
        return ad

    def _room_for_vms(self, slot: Slot) -> dict[str, int]:
        """What the other slots' claims leave for a virtual machine in this one."""
        assert self.virtual_machines is not None
        jobs = [one.job for one in self._slots if one is not slot]
        return hypervisor.room(*self.virtual_machines, [job for job in jobs if job is not None and vm.is_vm(job)])

    def _start_expression(self, slot: Slot) -> Expr:
        """START, or while the machine drains what is said for then."""
        if self.drain is None:
            return slot.policy.expr("START")
        return _NO_START if self.drain.start is None else self.drain.start

    def lets_in(self, slot: Slot) -> bool:
        """Whether jobs may come into this slot although the machine drains: a guest's, or one with room for guests."""
        guests = slot.kind is SlotKind.PARTITIONABLE or (slot.claim is not None and slot.claim.while_draining)
        return guests and self.drain is not None and self.drain.start is not None

    def _view(self, slot: Slot, children: list[ClassAd], now: float) -> SlotView:
        """What the slot's ad is made from."""
        return SlotView(
            name=slot.name,
            slot_id=slot.spec.slot_id,
            dslot_id=slot.dslot_id,
            type_id=slot.spec.type_id,
            kind=slot.kind,
            free=slot.free,
            whole=slot.whole,
            state=slot.state,
            start=self._start_expression(slot),
            now=now,
            now_monotonic=trio.current_time(),
            claim=slot.claim,
            pending=slot.pending.claim if slot.pending is not None else None,
            in_cgroup=self.cgroups,
            usage=slot.usage,
            promised=bool(slot.promised),
            no_scratch=bool(self.scratch_trouble),
            draining=self.drain is not None,
            accept_while_draining=self.lets_in(slot),
            load=self.loads.of_job(slot),
            cores=None if _has(slot, "CpusUsage") else slot.cores.now,
            job_starts=self.statistics.starts,
            preemptions=self.statistics.preemptions,
            extra=self._extra(slot, now),
            job_attrs=self.settings.job_attrs,
            customs=self.customs,
            own_ids=slot.free.ids if slot.parent is not None else slot.spec.ids,
            children=children,
            child_attrs=self.settings.child_attrs,
            dynamic_made=slot.children_made,
        )

    def _shape(self, slot: Slot, fixed: ClassAd, view: SlotView) -> ClassAd:
        key = (fixed, slot.free, self._looks)
        known = slot.shape
        if known is not None and slot.kind is not SlotKind.PARTITIONABLE and all(map(is_, known[0], key)):
            return known[1]
        shape = shape_ad(fixed, view)
        slot.shape = (key, shape)
        return shape

    def _fixed(self, slot: Slot) -> ClassAd:
        """What stays as it is while the configuration does."""
        ad = self.base.copy()
        for name, value in {**slot.attributes, **policy_attributes(slot.policy)}.items():
            ad[name] = value
        ad["LastBenchmark"] = self.benchmarked_at
        if self.settings.attached_to:
            ad["IsDirectAttach"] = self.settings.attached_to
        if slot.kind is SlotKind.PARTITIONABLE and not self.settings.gives_leftovers:
            ad["ClaimPartitionableLeftovers"] = False
        ad["ExecuteVolume"] = slot.spec.disk
        if (size := self.volumes.get(slot.spec.disk)) is not None:
            ad["DetectedDisk"] = size
        ad.update(self._machine_wide)
        return ad

    def _extra(self, slot: Slot, now: float) -> dict[str, Any]:
        extra = look_attributes(self.seen, **self._idle(slot, now))
        extra["LoadAvg"] = round(self.loads.of_job(slot) + self.loads.of_owner(slot), 2)
        extra["TotalSlots"] = len(self._slots)
        extra.update(drain_attributes(self.drain, self.drain_started, self.drain_stopped))
        return extra

    def _of_all_slots(self) -> dict[str, Any]:
        """What is true of the machine as a whole, as of the last look at it."""
        now = self._start.world.wall()
        busy = [slot for slot in self._slots if slot.busy]
        drained = (slot.free.amounts.of(CPUS) for slot in self._slots if slot.state.state is State.DRAINED)
        self.draining_cost.look(float(sum(drained)), now)
        return {
            **self._start.monitor.look(now),
            **self.statistics.attributes(now),
            **self.draining_cost.attributes(),
            **expected_draining([self._running(slot) for slot in busy], now),
            "TotalCondorLoadAvg": round(sum((self.loads.of_job(slot) for slot in self._slots), 0.0), 2),
        }

    def _running(self, slot: Slot) -> RunningJob:
        now = trio.current_time()
        ran_s = slot.claim.activation.ran_s(now=now) if slot.claim and slot.claim.activation else 0.0
        left_s = max(0.0, (slot.retirement_cap or 0.0) - ran_s)
        vacate_s = 0.0
        if slot.matching_ad is not None:
            left_s = slot.matching_ad.eval_float("RetirementTimeRemaining", 0.0)
            vacate_s = max(0.0, slot.matching_ad.eval_float("MachineMaxVacateTime", 0.0))
        return RunningJob(float(slot.free.amounts.of(CPUS)), ran_s, left_s, vacate_s)

    def _idle(self, slot: Slot, now: float) -> dict[str, Any]:
        """Idle times as this slot may see them: a slot that is not connected sees the startd's age."""
        settings, number = self.settings, slot.spec.slot_id
        unseen = int(now - self._start.started_at + settings.idle_boost_s)
        keyboard = self.seen.keyboard_idle if number <= settings.keyboard_slots else unseen
        console = self.seen.console_idle if number <= settings.console_slots else unseen
        return {"keyboard_idle": keyboard, "console_idle": console}

    def _share(self, made: dict[str, ClassAd]) -> None:
        """Put the shared attributes of all slots into the ads that were just made."""
        ads = {slot.short: made.get(slot.short) or slot.matching_ad or self._make(slot, []) for slot in self._slots}
        share_between_slots(ads, self.settings.slot_attrs)

    def _look(self) -> Look:
        now = self._start.world.wall()
        if self._input.were_used():
            self._last_use.used(now)
        settings = self.settings
        idle = self._last_use.look(now, settings.consoles, every_terminal=settings.every_terminal)
        return detect.look(time.localtime(now), idle)


def _has(slot: Slot, name: str) -> bool:
    """Whether the owner has an attribute of this name for the slot."""
    return any(own.lower() == name.lower() for own in slot.attributes)


def select(ads: Iterable[ClassAd], constraint: Patience | None) -> Iterator[ClassAd | None]:
    """The ads for which `constraint` is true; None in the place of each other, so that a caller may pause."""
    for ad in ads:
        value = True if constraint is None else constraint.eval(ad)
        yield ad if is_true(value) else None
