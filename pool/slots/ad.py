"""The slot's ad: what the pool sees of a slot, under HTCondor's names.

An ad is made of the machine's part, which is the same for all slots and changes only with the configuration, and of the
slot's own. Amounts are what is free to use: a partitionable slot shows what is left of it. The private half holds claim
ids: `ClaimId`, or for a partitionable slot `ClaimIds`, each good for one dynamic slot.

Source: HTCondor's manual, "Machine ClassAd Attributes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pool.base.ids import ClaimId
from pool.classad import UNDEFINED, ClassAd, Expr, expr
from pool.slots.claim import Claim
from pool.slots.provision.carve import Holding
from pool.slots.provision.custom import Custom
from pool.slots.provision.detect import Look
from pool.slots.provision.resources import CPUS, DISK, MEMORY, SWAP, Amount, Amounts
from pool.slots.provision.slot_types import SlotKind
from pool.slots.state_machine import SlotState, State

UNMATCHABLE: Final = frozenset((State.MATCHED, State.PREEMPTING, State.DRAINED))
"""States whose slots advertise false Requirements."""

ABILITIES: Final[Mapping[str, bool]] = {
    "HasFileTransfer": True,
    "HasJobDeferral": True,
    "HasPerFileEncryption": True,
    "HasReconnect": True,
    "HasSelfCheckpointTransfers": True,
    "HasTDP": True,
    "HasTransferInputRemaps": True,
    "HasOsUser": True,
    "HasStartDaemonAd": True,
    "HasVM": False,
}
"""What every starter can do."""

JOB_ATTRS: Final = ("JobUniverse", "NiceUser", "ExecutableSize", "ImageSize")
"""Attributes of the running job that its slot shows, besides those of STARTD_JOB_ATTRS."""

CHILD_ATTRS: Final = (
    "AccountingGroup",
    "Activity",
    "Cpus",
    "CurrentRank",
    "Disk",
    "DSlotId",
    "EnteredCurrentState",
    "Memory",
    "Name",
    "RemoteOwner",
    "RemoteUser",
    "RetirementTimeRemaining",
    "State",
)
"""What a partitionable slot shows of its dynamic slots, in lists named Child..."""

_NETWORKED: Final = "WantJobNetworking"
"""A job that says false has no need of the network."""
_START: Final = expr("Start && WithinResourceLimits")
_NEVER: Final = expr("false")
_NAMES: Final = {CPUS: "Cpus", MEMORY: "Memory", DISK: "Disk", SWAP: "VirtualMemory"}


class SlotView(NamedTuple):
    """All that the ad of one slot shows. Times are wall clock but for `now_monotonic`."""

    name: str
    slot_id: int
    dslot_id: int
    type_id: int
    kind: SlotKind
    free: Holding
    whole: Amounts
    state: SlotState
    start: Expr
    now: float
    now_monotonic: float = 0.0
    claim: Claim | None = None
    pending: Claim | None = None
    in_cgroup: bool = False
    """Whether the job is in a control group of its own."""
    usage: ClassAd | None = None
    """What the running job was last seen to use."""
    retirement_left_s: float = 0.0
    promised: bool = False
    """Whether a schedd was given the slot, and is expected to claim it."""
    no_scratch: bool = False
    """Whether there is nothing that a job's sandbox could be made of."""
    draining: bool = False
    accept_while_draining: bool = False
    load: float = 0.0
    cores: float | None = None
    """How many cores the job keeps busy now; None where the owner has another measure of it."""
    job_starts: int = 0
    preemptions: int = 0
    extra: Mapping[str, Any] = MappingProxyType({})
    job_attrs: Sequence[str] = ()
    customs: Mapping[str, Custom] = MappingProxyType({})
    """The custom resources whose pieces have names."""
    own_ids: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Which pieces are the slot's, whether free or not."""
    children: Sequence[ClassAd] = ()
    child_attrs: Sequence[str] = CHILD_ATTRS
    dynamic_made: int = 0


def for_offline(limits: Expr, *, possible: bool) -> Expr:
    """WithinResourceLimits where jobs have no network: only those that say so run, and none where that cannot be."""
    return expr(f"({limits.text}) && {f'TARGET.{_NETWORKED} =?= false' if possible else 'false'}")


