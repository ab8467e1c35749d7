"""What a collector keeps, tells and refuses; on a virtual clock, over the real protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from daemons.collector.main import Collector
from pool.ads.kept import KeptAd
from pool.ads.seen import AdChange
from pool.base.errors import UserError
from pool.classad import ClassAd, expr
from pool.hosts.daemon_names import kept_name
from protocol.messages.collector import (
    AdChanges,
    AdUpdate,
    ChangeAds,
    ChangesKept,
    InvalidateAds,
    QueryAds,
    UpdateAds,
    UpdateAlike,
    WatchAds,
)
from protocol.messages.common import GetAd, Ping, Reconfigure
from protocol.rpc.endpoints import Peer, RemoteError
from protocol.security.authorize import Level
from protocol.wire.ad_rows import pack_rows, unpack_rows
from protocol.wire.ad_table import AdTable, ads_of, pack_table, unpack_table
from protocol.wire.message import Done, StreamRequest
from tests.daemons.one_host import OneHost, one_host


def a_machine(name: str = "slot1@n", **attributes: object) -> ClassAd:
    return ClassAd({"MyType": "Machine", "Name": name, "Machine": "n", "State": "Unclaimed", **attributes})


def an_update(name: str = "slot1@n", **attributes: object) -> AdUpdate:
    return AdUpdate(ad=a_machine(name, **attributes), private=ClassAd({"ClaimId": f"<a>#1#1#secret-of-{name}"}))


async def all_items(peer: Peer, request: StreamRequest[Any]) -> list[Any]:
    async with peer.stream(request) as items:
        return [item async for item in items]


async def names(host: OneHost, constraint: str | None = None) -> list[str]:
    return sorted(ad.eval_str("Name", "") for ad in await host.query("Machine", constraint))


async def test_an_ad_is_kept_until_its_lifetime_is_over(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            await peer.call(UpdateAds(updates=[an_update("short@n", ClassAdLifetime=60), an_update("long@n")]))
        await trio.sleep(59)
        assert await names(host) == ["long@n", "short@n"]
        await trio.sleep(2)
        assert await names(host) == ["long@n"]
        await trio.sleep(900)
        assert await names(host) == []
    assert "Ad is absent. type=Machine name=short@n" in (tmp_path / "log" / "CollectorLog").read_text()


async def test_a_machine_that_is_expected_is_absent_until_it_is_heard_of_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    overrides = {"ABSENT_REQUIREMENTS": 'State == "Unclaimed"', "ABSENT_EXPIRE_ADS_AFTER": "2000"}
    async with one_host(tmp_path, overrides=overrides) as host:
        await host.start("collector")
        async with host.connected("collector") as peer, host.connected("collector") as watcher:
            await peer.call(UpdateAds(updates=[an_update("a@n"), an_update("b@n"), an_update("c@n", State="Owner")]))
            async with watcher.stream(WatchAds(ad_types=["Machine"])) as deltas:
                told = [(await deltas.__anext__()).change for _ in range(4)]
                assert told[-1] is AdChange.SYNCED
                await trio.sleep(901)
                assert {(await deltas.__anext__()).change for _ in range(3)} == {AdChange.REMOVE}
            assert await names(host) == []
            (absent, other) = await host.query("Machine", "Absent =?= true")
            assert [absent["Name"], other["Name"]] == ["a@n", "b@n"]
            assert (absent["Absent"], absent["ClassAdLifetime"]) == (True, 2000)
            await peer.call(UpdateAds(updates=[an_update("a@n", ClassAdLifetime=50_000)]))
            assert (await names(host), await names(host, "Absent =?= true")) == (["a@n"], ["b@n"])
            await trio.sleep(2001)
            assert await names(host, "Absent =?= true") == []


async def test_what_is_taken_back_is_absent_where_that_is_configured(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    overrides = {"ABSENT_REQUIREMENTS": 'State == "Unclaimed"', "EXPIRE_INVALIDATED_ADS": "true"}
    async with one_host(tmp_path, overrides=overrides) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            await peer.call(UpdateAds(updates=[an_update("a@n"), an_update("b@n"), an_update("c@n", State="Owner")]))
            assert (await peer.call(InvalidateAds(ad_type="Machine", names=["a@n", "c@n"]))).count == 2
            assert (await names(host), await names(host, "Absent")) == (["b@n"], ["a@n"])
            assert (await peer.call(InvalidateAds(ad_type="Machine", names=["a@n"]))).count == 1
            assert await names(host, "Absent") == []


async def test_an_absent_machine_that_is_expected_no_longer_is_taken_back(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    overrides = {"ABSENT_REQUIREMENTS": "true", "ABSENT_EXPIRE_ADS_AFTER": "0"}
    async with one_host(tmp_path, overrides=overrides) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            await peer.call(UpdateAds(updates=[an_update("a@n"), an_update("b@n")]))
            await trio.sleep(4000)
            assert await names(host, "Absent") == ["a@n", "b@n"]
            assert (await peer.call(InvalidateAds(ad_type="Machine", names=["a@n"]))).count == 1
            assert (await peer.call(InvalidateAds(ad_type="Machine", constraint="Absent"))).count == 1
            assert await names(host, "Absent") == []


async def test_queries_select_project_and_never_show_private_halves(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            updates = [an_update(f"slot{n}@n", Memory=n * 100, Start=expr("Memory > 250")) for n in range(1, 201)]
            await peer.call(UpdateAds(updates=updates))
            request = QueryAds(ad_type="Machine", constraint="Start && Memory <= 500", projection=["Name", "Start"])
            async with peer.stream(request) as batches:
                found = [ad async for batch in batches for ad in batch.ads]
            assert [sorted(ad) for ad in found] == [["Name", "Start"]] * 3
            assert [ad["Name"] for ad in found] == ["slot3@n", "slot4@n", "slot5@n"]
            async with peer.stream(QueryAds(ad_type="Any", limit=7)) as batches:
                assert len([ad async for batch in batches for ad in batch.ads]) == 7
        for ad in await host.query("Any"):
            assert "secret" not in ad.long()


async def test_who_asks_for_tables_gets_the_chosen_attributes_as_columns(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            updates = [an_update(f"slot{n}@n", Memory=n, Start=expr("Memory > 250")) for n in range(1, 301)]
            await peer.call(UpdateAds(updates=updates))
            wanted = ["Name", "Start", "Nothing"]
            batches = await all_items(peer, QueryAds(ad_type="Machine", projection=wanted, limit=299, tables=True))
            tables = [unpack_table(batch.table) for batch in batches]
            assert [table.rows for table in tables if isinstance(table, AdTable)] == [256, 43]
            assert [ad for batch in batches for ad in ads_of(batch)] == [
                update.ad.project(wanted) for update in updates[:299]
            ]
            # Ads whole have too little in common for columns.
            (batch,) = await all_items(peer, QueryAds(ad_type="Machine", limit=3, tables=True))
            assert (len(batch.ads), batch.table) == (3, b"")


async def test_a_watcher_hears_what_is_there_and_then_each_change(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer, host.connected("collector") as watcher:
            await peer.call(UpdateAds(updates=[an_update("a@n", Memory=1), an_update("b@n", Memory=9)]))
            request = WatchAds(ad_types=["Machine"], constraint="Memory > 5", private=True)
            async with watcher.stream(request) as deltas:
                first = await deltas.__anext__()
                assert (first.change, first.name) == (AdChange.UPDATE, "b@n")
                assert first.private is not None
                assert first.private["ClaimId"] == "<a>#1#1#secret-of-b@n"
                assert (await deltas.__anext__()).change is AdChange.SYNCED
                await peer.call(UpdateAds(updates=[an_update("a@n", Memory=2), an_update("c@n", Memory=7)]))
                assert (await deltas.__anext__()).name == "c@n"
                await peer.call(UpdateAds(updates=[an_update("b@n", Memory=3)]))
                gone = await deltas.__anext__()
                assert (gone.change, gone.name) == (AdChange.REMOVE, "b@n")
                await peer.call(InvalidateAds(ad_type="Machine", names=["c@n"]))
                gone = await deltas.__anext__()
                assert (gone.change, gone.name) == (AdChange.REMOVE, "c@n")


async def test_a_users_ads_of_several_schedds_stand_side_by_side(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def schedds() -> list[str]:
        return sorted(ad.eval_str("ScheddName", "") for ad in await host.query("Submitter"))

    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            about = {"MyType": "Submitter", "Name": "alice@n", "Machine": "n"}
            ads = [ClassAd({**about, "ScheddName": name}) for name in ("one@n", "two@n")]
            for _ in range(2):
                await peer.call(UpdateAds(updates=[AdUpdate(ad=ad) for ad in ads]))
                assert await schedds() == ["one@n", "two@n"]
            answer = await peer.call(InvalidateAds(ad_type="Submitter", names=[kept_name(ads[0])]))
            assert answer.count == 1
            assert await schedds() == ["two@n"]


async def test_ads_are_taken_back_by_name_or_by_constraint(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            await peer.call(UpdateAds(updates=[an_update(f"{c}@n", Memory=n) for n, c in enumerate("abcd")]))
            answer = await peer.call(InvalidateAds(ad_type="Machine", names=["A@N", "nobody"]))
            assert answer.count == 1  # names ignore case
            answer = await peer.call(InvalidateAds(ad_type="Machine", constraint="Memory >= 2"))
            assert answer.count == 2
        assert await names(host) == ["b@n"]


@pytest.mark.parametrize(
    ("ad", "why"),
    [
        (ClassAd({"Name": "x", "MyType": ""}), "needs MyType and Name"),
        (ClassAd({"MyType": "Generic"}), "needs MyType and Name"),
        (ClassAd({"MyType": "Generic", "Name": "x", **{f"A{n}": n for n in range(6000)}}), "attributes"),
    ],
    ids=["no type", "no name", "too many attributes"],
)
async def test_p9_an_ad_that_cannot_be_kept_costs_its_sender_an_error(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, ad: ClassAd, why: str
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            with pytest.raises(RemoteError, match=why):
                await peer.call(UpdateAds(updates=[AdUpdate(ad=ad)]))
            with pytest.raises(RemoteError, match="expected an expression"):
                await all_items(peer, QueryAds(ad_type="Machine", constraint="1 +"))
            await peer.call(UpdateAds(updates=[an_update()]))
        assert await names(host) == ["slot1@n"]


async def test_p10_who_may_only_read_changes_nothing_and_sees_no_claim_id(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    stranger = 4711  # an account that is not the pool's
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as owner:
            await owner.call(UpdateAds(updates=[an_update()]))
        host.network = host.network.as_user(stranger)
        async with host.connected("collector") as peer:
            said = await peer.call(Ping())
            assert {Level.READ.value} <= set(said.levels) <= {Level.READ.value, Level.WRITE.value}
            for forbidden in (
                UpdateAds(updates=[an_update("evil@n")]),
                InvalidateAds(ad_type="Machine", names=["slot1@n"]),
                Reconfigure(),
            ):
                with pytest.raises(RemoteError, match=r"needs (ADVERTISE_STARTD|NEGOTIATOR|ADMINISTRATOR)"):
                    await peer.call(forbidden)
            with pytest.raises(RemoteError, match="NEGOTIATOR"):
                await all_items(peer, WatchAds(ad_types=["Machine"], private=True))
        assert await names(host) == ["slot1@n"]


def a_change(base: int, version: int = 0, **attributes: object) -> AdChanges:
    return AdChanges(
        ad_type="Machine", name="slot1@n", base=base, version=version, changed=ClassAd(attributes), removed=["Memory"]
    )


async def test_of_an_ad_that_is_there_only_what_is_different_is_sent(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer, host.connected("collector") as watcher:
            first = an_update(Memory=1, Disk=2, ClassAdLifetime=60)
            await peer.call(UpdateAds(updates=[AdUpdate(ad=first.ad, private=first.private, version=7)]))
            request = WatchAds(ad_types=["Machine"], private=True, changes_only=True)
            async with watcher.stream(request) as deltas:
                assert (await deltas.__anext__()).change is AdChange.UPDATE
                assert (await deltas.__anext__()).change is AdChange.SYNCED
                await trio.sleep(50)
                assert (await peer.call(ChangeAds(changes=[a_change(7, 8, State="Claimed")]))).whole == []
                told = await deltas.__anext__()
                assert (told.change, told.name, told.removed) == (AdChange.CHANGE, "slot1@n", ["Memory"])
                assert sorted(told.ad) == ["LastHeardFrom", "State"]
                assert told.private is None
                await peer.call(UpdateAds(updates=[an_update(Disk=2)]))
                told = await deltas.__anext__()
                assert (told.ad["State"], told.private) == ("Unclaimed", None)
                await peer.call(UpdateAds(updates=[AdUpdate(ad=a_machine(Disk=2), private=ClassAd({"ClaimId": "b"}))]))
                assert (await deltas.__anext__()).private == ClassAd({"ClaimId": "b"})
                await peer.call(UpdateAds(updates=[AdUpdate(ad=first.ad, private=first.private, version=9)]))
                assert (await peer.call(ChangeAds(changes=[a_change(9, 10, State="Claimed")]))).whole == []
            await trio.sleep(50)  # its lifetime began anew
            (ad,) = await host.query("Machine")
            assert (ad["State"], ad["Disk"], "Memory" in ad) == ("Claimed", 2, False)
            (watched, _) = [item async for item in _first(watcher, request, 2)]
            assert watched.private["ClaimId"] == "<a>#1#1#secret-of-slot1@n"


async def _first(peer: Peer, request: StreamRequest[Any], count: int) -> AsyncIterator[Any]:
    async with peer.stream(request) as items:
        for _ in range(count):
            yield await items.__anext__()


async def test_changes_of_an_ad_that_is_not_there_so_ask_for_the_whole(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            unknown = ChangeAds(changes=[a_change(7, 8, State="Claimed"), a_change(0, 8, State="Claimed")])
            assert (await peer.call(unknown)).whole == [0, 1]
            await peer.call(UpdateAds(updates=[an_update(Memory=1)]))  # somebody else's, who tells of no changes
            assert (await peer.call(unknown)).whole == [0, 1]
            await peer.call(UpdateAds(updates=[AdUpdate(ad=a_machine(), version=7)]))
            assert (await peer.call(ChangeAds(changes=[a_change(6, 8, State="Claimed")]))).whole == [0]
            renamed = ChangeAds(changes=[a_change(7, 8, Name="slot2@n"), a_change(7, 8, Machine="other")])
            assert (await peer.call(renamed)).whole == [0, 1]
            assert await names(host) == ["slot1@n"]


async def test_a_daemon_sends_an_ad_whole_once_and_again_when_the_collector_has_lost_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[UpdateAlike | ChangeAds] = []
    update, change = Collector.update_alike, Collector.change

    async def hear_update(self: Collector, peer: Peer, request: UpdateAlike) -> Done:
        heard.append(request)
        return await update(self, peer, request)

    async def hear_change(self: Collector, peer: Peer, request: ChangeAds) -> ChangesKept:
        heard.append(request)
        return await change(self, peer, request)

    monkeypatch.setattr(Collector, "update_alike", hear_update)
    monkeypatch.setattr(Collector, "change", hear_change)
    async with one_host(tmp_path) as host:
        start = await host.start("collector")
        async with host.connected("collector") as peer:
            for memory, at in ((1, 1), (2, 1), (2, 2), (3, 3)):
                start.adverts.put(a_machine(Memory=memory, MyCurrentTime=at), ClassAd({"ClaimId": "<a>#1#1#secret"}))
                await trio.sleep(1)
            kinds = [type(one) for one in heard if _speaks_of(one, "slot1@n")]
            assert kinds == [UpdateAlike, ChangeAds, ChangeAds], "the third put was no news"
            await peer.call(InvalidateAds(ad_type="Machine", names=["slot1@n"]))
            start.adverts.put(a_machine(Memory=4), ClassAd({"ClaimId": "<a>#1#1#secret"}))
            await trio.sleep(1)
            (ad,) = await host.query("Machine")
            assert (ad["Memory"], ad["State"]) == (4, "Unclaimed")


def _speaks_of(request: UpdateAlike | ChangeAds, name: str) -> bool:
    if isinstance(request, UpdateAlike):
        return any(one.get("name") == name for one in unpack_rows(request.table))
    return any(one.name == name for one in request.changes)


async def test_slots_that_are_alike_are_sent_together_and_one_by_one_to_who_does_not_know_that(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    together = Collector.update_alike

    async def hear(self: Collector, peer: Peer, request: UpdateAlike) -> Done:
        heard.append(len(request.versions))
        return await together(self, peer, request)

    async def refuse(self: Collector, peer: Peer, request: UpdateAlike) -> Done:
        raise UserError("no such request")

    for answered in (hear, refuse):
        monkeypatch.setattr(Collector, "update_alike", answered)
        async with one_host(tmp_path / answered.__name__) as host:
            start = await host.start("collector")
            slots = [a_machine(f"slot{n}@n", Cpus=n, Start=expr("TARGET.Cpus < Cpus")) for n in range(1, 8)]
            for slot in slots:
                start.adverts.put(slot, ClassAd({"ClaimId": f"<a>#1#1#secret-of-{slot['Name']}"}))
            await trio.sleep(1)
            start.adverts.put(a_machine("slot1@n", Cpus=9, Start=expr("TARGET.Cpus < Cpus")), ClassAd({"ClaimId": "b"}))
            await trio.sleep(1)
            found = {ad["Name"]: ad for ad in await host.query("Machine")}
            assert [found[slot["Name"]].eval_int("Cpus") for slot in slots] == [9, *range(2, 8)]
            assert found["slot5@n"].eval("Start", ClassAd({"Cpus": 4})) is True
            async with (
                host.connected("collector") as peer,
                peer.stream(WatchAds(ad_types=["Machine"], private=True)) as told,
            ):
                private = {d.name: d.private["ClaimId"] async for d in first(told, 7) if d.private is not None}
            assert (private["slot1@n"], private["slot2@n"]) == ("b", "<a>#1#1#secret-of-slot2@n")
    assert [rows for rows in heard if rows > 1] == [7], "what has names of its own, as the collector's ad, comes alone"


async def first(items: AsyncIterator[Any], count: int) -> AsyncIterator[Any]:
    for _ in range(count):
        yield await anext(items)


async def test_of_ads_in_rows_those_that_cannot_be_kept_keep_no_other_out(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            for ads, why in (
                ([a_machine("a@n"), a_machine(""), a_machine("b@n")], "needs MyType and Name"),
                ([a_machine("c@n", N=1), a_machine("d@n", N=expr("1 + x"))], ""),
            ):
                request = UpdateAlike(table=pack_rows([KeptAd(ad) for ad in ads]), versions=[1] * len(ads))
                if why:
                    with pytest.raises(RemoteError, match=why):
                        await peer.call(request)
                else:
                    await peer.call(request)
            assert await names(host) == ["a@n", "b@n", "c@n", "d@n"]
            one = pack_rows([KeptAd(a_machine("e@n"))])
            for table, private, versions in (
                (one, b"", [1, 2]),
                (one, pack_rows([KeptAd(ClassAd({"ClaimId": "x"}))] * 2), [1]),
                (pack_table(["Name"], [[None]], 1), b"", [1]),
                (b"no table", b"", [1]),
            ):
                with pytest.raises(RemoteError):
                    await peer.call(UpdateAlike(table=table, private=private, versions=versions))
            assert await names(host) == ["a@n", "b@n", "c@n", "d@n"]


async def test_the_collector_describes_itself(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        (ad,) = await host.until_known("Collector")
        assert ad["Name"] == "My Pool - cm.pool.test"
        async with host.connected("collector") as peer:
            await peer.call(UpdateAds(updates=[an_update()]))
            assert (await peer.call(GetAd())).ad["MachineAds"] == 1
            named = (await peer.call(GetAd(projection=["Name", "NoSuchAttribute"]))).ad
            assert dict(named.items()) == {"Name": "My Pool - cm.pool.test"}


async def test_a_daemon_that_stops_takes_its_ads_back(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        await host.start("negotiator")
        await host.until_known("Negotiator")
        await host.stop("negotiator")
        assert await host.query("Negotiator") == []


async def test_ads_are_there_again_after_the_collector_was_lost(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        await host.start("negotiator")
        await host.until_known("Negotiator")
        await host.kill("collector")
        await host.start("collector")
        assert len(await host.until_known("Negotiator")) == 1


async def test_an_ad_that_is_refused_keeps_no_other_out(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with one_host(tmp_path, overrides={"COLLECTOR_REQUIREMENTS": 'State != "Odd"'}) as host:
        await host.start("collector")
        async with host.connected("collector") as peer:
            updates = [an_update("slot1@n"), an_update("slot2@n", State="Odd"), an_update("slot3@n")]
            with pytest.raises(RemoteError, match="COLLECTOR_REQUIREMENTS refuses the ad slot2@n"):
                await peer.call(UpdateAds(updates=updates))
        assert await names(host) == ["slot1@n", "slot3@n"]


async def test_what_a_daemon_drops_goes_though_another_ad_of_its_is_refused(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_host(tmp_path, overrides={"COLLECTOR_REQUIREMENTS": 'State =!= "Odd"'}) as host:
        start = await host.start("collector")
        start.adverts.put(a_machine("slot1@n"))
        await host.until_known("Machine")
        start.adverts.put(a_machine("slot2@n", State="Odd"))
        start.adverts.drop("Machine", "slot1@n")
        await trio.sleep(5)
        assert await names(host) == []


async def test_whether_a_host_was_put_out_is_looked_up_once_a_message(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_host(tmp_path) as host:
        start = await host.start("collector")
        looks: list[object] = []
        monkeypatch.setattr(start.security.revoked, "check", looks.append)
        async with host.connected("collector") as peer:
            await peer.call(UpdateAds(updates=[an_update(f"slot{number}@n") for number in range(200)]))
        assert len(looks) < 20  # the connection is judged too
