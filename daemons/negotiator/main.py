"""The negotiator: matches the work that schedds announce with the slots that the collector knows.

A cycle starts at once when there is new work or a slot has become free, though not sooner than NEGOTIATOR_MIN_INTERVAL
after the last; nothing waits longer than NEGOTIATOR_INTERVAL. It is computed on a snapshot, in a worker thread
(`pool.matching`). What it hands out goes to each schedd on the connection that the schedd made (`handing_out`); what
submitters hold is charged to their accounts (`accounts`).

Source: HTCondor's manual, "User Priorities and Negotiation" and "Negotiator Daemon Configuration Options".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from time import thread_time
from typing import Final

import trio

from daemons.base.faults import fault
from daemons.base.sync import Signal, first_of
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.negotiator.accounts import Accounts
from daemons.negotiator.cycles import Cycles, CycleTimes
from daemons.negotiator.explaining import Explaining
from daemons.negotiator.handing_out import HandingOut
from daemons.negotiator.leading import Leading
from daemons.negotiator.notices import Notices
from daemons.negotiator.replica import Replica
from daemons.negotiator.schedds import ScheddConnection
from daemons.negotiator.serving import Serving
from daemons.negotiator.settings import NegotiatorKnobs, own_name
from daemons.negotiator.sleepers import Sleepers
from daemons.negotiator.slots import SlotWatch
from daemons.negotiator.snapshots import Snapshots
from pool.accounting.accounts import SUBMITTER_CHARS_MAX
from pool.classad import ClassAd
from pool.hosts.daemon_names import names_host
from pool.matching import (
    CyclePlan,
    JobRequest,
    Offers,
    SlotHolders,
    Snapshot,
    negotiate,
)
from pool.matching.candidates import Evaluate
from pool.matching.interest import Interest
from pool.matching.sleepers import want_sleepers
from protocol.messages.negotiator import (
    AnnounceWork,
    NegotiateNow,
    ReturnMatches,
)
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.security.authorize import Denied
from protocol.wire.message import DONE, Done

LEFT_OUT_S: Final = 600.0
"""How long a startd gets no jobs after an expression of one of its slots has cost too much by itself."""
SHOWN_MAX: Final = 100
"""Such startds that the negotiator's ad names."""
PAIRS_IN_PLACE_MAX: Final = 64
"""So few pairs of a request and a slot are matched sooner than a thread would be found."""

SLOTS_FOR_COLUMNS: Final = 64
"""From this many slots on, they are matched by columns."""


class Matching:
    """Matches slots of one kind with requests; it remembers the columns of those that it saw last."""

    def __init__(self) -> None:
        self._evaluate: Evaluate | None = None

    def negotiate(self, snapshot: Snapshot) -> CyclePlan:
        """Match."""
        # numpy takes tens of megabytes and a tenth of a second: a small pool's negotiator never loads it.
        if self._evaluate is None and len(snapshot.slots) >= SLOTS_FOR_COLUMNS:
            from pool.matching.columnar import ColumnEvaluator

            self._evaluate = ColumnEvaluator()
        return negotiate(snapshot) if self._evaluate is None else negotiate(snapshot, self._evaluate)


