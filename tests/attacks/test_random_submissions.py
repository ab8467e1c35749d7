"""Whatever a client says in ads, tables, recipes and edits: every ad that leaves the schedd names the client."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
import trio.testing

from pool.base.errors import PoolError
from pool.classad import ClassAd, expr
from pool.jobs.vocabulary.own_attributes import OWN
from protocol.messages.schedd import Action, EditJobs, QueryJobs, Selection
from protocol.messages.submit import SubmitJobs
from protocol.wire.ad_table import pack_table
from protocol.wire.codec import pack_ads
from tests.daemons.schedd.bench import USER, Bench, a_bench, a_job
from tests.daemons.schedd.test_factories import submit

Clock = trio.testing.MockClock

VICTIM = "bin"
TRANSFORMS = {
    "JOB_TRANSFORM_NAMES": "All",
    "JOB_TRANSFORM_All": "\n".join(f"COPY Wanted{name} {name}" for name in OWN if name != "JobUniverse"),
}
NAMES = [*OWN, *(f"Wanted{name}" for name in OWN), "AccountingGroup", "AcctGroup", "AcctGroupUser", "NiceUser"]
VALUES = [VICTIM, f"{VICTIM}@pool.test", f"physics.{VICTIM}", USER, f"physics.{USER}", 7, True, expr(f'"{VICTIM}"')]


def said(rng: random.Random) -> dict[str, object]:
    """Some attributes, spelt somehow; JobUniverse stays what it is, for any other could not be matched here."""
    names = [name for name in rng.sample(NAMES, rng.randint(1, 4)) if name not in ("JobUniverse", "JobStatus")]
    spelt = [rng.choice([str, str.lower, str.upper, str.swapcase])(name) for name in names]
    return {name: rng.choice(VALUES) for name in spelt}


def request(rng: random.Random, number: int) -> SubmitJobs:
    """A submission in one of the forms that there are."""
    own = [{**(said(rng) if rng.random() < 0.8 else {}), "Number": number} for _ in range(2)]
    cluster = a_job(**said(rng)) if rng.random() < 0.5 else a_job()
    if rng.random() < 0.5:
        return SubmitJobs(cluster_ad=cluster, procs=[pack_ads([ClassAd(one) for one in own])])
    shared = own[0] if rng.random() < 0.5 else {}
    names = [name for name in own[1] if name.lower() not in {other.lower() for other in shared}]
    return SubmitJobs(cluster_ad=cluster, procs=[pack_table(names, [[own[1][n]] * 2 for n in names], 2, shared)])


def assert_is_the_clients(ads: Iterable[ClassAd]) -> None:
    for ad in ads:
        assert (ad["Owner"], ad["User"], ad["MyType"], ad["TargetType"]) == (
            USER,
            f"{USER}@pool.test",
            "Job",
            "Machine",
        )
        assert not {"osuser", "ntdomain", "authtokensubject"} & {name.lower() for name in ad}
        group = ad.eval_str("AccountingGroup")
        assert group is None or group in (USER, f"physics.{USER}"), ad.long()
        assert ad["JobUniverse"] == 5


async def everything(bench: Bench) -> list[ClassAd]:
    """All ads that the schedd shows, and all that it gave to execute hosts and file agents."""
    async with bench.connected() as peer:
        async with peer.stream(QueryJobs(select=Selection(), tables=False, factories=True)) as batches:
            shown = [ad async for batch in batches for ad in batch.ads]
    return [*shown, *(await bench.ads()).values(), *(await bench.history())]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
@pytest.mark.parametrize("transforms", [{}, TRANSFORMS], ids=["plain", "transformed"])
async def test_every_ad_names_its_client(
    tmp_path: Path, autojump_clock: Clock, seed: int, transforms: dict[str, str]
) -> None:
    rng = random.Random(seed)
    async with a_bench(tmp_path, **transforms) as bench:
        startd = await bench.startd("one", slots=3)
        taken = 0
        refusals: list[str] = []
        for number in range(40):
            async with bench.connected() as peer:
                try:
                    await peer.call(request(rng, number))
                    taken += 1
                except PoolError as error:
                    refusals.append(str(error))
                edits = {name: f'"{rng.choice([VICTIM, USER])}"' for name in rng.sample(NAMES, 2)}
                try:
                    await peer.call(EditJobs(select=Selection(all=True), assignments=edits))
                except PoolError as error:
                    refusals.append(str(error))
        assert taken > 5
        why = ("is not allowed", "may not charge", "Invalid accounting_group", "must be a text")
        assert [said for said in refusals if not any(one in said for one in why)] == []
        for _ in range(5):
            lines = [f"+{name} = $(who)" for name in said(rng) if not name.lower().startswith(("acc", "jobuni"))]
            text = "max_materialize = 1\n" + "\n".join(lines) + f'\nqueue who in ("{VICTIM}", "{USER}")\n'
            cluster = await submit(bench, text)
            await bench.act(Action.REMOVE, f"{cluster}.0")
        await bench.match(startd)
        assert_is_the_clients(await everything(bench))
        assert_is_the_clients(claim.job_ad for claim in startd.claims.values())
        assert_is_the_clients(order.job_ad for order in startd.orders)
        await bench.restart()
        assert_is_the_clients(await everything(bench))
