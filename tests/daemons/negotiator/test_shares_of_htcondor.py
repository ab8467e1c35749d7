"""Who gets how much of twelve slots: what HTCondor 25.14 gave the same users, under the same configuration.

Each line of tests/cases/shares/*.jsonl is one situation: what is configured and set with condor_userprio, what each submitter wants,
how many jobs of each ran there, and what condor_userprio said there of groups (the columns `OF_GROUPS`) and of users' factors. Where
`ours` says otherwise, HTCondor rounds shares down in each spin of the pie, and gives one user what that leaves over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from protocol.messages.collector import AdUpdate
from protocol.messages.common import Reconfigure
from protocol.messages.negotiator import ForgetSubmitter, GetPriorities, ResourceRequest, SetPriority
from protocol.rpc.endpoints import Peer
from tests.daemons.negotiator.test_negotiator import Clock, a_pool, a_schedd, a_slot, publish, wants
from tests.daemons.one_host import OneHost

FILES: Final = sorted((Path(__file__).parents[2] / "cases" / "shares").glob("*.jsonl"))
SLOTS: Final = 12
LAYOUTS: Final[dict[str, list[AdUpdate]]] = {
    "static": [a_slot(f"slot{number}@n", SlotID=number) for number in range(1, SLOTS + 1)],
    "partitionable": [
        a_slot(
            "slot1@n",
            [f"claim{number}" for number in range(SLOTS)],
            PartitionableSlot=True,
            Cpus=SLOTS,
            Memory=1024 * SLOTS,
        )
    ],
}
EVERY: Final = {"static": 1, "partitionable": 3}
"""Which of the cases are tried: HTCondor ran all on static slots, and what is divided is the same."""
PLAYED: Final = [
    (file, layout) for file in FILES for layout in LAYOUTS if (file.stem, layout) != ("slices", "partitionable")
]
DOMAIN: Final = "@pool.test"
OF_GROUPS: Final = ("EffectiveQuota", "ConfigQuota", "SubtreeQuota", "SurplusPolicy", "Requested")
SOME_CYCLES_S: Final = 30.0
"""What the first of them offers is not taken back; were there more to come, the others would offer it."""


@pytest.mark.parametrize(("file", "layout"), PLAYED, ids=[f"{file.stem}-{layout}" for file, layout in PLAYED])
async def test_each_has_what_htcondor_gives(tmp_path: Path, autojump_clock: Clock, file: Path, layout: str) -> None:
    cases = [json.loads(line) for line in file.read_text().splitlines()][:: EVERY[layout]]
    wrong = []
    async with a_pool(tmp_path, NEGOTIATOR_INTERVAL="10", CLASSAD_LIFETIME="1000000") as host:
        await publish(host, *LAYOUTS[layout])
        plain = dict(host.source.overrides)
        for case in cases:
            found = await played(host, {**plain, **{name: str(value) for name, value in case["config"].items()}}, case)
            expected = {**{name: case[name] for name in found}, "ran": case.get("ours", case["ran"])}
            wrong += [
                (case["name"], name, found[name], expected[name]) for name in found if found[name] != expected[name]
            ]
    assert wrong == []
    assert cases


async def played(host: OneHost, knobs: Mapping[str, str], case: Mapping[str, Any]) -> dict[str, Any]:
    """What has come of this situation."""
    negotiator = host.daemons["negotiator"]
    negotiator.source = replace(negotiator.source, overrides=knobs)
    async with a_schedd(host) as schedd:
        assert schedd.peer is not None
        await begin_anew(schedd.peer)
        for name, attribute, value in case["set"]:
            await schedd.peer.call(SetPriority(submitter=full(name, case), attribute=attribute, value=value))
        await schedd.announce(*(request(number, **one) for number, one in enumerate(case["wants"])))
        await trio.sleep(SOME_CYCLES_S)
        ads = (await schedd.peer.call(GetPriorities())).submitters
    groups = {
        str(ad["Name"]): [figure(ad[name]) for name in OF_GROUPS] for ad in ads if ad["IsAccountingGroup"] is True
    }
    users = {bare(str(ad["Name"])): ad["PriorityFactor"] for ad in ads if ad["IsAccountingGroup"] is not True}
    ran = {bare(name): count for name, count in schedd.per_submitter.items()}
    return {
        "ran": {**dict.fromkeys(case["ran"], 0), **ran},
        "groups": groups if case["groups"] else {},
        "factors": {name: users.get(name) for name in case["factors"]},
    }


async def begin_anew(peer: Peer) -> None:
    """With the configuration of now, and without the accounts of before."""
    await peer.call(Reconfigure())
    for ad in (await peer.call(GetPriorities())).submitters:
        await peer.call(ForgetSubmitter(submitter=str(ad["Name"])))


def request(number: int, who: str, jobs: int, limits: str = "") -> ResourceRequest:
    more = {"ConcurrencyLimits": limits} if limits else {}
    return wants(who + DOMAIN, jobs, number=number, **more)


def full(name: str, case: Mapping[str, Any]) -> str:
    return name if name in case["groups"] else name + DOMAIN


def bare(name: str) -> str:
    return name.removesuffix(DOMAIN)


def figure(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value