class Negotiator:
    """The state between cycles, and the requests about it."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._knobs = NegotiatorKnobs.read(start.config)
        self._offers = Offers()
        self._weigh()
        self._holders = SlotHolders()
        self._schedds: dict[str, ScheddConnection] = {}
        self.accounts = Accounts(start, self._knobs, self._offers, self._holders, self.wake)
        self._snapshots = Snapshots(start, self._offers, self._holders, self.accounts, self._schedds)
        self._handing_out = HandingOut(start, self._offers, self._knobs.timeout_s)
        self._hand_out_as_configured()
        self._left_out: dict[str, tuple[float, str]] = {}
        """Startds whose slots' expressions cost too much, by address: until when, and which one."""
        self._cycles = Cycles(start.log)
        self._awake, self._asleep = Matching(), Matching()
        self._wanted = Signal()
        self.notices = Notices(start, self._knobs.timeout_s)
        self._interest = Interest()
        self.serving = Serving(start, self.wake)
        self.explaining = Explaining(start, self._offers, self._snapshot_for, self.serving.objection)
        self.sleepers = Sleepers(start)
        self.slots = SlotWatch(start, self._offers, self.wake, self._asked_for, self.sleepers)
        self.replica = Replica(start, self.accounts)
        self.leading = Leading(start, self.replica, self._lease_lost)
        if not self.leading.leads:
            self.accounts.end()
        start.on_reconfigure(lambda _config: self._reconfigured())

    # ---- what others say

    def answers(self) -> list[Answer]:
        """What schedds tell, and what begins a cycle."""
        return [
            answer(AnnounceWork, self.announce_work),
            answer(ReturnMatches, self.return_matches),
            answer(NegotiateNow, self.negotiate_now),
        ]

    def wake(self) -> None:
        """Something has changed that a cycle should see."""
        self._wanted.fire()

    def announce_work(self, peer: Peer, request: AnnounceWork) -> Done:
        """A schedd says what it wants; a newer connection of the same schedd takes the older one's place."""
        if peer.method == "SSL" and not names_host(request.schedd, peer.host_name):
            raise Denied(f"the schedd {request.schedd} does not belong to {peer.host_name}")
        self.leading.check(peer, request.schedd)
        known = self._schedds.get(request.schedd)
        if peer.pool and known is not None and known.peer.identity != peer.identity:
            raise Denied(f"there is another schedd {request.schedd}, which is not of {peer.pool}")
        anew = known is None or known.peer is not peer
        if known is None or anew:
            known = self._schedds[request.schedd] = ScheddConnection(request.schedd, peer)
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
        if schedd is None:
            return
        schedd.returned(message.claim_ids)
        if self._offers.give_back(message.claim_ids, schedd.name):
            self.notices.returned(message.claim_ids)
            self.wake()

    def negotiate_now(self, peer: Peer, request: NegotiateNow) -> Done:
        """Start a cycle without waiting."""
        self.wake()
        return DONE

    def _lease_lost(self, schedd: str) -> None:
        if (known := self._schedds.get(schedd)) is not None:
            self._schedd_gone(known)

    def _schedd_gone(self, schedd: ScheddConnection) -> None:
        if self._schedds.get(schedd.name) is schedd:
            del self._schedds[schedd.name]
            self._holders.schedd_gone(schedd.name, trio.current_time())
            self._interest.changed()
            returned = self._offers.schedd_gone(schedd.name)
            self._start.log.always("A schedd is gone.", schedd=schedd.name, matches_returned=returned)
            self.wake()

    def _weigh(self) -> None:
        self._offers.weigh_by(self._knobs.cycle.weight, self._knobs.pool_size)
        self._offers.discounts_suspended = self._knobs.discounts_suspended

    def _hand_out_as_configured(self) -> None:
        self._handing_out.exprs, self._handing_out.schedd_s = self._knobs.match_exprs, self._knobs.cycle.times.schedd_s
        for name in self._start.config.list("NEGOTIATOR_MATCH_EXPRS"):
            if not self._start.config[name]:
                self._start.log.always(f"NEGOTIATOR_MATCH_EXPRS names {name}, which is not configured.")

    def _reconfigured(self) -> None:
        self._knobs = NegotiatorKnobs.read(self._start.config)
        self._weigh()
        self.accounts.reconfigured(self._knobs)
        self.notices.timeout_s = self._handing_out.timeout_s = self._knobs.timeout_s
        self._hand_out_as_configured()
        self.serving.reconfigured()
        self.slots.reconfigured()
        self.leading.reconfigured()
        self.wake()

    # ---- cycles

    async def run(self) -> None:
        """Negotiate whenever there is cause, for ever."""
        await self.slots.synced.wait()
        while True:
            if self.accounts.active != self.leading.leads:
                self._leads_or_not()
            if not self.leading.leads:
                await self.leading.changed.wait()
                continue
            began = trio.current_time()
            wanted = self._wanted.next()
            self._offers.expire(trio.current_time(), self._knobs.match_timeout_s)
            self._holders.expire(trio.current_time())
            self.accounts.charge()
            await self._handing_out.agree(self._reads(), self._schedds.values())
            requests = self._requests()
            if requests:
                await self._cycle(requests)
            self.accounts.save_soon()
            self.accounts.publish_now_and_then()
            if requests:  # where nobody wanted anything, the next cycle need not wait
                took_s = trio.current_time() - began  # at most half of the time is spent on cycles
                await trio.sleep_until(
                    began + max(self._knobs.min_interval_s, 2 * took_s, took_s + self._knobs.delay_s)
                )
            left_s = max(0.0, self._next_round(began) - trio.current_time())
            await first_of(wanted, self.leading.changed.next(), timeout_s=left_s)

    def _leads_or_not(self) -> None:
        """This negotiator has begun or ceased to lead: what is published of it is another ad."""
        if self.leading.leads:
            self._start.adverts.drop("HAD", own_name(self._start.config))
            self.accounts.begin()
        else:
            self._start.adverts.drop("Negotiator", own_name(self._start.config))
            self.accounts.end()
        self._start.adverts.refresh()

    def _next_round(self, began: float) -> float:
        """When the next cycle begins although nothing has changed."""
        expiry = self._offers.next_expiry(self._knobs.match_timeout_s)
        regular = began + self._knobs.interval_s
        return regular if expiry is None else min(regular, expiry)

    def _asked_for(self, before: ClassAd | None, now: ClassAd) -> bool:
        """Whether a slot has changed in what those who wait ask for."""
        return self._interest.differ(before, now, chain.from_iterable(one.requests for one in self._schedds.values()))

    def _reads(self) -> frozenset[str]:
        """What is read of jobs, by the negotiator and by slots."""
        return self._knobs.reads | self.slots.read.names

    def _requests(self) -> list[JobRequest]:
        """Of schedds that know what is read of jobs: another came while they were told.

        In another order in each cycle: of one submitter's schedds it is not always the same that comes first.
        """
        reads = self._reads()
        agreed = [schedd for schedd in self._schedds.values() if reads <= schedd.reads]
        self._start.world.rng.shuffle(agreed)
        return [request for schedd in agreed for request in schedd.requests]

    def _plan(self, snapshot: Snapshot, sleepers: Sequence[ClassAd]) -> tuple[CyclePlan, float]:
        """Match, in a thread, and what that cost. Small pools never need the columns, nor numpy's memory."""
        began = thread_time()
        plan = self._awake.negotiate(snapshot)
        want_sleepers(plan, snapshot, sleepers, self._asleep.negotiate)
        return plan, thread_time() - began

    async def _cycle(self, requests: list[JobRequest]) -> None:
        began, wall, cpu = trio.current_time(), self._start.world.wall(), thread_time()
        served, refused = self.serving.choose(requests)
        snapshot = self._snapshots.take(served, self._knobs, self._left_out_now().__contains__)
        snapshot_s, snapshot_cpu = trio.current_time() - began, thread_time() - cpu
        sleepers = self.sleepers.ads()
        if (len(snapshot.slots) + len(sleepers)) * len(served) <= PAIRS_IN_PLACE_MAX:
            plan, plan_cpu = self._plan(snapshot, sleepers)
        else:
            plan, plan_cpu = await self._start.world.threads.run_sync(self._plan, snapshot, sleepers)
        cpu = thread_time()
        plan.rejections += refused
        self.explaining.note(plan)
        fault("negotiator.cycle_planned")
        self.accounts.figures = plan.figures
        self.sleepers.wanted(plan.wanted)
        self._leave_out(plan)
        if self._knobs.inform_startds:
            self.notices.made(plan.matches)
        failed = await self._handing_out.carry_out(plan, list(self._schedds.values()))
        fault("negotiator.matches_offered")
        times = CycleTimes(
            wall, trio.current_time() - began, snapshot_s, snapshot_cpu + plan_cpu + thread_time() - cpu, snapshot_cpu
        )
        self._cycles.note(snapshot, plan, times, self._offers.counts(), failed, self._knobs.cycles_shown)
        if plan.out_of_time or plan.schedds_out_of_time:
            self.wake()
        if self._knobs.update_after_cycle:
            self._start.adverts.refresh()

    def _snapshot_for(self, request: JobRequest) -> Snapshot:
        return self._snapshots.take([request], self._knobs, self._left_out_now().__contains__)

    def _left_out_now(self) -> dict[str, tuple[float, str]]:
        """The startds that get nothing at present, by address."""
        now = trio.current_time()
        self._left_out = {address: out for address, out in self._left_out.items() if out[0] > now}
        return self._left_out

    def _leave_out(self, plan: CyclePlan) -> None:
        """Startds whose slots cost a cycle too much have no part in the next ones."""
        for address, reason in plan.left_out.items():
            self._left_out[address] = trio.current_time() + LEFT_OUT_S, reason
            self._start.log.always(
                f"The startd at {address} gets no jobs for {LEFT_OUT_S:g} s: an expression of its slots costs too much"
                f" processor time: {reason}"
            )

    def ad(self) -> ClassAd:
        """The negotiator's own ad, with its last cycles."""
        name, me = own_name(self._start.config), self.leading.candidate
        ad = ClassAd({"MyType": "Negotiator" if self.leading.leads else "HAD", "Name": name})
        if me is not None:  # the names are those of condor_had's ad
            ad.update({"HadIsActive": me.leads, "HadIndex": me.rank, "HadSelfId": name})
            ad["HadControllee"] = self._start.sock
            ad["HadList"] = ", ".join(self._start.config.list("HAD_LIST"))
        if not self.leading.leads:
            return ad
        self._cycles.put_into(ad)
        if self._left_out:
            ad["StartdsLeftOut"] = [f"{address} {reason}" for address, (_, reason) in self._left_out.items()][
                :SHOWN_MAX
            ]
        return ad


async def main(start: DaemonStart, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Negotiate until told to stop."""
    negotiator = Negotiator(start)
    start.service.offer(negotiator.answers(), negotiator.accounts.answers(), negotiator.explaining.answers())
    start.service.offer(negotiator.leading.answers(), negotiator.replica.answers())
    start.describe(negotiator.ad)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(start.serve)
            tasks = Tasks(nursery, start.log)
            tasks.keep(start.adverts.run)
            tasks.keep(negotiator.slots.run)
            tasks.keep(negotiator.notices.run)
            tasks.keep(negotiator.sleepers.run)
            tasks.keep(negotiator.serving.run)
            tasks.keep(negotiator.accounts.run)
            tasks.keep(negotiator.leading.run)
            tasks.keep(negotiator.run)
            task_status.started()
            await start.stopping()
            await negotiator.leading.give_up()
            nursery.cancel_scope.cancel()
    finally:
        await negotiator.accounts.close()
