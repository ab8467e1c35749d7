"""The slots of this startd as they are now, and how to find one by its claim.

Nothing here decides: a `Slot` holds what `pool.slots` decides with, and `Slots` creates, finds and destroys them.

Source: HTCondor's manual, "Configuration for Execution Points": "Slots: where jobs run", "Dynamic Provisioning:
Partitionable and Dynamic Slots".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import trio

from daemons.base.sync import Signal
from pool.base.ids import ClaimId
from pool.classad import ClassAd, Member
from pool.cron_jobs.job_usage import JobUsage
from pool.power.states import SleepState
from pool.slots.claim import Claim, ClaimIds, Purse
from pool.slots.latch import Latch
from pool.slots.load import Cores
from pool.slots.policy import Policy
from pool.slots.provision.carve import Holding, carvable, carve, give_back, set_aside
from pool.slots.provision.resources import DISK, SWAP, Amounts
from pool.slots.provision.slot_types import SlotKind, SlotSpec
from pool.slots.state_machine import SlotState, State, begin
from protocol.messages.common import StopHow
from protocol.rpc.endpoints import Peer

if TYPE_CHECKING:
    from daemons.startd.starters.living import LivingStarter

NEVER: Final = math.inf
MEASURED: Final = (DISK, SWAP)
"""What there is more or less of while the startd runs."""


@dataclass(eq=False)
class Pending:
    """A better claim that waits until the slot's job has left; `granted` becomes true or false, then `settled`."""

    claim: Claim
    peer: Peer | None
    waiting: int = 0
    """How many requests wait for it: one, or two when the schedd asked again."""
    settled: trio.Event = field(default_factory=trio.Event)
    granted: bool = False
    reason: str = ""

    def settle(self, granted: bool, reason: str = "") -> None:
        """Let the waiting request go on."""
        self.granted, self.reason = granted, reason
        self.settled.set()


@dataclass(eq=False)
class Slot:
    """One slot. Deadlines are monotonic; NEVER when there is none."""

    name: str
    short: str
    spec: SlotSpec
    kind: SlotKind
    policy: Policy
    attributes: Mapping[str, Member]
    whole: Amounts
    free: Holding
    state: SlotState
    purse: Purse
    parent: Slot | None = None
    dslot_id: int = 0
    children: dict[int, Slot] = field(default_factory=dict)
    claim: Claim | None = None
    pending: Pending | None = None
    peer: Peer | None = None
    starter: LivingStarter | None = None
    usage: ClassAd | None = None
    sandbox_kib: int = 0
    """How much disk its job's sandbox takes, as of its starter's last report."""
    cores: Cores = field(default_factory=Cores)
    """How many cores its jobs keep busy."""
    used_s: float = 0.0
    """Processor seconds that are not in there yet."""
    device_use: JobUsage | None = None
    """What the job has used of the devices that monitors watch."""
    why: str = ""
    """Why the job must leave, in words for its user."""
    retirement_cap: float | None = None
    """What counts instead of the granted retirement: 0 for a release, infinity for a peaceful end."""
    hold: tuple[str, int, int] | None = None
    """The reason, code and subcode with which its job shall be held."""
    costly_polls: int = 0
    """How often the policy has cost too much with the claim's job."""
    soft_at: float = NEVER
    hard_at: float = NEVER
    kill_at: float = NEVER
    match_at: float = NEVER
    promised: str = ""
    """The offered claim id that the negotiator has given to a schedd, where it tells of that."""
    user_suspended: bool = False
    checkpoint_at: float = 0.0
    """When its job was last asked for a checkpoint, or began (wall clock); 0: none asks."""
    claims_coming: int = 0
    """How many requests wait for the backfill client to leave."""
    freed: Signal = field(default_factory=Signal)
    """Its job is gone, or its claim, or the claim's schedd."""
    lease_lost: bool = False
    """The schedd was silent too long: the claim ends, and is not held any more in its schedd's eyes."""
    job_starts: int = 0
    preemptions: int = 0
    children_made: int = 0
    aside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Free pieces of custom resources that are out of use for now."""
    latches: dict[str, Latch] = field(default_factory=dict)
    fixed_ad: ClassAd | None = None
    """The part of the ad that changes only with the configuration."""
    shape: tuple[tuple[ClassAd, Holding, object], ClassAd] | None = None
    """The part that stays while the slot is what it is, and what it was made of."""
    matching_ad: ClassAd | None = None
    """The ad that requests are matched with; None when something changed since it was made."""
    content: tuple[ClassAd | None, SlotState, int] | None = None
    """With which ad, where and in which second the owner's policy was last content."""

    @property
    def job(self) -> ClassAd | None:
        """The job that policy is about: the running one, else the one that the claim was made for.

        As soon as its starter has told of its program, the ad has what it uses, and JobState.
        """
        if self.claim is None:
            return None
        running = self.claim.activation
        if running is None:
            return self.claim.holder.job_ad
        if self.usage is None:
            return running.job_ad
        state = "Running" if running.suspended_since is None else "Suspended"
        return ClassAd({**dict(self.usage.own()), "JobState": state}, parent=running.job_ad)

    @property
    def busy(self) -> bool:
        """Whether a job is in the slot."""
        return self.claim is not None and self.claim.activation is not None

    def changed(self) -> None:
        """Forget what was derived from the slot as it was."""
        self.matching_ad = None
        if self.parent is not None:
            self.parent.matching_ad = None

    def next_deadline(self) -> float:
        """When something must happen to this slot by itself."""
        lease = self.claim.lease.expires_at if self.claim is not None and not self.lease_lost else NEVER
        return min(lease, self.soft_at, self.hard_at, self.kill_at, self.match_at)