def limits_expr(names: Iterable[str]) -> Expr:
    """WithinResourceLimits: whether what is free suffices for what TARGET asks for."""
    parts = []
    for name in names:
        if name == SWAP:
            continue
        default = 1 if name in _NAMES else 0
        if default:
            parts.append(f"MY.{name} > 0")
        parts.append(f"(TARGET.Request{name} ?: {default}) <= MY.{name}")
    return expr(" && ".join(parts))


def shape_ad(base: ClassAd, view: SlotView) -> ClassAd:
    """What of a slot's ad depends on what the slot is, and not on what it does: one that is not partitionable keeps it
    from job to job. `base` is the machine's part, shared by all its slots."""
    ad = base.copy()
    _put_identity(ad, view)
    _put_amounts(ad, view.free, view.whole)
    for name, ids in (view.own_ids or view.free.ids).items():
        if ids:
            _put_pieces(ad, view, name, ids)
    return ad


def slot_ad(base: ClassAd, view: SlotView, shape: ClassAd | None = None) -> ClassAd:
    """The public ad of a slot; `shape`: what `shape_ad` made of the same, where it is kept."""
    ad = shape_ad(base, view) if shape is None else shape.copy()
    _put_state(ad, view)
    ad["Start"] = view.start
    closed = view.promised or view.no_scratch or (view.draining and not view.accept_while_draining)
    elsewhere = view.state.state in UNMATCHABLE and not (view.state.state is State.DRAINED and view.draining)
    ad["Requirements"] = _NEVER if elsewhere or closed else _START
    if view.claim is not None:
        _put_claim(ad, view.claim, view)
    if view.pending is not None:
        ad["PreemptingUser"] = ad["PreemptingOwner"] = view.pending.holder.submitter
        ad["PreemptingRank"] = view.pending.rank
    if view.kind is SlotKind.PARTITIONABLE:
        _put_children(ad, view)
    ad.update(view.extra)
    return ad


def look_attributes(look: Look, *, keyboard_idle: int, console_idle: int | None) -> dict[str, Any]:
    """What is going on at the machine, as attributes; idle times as this slot may see them."""
    seen: dict[str, Any] = {
        "TotalLoadAvg": look.load,
        "KeyboardIdle": keyboard_idle,
        "ClockMin": look.clock_min,
        "ClockDay": look.clock_day,
    }
    if console_idle is not None:
        seen["ConsoleIdle"] = console_idle
    return seen


def private_ad(name: str, kind: SlotKind, offers: Sequence[ClaimId]) -> ClassAd:
    """The half of the ad that only the negotiator is given."""
    ad = ClassAd({"MyType": "Machine", "Name": name})
    if kind is SlotKind.PARTITIONABLE:
        ad["ClaimIds"] = [str(one) for one in offers]
    elif offers:
        ad["ClaimId"] = str(offers[0])
    return ad


def open_to(ad: ClassAd) -> ClassAd:
    """The ad of a slot that is closed to all others, as the one it is promised to has to see it."""
    return ClassAd({"Requirements": _START}, parent=ad)


def share_between_slots(ads: Mapping[str, ClassAd], names: Iterable[str]) -> None:
    """STARTD_SLOT_ATTRS: put each slot's value of these attributes into every slot's ad as slot<N>_<name>.

    `ads` are by the slot's name without its host.
    """
    shared = {f"{slot.replace('.', '_')}_{name}": ad[name] for slot, ad in ads.items() for name in names if name in ad}
    for ad in ads.values():
        for name, value in shared.items():
            ad[name] = value


def number(amount: Amount) -> int | float:
    """An amount as it is shown."""
    return float(amount) if isinstance(amount, Fraction) else amount


def _put_identity(ad: ClassAd, view: SlotView) -> None:
    ad["Name"] = view.name
    ad["SlotID"] = view.slot_id
    ad["SlotTypeID"] = view.type_id if view.kind is not SlotKind.DYNAMIC else -max(1, view.type_id)
    ad["SlotType"] = view.kind.value
    if view.kind is SlotKind.PARTITIONABLE:
        ad["PartitionableSlot"] = True
        ad["NumDynamicSlots"] = len(view.children)
        ad["DynamicSlotsMade"] = view.dynamic_made
    elif view.kind is SlotKind.DYNAMIC:
        ad["DynamicSlot"] = ad["PslotRollupInformation"] = True
        ad["DSlotId"] = view.dslot_id
        ad["ParentSlotId"] = view.slot_id


