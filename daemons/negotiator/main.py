"""The negotiator: matches the work that schedds announce with the slots that the collector knows.

A cycle starts at once when there is new work or a slot has become free, though not sooner than NEGOTIATOR_MIN_INTERVAL
after the last; nothing waits longer than NEGOTIATOR_INTERVAL. It is computed on a snapshot, in a worker thread. What it
hands out goes to each schedd on the connection that the schedd made.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import trio

from daemons.negotiator.notices import Notices
from daemons.negotiator.schedds import Schedd, messages
from daemons.negotiator.settings import Knobs
from daemons.negotiator.slots import SlotWatch
from daemons.negotiator.store import AccountStore
from daemons.run import DaemonStart
from pool.classad import ClassAd
from pool.daemon_names import names_host
from pool.errors import PeerError
from pool.matching import (
    Accountant,
    HandedOut,
    Holders,
    Matched,
    Offers,
    Plan,
    Rejected,
    Request,
    Snapshot,
    negotiate,
    shares,
)
from pool.matching.accounting import SUBMITTER_CHARS_MAX, weight_of
from pool.matching.candidates import Evaluate
from pool.matching.interest import Interest
from pool.matching.preempt import may_be_preempted
from protocol.authorize import Denied
from protocol.message import DONE, Done
from protocol.messages.negotiator import (
    AnnounceWork,
    ForgetSubmitter,
    GetPriorities,
    NegotiateNow,
    Priorities,
    ResetUsage,
    ReturnMatches,
    SetPriority,
)
from protocol.messages.schedd import Match, MatchesTaken, OfferMatches, RejectRequests
from protocol.rpc import Peer

CYCLES_SHOWN: Final = 3

SAVE_PAUSE_S: Final = 1.0
"""How old the accounts on disk may be after a cycle; a crash costs their submitters' use of that time."""

LEFT_OUT_S: Final = 600.0
"""How long a startd gets no jobs after an expression of one of its slots has cost too much by itself."""
SHOWN_MAX: Final = 100
"""Such startds that the negotiator's ad names."""
PAIRS_IN_PLACE_MAX: Final = 64
"""So few pairs of a request and a slot are matched sooner than a thread would be found."""

SLOTS_FOR_COLUMNS: Final = 64
"""From this many slots on, they are matched by columns."""


@dataclass(frozen=True, slots=True)
class CycleReport:
    """What the negotiator's ad says of one cycle."""

    began_at: float
    took_s: float
    submitters: int
    slots: int
    slots_total: int
    jobs_idle: int
    matches: int
    rejections: int
    schedds: int