class Slots:
    """All slots, by name and by claim."""

    def __init__(self, host: str, ids: ClaimIds, properties: Mapping[str, Mapping[str, ClassAd]]) -> None:
        self._host = host
        self._ids = ids
        self._by_name: dict[str, Slot] = {}
        self._by_claim: dict[str, Slot] = {}
        self._by_digest: dict[str, Slot] = {}
        self._offers: dict[str, Slot] = {}
        self.properties = properties
        """What is known of the pieces of custom resources, by resource and id."""
        self.ending: StopHow | None = None
        """How all claims end, once the startd is told to stop; nothing can be claimed from then on."""
        self.asleep = SleepState.NONE
        """The power state that the machine is about to enter, or in; nothing can be claimed until it has left that."""
        self.claim_ended = Signal()
        """Any claim is over."""
        self._offline: Mapping[str, Collection[str]] = {}

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Slot | None:
        """The slot of this name."""
        return self._by_name.get(name)

    def add(
        self,
        spec: SlotSpec,
        policy: Policy,
        attributes: Mapping[str, Member],
        *,
        now: float,
        prefix: str = "slot",
    ) -> Slot:
        """A slot of the configuration."""
        short = f"{prefix}{spec.slot_id}"
        slot = Slot(
            name=f"{short}@{self._host}",
            short=short,
            spec=spec,
            kind=spec.kind,
            policy=policy,
            attributes=attributes,
            whole=spec.amounts,
            free=Holding(spec.amounts, spec.ids),
            state=begin(now=now),
            purse=Purse(self._ids.new),
        )
        self._by_name[slot.name] = slot
        self.refill(slot)
        return slot

    def carve(self, parent: Slot, wanted: Amounts, *, now: float, job: ClassAd | None = None) -> Slot:
        """A dynamic slot out of `parent`; UserError when there is too little left that suits the job."""
        child_holding, rest = carve(parent.free, wanted, parent.whole, job, self.properties)
        parent.free = rest
        number = next(n for n in range(1, len(parent.children) + 2) if n not in parent.children)
        short = f"{parent.short}_{number}"
        child = Slot(
            name=f"{short}@{self._host}",
            short=short,
            spec=parent.spec,
            kind=SlotKind.DYNAMIC,
            policy=parent.policy,
            attributes=parent.attributes,
            whole=child_holding.amounts,
            free=child_holding,
            state=begin(now=now),
            purse=Purse(self._ids.new),
            parent=parent,
            dslot_id=number,
        )
        parent.children[number] = child
        parent.children_made += 1
        self._by_name[child.name] = child
        self.refill(parent)
        parent.changed()
        return child

    def coming_children(self, parent: Slot, count: int) -> list[str]:
        """The names of the next dynamic slots of `parent`."""
        free = (n for n in range(1, len(parent.children) + count + 1) if n not in parent.children)
        return [f"{parent.short}_{number}@{self._host}" for number, _ in zip(free, range(count), strict=False)]

    def destroy(self, child: Slot) -> None:
        """Give a dynamic slot back to its parent."""
        parent = child.parent
        if parent is None or parent.children.get(child.dslot_id) is not child:
            return
        del parent.children[child.dslot_id]
        del self._by_name[child.name]
        parent.free = give_back(parent.free, child.free)
        self._rest(parent)
        self._set_aside(parent)
        self._withdraw(child.purse, 0, child)
        self.refill(parent)
        parent.changed()

    def resize(self, slot: Slot, amounts: Amounts) -> bool:
        """A slot of the configuration has as much disk and swap as there is now; whether that is something new.

        What a claim was given stays its own: of a partitionable slot the rest changes, and any other slot waits for the
        end of its claim.
        """
        held = slot.kind is SlotKind.STATIC and slot.claim is not None
        if held or all(slot.whole.of(name) == amounts.of(name) for name in MEASURED):
            return False
        slot.whole = slot.whole.replaced(**{name: amounts.of(name) for name in MEASURED})
        self._rest(slot)
        self.refill(slot)
        slot.changed()
        return True

    def _rest(self, slot: Slot) -> None:
        """What dynamic slots leave of the disk and the swap: nothing, where they were given more than there is now."""
        given = {name: sum(child.free.amounts.of(name) for child in slot.children.values()) for name in MEASURED}
        left = {name: max(0, slot.whole.of(name) - given[name]) for name in MEASURED}
        slot.free = Holding(slot.free.amounts.replaced(**left), slot.free.ids)

    def take_offline(self, offline: Mapping[str, Collection[str]]) -> None:
        """These pieces are out of use, and no others: they are in no new dynamic slot."""
        self._offline = offline
        for slot in self:
            if slot.kind is SlotKind.PARTITIONABLE:
                self._set_aside(slot)
                self.refill(slot)
                slot.changed()

    def _set_aside(self, slot: Slot) -> None:
        if self._offline or slot.aside:
            slot.free, slot.aside = set_aside(slot.free, slot.aside, self._offline)

    # ---- claims and offers

    def holding(self, claim_id: str) -> Slot | None:
        """The slot that is held with this claim id."""
        return self._by_claim.get(claim_id)

    def offering(self, claim_id: str) -> Slot | None:
        """The slot that offers this claim id to whoever has it."""
        return self._offers.get(claim_id)

    def use_offer(self, slot: Slot, claim_id: str) -> None:
        """The id is somebody's now; another takes its place when there is use for one."""
        slot.purse.take(claim_id)
        self._offers.pop(claim_id, None)
        if slot.promised:
            slot.promised = ""
            slot.changed()
        self.refill(slot)

    def promise(self, slot: Slot, claim_id: str) -> None:
        """A schedd was given this id of the slot; nobody else is to be matched with it meanwhile."""
        slot.promised = claim_id
        slot.changed()

    def hold(self, slot: Slot, claim: Claim) -> None:
        """The claim has the slot."""
        slot.claim = claim
        self._by_claim[claim.claim_id] = slot
        self._by_digest[claim.digest] = slot
        self.refill(slot)  # a better claim needs an id to come with
        slot.changed()

    def let_go(self, slot: Slot) -> Claim | None:
        """The slot's claim is over."""
        claim, slot.claim = slot.claim, None
        if claim is not None:
            self._by_claim.pop(claim.claim_id, None)
            self._by_digest.pop(claim.digest, None)
        slot.changed()
        slot.freed.fire()
        self.claim_ended.fire()
        return claim

    def known_by(self, digest: str) -> Slot | None:
        """The slot whose claim was granted with an id of this digest."""
        return self._by_digest.get(digest)

    def renew_id(self, slot: Slot) -> ClaimId:
        """A fresh id for the slot's claim; the one that it had is void."""
        assert slot.claim is not None
        self._by_claim.pop(slot.claim.claim_id, None)
        slot.claim = replace(slot.claim, claim_id=self._ids.renewed(slot.claim.claim_id))
        self._by_claim[slot.claim.claim_id] = slot
        slot.changed()
        return slot.claim.claim_id

    def refill(self, slot: Slot) -> None:
        """Offer as many ids as the slot can use: what could be carved, or one."""
        wanted = carvable(slot.free.amounts) if slot.kind is SlotKind.PARTITIONABLE else 1
        self._withdraw(slot.purse, wanted, slot)

    def _withdraw(self, purse: Purse, wanted: int, slot: Slot) -> None:
        before = set(purse.offers)
        purse.fill(wanted)
        for gone in before.difference(purse.offers):
            self._offers.pop(gone, None)
        for one in purse.offers:
            self._offers[one] = slot

    def offers_of(self, slot: Slot, *, while_draining: bool = False) -> list[ClaimId]:
        """The ids that the slot offers; none while it cannot be had. A job that retires for a claim may do so for a
        better one; `while_draining`: jobs may come although the slot is Drained."""
        waited_for = slot.pending is not None and slot.state.state is not State.CLAIMED
        drained = slot.state.state is State.DRAINED and not while_draining
        closed = drained or slot.state.state is State.PREEMPTING or waited_for
        return [] if closed else list(slot.purse.offers)