def _put_amounts(ad: ClassAd, free: Holding, whole: Amounts) -> None:
    for name, amount in free.amounts.items():
        ad[name] = number(amount)
        ad[f"TotalSlot{name}"] = number(whole.of(name))


def _put_pieces(ad: ClassAd, view: SlotView, name: str, ids: tuple[str, ...]) -> None:
    """Which pieces of a custom resource the slot has, what is known of each, and which a job can still be given."""
    ad[f"Assigned{name}"] = ",".join(ids)
    custom = view.customs.get(name)
    if custom is None:
        return
    free = ", ".join(custom.piece_name(one) for one in dict.fromkeys(view.free.ids.get(name, ())))
    ad[f"Available{name}"] = expr(f"{{ {free} }}")
    pieces = {custom.piece_name(one): custom.piece(one) for one in ids}
    for piece_name, piece in pieces.items():
        ad[piece_name] = piece
    if view.kind is not SlotKind.PARTITIONABLE:
        for fact, value in shared_facts(list(pieces.values())).items():
            ad[f"{name}_{fact}"] = value


def shared_facts(pieces: Sequence[ClassAd]) -> dict[str, Any]:
    """The properties in which all pieces agree, but for their ids."""
    first, *others = pieces
    return {
        fact: value
        for fact, value in first.items()
        if fact.lower() != "id" and all(fact in one and one[fact] == value for one in others)
    }


def _put_state(ad: ClassAd, view: SlotView) -> None:
    state, claim = view.state, view.claim
    totals = state.totals(now=view.now).items()
    ad.update(
        {
            "State": state.state.value,
            "Activity": state.activity.value,
            "EnteredCurrentState": int(state.entered_state),
            "EnteredCurrentActivity": int(state.entered_activity),
            "MyCurrentTime": int(view.now),
            **{f"TotalTime{in_.value}{activity.value}": int(spent) for (in_, activity), spent in totals if spent >= 1},
            "RetirementTimeRemaining": int(min(view.retirement_left_s, 2**31 - 1)),
            "AcceptedWhileDraining": claim is not None and claim.while_draining,
            **({"Draining": True} if view.draining else {}),
            "CondorLoadAvg": round(view.load, 2),
            "JobStarts": view.job_starts,
            "JobPreemptions": view.preemptions,
            "CurrentRank": claim.rank if claim is not None else 0.0,
        }
    )


def _put_claim(ad: ClassAd, claim: Claim, view: SlotView) -> None:
    holder = claim.holder
    job = claim.activation.job_ad if claim.activation is not None else holder.job_ad
    ad.update(
        {
            "RemoteUser": job.eval_str("User") or holder.submitter,
            "RemoteOwner": holder.submitter,
            "RemoteScheddName": holder.schedd_name,
            "ClientMachine": holder.client or holder.schedd_name.rpartition("@")[2],
            "PublicClaimId": claim.claim_id.public(),
            "TotalClaimRunTime": int(claim.ran_s(now=view.now_monotonic)),
            "TotalClaimSuspendTime": int(claim.paused_s(now=view.now_monotonic)),
        }
    )
    for name in ("AccountingGroup", "ConcurrencyLimits", "RemoteNegotiatingGroup", "RemoteAutoregroup"):
        if name in job:
            ad[name] = job.eval(name, ad)
    running = claim.activation
    if running is None:
        return
    ad.update(
        {
            "JobId": str(running.job_id),
            "GlobalJobId": job.eval_str("GlobalJobId") or f"{holder.schedd_name}#{running.job_id}",
            "JobStart": int(running.started_wall),
            **({"CgroupEnforced": True} if view.in_cgroup else {}),
            "TotalJobRunTime": int(running.ran_s(now=view.now_monotonic)),
            "TotalJobSuspendTime": int(running.paused_s(now=view.now_monotonic)),
        }
    )
    for name in (*JOB_ATTRS, *view.job_attrs):
        if name in job:
            ad[name] = job.eval(name, ad)
    if view.usage is not None:
        for name, value in view.usage.items():
            ad[name] = value
    if view.cores is not None:
        ad["CpusUsage"] = round(view.cores, 3)


def _put_children(ad: ClassAd, view: SlotView) -> None:
    ad["PslotRollupInformation"] = True
    for name in (*view.child_attrs, *(custom for custom in view.free.amounts if custom not in _NAMES)):
        ad[f"Child{name}"] = [child.eval(name) if name in child else UNDEFINED for child in view.children]
