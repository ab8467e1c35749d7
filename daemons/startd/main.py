"""The startd: offers this host's slots to the pool, and runs jobs in them as far as their owner allows.

Three nurseries, each outliving the next: connections and what is said on them, starters, and the services. When the
startd is told to stop, the claims end as the order says; then it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from daemons.cron_manager import CronManager
from daemons.linux import become_subreaper
from daemons.run import DaemonStart
from daemons.startd import java, plugins, singularity
from daemons.startd.admin import Admin
from daemons.startd.ads import Ads
from daemons.startd.backfill import Backfill
from daemons.startd.claims import Claims
from daemons.startd.coalesce import Coalesce
from daemons.startd.deadlines import Deadlines, poll
from daemons.startd.discover import Discovered, discover
from daemons.startd.engine import EngineWatch
from daemons.startd.fetch_work import FetchWork
from daemons.startd.matches import Matches
from daemons.startd.moves import Moves
from daemons.startd.publish import Publisher
from daemons.startd.reports import Reports
from daemons.startd.settings import (
    execute_directories,
    machine_hardware,
    machine_layout,
    machine_part,
    read_settings,
    with_offline,
)
from daemons.startd.slot import Slots
from daemons.startd.starters import Starters
from daemons.startd.sweep import Records
from daemons.startd.thin_pool import watch_pool
from daemons.startd.unused import end_when_unused
from daemons.starter.cgroup import usable_trees
from pool.classad import ClassAd
from pool.config import Config
from pool.cron_jobs.jobs import BENCHMARKS, STARTD, read_table
from pool.daemon_names import daemon_name
from pool.errors import PoolError
from pool.execute.enforcement import enforcement
from pool.execute.enforcement import said as enforcement_said
from pool.slots.carve import carvable, resource_names
from pool.slots.claim import ClaimIds
from pool.slots.machine import State
from pool.slots.slot_types import SlotKind
from protocol.messages.collector import QueryAds
from protocol.messages.common import StopHow

SECRET_BITS = 128
HOOKS_S = 5.0
"""How long a startd that stops waits for the hooks that tell of it."""
ADVERTISED_S = 20.0
"""How long the startd waits for a collector before it says that it is ready all the same."""
OF_SLOTS = frozenset(("TargetType", "WithinResourceLimits", "MyCurrentTime"))
"""What all slots' ads share, and the startd's own lacks."""


class Startd:
    """Everything that one startd has, put together."""

    def __init__(self, start: DaemonStart, nursery: trio.Nursery, records: Records, discovered: Discovered) -> None:
        self.start = start
        self.records, self.disk = records, discovered.disk
        config = start.config
        self.execute = config.path("EXECUTE")
        self.machine_facts: dict[str, Any] = discovered.attributes()
        """What was found out about the machine by trying."""
        self.plugins_changed = trio.Event()
        self.inventories = discovered.inventories
        self.hardware, self.facts = machine_hardware(config, self.execute, self.inventories, self.disk.kib)
        self.layout = machine_layout(config, self.hardware)
        self.resources = resource_names(custom.name for custom in self.hardware.customs)
        rng = start.world.rng
        ids = ClaimIds(start.address, int(start.started_at), lambda: f"{rng.getrandbits(SECRET_BITS):032x}")
        settings = read_settings(config, self.resources)
        customs = {custom.name: custom for custom in self.hardware.customs if custom.ids}
        self.slots = Slots(daemon_name(start.config.str("STARTD_NAME"), start.host), ids)
        self.slots.properties = {
            name: {one: custom.piece(one) for one in custom.ids} for name, custom in customs.items()
        }
        for spec in self.layout.slots:
            prefix = config.str(f"SLOT_TYPE_{spec.type_id}_NAME_PREFIX", default="slot") or "slot"
            policy, attributes = settings.policy_of(spec), settings.attributes_of(spec)
            self.slots.add(spec, policy, attributes, now=start.world.wall(), prefix=prefix)
        base = machine_part(start, self.hardware, self.facts, len(self.slots))
        base.update(self.machine_facts)
        base.update(self._enforcement(config))
        self.ads = Ads(start, self.slots, settings, base, records.trees)
        self.ads.customs = customs
        self.ads.volumes = self.hardware.volumes
        self.publisher = Publisher(self.slots, self.ads, start.adverts)
        self.moves = Moves(start, nursery, self.slots, self.ads, self.publisher.changed)
        self.reports = Reports(start, self.slots, self.ads, self.moves)
        self.backfill = Backfill(start, nursery, self.slots, self.moves, records.trees)
        self.starters = Starters(
            start,
            nursery,
            records,
            records.trees,
            self.reports,
            self.upcoming,
            machine_memory_mb=self.hardware.memory,
            store=self.disk.store,
            refused=discovered.refused,
        )
        self.moves.starters = self.starters
        self.engine = EngineWatch(self)
        self.starters.engine_trouble = self.engine.trouble
        self.deadlines = Deadlines(self.slots, self.moves)
        self.cron = self._cron_manager(STARTD)
        self.benchmarks = self._cron_manager(BENCHMARKS)
        self.ads.cron = lambda: self.benchmarks.ads + self.cron.ads
        self.moves.benchmark_programs = self.benchmarks.run_all
        claims = Claims(start, self.slots, self.ads, self.moves, self.starters)
        claims.answer_on(start.service)
        Matches(self.slots, self.moves).answer_on(start.service)
        self.fetch = FetchWork(start, self.slots, self.ads, self.moves, claims)
        Coalesce(self.slots, self.moves, claims).answer_on(start.service)
        Admin(start, self.slots, self.ads, self.moves).answer_on(start.service)
        start.service.on(QueryAds, self.publisher.answer)
        start.describe(self.own_ad)
        start.on_reconfigure(self.reconfigured)

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
        self.ads.base = machine_part(self.start, self.hardware, self.facts, len(self.slots))
        self.machine_facts.pop(plugins.METHODS, None)
        self.ads.base.update(self.machine_facts)
        self.ads.base.update(self._enforcement(config))
        self.plugins_changed.set()
        self.engine.reconfigured()
        self.starters.forget_settings()
        self.fetch.reconfigured(config)
        self.cron.reconfigure(read_table(config, STARTD))
        self.benchmarks.reconfigure(read_table(config, BENCHMARKS))
        self.moves.evaluate_all()
        self.publisher.all_changed()

    def learn(self, facts: Mapping[str, Any]) -> None:
        """Something was found out about the machine: its policy sees it, and the pool."""
        self.machine_facts.update(facts)
        self.ads.base.update(facts)
        for slot in self.slots:
            slot.fixed_ad = None
        self.moves.facts_changed()
        self.publisher.all_changed()

    async def remove_disk(self) -> None:
        """Remove what sandboxes were made of, when there are none any more."""
        try:
            await self.start.world.threads.run_sync(self.disk.end)
        except (PoolError, OSError) as error:
            self.start.log.always(f"What sandboxes were made of stays: {error}")

    async def end_claims(self, how: StopHow) -> None:
        """Return when no slot is claimed any more."""
        self.moves.shut_down(how)
        while any(slot.claim is not None for slot in self.slots):
            await self.moves.claim_ended.wait()


async def main(start: DaemonStart, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve until told to stop, then end the claims and leave."""
    become_subreaper()
    async with trio.open_nursery() as connections:
        records = Records(start.run_dir, usable_trees(start.config.str("BASE_CGROUP", default="htcondor")))
        await sweep(start, records)
        discovered = await start.world.threads.run_sync(discover, start.config)
        startd = Startd(start, connections, records, discovered)
        for line in (*discovered.said(), *startd.layout.broken.values()):
            start.log.always(line)
        await start.world.threads.run_sync(startd.backfill.sweep)
        async with trio.open_nursery() as services:
            await services.start(start.serve)
            startd.moves.evaluate_all()
            startd.publisher.all_changed()
            startd.publisher.put_now()
            services.start_soon(start.adverts.run)
            services.start_soon(poll, startd.moves)
            services.start_soon(startd.cron.run)
            services.start_soon(startd.fetch.run)
            services.start_soon(startd.benchmarks.run)
            services.start_soon(java.probe, startd)
            services.start_soon(singularity.probe, startd)
            services.start_soon(startd.engine.run)
            services.start_soon(plugins.keep_asking, startd)
            services.start_soon(startd.deadlines.run)
            services.start_soon(watch_pool, startd)
            services.start_soon(end_when_unused, start, startd.slots, startd.ads.settings.polling_s)
            services.start_soon(startd.publisher.run)
            services.start_soon(startd.moves.history.run)
            await services.start(startd.starters.run)
            with trio.move_on_after(ADVERTISED_S):
                await start.adverts.reached()
            task_status.started()
            await _until_stopped(start, startd)
            services.cancel_scope.cancel()
        await startd.remove_disk()
        connections.cancel_scope.cancel()


async def sweep(start: DaemonStart, records: Records) -> None:
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
