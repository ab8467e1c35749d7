"""A watch that goes on after its connection or its collector was lost: what is told, over the real protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from pool.ads.seen import AdNews, SeenAds
from pool.classad import ClassAd
from protocol.messages.collector import AdUpdate, InvalidateAds, UpdateAds, WatchAds
from tests.daemons.one_host import OneHost, one_host
from tests.scopes import scopes

Clock = trio.testing.MockClock


def a_machine(name: str, **attributes: object) -> AdUpdate:
    return AdUpdate(ad=ClassAd({"MyType": "Machine", "Name": name, "Machine": "n", **attributes}))


async def publish(host: OneHost, *updates: AdUpdate) -> None:
    async with host.connected("collector") as peer:
        await peer.call(UpdateAds(updates=list(updates)))


class Watcher:
    """Follows one watch after the other; `news` is what it was told that is news."""

    def __init__(self, host: OneHost, *, constraint: str | None = None, projection: tuple[str, ...] = ()) -> None:
        self._host, self._constraint, self._projection = host, constraint, list(projection)
        self.seen = SeenAds()
        self.deltas = 0
        self._news: list[AdNews] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch for the time of the block; it begins when all is told."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._watch)
            yield
            nursery.cancel_scope.cancel()

    async def _watch(self, *, task_status: trio.TaskStatus[None]) -> None:
        request = WatchAds(
            ad_types=["Machine"], constraint=self._constraint, projection=self._projection, changes_only=True,
            resume=self.seen.begin(),
        )  # fmt: skip
        async with self._host.connected("collector") as peer, peer.stream(request) as deltas:
            began = False
            async for delta in deltas:
                self._news += self.seen.take(delta)
                self.deltas += 1
                if self.seen.synced and not began:
                    began = True
                    task_status.started()

    def news(self) -> list[str]:
        """What is news since this was asked last."""
        told, self._news = self._news, []
        return [f"{'-' if one.gone else '+' if one.before is None else ''}{one.name}" for one in told]


async def test_a_watch_that_is_taken_up_again_hears_of_each_change_once(tmp_path: Path, autojump_clock: Clock) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        await publish(host, *(a_machine(name, Memory=1) for name in ("a@n", "b@n", "c@n", "d@n")))
        watcher = Watcher(host)
        async with watcher.watching():
            assert watcher.news() == ["+a@n", "+b@n", "+c@n", "+d@n"]
        await publish(host, a_machine("b@n", Memory=2), a_machine("e@n"))
        async with host.connected("collector") as peer:
            await peer.call(InvalidateAds(ad_type="Machine", names=["c@n"]))
        watcher.deltas = 0
        async with watcher.watching():
            assert watcher.news() == ["b@n", "+e@n", "-c@n"]
            assert watcher.deltas == 4, "what has not changed was not told again"
            async with host.connected("collector") as peer:
                await peer.call(InvalidateAds(ad_type="Machine", names=["d@n"]))
            await trio.sleep(1)
            assert watcher.news() == ["-d@n"]


async def test_after_a_restart_the_ads_that_come_again_are_news_only_where_they_are_different(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with one_host(tmp_path, overrides={"CLASSAD_LIFETIME": "600"}) as host:
        await host.start("collector")
        await publish(host, *(a_machine(name, Memory=1) for name in ("a@n", "b@n", "c@n")))
        watcher = Watcher(host)
        async with watcher.watching():
            watcher.news()
        await host.kill("collector")
        await host.start("collector")
        await publish(host, a_machine("b@n", Memory=2))
        async with watcher.watching():
            assert watcher.news() == ["b@n"]
            await publish(host, a_machine("a@n", Memory=1))
            await trio.sleep(590)
            await publish(host, a_machine("a@n", Memory=1), a_machine("b@n", Memory=2))
            assert watcher.news() == [], "c may come again yet"
            await trio.sleep(11)
            assert watcher.news() == ["-c@n"]


async def test_who_watches_a_collector_for_long_is_told_at_once_what_is_gone(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        await trio.sleep(901)
        await publish(host, a_machine("a@n"))
        watcher = Watcher(host)
        watcher.seen.begin()
        async with watcher.watching():
            assert watcher.news() == ["+a@n"]
        async with host.connected("collector") as peer:
            await peer.call(InvalidateAds(ad_type="Machine"))
        watcher.seen.forget_token()
        async with watcher.watching():
            assert watcher.news() == ["-a@n"]


async def test_what_a_watcher_was_told_leaves_nothing(tmp_path: Path, autojump_clock: Clock) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        async with host.connected("collector") as peer, Watcher(host).watching():
            await peer.call(UpdateAds(updates=[a_machine("a@n", Memory=1)]))
            before = scopes()
            for memory in range(2, 52):
                await peer.call(UpdateAds(updates=[a_machine("a@n", Memory=memory)]))
                await wait_all_tasks_blocked()
            assert scopes() - before < 10


async def test_only_changes_of_what_is_wanted_are_told(tmp_path: Path, autojump_clock: Clock) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        await publish(host, a_machine("a@n", Memory=1, LoadAvg=0.5))
        watcher = Watcher(host, projection=("Name", "Memory", "Cpus"))
        async with watcher.watching():
            (ad,) = watcher.seen
            assert dict(ad.items()) == {"Name": "a@n", "Memory": 1}
            watcher.news()
            watcher.deltas = 0
            await publish(host, a_machine("a@n", Memory=1, LoadAvg=1.5))
            await trio.sleep(1)
            await publish(host, a_machine("a@n", Memory=2, LoadAvg=2.5))
            await trio.sleep(1)
            assert (watcher.news(), watcher.deltas) == (["a@n"], 1)


async def test_an_ad_that_became_none_of_those_wanted_while_nobody_watched_is_gone(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        await publish(host, a_machine("a@n", Memory=9), a_machine("b@n", Memory=9))
        watcher = Watcher(host, constraint="Memory > 5")
        async with watcher.watching():
            watcher.news()
        await publish(host, a_machine("a@n", Memory=1))
        async with watcher.watching():
            assert watcher.news() == ["-a@n"]
        await host.kill("collector")
        await host.start("collector")
        await publish(host, a_machine("b@n", Memory=1))
        async with watcher.watching():
            assert watcher.news() == ["-b@n"], "though the new collector is not settled"


@pytest.mark.parametrize(
    "token", ["", "-", "nonsense", "one.1", "{generation}.x", "{generation}.99999", "{generation}."]
)
async def test_p9_a_token_that_is_none_is_answered_with_all(tmp_path: Path, autojump_clock: Clock, token: str) -> None:
    async with one_host(tmp_path) as host:
        await host.start("collector")
        await publish(host, a_machine("a@n"))
        watcher = Watcher(host)
        async with watcher.watching():
            generation = watcher.seen.token.partition(".")[0]
        request = WatchAds(ad_types=["Machine"], resume=token.format(generation=generation))
        async with host.connected("collector") as peer, peer.stream(request) as deltas:
            first, last = [await deltas.__anext__() for _ in range(2)]
            assert (first.name, last.resumed, last.settled) == ("a@n", False, False)
