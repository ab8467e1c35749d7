"""The accountant's table when it cannot be written, or was damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemons.negotiator.accounts import SAVE_PAUSE_S, SETTLE_S, Accounts
from daemons.negotiator.notices import WAITING_MAX, Notices
from daemons.negotiator.settings import NegotiatorKnobs
from daemons.negotiator.store import AccountStore
from pool.accounting import SubmitterUse
from pool.base.errors import PoolError
from pool.matching import Offers, SlotHolders
from protocol.messages.negotiator import ResetUsage, SetPriority
from tests.daemons.one_host import OneHost, one_host


async def accounts_of(host: OneHost) -> Accounts:
    start = await host.start("collector")
    start.config = start.config.with_overrides({"ACCOUNTANT_DATABASE_FILE": str(host.directory / "accounts")})
    return Accounts(start, NegotiatorKnobs.read(start.config), Offers(), SlotHolders(), lambda: None)


class Peer:
    identity = "root@pool.test"


async def test_an_administrator_hears_that_a_change_is_not_durable(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with one_host(tmp_path) as host:
        accounts = await accounts_of(host)

        def full(*_: object, **__: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        accounts._store.save = full  # type: ignore[method-assign, assignment]
        request = SetPriority(submitter="ann@pool.test", attribute="PriorityFactor", value=7.0)
        with pytest.raises(PoolError, match="cannot be saved: database or disk is full"):
            await accounts.set_priority(Peer(), request)  # type: ignore[arg-type]
        accounts._store.close()
        accounts.save_soon()
        with trio.move_on_after(5):  # of use alone a moment is lost, and the negotiator goes on
            await accounts.run()
            raise AssertionError("it has ended")


async def test_two_who_save_at_a_time_take_turns(tmp_path: Path, autojump_clock: MockClock) -> None:
    class Slow:
        async def run_sync(self, fn: Any, *args: Any) -> Any:
            busy.append(fn)
            most.append(len(busy))
            await trio.sleep(1)
            busy.remove(fn)

    busy: list[Any] = []
    most: list[int] = []
    async with one_host(tmp_path) as host:
        accounts = await accounts_of(host)
        object.__setattr__(accounts._start.world, "threads", Slow())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accounts.reset_usage, Peer(), ResetUsage())
            accounts.save_soon()
            nursery.start_soon(accounts.run)
            nursery.start_soon(accounts.reset_usage, Peer(), ResetUsage())
            await trio.sleep(10)
            nursery.cancel_scope.cancel()
        accounts._store.close()
    assert set(most) == {1}


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "Accountnew.sqlite"
    path.write_bytes(b"what a broken disk gives " * 200)
    with pytest.raises(PoolError, match=r"the accounts in .*Accountnew.sqlite cannot be read: file is not a database"):
        AccountStore(path)


async def test_notices_that_nobody_takes_do_not_pile_up_for_ever(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with one_host(tmp_path) as host:
        start = await host.start("collector")
        notices = Notices(start, 1.0)
        for number in range(WAITING_MAX + 10):
            notices._told[str(number)] = "<h:1>"
        notices.returned([str(number) for number in range(WAITING_MAX + 10)])
        assert notices._take.statistics().current_buffer_used == WAITING_MAX


def test_what_an_administrator_changes_is_synced_and_what_was_used_is_not(tmp_path: Path) -> None:
    store = AccountStore(tmp_path / "accounts")
    said: list[str] = []
    store._connection.set_trace_callback(said.append)

    def synced(durable: bool) -> bool:
        said.clear()
        store.save([], 1.0, durable=durable)
        return said.index("PRAGMA synchronous = FULL") < said.index("COMMIT") if durable else "FULL" in " ".join(said)

    assert synced(durable=True)
    assert not synced(durable=False)
    assert synced(durable=True)
    store.close()


async def test_the_word_of_an_administrator_is_saved_durably(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with one_host(tmp_path) as host:
        accounts = await accounts_of(host)
        said: list[str] = []
        accounts._store._connection.set_trace_callback(said.append)
        await accounts.set_priority(
            Peer(), SetPriority(submitter="ann@pool.test", attribute="PriorityFactor", value=7.0)
        )  # type: ignore[arg-type]
        assert said.index("PRAGMA synchronous = FULL") < said.index("COMMIT")
        accounts._store.close()


async def test_what_was_held_before_a_restart_is_charged_until_schedds_have_said_what_they_hold(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with one_host(tmp_path) as host:
        accounts = await accounts_of(host)
        began = accounts._start.world.wall()
        accounts._accountant.charge({"ann@p": SubmitterUse(2, 2.0)}, now=began)
        await trio.sleep(SETTLE_S - 1)
        accounts.charge()
        assert accounts.of("ann@p").in_use == 2
        await trio.sleep(1)
        accounts.charge()
        assert accounts.of("ann@p").in_use == 0
        assert accounts.of("ann@p").usage_s == pytest.approx(2 * SETTLE_S)
        accounts._store.close()


async def test_the_table_is_written_a_second_after_the_last_time_without_another_cycle(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with one_host(tmp_path) as host, trio.open_nursery() as nursery:
        accounts = await accounts_of(host)
        nursery.start_soon(accounts.run)
        accounts.save_soon()
        await trio.testing.wait_all_tasks_blocked()
        accounts._accountant.charge({"ann@p": SubmitterUse(2, 2.0)}, now=1000.0)
        accounts.save_soon()
        await trio.sleep(2 * SAVE_PAUSE_S)
        other = AccountStore(host.directory / "accounts")
        assert other.load()[0]["ann@p"].in_use == 2
        other.close()
        nursery.cancel_scope.cancel()
        accounts._store.close()
