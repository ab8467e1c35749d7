"""The accounts of the negotiator that leads, at those that stand by: so whoever takes over goes on with them.

Source: HTCondor's manual, "High Availability Configuration Options" (HAD_USE_REPLICATION, REPLICATION_INTERVAL).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Final

import trio

from daemons.daemon_core.run import DaemonStart
from daemons.negotiator.accounts import Accounts
from pool.accounting import SubmitterAccount
from pool.accounting.leases import Lease
from pool.base.errors import PoolError
from protocol.messages.negotiator import AccountRecord, AccountsNews, FollowAccounts
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, SendItem, answer

_FIGURES: Final = tuple(field.name for field in fields(SubmitterAccount) if field.name not in ("submitter", "leases"))


class Replica:
    """Both sides: a leader sends its accounts, and who stands by keeps them."""

    def __init__(self, start: DaemonStart, accounts: Accounts) -> None:
        self._start, self._accounts = start, accounts
        self._is_wanted = start.config.bool("HAD_USE_REPLICATION")
        self.ready = not self._is_wanted
        """Whether the accounts here are those that the leader has, as far as they are to be."""

    def answers(self) -> list[Answer]:
        """What those who stand by ask for."""
        return [answer(FollowAccounts, self.send)]

    async def send(self, peer: Peer, request: FollowAccounts, send: SendItem[AccountsNews]) -> None:
        """All accounts, and then what is new, each REPLICATION_INTERVAL at most."""
        sent: Mapping[str, SubmitterAccount] = {}
        while True:
            saved = self._accounts.saved.next()  # before the look, so that nothing is missed that changes meanwhile
            now, updated_at = self._accounts.snapshot()
            changed = [account for name, account in now.items() if sent.get(name) != account]
            gone = [name for name in sent if name not in now]
            await send(AccountsNews(changed=[record_of(one) for one in changed], gone=gone, updated_at=updated_at))
            sent = now
            await trio.sleep(max(0.1, self._start.config.seconds("REPLICATION_INTERVAL")))
            await saved.wait()

    async def follow(self, peer: Peer, scope: trio.CancelScope) -> None:
        """Keep what the leader sends, until the scope is cancelled or the leader is lost."""
        if not self._is_wanted:
            return
        self.ready = False
        kept: dict[str, SubmitterAccount] = {}
        try:
            with scope:
                async with peer.stream(FollowAccounts()) as news:
                    async for item in news:
                        kept.update((one.submitter, account_of(one)) for one in item.changed)
                        for name in item.gone:
                            kept.pop(name, None)
                        await self._accounts.become(kept, item.updated_at)
                        if not self.ready:
                            self._start.log.always("Has the leader's accounts.", accounts=len(kept))
                        self.ready = True
        except PoolError as error:
            self._start.log.full(f"The leader sends no more accounts: {error}")


def record_of(account: SubmitterAccount) -> AccountRecord:
    """An account as it travels."""
    return AccountRecord(
        submitter=account.submitter,
        figures={name: float(getattr(account, name)) for name in _FIGURES},
        leases={one.attribute: [one.until, one.before] for one in account.leases},
    )


def account_of(record: AccountRecord) -> SubmitterAccount:
    """An account that has come; what an older negotiator does not send is as in a new account."""
    known = {name: value for name, value in record.figures.items() if name in _FIGURES}
    in_use = int(known.pop("in_use", 0))
    factor = known.pop("factor", 1.0)
    return SubmitterAccount(
        record.submitter, factor, in_use=in_use, leases=tuple(_leases(record.leases.items())), **known
    )


def _leases(said: Iterable[tuple[str, list[float]]]) -> Iterable[Lease]:
    return (Lease(attribute, *values[:2]) for attribute, values in said if len(values) >= 2)
