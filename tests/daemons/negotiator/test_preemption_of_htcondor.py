"""Who leaves a slot for whom: what HTCondor 25.14 did with the same jobs, under the same configuration.

Each line of tests/cases/preemption/*.jsonl is a situation: what is configured and set with condor_userprio, which jobs run `first`,
which jobs come `then`, and what was seen there, on static slots and on dynamic ones, so many seconds (`at`) after that: which jobs
`running`, which have `started` since then in this order, and whose slot each of them `took` ("" where it had been free). Where `ours`
says otherwise, docs/differences.md has the reason. Here all daemons are real; only starters and file agents are not.
"""

from __future__ import annotations

import json
import pwd
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from pool.classad import ClassAd, expr
from pool.jobs.userlog.reader import EventReader
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.common import Reconfigure
from protocol.messages.negotiator import ForgetSubmitter, GetPriorities, SetPriority
from protocol.messages.schedd import Action, ActOnJobs, QueryJobs, Selection
from protocol.messages.submit import SubmitJobs
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.wire.address import Address
from protocol.wire.codec import pack_ads
from tests.daemons.one_host import EPOCH, OneHost, one_host
from tests.daemons.schedd.bench import LOG, USER, a_job
from tests.fakes.agents import Agents
from tests.fakes.network import FakeNetwork
from tests.fakes.reporting_starters import ReportingStarter
from tests.fakes.starters import Farm

FILES: Final = sorted((Path(__file__).parents[2] / "cases" / "preemption").glob("*.jsonl"))
LAYOUTS: Final = {"static": {"SLOT_TYPE_1": "Cpus=1", "NUM_SLOTS_TYPE_1": "{slots}"}, "partitionable": {}}
DOMAIN: Final = "@pool.test"
PATIENCE_S: Final = 1000.0
LONG: Final = 10_000
KNOBS: Final = {
    "DISK": "1000000",
    "SPARE_STARTERS": "1",
    "NEGOTIATOR_INTERVAL": "5",
    "MachineMaxVacateTime": "10",
    "STARTD_JOB_ATTRS": "Size, Wished",
    "CLAIM_WORKLIFE": "1200",
    "QUEUE_SUPER_USERS": f"root, condor, {USER}",  # so that its jobs may be charged to anybody
}

READ_BY: Final = {"RANK": "startd", "MAXJOBRETIREMENTTIME": "startd", "CLAIM_WORKLIFE": "startd"}
"""Which daemon reads a knob of the situations; the negotiator reads all others."""


def cases_of(file: Path, layout: str) -> list[dict[str, Any]]:
    """The situations of a file that HTCondor was seen in with this layout."""
    return [case for line in file.read_text().splitlines() if layout in (case := json.loads(line))]


MANY: Final = ("priority", "ranks")
"""Files of so many situations that they take their time."""
PLAYED: Final = [
    pytest.param(
        file,
        layout,
        id=f"{file.stem}-{layout}",
        marks=[pytest.mark.slow] if layout == "static" or file.stem in MANY else [],
    )
    for file in FILES
    for layout in LAYOUTS
    if cases_of(file, layout)
]
"""The layout that pools have by default, each time; the other one, and long files, with what is slow."""


@pytest.mark.parametrize(("file", "layout"), PLAYED)
async def test_the_same_jobs_leave_as_with_htcondor(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, file: Path, layout: str
) -> None:
    cases, wrong = cases_of(file, layout), []
    (slots,) = {case["slots"] for case in cases}
    async with a_pool(tmp_path, slots, layout) as pool:
        for case in cases:
            seen, expected = await pool.play(case), case.get("ours", {}).get(layout, case[layout])
            wrong += [(case["name"], *pair) for pair in zip(seen, expected, strict=True) if not are_alike(*pair, slots)]
    assert wrong == []


def are_alike(seen: Mapping[str, Any], expected: Mapping[str, Any], slots: int) -> bool:
    """Whether the same is seen; of jobs of one cycle, nobody decides which starts first or has which of their slots.

    Where dynamic slots make room together there is no `took`: the slot is a new one.
    """

    def decided(look: Mapping[str, Any]) -> dict[str, Any]:
        started = look["started"] if slots == 1 else sorted(look["started"])
        return {**look, "started": started, "took": sorted(look["took"].values()) if "took" in expected else []}

    return decided(seen) == decided(expected)