class Negotiator:
    """The state between cycles, and the requests about it."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._knobs = Knobs.read(start.config)
        self._offers = Offers()
        self._holders = Holders()
        self._schedds: dict[str, Schedd] = {}
        self._store = AccountStore(start.config.path("ACCOUNTANT_DATABASE_FILE"))
        accounts, updated_at = self._store.load()
        self._accountant = Accountant(self._knobs.halflife_s, self._knobs.factors, accounts, updated_at)
        self._limits: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        self._left_out: dict[str, tuple[float, str]] = {}
        """Startds whose slots' expressions cost too much, by address: until when, and which one."""
        self._cycles: deque[CycleReport] = deque(maxlen=CYCLES_SHOWN)
        self._evaluate: Evaluate | None = None
        self._wanted = trio.Event()
        self._published_at = self._saved_at = float("-inf")
        self.notices = Notices(start, self._knobs.timeout_s)
        self._interest = Interest()
        self.slots = SlotWatch(start, self._offers, self.wake, self._asked_for)
        service = start.service
        service.on(AnnounceWork, self.announce_work)
        service.on(ReturnMatches, self.return_matches)
        service.on(NegotiateNow, self.negotiate_now)
        service.on(GetPriorities, self.get_priorities)
        service.on(SetPriority, self.set_priority)
        service.on(ForgetSubmitter, self.forget_submitter)
        service.on(ResetUsage, self.reset_usage)
        start.on_reconfigure(lambda _config: self._reconfigured())

    # ---- what others say

    def wake(self) -> None:
        """Something has changed that a cycle should see."""
        self._wanted.set()

    def announce_work(self, peer: Peer, request: AnnounceWork) -> Done:
        """A schedd says what it wants; a newer connection of the same schedd takes the older one's place."""
        if peer.method == "SSL" and not names_host(request.schedd, peer.host_name):
            raise Denied(f"the schedd {request.schedd} does not belong to {peer.host_name}")
        known = self._schedds.get(request.schedd)
        anew = known is None or known.peer is not peer
        if known is None or known.peer is not peer:
            known = self._schedds[request.schedd] = Schedd(request.schedd, peer)
            peer.on_close(lambda _peer: self._schedd_gone(known))
            self._start.log.always("A schedd has work.", schedd=request.schedd, address=peer.address)
        refused = known.refused
        known.announce(request)
        self._holders.hear(request.schedd, request.held, request.given_back, anew=anew)
        if known.refused and not refused:  # once, and not with each announcement
            why = f"a name of {known.refused} characters (expected at most {SUBMITTER_CHARS_MAX})"
            self._start.log.always(f"A submitter of {request.schedd} is refused: {why}.")
        self._interest.changed()
        self.wake()
        return DONE

    def return_matches(self, peer: Peer, message: ReturnMatches) -> None:
        """Matches that a schedd could not use."""
        schedd = next((one for one in self._schedds.values() if one.peer is peer), None)
        if schedd is not None and self._offers.give_back(message.claim_ids, schedd.name):
            self.notices.returned(message.claim_ids)
            self.wake()

    def negotiate_now(self, peer: Peer, request: NegotiateNow) -> Done:
        """Start a cycle without waiting."""
        self.wake()
        return DONE

    def get_priorities(self, peer: Peer, request: GetPriorities) -> Priorities:
        """The accountant's table as it is now."""
        self._charge()
        return Priorities(submitters=self._accountant.ads(limits=self._limits, shares=self._shares))

    async def set_priority(self, peer: Peer, request: SetPriority) -> Done:
        """Change a submitter's record; durable when answered."""
        self._charge()
        now = self._start.world.wall()
        self._accountant.set(request.submitter, request.attribute, request.value, now=now)
        await self._save()
        said = f"{request.attribute} of {request.submitter} is now {request.value:g}."
        self._start.log.always(said, by=peer.identity)
        return DONE

    async def forget_submitter(self, peer: Peer, request: ForgetSubmitter) -> Done:
        """Forget a submitter's record; durable when answered. To forget one who is not known is done already."""
        self._charge()
        if self._accountant.delete(request.submitter):
            await self._save()
            self._start.log.always(f"The record of {request.submitter} is forgotten.", by=peer.identity)
        return DONE

    async def reset_usage(self, peer: Peer, request: ResetUsage) -> Done:
        """Forget what everybody has used so far; durable when answered."""
        self._charge()
        self._accountant.reset_all()
        await self._save()
        self._start.log.always("The usage of all submitters is reset.", by=peer.identity)
        return DONE

    def _schedd_gone(self, schedd: Schedd) -> None:
        if self._schedds.get(schedd.name) is schedd:
            del self._schedds[schedd.name]
            self._holders.schedd_gone(schedd.name, trio.current_time())
            self._interest.changed()
            returned = self._offers.schedd_gone(schedd.name)
            self._start.log.always("A schedd is gone.", schedd=schedd.name, matches_returned=returned)
            self.wake()

    def _reconfigured(self) -> None:
        self._knobs = Knobs.read(self._start.config)
        self._accountant.halflife_s, self._accountant.factors = self._knobs.halflife_s, self._knobs.factors
        self.notices.timeout_s = self._knobs.timeout_s
        self.wake()

    # ---- cycles

    async def run(self) -> None:
        """Negotiate whenever there is cause, for ever."""
        await self.slots.synced.wait()
        while True:
            began = trio.current_time()
            self._wanted = trio.Event()
            self._offers.expire(trio.current_time(), self._knobs.match_timeout_s)
            self._holders.expire(trio.current_time())
            self._charge()
            requests = self._requests()
            if requests:
                await self._cycle(requests)
            await self._save_now_and_then()
            self._publish_accounts()
            if requests:  # where nobody wanted anything, the next cycle need not wait
                took_s = trio.current_time() - began  # at most half of the time is spent on cycles
                await trio.sleep_until(began + max(self._knobs.min_interval_s, 2 * took_s))
            with trio.move_on_at(self._next_round(began)):
                await self._wanted.wait()

    def _next_round(self, began: float) -> float:
        """When the next cycle begins although nothing has changed."""
        expiry = self._offers.next_expiry(self._knobs.match_timeout_s)
        regular = began + self._knobs.interval_s
        return regular if expiry is None else min(regular, expiry)

    def _asked_for(self, before: ClassAd | None, now: ClassAd) -> bool:
        """Whether a slot has changed in what those who wait ask for."""
        requests = (request for schedd in self._schedds.values() for request in schedd.requests.values())
        return self._interest.differ(before, now, requests)

    def _requests(self) -> list[Request]:
        return [request for schedd in self._schedds.values() for request in schedd.requests.values()]

    def _plan(self, snapshot: Snapshot) -> Plan:
        """Match, in a thread. Small pools never need the columns, nor numpy's memory."""
        if self._evaluate is None and len(snapshot.slots) >= SLOTS_FOR_COLUMNS:
            from pool.matching.columnar import ColumnEvaluator

            self._evaluate = ColumnEvaluator()
        return negotiate(snapshot) if self._evaluate is None else negotiate(snapshot, self._evaluate)

    async def _cycle(self, requests: list[Request]) -> None:
        began, wall = trio.current_time(), self._start.world.wall()
        snapshot = self._snapshot(requests)
        if len(snapshot.slots) * len(requests) <= PAIRS_IN_PLACE_MAX:
            plan = self._plan(snapshot)
        else:
            plan = await self._start.world.threads.run_sync(self._plan, snapshot)
        for address, reason in plan.left_out.items():
            self._left_out[address] = trio.current_time() + LEFT_OUT_S, reason
            self._start.log.always(
                f"The startd at {address} gets no jobs for {LEFT_OUT_S:g} s: an expression of its slots costs too much"
                f" processor time: {reason}"
            )
        await self._carry_out(plan)
        took_s = trio.current_time() - began
        submitters = {request.submitter for request in requests}
        report = CycleReport(
            began_at=wall,
            took_s=took_s,
            submitters=len(submitters),
            slots=len(snapshot.slots),
            slots_total=len(self._offers),
            jobs_idle=sum(request.count for request in requests),
            matches=len(plan.matches),
            rejections=len(plan.rejections),
            schedds=len({request.schedd for request in requests}),
        )
        self._cycles.appendleft(report)
        self._start.log.say(
            "D_ALWAYS" if plan.matches else "D_FULLDEBUG",
            "Negotiation cycle.",
            slots=report.slots,
            idle_jobs=report.jobs_idle,
            matches=report.matches,
            rejections=report.rejections,
            seconds=took_s,
        )

    def _snapshot(self, requests: list[Request]) -> Snapshot:
        submitters = {request.submitter for request in requests}
        known = {*self._accountant.accounts, *submitters}
        priority = {name: self._accountant.account(name).effective for name in known}
        if self._knobs.ignore_priorities:
            priority = dict.fromkeys(priority, 1.0)
        self._shares = shares({name: priority[name] for name in submitters})
        slots, now = self._offers.current(), trio.current_time()
        self._left_out = {address: out for address, out in self._left_out.items() if out[0] > now}
        if self._left_out:
            slots = [slot for slot in slots if slot.address not in self._left_out]
        policy = self._knobs.cycle.order.preemption
        slots = [slot for slot in slots if not slot.claimed or may_be_preempted(slot.ad, policy)]
        slots_of = (
            {name: use.slots for name, use in self._offers.use(self._holders).items()} if policy.by_priority else {}
        )
        wall = self._start.world.wall()
        parents = self._offers.partitionable() if policy.together else []
        return Snapshot(slots, requests, priority, self._use(), slots_of, self._knobs.cycle, wall, parents)

    def _use(self) -> dict[str, float]:
        """What each submitter holds: by the slots' ads and what was handed out, or more if the schedds say so."""
        seen = {name: use.weight for name, use in self._offers.use(self._holders).items()}
        for name, weight in self._offers.pending().items():
            seen[name] = seen.get(name, 0.0) + weight
        said: dict[str, float] = {}
        for schedd in self._schedds.values():
            for name, slots in schedd.in_use.items():
                said[name] = said.get(name, 0.0) + slots
        return {name: max(seen.get(name, 0.0), said.get(name, 0.0)) for name in {*seen, *said}}

    # ---- handing out

    async def _carry_out(self, plan: Plan) -> None:
        """Send each schedd what is its; all schedds at once."""
        if self._knobs.inform_startds:
            self.notices.made(plan.matches)
        matches: dict[str, list[Matched]] = {}
        rejections: dict[str, list[Rejected]] = {}
        for matched in plan.matches:
            matches.setdefault(matched.request.schedd, []).append(matched)
        for rejected in plan.rejections:
            rejections.setdefault(rejected.request.schedd, []).append(rejected)
        async with trio.open_nursery() as nursery:
            for name, schedd in list(self._schedds.items()):
                mine = matches.get(name, [])
                self._note(schedd, mine)
                nursery.start_soon(self._tell, schedd, mine, rejections.get(name, []))

    def _note(self, schedd: Schedd, matches: list[Matched]) -> None:
        """Before anything is sent: whatever becomes of the message, nobody else gets these slots for now."""
        schedd.handed(matches)
        now = trio.current_time()
        for m in matches:
            submitter, room = m.request.submitter, tuple(one.claim_ids[0] for one in m.room)
            slot = m.room[0].name if m.room else m.slot
            self._offers.hand_out(
                HandedOut(m.claim_id, slot, schedd.name, submitter, m.weight, m.taken, now, m.pieces, room[1:])
            )
            for one in m.room[1:]:
                self._offers.hand_out(HandedOut(one.claim_ids[0], one.name, schedd.name, submitter, 0.0, None, now))

    async def _tell(self, schedd: Schedd, matches: list[Matched], rejected: list[Rejected]) -> None:
        log = self._start.log
        try:
            for portion in messages(matches):
                taken = await self._offer(schedd, portion)
                log.say("D_MATCH", "Matches offered.", schedd=schedd.name, offered=len(portion), taken=taken.taken)
            if news := schedd.rejections(rejected):
                await schedd.peer.notify(RejectRequests(rejections=news))
        except PeerError as error:
            log.always(f"Schedd {schedd.name} does not take its matches: {error}")
            schedd.peer.abort("it does not answer the negotiator")

    async def _offer(self, schedd: Schedd, portion: list[Match]) -> MatchesTaken:
        return await schedd.peer.call(OfferMatches(matches=portion), timeout=self._knobs.timeout_s)

    # ---- accounting

    def _charge(self) -> None:
        self._accountant.charge(self._offers.use(self._holders), now=self._start.world.wall())

    async def _save_now_and_then(self) -> None:
        if trio.current_time() - self._saved_at >= SAVE_PAUSE_S:
            await self._save()

    async def _save(self) -> None:
        self._saved_at = trio.current_time()
        accounts, updated_at = list(self._accountant.accounts.values()), self._accountant.updated_at
        try:
            await self._start.world.threads.run_sync(self._store.save, accounts, updated_at)
        except Exception as error:  # a full disk costs the record of a moment, not the pool
            self._start.log.error(f"Cannot save priorities: {error}")

    def _publish_accounts(self) -> None:
        """The Accounting ads and the negotiator's own, now and then."""
        now = trio.current_time()
        if now - self._published_at >= min(self._knobs.update_interval_s, self._knobs.interval_s):
            self._published_at = now
            total = sum(use.weight for use in self._offers.use(self._holders).values())
            total += sum(weight_of(offer.ad) for offer in self._offers.current() if not offer.claimed)
            self._limits = {name: share * total for name, share in self._shares.items()}
            for ad in self._accountant.ads(limits=self._limits, shares=self._shares):
                ad["NegotiatorName"] = self.name
                self._start.adverts.put(ad)
            self._start.adverts.refresh()

    @property
    def name(self) -> str:
        """What the negotiator calls itself."""
        return self._start.config.str("NEGOTIATOR_NAME") or self._start.host

    def ad(self) -> ClassAd:
        """The negotiator's own ad, with its last cycles."""
        ad = ClassAd({"MyType": "Negotiator", "Name": self.name})
        for number, cycle in enumerate(self._cycles):
            for label, value in (
                ("Time", int(cycle.began_at)),
                ("End", int(cycle.began_at + cycle.took_s)),
                ("Duration", round(cycle.took_s, 6)),
                ("ActiveSubmitterCount", cycle.submitters),
                ("CandidateSlots", cycle.slots),
                ("TotalSlots", cycle.slots_total),
                ("NumIdleJobs", cycle.jobs_idle),
                ("Matches", cycle.matches),
                ("Rejections", cycle.rejections),
                ("NumSchedulers", cycle.schedds),
            ):
                ad[f"LastNegotiationCycle{label}{number}"] = value
        if self._left_out:
            ad["StartdsLeftOut"] = [f"{address} {reason}" for address, (_, reason) in self._left_out.items()][
                :SHOWN_MAX
            ]
        return ad

    async def close(self) -> None:
        """Charge up to now and let go of the file."""
        self._charge()
        with trio.CancelScope(shield=True):
            await self._save()
        self._store.close()


async def main(start: DaemonStart, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Negotiate until told to stop."""
    negotiator = Negotiator(start)
    start.describe(negotiator.ad)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(start.serve)
            nursery.start_soon(start.adverts.run)
            nursery.start_soon(negotiator.slots.run)
            nursery.start_soon(negotiator.notices.run)
            nursery.start_soon(negotiator.run)
            task_status.started()
            await start.stopping()
            nursery.cancel_scope.cancel()
    finally:
        await negotiator.close()
