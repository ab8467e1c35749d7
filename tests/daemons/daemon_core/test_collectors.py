"""Which collectors a daemon advertises to and asks, where COLLECTOR_HOST names several."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemons.daemon_core.collectors import collector_connected
from daemons.daemon_core.locate import collector_addresses, is_this_host
from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PoolError
from pool.config import load_config
from protocol.messages.collector import QueryAds
from tests.daemons.one_host import one_host
from tests.fakes.network import FakeNetwork

BOTH = "cm.pool.test:9618 other.pool.test:9618"


def test_a_host_with_a_collector_of_two_sends_to_its_own_and_to_the_other(tmp_path: Path) -> None:
    def addresses(**knobs: str) -> list[str]:
        settings = {"FULL_HOSTNAME": "cm.pool.test", "COLLECTOR_HOST": BOTH, **knobs}
        config = load_config((), environ={"POOL_DIR": str(tmp_path)}, overrides=settings)
        return [str(one) for one in collector_addresses(config)]

    mine, other = f"{tmp_path}/run/collector.sock", "<other.pool.test:9618?sock=collector>"
    assert addresses(DAEMON_LIST="MASTER COLLECTOR") == [mine, other]
    assert addresses(DAEMON_LIST="MASTER SCHEDD") == ["<cm.pool.test:9618?sock=collector>", other]
    assert addresses(DAEMON_LIST="MASTER COLLECTOR", COLLECTOR_HOST="whatever:0") == [mine]


def test_a_host_is_known_by_the_address_that_its_master_has_published(tmp_path: Path) -> None:
    config = load_config((), environ={"POOL_DIR": str(tmp_path)}, overrides={"FULL_HOSTNAME": "cm.pool.test"})
    assert not is_this_host(config, "10.1.2.3:9618")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "master.address").write_text("<10.1.2.3:9618?alias=cm.pool.test&sock=master>\n")
    assert is_this_host(config, "10.1.2.3:9618")


async def _collectors(daemon: DaemonStart) -> int:
    """How many are known to the one that answers."""
    async with collector_connected(daemon) as peer, peer.stream(QueryAds(ad_type="Collector")) as batches:
        return len([ad async for batch in batches for ad in batch.ads])


async def test_every_daemon_is_known_to_both_collectors_and_asks_the_one_that_is_left(
    tmp_path: Path, autojump_clock: object
) -> None:
    network, first, second = FakeNetwork(), tmp_path / "first", tmp_path / "second"
    cm, other = (network.host(name, duties={"central"}) for name in ("cm.pool.test", "other.pool.test"))
    knobs = {"COLLECTOR_HOST": BOTH}
    async with one_host(first, cm, overrides={**knobs, "DAEMON_LIST": "MASTER COLLECTOR"}) as here:
        async with one_host(second, other, overrides={**knobs, "DAEMON_LIST": "MASTER COLLECTOR"}) as there:
            hosts = (here, there)
            for host in hosts:
                await host.start("collector")
            negotiator = await here.start("negotiator")
            for host in hosts:
                assert {ad["Name"] for ad in await host.until_known("Negotiator")} == {"cm.pool.test"}
                await host.until_known("Collector", count=2)
            assert await _collectors(negotiator) == 2
            await here.kill("collector")
            assert await _collectors(negotiator) >= 1  # of the other
            await there.kill("collector")
            with pytest.raises(PoolError):
                await _collectors(negotiator)