class Pool:
    """A pool on one host whose daemons are real."""

    def __init__(self, host: OneHost, agents: Agents, schedd: Peer) -> None:
        self.host, self.agents, self.schedd = host, agents, schedd
        self.names: dict[str, str] = {}
        """The jobs of this situation, by their ids."""

    async def play(self, case: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What is seen of this situation."""
        await self.begin(case)
        await self.submit(case["first"])
        await self.until_running(len(case["first"]))
        await trio.sleep(2)
        before, hosts = len(self.starts()), await self.running()
        began = trio.current_time()
        await self.submit(case["then"])
        seen = []
        for at in case["at"]:
            if at == "done":
                await self.until(self.is_done)
            else:
                await trio.sleep_until(began + at)
            seen.append(await self.look(before, hosts))
        await self.clear()
        return seen

    async def begin(self, case: Mapping[str, Any]) -> None:
        """Configure, and set what is known of users."""
        for name, daemon in self.host.daemons.items():
            knobs = case["config"].items()
            values = {knob: str(value) for knob, value in knobs if READ_BY.get(knob, "negotiator") == name}
            if daemon.runtime_values != values:
                daemon.runtime_values.clear()
                daemon.runtime_values.update(values)
                async with self.host.connected(name) as peer:
                    await peer.call(Reconfigure())
        async with self.host.connected("negotiator") as peer:
            for ad in (await peer.call(GetPriorities())).submitters:
                await peer.call(ForgetSubmitter(submitter=str(ad["Name"])))
            for name, attribute, value in case["set"]:
                await peer.call(SetPriority(submitter=name + DOMAIN, attribute=attribute, value=value))
        self.agents.logs.clear()
        self.names.clear()

    async def submit(self, jobs: list[dict[str, Any]]) -> None:
        """All of them become idle in one moment."""
        for one in jobs:
            ad = a_job(
                JobStatus=JobStatus.HELD,
                HoldReason="with the others",
                HoldReasonCode=15,
                AccountingGroup=one["who"],
                RequestCpus=one.get("cpus", 1),
                RunsFor=one.get("runs_for", LONG),
                **{name: expr(str(value)) for name, value in one.get("ad", {}).items()},
            )
            answer = await self.schedd.call(SubmitJobs(cluster_ad=ad, procs=[pack_ads([ClassAd()])]))
            self.names[f"{answer.cluster}.0"] = one["job"]
        await self.schedd.call(ActOnJobs(select=Selection(constraint="true"), action=Action.RELEASE))

    async def clear(self) -> None:
        """Remove the jobs; then the slots are as at first."""
        await self.schedd.call(ActOnJobs(select=Selection(constraint="true"), action=Action.REMOVE))

        async def is_clear() -> bool:
            states = [ad["State"] for ad in await self.host.query("Machine")]
            return not await self.ads() and set(states) == {"Unclaimed"}

        await self.until(is_clear)

    # ---- what is seen

    async def look(self, before: int, hosts: Mapping[str, str]) -> dict[str, Any]:
        """What runs where, who ran there at first, and what has started since then."""
        running = await self.running()
        held = {slot: self.names[job] for job, slot in hosts.items()}
        took = {self.names[job]: held.get(slot, "") for job, slot in running.items() if hosts.get(job) != slot}
        names = sorted(self.names[job] for job in running)
        return {"running": names, "started": self.starts()[before:], "took": took}

    async def ads(self) -> dict[str, ClassAd]:
        async with self.schedd.stream(QueryJobs(select=Selection())) as batches:
            ads = [ad async for batch in batches for ad in batch.ads]
        return {f"{ad['ClusterId']}.{ad['ProcId']}": ad for ad in ads}

    async def running(self) -> dict[str, str]:
        """The slots of the jobs that run."""
        ads = await self.ads()
        return {job: str(ad["RemoteHost"]) for job, ad in ads.items() if ad["JobStatus"] == JobStatus.RUNNING}

    def starts(self) -> list[str]:
        """The jobs in the order of their executions, by their log."""
        events = EventReader().feed(self.agents.logs.get(LOG, ""))
        return [self.names[str(event.job)] for event in events if event.number == 1]

    async def is_done(self) -> bool:
        return not await self.ads()

    async def until_running(self, count: int) -> None:
        async def are_running() -> bool:
            return len(await self.running()) == count

        await self.until(are_running)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        with trio.fail_after(PATIENCE_S):
            while not await condition():
                await trio.sleep(1)


@asynccontextmanager
async def a_pool(path: Path, slots: int, layout: str) -> AsyncIterator[Pool]:
    """A pool with so many cores in this layout."""
    network = FakeNetwork().host("cm.pool.test", duties={"central", "submit", "execute"})
    agents = Agents()
    farm = Farm(partial(ReportingStarter, network=network, wall=lambda: EPOCH + trio.current_time()))
    machine = {knob: value.format(slots=slots) for knob, value in LAYOUTS[layout].items()}
    knobs = {**KNOBS, "NUM_CPUS": str(slots), "MEMORY": str(1000 * slots), **machine}
    children = lambda kinds: farm if "starter" in kinds else agents  # noqa: E731
    async with one_host(path, network, overrides=knobs, zygote=children) as host:
        for daemon in ("collector", "negotiator", "startd", "schedd"):
            await host.start(daemon)
        await host.until_known("Machine", count=slots if layout == "static" else 1)
        user = network.as_user(pwd.getpwnam(USER).pw_uid)
        address = Address.unix(str(path / "run" / "schedd.sock"))
        async with endpoints.connected(address, network=user, security=host.security) as schedd:
            yield Pool(host, agents, schedd)
