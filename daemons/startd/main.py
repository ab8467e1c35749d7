"""The startd: offers this host's slots to the pool, and runs jobs in them as far as their owner allows.

Two nurseries, one outliving the other: what jobs need (starters, claims, the backfill client), and the services. When
the startd is told to stop, the claims end as the order says; then the services, then it leaves. A task that fails
costs itself alone (`daemon_core.tasks`); only without its connections, or the zygote, the startd cannot be.

What it answers is `Startd.answers`, who acts on moves of slots is `Startd._hands`, what runs is `main`.

Source: HTCondor's manual, "Configuration for Execution Points", "Startd Daemon Configuration Options".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import trio

from daemons.base.linux import become_subreaper
from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.host.cgroup_trees import usable_trees
from daemons.host.cron_manager import CronManager
from daemons.libexec.power_state import slept_s
from daemons.startd.claims.claims import Claims
from daemons.startd.claims.coalesce import Coalesce
from daemons.startd.machine import java, plugins
from daemons.startd.machine.discover import Discovered, discover
from daemons.startd.machine.engine import EngineWatch
from daemons.startd.machine.findings import Findings
from daemons.startd.machine.settings import (
    StartdSettings,
    execute_directories,
    ip_of,
    machine_hardware,
    machine_layout,
    machine_part,
    read_settings,
    totals,
    with_offline,
)
from daemons.startd.machine.singularity import SingularityWatch
from daemons.startd.machine.thin_pool import watch_pool
from daemons.startd.machine.vm_trial import VirtualMachines
from daemons.startd.machine.vm_watch import VmWatch
from daemons.startd.owner.admin import Admin
from daemons.startd.owner.backfill import Backfill
from daemons.startd.owner.benchmarks import Benchmarks
from daemons.startd.owner.fetch_work import FetchWork
from daemons.startd.owner.hibernation import Hibernation
from daemons.startd.owner.sleep_watch import SleepWatch
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.deadlines import Deadlines, poll
from daemons.startd.slots.direct_attach import DirectAttach
from daemons.startd.slots.hands import Hands
from daemons.startd.slots.matches import Matches
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.publish import Publisher
from daemons.startd.slots.reports import Reports
from daemons.startd.slots.shares import Shares
from daemons.startd.slots.slot import Slots
from daemons.startd.slots.unused import end_when_unused
from daemons.startd.starters.births import MachineParts
from daemons.startd.starters.starters import Starters
from daemons.startd.starters.sweep import StarterRecords
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.config import Config
from pool.cron_jobs.jobs import BENCHMARKS, STARTD, read_table
from pool.cron_jobs.merge import Published
from pool.execute.enforcement import enforcement
from pool.execute.enforcement import said as enforcement_said
from pool.hosts.daemon_names import daemon_name
from pool.slots.claim import ClaimIds
from pool.slots.provision.carve import carvable, resource_names
from pool.slots.provision.custom import Custom
from pool.slots.provision.slot_types import Hardware, SlotKind
from pool.slots.state_machine import State
from protocol.messages.common import StopHow
from protocol.rpc.service import Answer

SECRET_BITS = 128
HOOKS_S = 5.0
"""How long a startd that stops waits for the hooks that tell of it."""
ADVERTISED_S = 20.0
"""How long the startd waits for a collector before it says that it is ready all the same."""
OF_SLOTS = frozenset(("TargetType", "WithinResourceLimits", "MyCurrentTime"))
"""What all slots' ads share, and the startd's own lacks."""


class Startd:
    """Everything that one startd has, put together."""

    def __init__(
        self, start: DaemonStart, nursery: trio.Nursery, records: StarterRecords, discovered: Discovered
    ) -> None:
        self.start = start
        self.records, self.disk = records, discovered.disk
        config = start.config
        self.machine_facts: dict[str, Any] = discovered.attributes()
        """What was found out about the machine by trying."""
        self.findings = Findings(self.machine_facts, self.learn)
        self.config_changed = Signal()
        self.inventories = discovered.inventories
        self.hardware, self.facts = machine_hardware(config, config.path("EXECUTE"), self.inventories, self.disk.kib)
        self.layout = machine_layout(config, self.hardware)
        self.resources = resource_names(custom.name for custom in self.hardware.customs)
        settings = read_settings(config, self.resources)
        customs = {custom.name: custom for custom in self.hardware.customs if custom.ids}
        self.slots = self._configured_slots(settings, customs)
        self.ads = self._ads(settings, customs)
        self.ads.virtual_machines = discovered.vm.room(self.hardware.memory)
        self.vms = VmWatch(start, self.findings, discovered.vm, self.have_vms)
        self.publisher = Publisher(self.slots, self.ads, start.adverts)
        self.deadlines = Deadlines(self.slots)
        tasks = Tasks(nursery, start.log)
        self.moves = Moves(start, tasks, self.slots, self.ads, self._hands())
        self.reports = Reports(start, self.slots, self.ads, self.moves)
        self.backfill = Backfill(start, tasks, self.slots, self.moves, records.trees)
        self.starters = self._starters(nursery, discovered)
        began_with = self.hardware, self.layout
        self.shares = Shares(start, self.slots, self.ads, self.disk, began_with, self.measured)
        self.engine = EngineWatch(start, self.findings, records, lambda: {one.pid for one in self.starters.living})
        self.singularity = SingularityWatch(start, self.findings)
        self.cron = self._cron_manager(STARTD)
        self.benchmark_jobs = self._cron_manager(BENCHMARKS)
        self.benchmarks = Benchmarks(tasks, self.benchmark_jobs, self.slots, self.ads, self.moves)
        self.matches = Matches(self.slots, self.moves, self.backfill.clear)
        self.sleep_watch, self.claims = self._claims(tasks)
        self.coalesce = Coalesce(self.slots, self.moves, self.claims)
        self.fetch = FetchWork(start, self.slots, self.ads, self.moves, self.claims)
        self.attach = DirectAttach(start, self.slots, self.ads)
        self.admin = Admin(start, self.slots, self.ads, self.moves, self.vms)
        self.hibernation = Hibernation(
            start, discovered.sleep, self.slots, self.ads, self.moves, self.publisher, self.config_changed
        )

    def answers(self) -> list[Answer]:
        """What this startd answers, beside what every daemon does."""
        return [
            *self.claims.answers(),
            *self.coalesce.answers(),
            *self.matches.answers(),
            *self.admin.answers(),
            *self.publisher.answers(),
        ]

    def _claims(self, tasks: Tasks) -> tuple[SleepWatch, Claims]:
        """Claims, and what notices a sleep for their leases."""
        watch = SleepWatch(self.start, self.slots, self.moves, (self.cron,), slept_s)
        hands = self.moves, self.starters, self.backfill.clear, watch.look
        return watch, Claims(self.start, tasks, self.slots, self.ads, *hands)

    def _configured_slots(self, settings: StartdSettings, customs: Mapping[str, Custom]) -> Slots:
        """The slots that the configuration divides the machine into."""
        start = self.start
        config, rng = start.config, start.world.rng
        ids = ClaimIds(start.address, int(start.started_at), lambda: f"{rng.getrandbits(SECRET_BITS):032x}")
        pieces = {name: {one: custom.piece(one) for one in custom.ids} for name, custom in customs.items()}
        slots = Slots(daemon_name(config.str("STARTD_NAME"), start.host), ids, pieces)
        for spec in self.layout.slots:
            prefix = config.str(f"SLOT_TYPE_{spec.type_id}_NAME_PREFIX", default="slot") or "slot"
            policy, attributes = settings.policy_of(spec), settings.attributes_of(spec)
            slots.add(spec, policy, attributes, now=start.world.wall(), prefix=prefix)
        return slots

    def _ads(self, settings: StartdSettings, customs: Mapping[str, Custom]) -> Ads:
        return Ads(
            self.start,
            self.slots,
            settings,
            self._base(self.start.config),
            self.records.trees,
            customs=customs,
            volumes=self.hardware.volumes,
            cron=self.cron_ads,
        )

    def _starters(self, nursery: trio.Nursery, discovered: Discovered) -> Starters:
        return Starters(
            self.start,
            nursery,
            self.records,
            self.reports,
            self.upcoming,
            self.upcoming_ad,
            MachineParts(
                self.hardware.memory,
                self.disk.store,
                discovered.refused,
                discovered.criu.program,
                discovered.vm.packed(),
            ),
            engine_trouble=lambda reason: self.engine.trouble(reason),
            vm_started=self.vms.started,
            image_trouble=lambda reason: self.singularity.trouble(reason),
        )

    def _base(self, config: Config) -> ClassAd:
        """What the ads of all slots share."""
        base = machine_part(self.start, self.hardware, self.facts, len(self.slots))
        base.update(self.machine_facts)
        base.update(self._enforcement(config))
        return base

    def _hands(self) -> Hands:
        """Whom moves of slots concern. Most of them move slots in their turn, so they are made after `moves`."""
        return Hands(
            changed=self.publisher.changed,
            deadline_moved=self.deadlines.moved,
            evicting=lambda slot: self.fetch.evicting(slot),
            kill_starter=lambda starter: self.starters.kill(starter),
            dismiss_starter=lambda slot_name: self.starters.dismiss(slot_name),
            client_runs=lambda: self.backfill.runs,
            start_client=lambda slot: self.backfill.start_client(slot),
            kill_client=lambda slot: self.backfill.kill_client(slot),
            run_benchmarks=lambda slot: self.benchmarks.begin(slot),
            drained=lambda: self.admin.drained(),
        )

    def cron_ads(self) -> list[Published]:
        """What benchmarks and cron jobs have said, in this order."""
        return self.benchmark_jobs.ads + self.cron.ads

    def _enforcement(self, config: Config) -> dict[str, str]:
        """How jobs are held to their limits, which the log says too where it is weaker than it might be."""
        policy = config.str("CGROUP_MEMORY_LIMIT_POLICY").strip().lower()
        how = enforcement(self.records.trees.controllers, limits_memory=policy not in ("", "none"))
        if weaker := enforcement_said(how):
            self.start.log.always(weaker)
        return how

    def _cron_manager(self, name: str) -> CronManager:
        table = read_table(self.start.config, name)
        return CronManager(self.start, table, scope=lambda: self.ads.base, published=self._cron_said)

    def _cron_said(self, changed: bool, send: bool) -> None:
        """A program has described the machine: the policy sees it now, the pool when it is to be sent."""
        if changed:
            self.ads.cron_changes += send
            self.moves.facts_changed()
            if any(one.job.metrics for one in self.ads.cron()):
                self.reports.devices_used()
        if send:
            self.publisher.all_changed()

    def upcoming(self, count: int) -> list[str]:
        """The slots that will want a starter next, the likeliest first."""
        names: list[str] = []
        for slot in self.slots:
            if len(names) >= count or self.moves.stopping:
                break
            if slot.state.state not in (State.OWNER, State.UNCLAIMED, State.MATCHED):
                continue
            if slot.kind is SlotKind.PARTITIONABLE:
                names += self.slots.coming_children(slot, min(count - len(names), carvable(slot.free.amounts)))
            else:
                names.append(slot.name)
        return names

    def upcoming_ad(self) -> ClassAd | None:
        """The ad of the slot that will want a starter next, or that has it as a part; None when there is none."""
        for slot in self.slots:
            if slot.state.state in (State.OWNER, State.UNCLAIMED, State.MATCHED):
                return self.ads.matching(slot)
        return None

    def own_ad(self) -> ClassAd:
        """The ad of the daemon itself: what the machine has, and what could not be set up."""
        ad = ClassAd({name: self.ads.base[name] for name in self.ads.base if name not in OF_SLOTS})
        ad.update(self.ads.machine())
        busy = [slot for slot in self.slots if slot.busy]
        ad["MyType"], ad["NumSlots"], ad["NumBusySlots"] = "StartD", len(self.slots), len(busy)
        ad["TotalBusyCpus"] = sum(float(slot.free.amounts.of("Cpus")) for slot in busy)
        ad["NumStarters"] = len(self.starters.living)
        for number, reason in self.layout.broken.items():
            ad[f"slot_type{number}BrokenReason"] = reason
        return ad

    def reconfigured(self, config: Config) -> None:
        """Take the new knobs; the slots themselves stay as they are."""
        settings = read_settings(config, self.resources)
        found = {
            slot: (settings.policy_of(slot.spec), settings.attributes_of(slot.spec)) for slot in self.slots
        }  # an expression that is wrong leaves everything as it was
        for slot, (policy, attributes) in found.items():
            slot.policy, slot.attributes, slot.fixed_ad = policy, attributes, None
        self.ads.settings = settings
        self.hardware = with_offline(self.hardware, self.inventories, config)
        self.slots.take_offline({custom.name: custom.offline for custom in self.hardware.customs if custom.ids})
        self.machine_facts.pop(plugins.METHODS, None)
        self.ads.base = self._base(config)
        self.config_changed.fire()
        self.engine.reconfigured()
        self.singularity.reconfigured()
        self.starters.forget_settings()
        self.fetch.reconfigured(config)
        self.attach.reconfigured()
        self.cron.reconfigure(read_table(config, STARTD))
        self.benchmark_jobs.reconfigure(read_table(config, BENCHMARKS))
        self.moves.evaluate_all()
        self.publisher.all_changed()

    def learn(self, facts: Mapping[str, Any]) -> None:
        """Something was found out about the machine, None for what it has no more: its policy sees it, and the pool."""
        known = {name: value for name, value in facts.items() if value is not None}
        for where in (self.machine_facts, self.ads.base):
            where.update(known)
            for name in facts.keys() - known.keys():
                where.pop(name, None)
        for slot in self.slots:
            slot.fixed_ad = None
        self.moves.facts_changed()
        self.publisher.all_changed()

    def have_vms(self, found: VirtualMachines) -> None:
        """Virtual machines can be run in this way from now on, or cannot for the time being."""
        self.ads.virtual_machines = found.room(self.hardware.memory)
        self.starters.run_vms_by(found.packed())
        self.publisher.all_changed()

    def measured(self, found: Hardware) -> None:
        """There is as much disk and swap as this now, which the slots have been given."""
        self.hardware = replace(self.hardware, disks=found.disks, volumes=found.volumes, swap=found.swap)
        self.ads.volumes = found.volumes
        self.learn(totals(found))

    def keep_running(self, tasks: Tasks) -> None:
        """Start everything that goes on as long as the startd serves."""
        start, found = self.start, self.findings
        tasks.keep(start.adverts.run)
        tasks.keep(poll, self.moves, self.sleep_watch.look)
        tasks.keep(self.deadlines.run, self.moves.wake)
        tasks.keep(end_when_unused, start, self.slots, self.ads.settings.polling_s)
        tasks.keep(java.probe, start, found)
        tasks.keep(plugins.keep_asking, start, found, self.config_changed)
        tasks.keep(watch_pool, start, self.disk.store, self.ads, found)
        parts = (self.cron, self.fetch, self.benchmark_jobs, self.singularity, self.engine, self.vms, self.shares)
        for part in (*parts, self.publisher, self.attach, self.hibernation, self.moves.history):
            tasks.keep(part.run)

    async def remove_disk(self) -> None:
        """Remove what sandboxes were made of, when there are none any more."""
        try:
            await self.start.world.threads.run_sync(self.disk.end)
        except (PoolError, OSError) as error:
            self.start.log.always(f"What sandboxes were made of stays: {error}")

    async def end_claims(self, how: StopHow) -> None:
        """Return when no slot is claimed any more."""
        self.moves.shut_down(how)
        await self.slots.claim_ended.until(lambda: all(slot.claim is None for slot in self.slots))


async def main(start: DaemonStart, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve until told to stop, then end the claims and leave."""
    become_subreaper()
    async with trio.open_nursery() as connections:
        records = StarterRecords(start.run_dir, usable_trees(start.config.str("BASE_CGROUP", default="htcondor")))
        # First of all: what an earlier life left takes disk and processes that would be counted as others'.
        await sweep(start, records)
        discovered = await start.world.threads.run_sync(discover, start.config, ip_of(start.address))
        startd = Startd(start, connections, records, discovered)
        start.service.offer(startd.answers())
        start.describe(startd.own_ad)
        start.on_reconfigure(startd.reconfigured)
        for line in (*discovered.said(), *startd.layout.broken.values()):
            start.log.always(line)
        await start.world.threads.run_sync(startd.backfill.sweep)
        async with trio.open_nursery() as services:
            await services.start(start.serve)
            startd.moves.evaluate_all()
            startd.publisher.all_changed()
            # Before it says that it is ready: whoever waits for that finds the slots at the collector.
            startd.publisher.put_now()
            startd.keep_running(Tasks(services, start.log))
            await services.start(startd.starters.run)
            with trio.move_on_after(ADVERTISED_S):
                await start.adverts.reached()
            task_status.started()
            await _until_stopped(start, startd)
            services.cancel_scope.cancel()
        await startd.remove_disk()
        connections.cancel_scope.cancel()


async def sweep(start: DaemonStart, records: StarterRecords) -> None:
    """Remove what an earlier life left, before what is free is measured."""
    directories = execute_directories(start.config)
    for problem in await start.world.threads.run_sync(records.clean_all, sorted(directories)):
        start.log.always(f"Left behind by an earlier life: {problem}")


async def _until_stopped(start: DaemonStart, startd: Startd) -> None:
    """Wait for the order to stop and carry it out; a more urgent one may overtake it."""
    how = await start.stopping()
    while True:
        with trio.CancelScope() as patience:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_when_urgent, start, how, patience)
                await startd.end_claims(how)
                nursery.cancel_scope.cancel()
        if not patience.cancelled_caught or start.stop_how is None:
            break
        how = start.stop_how
    with trio.move_on_after(HOOKS_S):
        await startd.fetch.settled()
    await startd.backfill.stop()
    await startd.starters.end_all()


async def _cancel_when_urgent(start: DaemonStart, how: StopHow, patience: trio.CancelScope) -> None:
    more_urgent = {StopHow.PEACEFUL: StopHow.GRACEFUL, StopHow.GRACEFUL: StopHow.FAST}.get(how)
    if more_urgent is not None:
        await start.stopping(more_urgent)
        patience.cancel()
