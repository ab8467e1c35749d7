"""The accountant's table in the running negotiator: charged, asked for, changed, saved and published.

A submitter's priority follows what it holds, with a half-life of PRIORITY_HALFLIFE. Before anything is told or changed,
all are charged up to now. What an administrator has changed is durable when it is answered; what was used, a second
later.

Source: HTCondor's manual, "User Priorities and Negotiation", and condor_userprio.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import trio

from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.negotiator.settings import NegotiatorKnobs, accounts_file, own_name
from daemons.negotiator.store import AccountStore
from pool.accounting import Accountant, SubmitterAccount, SubmitterUse
from pool.accounting.account_ads import NO_FIGURES, accounting_ads
from pool.base.errors import PoolError, UserError
from pool.hosts.daemon_names import kept_name
from pool.matching import Offers, SlotHolders
from protocol.messages.negotiator import (
    CancelLease,
    ForgetSubmitter,
    GetPriorities,
    Priorities,
    ResetUsage,
    SetPriority,
)
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done

SAVE_PAUSE_S: Final = 1.0
"""How old the accounts on disk may be after a cycle; a crash costs their submitters' use of that time."""
SETTLE_S: Final = 10.0
"""How long after a start schedds may take to say again what they hold."""


class Accounts:
    """Who has used how much, and what each may have. `offers` and `holders` say who holds what now, and `changed` hears
    when somebody may have more or less than before."""

    def __init__(
        self,
        start: DaemonStart,
        knobs: NegotiatorKnobs,
        offers: Offers,
        holders: SlotHolders,
        changed: Callable[[], None],
    ) -> None:
        self._start, self._knobs, self._offers, self._holders = start, knobs, offers, holders
        self._changed = changed
        self._store = AccountStore(accounts_file(start.config))
        accounts, updated_at = self._store.load()
        self._accountant = Accountant(knobs.halflife_s, knobs.factors, accounts, updated_at)
        self.figures = NO_FIGURES
        """What the last cycle has found."""
        self._published_at = float("-inf")
        self._published: set[str] = set()
        self.active = True
        """Whether submitters are charged here: not by a negotiator that stands by."""
        self.saved = Signal()
        self._settled_at = trio.current_time() + SETTLE_S
        self._unsaved = trio.Event()
        self._saving = trio.Lock()

    def reconfigured(self, knobs: NegotiatorKnobs) -> None:
        """Half-life and factors may be others now."""
        self._knobs = knobs
        self._accountant.halflife_s, self._accountant.factors = knobs.halflife_s, knobs.factors

    # ---- one of several negotiators

    def begin(self) -> None:
        """This negotiator leads from now on: as after a restart, schedds say first what they hold."""
        self.active = True
        self._settled_at = trio.current_time() + SETTLE_S

    def end(self) -> None:
        """Another one leads, and publishes the accounts; what is kept here is what that one sends."""
        self.active = False
        for name in self._published:
            self._start.adverts.drop("Accounting", name)
        self._published.clear()
        self._published_at = float("-inf")

    def snapshot(self) -> tuple[dict[str, SubmitterAccount], float]:
        """All accounts, and the time up to which they are charged."""
        return dict(self._accountant.accounts), self._accountant.updated_at

    async def become(self, accounts: Mapping[str, SubmitterAccount], updated_at: float) -> None:
        """Have the accounts that the leader has, while this negotiator stands by."""
        if not self.active:
            self._accountant.accounts, self._accountant.updated_at = dict(accounts), updated_at
            await self._save_if_possible()

    # ---- requests

    def answers(self) -> list[Answer]:
        """What condor_userprio asks and changes."""
        return [
            answer(GetPriorities, self.get_priorities),
            answer(SetPriority, self.set_priority),
            answer(CancelLease, self.cancel_lease),
            answer(ForgetSubmitter, self.forget_submitter),
            answer(ResetUsage, self.reset_usage),
        ]

    def get_priorities(self, peer: Peer, request: GetPriorities) -> Priorities:
        """The table as it is now."""
        self.charge()
        return Priorities(submitters=accounting_ads(self._accountant, self.figures))

    async def set_priority(self, peer: Peer, request: SetPriority) -> Done:
        """Change a submitter's record; durable when answered."""
        self._require_active()
        now = self._start.world.wall()
        figure, value, lease_s = request.attribute, request.value, request.lease_s
        self._accountant.set(request.submitter, figure, value, now=now, lease_s=lease_s)
        await self._save_change()
        said = f"{figure} of {request.submitter} is now {value:g}{f', for {lease_s:g} s' if lease_s > 0 else ''}."
        self._start.log.always(said, by=peer.identity)
        self._changed()
        return DONE

    async def cancel_lease(self, peer: Peer, request: CancelLease) -> Done:
        """End a lease; durable when answered."""
        self._require_active()
        self._accountant.cancel_lease(request.submitter, request.attribute)
        await self._save_change()
        self._start.log.always(f"The lease of {request.submitter}'s {request.attribute} is over.", by=peer.identity)
        self._changed()
        return DONE

    async def forget_submitter(self, peer: Peer, request: ForgetSubmitter) -> Done:
        """Forget a submitter's record; durable when answered. To forget one who is not known is done already."""
        self._require_active()
        if self._accountant.delete(request.submitter):
            await self._save_change()
            self._start.log.always(f"The record of {request.submitter} is forgotten.", by=peer.identity)
        return DONE

    async def reset_usage(self, peer: Peer, request: ResetUsage) -> Done:
        """Forget what everybody has used so far; durable when answered."""
        self._require_active()
        self._accountant.reset_all()
        await self._save_change()
        self._start.log.always("The usage of all submitters is reset.", by=peer.identity)
        return DONE

    def _require_active(self) -> None:
        """Charge up to now; UserError where another negotiator keeps the accounts."""
        if not self.active:
            raise UserError("this negotiator stands by", expected="the one that leads: name it with -pool or -name")
        self.charge()

    # ---- in each round of the negotiator

    def charge(self) -> None:
        """Charge everybody up to now for what they hold."""
        if not self.active:
            return
        use = self._offers.use(self._holders)
        if self._is_settled(use):
            self._accountant.charge(use, now=self._start.world.wall())

    def _is_settled(self, use: Mapping[str, SubmitterUse]) -> bool:
        """Whether schedds have said again what they held when this negotiator's forerunner ended.

        Until then nothing is charged, and what was held by then counts on: the next charge is for the whole time.
        """
        if trio.current_time() < self._settled_at:
            held = ((one, use.get(name, SubmitterUse())) for name, one in self._accountant.accounts.items())
            if any(now.slots < account.in_use for account, now in held if not account.is_group):
                return False
            self._settled_at = float("-inf")
        return True

    def known(self) -> Iterable[str]:
        """All submitters who have a record."""
        return [name for name, account in self._accountant.accounts.items() if not account.is_group]

    def of(self, submitter: str) -> SubmitterAccount:
        """The record of a submitter; a new one when he was never seen."""
        return self._accountant.account(submitter)

    def save_soon(self) -> None:
        """Who holds what may have changed: `run` writes the table down."""
        self._unsaved.set()

    async def run(self) -> None:
        """Write the table down whenever it should be, once in a second at most."""
        while True:
            await self._unsaved.wait()
            self._unsaved = trio.Event()
            await self._save_if_possible()
            await trio.sleep(SAVE_PAUSE_S)

    def publish_now_and_then(self) -> None:
        """The Accounting ads and the negotiator's own."""
        now = trio.current_time()
        if now - self._published_at >= min(self._knobs.update_interval_s, self._knobs.interval_s):
            self._published_at = now
            for ad in accounting_ads(self._accountant, self.figures):
                ad["NegotiatorName"] = own_name(self._start.config)
                self._start.adverts.put(ad)
                self._published.add(kept_name(ad))
            self._start.adverts.refresh()

    async def _save(self, *, durable: bool = False) -> None:
        async with self._saving:  # the store writes one table at a time, and the newest last
            accounts, updated_at = list(self._accountant.accounts.values()), self._accountant.updated_at
            save = partial(self._store.save, durable=durable)
            await self._start.world.threads.run_sync(save, accounts, updated_at)
        self.saved.fire()

    async def _save_change(self) -> None:
        """PoolError when what an administrator has changed is not durable."""
        try:
            await self._save(durable=True)
        except sqlite3.Error as error:
            raise PoolError(f"the change counts, and is lost at a restart: it cannot be saved: {error}") from None

    async def _save_if_possible(self) -> None:
        try:
            await self._save()
        except sqlite3.Error as error:  # a full disk costs the record of a moment, not the pool
            self._start.log.error(f"Cannot save priorities: {error}")

    async def close(self) -> None:
        """Charge up to now and let go of the file."""
        self.charge()
        with trio.CancelScope(shield=True):
            await self._save_if_possible()
        self._store.close()
