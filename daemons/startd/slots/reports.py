"""What is said of running jobs: by their starters, and by monitors of their devices."""

from __future__ import annotations

import trio

from daemons.daemon_core.run import DaemonStart
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.effects import job_name, say_started
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.outlook import WORKLIFE_S
from daemons.startd.slots.slot import Slot, Slots
from daemons.startd.starters.living import LivingStarter
from pool.classad import ClassAd
from pool.slots.state_machine import Activity, State
from protocol.messages.offers import ClaimChange
from protocol.messages.starter import ActivationOver, DeviceUse, GoesOn, JobInfo, MayGoOn


class Reports:
    """The listener of the starters."""

    def __init__(self, start: DaemonStart, slots: Slots, ads: Ads, moves: Moves) -> None:
        self._start = start
        self._slots = slots
        self._ads = ads
        self._moves = moves

    def job_info(self, starter: LivingStarter, info: JobInfo) -> None:
        """What the job uses now; policy may have something to say about it."""
        slot = self._slot_of(starter, info.activation)
        if slot is not None:
            slot.usage, slot.sandbox_kib = info.ad, info.sandbox_kib
            slot.changed()
            if starter.rests:  # it tells its schedd nothing
                self._moves.holders.tell_used(slot, info.ad)
            self._moves.evaluate(slot)

    def devices_used(self) -> None:
        """A monitor has looked at devices: their jobs are told, for the job's own ad."""
        for slot in self._slots:
            if slot.device_use is None or slot.starter is None or slot.claim is None or slot.claim.activation is None:
                continue
            if slot.device_use.look(self._ads.cron(), self._ads.matching(slot)):
                used = ClassAd(slot.device_use.attributes())
                slot.starter.tell(DeviceUse(activation=slot.claim.activation.activation, ad=used))

    def activation_over(self, starter: LivingStarter, over: ActivationOver) -> None:
        """The job is gone, its sandbox too; the starter may have the claim's next job."""
        slot = self._slot_of(starter, over.activation)
        if slot is not None:
            say_started(self._start.log, slot.short, starter, over.activation, job_name(slot))
            self._start.log.always(f"{slot.short}: job {job_name(slot)} is over. {over.reason}".rstrip())
            wall = self._start.world.wall()
            self._ads.statistics.ran(over.ran_s, wall, received=over.received, sent=over.sent)
            self._moves.job_gone(slot)

    def may_go_on(self, starter: LivingStarter, asked: MayGoOn) -> GoesOn:
        """Whether a job that has made a checkpoint starts again: where the slot would take no other job, it leaves."""
        slot = self._slot_of(starter, asked.activation)
        if slot is None or not self._start.config.bool("CHECK_REACTIVATE_AFTER_CHECKPOINT"):
            return GoesOn()
        why_not = self._closing(slot)
        if why_not:
            self._start.log.always(f"{slot.short}: job {job_name(slot)} leaves after its checkpoint: {why_not}")
        return GoesOn(why_not=why_not)

    def _closing(self, slot: Slot) -> str:
        claim = slot.claim
        assert claim is not None
        assert claim.activation is not None
        if slot.state.state is not State.CLAIMED or slot.state.activity is Activity.RETIRING or self._moves.stopping:
            return f"{slot.short} is {slot.state.state.value}/{slot.state.activity.value}"
        worklife = slot.policy.number("CLAIM_WORKLIFE", self._ads.matching(slot), claim.activation.job_ad, WORKLIFE_S)
        return "the claim takes no more jobs" if claim.worklife_over(worklife, now=trio.current_time()) else ""

    def starter_gone(self, starter: LivingStarter, problems: list[str]) -> None:
        """A starter ended and was swept."""
        for slot in self._slots:
            if slot.starter is starter:
                slot.starter = None
                if slot.busy:
                    self._start.log.always(f"{slot.short}: the starter {starter.pid} of {job_name(slot)} is gone.")
                    self._moves.holders.tell(slot, ClaimChange.STARTER_GONE, "the starter ended without a report")
                    self._moves.job_gone(slot)

    def _slot_of(self, starter: LivingStarter, activation: str) -> Slot | None:
        slot = self._slots.get(starter.slot_name)
        if slot is None or slot.starter is not starter:
            slot = next((one for one in self._slots if one.starter is starter), None)
        running = slot.claim.activation if slot is not None and slot.claim is not None else None
        return slot if running is not None and running.activation == activation else None
