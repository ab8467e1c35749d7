"""Ads of absent and of offline machines outlast a collector that is killed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from daemons.base.named_file import Foreign, named_file
from daemons.collector.persistent import AdFile
from pool.base.errors import PoolError
from pool.classad import ClassAd, expr
from protocol.messages.collector import AdUpdate, InvalidateAds, NoteWanted, UpdateAds, WantedSlot
from tests.daemons.one_host import OneHost, one_host

Clock = trio.testing.MockClock


def a_machine(name: str, **attributes: object) -> AdUpdate:
    return AdUpdate(ad=ClassAd({"MyType": "Machine", "Name": name, "Machine": "n", **attributes}))


async def publish(host: OneHost, *updates: AdUpdate) -> None:
    async with host.connected("collector") as peer:
        await peer.call(UpdateAds(updates=list(updates)))


async def restart(host: OneHost) -> None:
    await trio.sleep(1)
    await host.kill("collector")
    await host.start("collector")


async def names(host: OneHost, constraint: str | None = None) -> list[str]:
    return sorted(ad.eval_str("Name", "") for ad in await host.query("Machine", constraint))


@pytest.mark.parametrize("knob", ["COLLECTOR_PERSISTENT_AD_LOG", "OFFLINE_LOG"])
async def test_absent_machines_are_known_after_a_restart_for_the_rest_of_their_time(
    tmp_path: Path, autojump_clock: Clock, knob: str
) -> None:
    overrides = {
        "ABSENT_REQUIREMENTS": 'Name != "c@n"', "ABSENT_EXPIRE_ADS_AFTER": "5000", knob: str(tmp_path / "ads"),
    }  # fmt: skip
    async with one_host(tmp_path, overrides=overrides) as host:
        await host.start("collector")
        start = expr("TARGET.Memory > 1 && Cpus > 2")
        await publish(host, a_machine("a@n", Start=start), a_machine("b@n"), a_machine("c@n"))
        await trio.sleep(1000)
        await restart(host)
        assert (await names(host), await names(host, "Absent")) == ([], ["a@n", "b@n"])
        (ad,) = await host.query("Machine", 'Absent && Name == "a@n"')
        assert ad["Start"] == start
        await publish(host, a_machine("a@n"))
        await restart(host)
        assert await names(host, "Absent") == ["b@n"], "a was heard of"
        await trio.sleep(4800)
        await restart(host)
        assert await names(host, "Absent") == ["b@n"]
        await trio.sleep(200)
        await restart(host)
        assert await names(host, "Absent") == []


async def test_offline_machines_are_known_after_a_restart_until_they_are_not_offline_or_taken_back(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    overrides = {"OFFLINE_EXPIRE_ADS_AFTER": "9000", "COLLECTOR_PERSISTENT_AD_LOG": str(tmp_path / "ads")}
    async with one_host(tmp_path, overrides=overrides) as host:
        await host.start("collector")
        sleeping = [a_machine(f"slot1@{name}", Offline=True) for name in "abc"]
        await publish(host, *sleeping, a_machine("slot1@d", Offline=True, ClassAdLifetime=2000), a_machine("slot1@e"))
        await trio.sleep(1000)
        assert await names(host) == ["slot1@a", "slot1@b", "slot1@c", "slot1@d"], "they live longer than others"
        await restart(host)
        assert await names(host) == ["slot1@a", "slot1@b", "slot1@c", "slot1@d"]
        await publish(host, a_machine("slot1@a", Offline=False))
        async with host.connected("collector") as peer:
            await peer.call(InvalidateAds(ad_type="Machine", names=["slot1@b"]))
        await restart(host)
        assert await names(host) == ["slot1@c", "slot1@d"]
        await trio.sleep(1100)
        assert await names(host) == ["slot1@c"]
        await trio.sleep(8000)
        await restart(host)
        assert await names(host) == []


async def test_what_could_not_be_written_is_written_with_the_next_change(tmp_path: Path, autojump_clock: Clock) -> None:
    async with one_host(tmp_path, overrides={"COLLECTOR_PERSISTENT_AD_LOG": str(tmp_path / "ads")}) as host:
        await host.start("collector")
        with closing(sqlite3.connect(tmp_path / "ads")) as other:
            other.execute("CREATE TRIGGER full BEFORE INSERT ON ads BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
            await publish(host, a_machine("a@n", Offline=True))
            await trio.sleep(1)
            assert "the disk is full" in (host.directory / "log" / "CollectorLog").read_text()
            other.execute("DROP TRIGGER full")
        await publish(host, a_machine("b@n", Offline=True))
        await restart(host)
        assert await names(host) == ["a@n", "b@n"]


@pytest.mark.parametrize("holds", ["text", "another table", "no ad"])
async def test_a_file_that_holds_something_else_is_put_aside_and_told_and_a_new_one_begun(
    tmp_path: Path, autojump_clock: Clock, holds: str
) -> None:
    path = tmp_path / "ads"
    if holds == "text":
        path.write_text("not a database, and long enough to be seen as none" * 20)
    elif holds == "another table":
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("CREATE TABLE ads (what TEXT)")
    else:
        AdFile(path).close()
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("INSERT INTO ads VALUES ('machine', 'a@n', '', 0.0, x'c1')")
    before = path.read_bytes()
    async with one_host(tmp_path, overrides={"COLLECTOR_PERSISTENT_AD_LOG": str(path)}) as host:
        await host.start("collector")
        log = (host.directory / "log" / "CollectorLog").read_text()
        assert f"the ads in {path} cannot be read: " in log
        assert f"It is {path}.unreadable now, and a new one is begun." in log
        assert (tmp_path / "ads.unreadable").read_bytes()[:16] == before[:16]
        await publish(host, a_machine("b@n", Offline=True))
        await restart(host)
        assert await names(host) == ["b@n"]
        assert (host.directory / "log" / "CollectorLog").read_text().count("cannot be read") == 1


def test_a_file_that_cannot_be_used_now_is_none_that_holds_something_else(tmp_path: Path) -> None:
    path = tmp_path / "ads"
    AdFile(path).close()
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        closing(sqlite3.connect(path, timeout=0)) as one,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(PoolError, match="locked") as refused, named_file(path, "the ads", "ads"):
            one.execute("DELETE FROM ads")
    assert not isinstance(refused.value, Foreign)


def test_a_row_that_holds_no_ad_is_named(tmp_path: Path) -> None:
    file = AdFile(tmp_path / "ads")
    with closing(sqlite3.connect(tmp_path / "ads")) as other, other:
        other.execute("INSERT INTO ads VALUES ('machine', 'a@n', '', 0.0, x'c1')")
    with pytest.raises(PoolError, match=r"the ads in .*/ads cannot be read: "):
        file.load()


def test_a_file_that_holds_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "ads").write_text("not a database, and long enough to be seen as none" * 20)
    with pytest.raises(PoolError, match=r"the ads in .*/ads cannot be read: file is not a database"):
        AdFile(tmp_path / "ads")


async def test_a_cycles_word_of_jobs_is_kept_with_the_ad_of_a_slot_that_is_offline_and_no_other(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with one_host(tmp_path, overrides={"COLLECTOR_PERSISTENT_AD_LOG": str(tmp_path / "ads")}) as host:
        await host.start("collector")
        await publish(
            host, a_machine("slot1@n", Offline=True), a_machine("slot2@n", Offline=True), a_machine("slot3@m")
        )
        await trio.sleep(100)
        async with host.connected("collector") as peer:
            wanted = [WantedSlot(name=name, count=4) for name in ("slot2@n", "slot3@m", "slot4@n")]
            await peer.call(NoteWanted(slots=wanted))
        await restart(host)
        found = {ad.eval_str("Name", ""): ad for ad in await host.query("Machine", "Offline")}
        assert found["slot2@n"]["MachineLastMatchTime"] == found["slot2@n"]["LastHeardFrom"] + 100
        assert found["slot2@n"]["MachineMatchCount"] == 4
        assert found["slot1@n"]["slot2_MachineLastMatchTime"] == found["slot2@n"]["MachineLastMatchTime"]
        assert "MachineLastMatchTime" not in found["slot1@n"]
        assert sorted(found) == ["slot1@n", "slot2@n"]
        await publish(host, a_machine("slot2@n", Offline=True, Memory=5))
        (ad,) = await host.query("Machine", 'Name == "slot2@n"')
        assert (ad["Memory"], ad["MachineMatchCount"]) == (5, 4), "it is told anew, and still wanted"
        await publish(host, a_machine("slot2@n"))
        (ad,) = await host.query("Machine", 'Name == "slot2@n"')
        assert "MachineLastMatchTime" not in ad, "the machine is awake"


@pytest.mark.parametrize("known_after_a_restart", [False, True])
async def test_offline_ads_of_slots_that_do_not_come_back_with_their_machine_are_forgotten(
    tmp_path: Path, autojump_clock: Clock, known_after_a_restart: bool
) -> None:
    async with one_host(tmp_path, overrides={"COLLECTOR_PERSISTENT_AD_LOG": str(tmp_path / "ads")}) as host:
        await host.start("collector")
        asleep = [a_machine(f"slot{number}@{at}", Offline=True) for number in (1, 2, 3) for at in ("n", "other@n", "o")]
        await publish(host, *asleep)
        if known_after_a_restart:
            await restart(host)
        others = sorted(f"slot{number}@{at}" for number in (1, 2, 3) for at in ("other@n", "o"))
        await publish(host, a_machine("slot1@n"), a_machine("slot2@n"))
        assert await names(host) == sorted(["slot1@n", "slot2@n", *others]), "two slots came back"
        await publish(host, a_machine("slot1@n", Offline=True), a_machine("slot2@n", Offline=True))
        async with host.connected("collector") as peer:
            await peer.call(InvalidateAds(ad_type="Machine", names=["slot1@n"]))
        await publish(host, a_machine("slot7@n"))
        assert await names(host) == sorted(["slot7@n", *others]), "none that was there"
        await restart(host)
        assert await names(host) == others
