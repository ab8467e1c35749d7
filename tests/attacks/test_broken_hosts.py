"""What one broken host of the pool cannot do to the others. Four hosts, real sockets; the attacker has a host's key."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import trio

from pool.classad import ClassAd, parse_longs
from protocol.messages.collector import InvalidateAds, UpdateAds
from protocol.messages.negotiator import AnnounceWork, ResourceRequest
from protocol.messages.offers import AttachSlots, MatchesTaken, OfferMatches, RejectRequests
from protocol.messages.schedd import Action, ActOnJobs, EditJobs, Selection
from protocol.messages.startd import RequestClaim
from protocol.rpc.endpoints import Peer, RemoteError
from protocol.rpc.service import Service, answer
from protocol.security import needs
from protocol.wire.message import Request
from tests.attacks.actors import needs_accounts
from tests.attacks.broken_host import an_ad, place_of, posing_as
from tests.whole.hosts import DOMAIN, Host, Hosts, four_hosts

pytestmark = needs_accounts


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with four_hosts(NUM_CPUS="1", MEMORY="1024") as hosts:
        yield hosts


def say(host: Host, at: Host, daemon: str, *requests: Request[object]) -> list[str]:
    """What the daemon answers to each request of the broken host; "" where it obeys."""

    async def ask(peer: Peer, request: Request[object]) -> str:
        try:
            await peer.call(request)
        except RemoteError as error:
            return str(error)
        return ""

    async def all_of_them() -> list[str]:
        async with posing_as(host, at, daemon) as peer:
            return [await ask(peer, request) for request in requests]

    return trio.run(all_of_them)


def names(hosts: Hosts, *options: str) -> set[str]:
    return set(hosts.central.tool("condor_status", *options, "-af", "Name").split())


def test_an_execute_host_publishes_no_slot_of_another(hosts: Hosts) -> None:
    broken, other = hosts.execute
    before = hosts.central.tool("condor_status", "-af", "Name", "MyAddress", "Cpus")
    ads = [
        an_ad("Machine", f"slot1@{other.name}", other, Cpus=64),
        an_ad("Machine", f"slot1@{other.name}", broken, Cpus=64),
        an_ad("Machine", f"slot9@{broken.name}", other, Cpus=64),
        an_ad("Machine", f"slot9@{broken.name}", broken, Cpus=64, MyAddress=str(place_of(other, "startd"))),
        an_ad("StartD", other.name, other),
        an_ad("DaemonMaster", other.name, other),
        an_ad("Generic", f"storage@{other.name}", other),
    ]
    answers = say(broken, hosts.central, "collector", *(UpdateAds(updates=[ad]) for ad in ads))
    assert all("belong" in answer for answer in answers), answers
    assert hosts.central.tool("condor_status", "-af", "Name", "MyAddress", "Cpus") == before
    log = (hosts.central.directory / "log" / "CollectorLog").read_text()
    for name in (f"slot1@{other.name}", f"slot9@{broken.name}", f"storage@{other.name}"):
        assert re.search(rf"host/{broken.name}\S* .*the ad \S+ {name}.* does not belong to", log)


def test_no_host_offers_a_schedd_slots_of_another(hosts: Hosts) -> None:
    broken, other = hosts.execute
    free = {"Cpus": 64, "Memory": 1 << 20, "Disk": 1 << 30, "Requirements": True, "State": "Unclaimed"}
    cluster = hosts.submit.submit("executable = /bin/true\nrequest_cpus = 2\nqueue\n", cwd=hosts.submit.directory)
    slots = [
        an_ad("Machine", f"slot1@{other.name}", other, **free, MyAddress=str(place_of(other, "startd"))),
        an_ad("Machine", f"slot1@{broken.name}", broken, **free, MyAddress=str(place_of(other, "startd"))),
        an_ad("Scheduler", broken.name, broken, **free),
    ]
    answers = say(broken, hosts.submit, "schedd", *(AttachSlots(slots=[slot]) for slot in slots))
    assert all("does not belong to" in answer for answer in answers), answers
    (answer,) = say(hosts.submit, hosts.submit, "schedd", AttachSlots(slots=slots))
    assert "needs" in answer
    assert [ad.eval_int("JobStatus") for ad in hosts.submit.jobs(str(cluster))] == [1]
    own = an_ad("Machine", f"slot1@{broken.name}", broken, **free, MyAddress=str(place_of(broken, "startd")))
    assert "51 slots are offered at once" in say(broken, hosts.submit, "schedd", AttachSlots(slots=[own] * 51))[0]
    log = (hosts.submit.directory / "log" / "SchedLog").read_text()
    assert f"offers a slot that is not its own: slot1@{other.name}" in log
    hosts.submit.tool("condor_rm", str(cluster))


def charged(hosts: Hosts) -> dict[str, float]:
    """What each submitter holds, by the accountant's table."""
    ads = parse_longs(hosts.central.tool("condor_userprio", "-allusers", "-long").splitlines())
    return {ad.eval_str("Name", ""): ad.eval_float("WeightedResourcesUsed", 0.0) for ad in ads}


def test_an_execute_host_charges_nobody_who_has_no_claim_there(hosts: Hosts) -> None:
    broken, _ = hosts.execute
    victim = f"nobody@{DOMAIN}"
    with hosts.submit.as_user("nobody"):
        cluster = hosts.submit.submit("executable = /bin/sleep\narguments = 600\nqueue\n")
    hosts.central.until(lambda: charged(hosts).get(victim) == 1.0, "the job's slot to be charged")
    claimed = {"State": "Claimed", "Activity": "Busy", "SlotWeight": 1000}
    named = {"stranger": f"stranger@{DOMAIN}", "victim": victim}
    lies = [
        an_ad("Machine", f"slot1_{name}@{broken.name}", broken, RemoteOwner=who, RemoteUser=who, **claimed)
        for name, who in named.items()
    ]
    try:
        assert say(broken, hosts.central, "collector", UpdateAds(updates=lies)) == [""]
        hosts.central.until(lambda: len(names(hosts)) >= 4, "the slots that are none")
        with hosts.submit.as_user("nobody"):  # one more match: the negotiator has read the ads when it is made
            hosts.submit.until_done(hosts.submit.submit("executable = /bin/true\nqueue\n"))
        used = {who: used for who, used in charged(hosts).items() if used}
        assert used in ({victim: 1.0}, {victim: 2.0})  # the slot of that job may not be given back yet
        hosts.central.until(lambda: charged(hosts)[victim] == 1.0, "the first job's slot alone to be charged")
    finally:
        gone = InvalidateAds(ad_type="Machine", names=[lie.ad.eval_str("Name", "") for lie in lies])
        say(broken, hosts.central, "collector", gone)
        hosts.submit.tool("condor_rm", str(cluster))
    hosts.central.until(lambda: not any(charged(hosts).values()), "the end of all use")


def test_an_execute_host_publishes_its_own_slots(hosts: Hosts) -> None:
    broken, _ = hosts.execute
    mine = [
        an_ad("Machine", f"slot7@{broken.name}", broken, MyAddress=str(place_of(broken, "startd"))),
        an_ad("Machine", f"slot7@special@{broken.name}", broken),
        an_ad("Machine", f"slot7@{broken.name.upper()}", broken),
    ]
    assert say(broken, hosts.central, "collector", UpdateAds(updates=mine)) == [""]
    gone = InvalidateAds(ad_type="Machine", names=[f"slot7@{broken.name}", f"slot7@special@{broken.name}"])
    assert say(broken, hosts.central, "collector", gone) == [""]


def test_an_execute_host_is_no_access_point_and_no_central_manager_in_the_collector(hosts: Hosts) -> None:
    broken, _ = hosts.execute
    ads = [
        an_ad(ad_type, broken.name, broken, ScheddName=broken.name)
        for ad_type in ("Scheduler", "Submitter", "Negotiator", "Accounting", "Collector")
    ]
    answers = say(broken, hosts.central, "collector", *(UpdateAds(updates=[ad]) for ad in ads))
    assert all("may not publish" in answer for answer in answers), answers


def test_an_execute_host_removes_no_ad_of_another(hosts: Hosts) -> None:
    broken, other = hosts.execute
    slots, masters = names(hosts), names(hosts, "-master")
    requests = [
        InvalidateAds(ad_type="Machine", names=[f"slot1@{other.name}"]),
        InvalidateAds(ad_type="Machine", constraint=f'Machine == "{other.name}"'),
        InvalidateAds(ad_type="DaemonMaster", names=[other.name, hosts.central.name]),
        InvalidateAds(ad_type="Any", constraint=f'Machine =!= "{broken.name}"'),
        InvalidateAds(ad_type="Scheduler", constraint="true"),
    ]
    say(broken, hosts.central, "collector", *requests)
    assert names(hosts) == slots
    assert names(hosts, "-master") == masters
    assert names(hosts, "-schedd") == {hosts.submit.name}


def test_an_access_point_speaks_for_its_own_schedd_alone(hosts: Hosts) -> None:
    submit, (other, _) = hosts.submit, hosts.execute
    ads = [
        an_ad("Scheduler", f"queue@{other.name}", other),
        an_ad("Submitter", f"nobody@{submit.name}", submit, ScheddName=f"queue@{other.name}"),
        an_ad("Machine", f"slot1@{submit.name}", submit),
    ]
    answers = say(submit, hosts.central, "collector", *(UpdateAds(updates=[ad]) for ad in ads))
    assert ["belong" in answer or "may not publish" in answer for answer in answers] == [True] * 3, answers


def test_a_host_owns_no_queue(hosts: Hosts) -> None:
    with hosts.submit.as_user("nobody"):
        cluster = hosts.submit.submit("executable = /bin/true\nhold = true\nqueue\n")
    before = hosts.submit.jobs(str(cluster))
    everything = Selection(ids=[str(cluster)])
    for broken in (*hosts.execute, hosts.submit):
        requests = [
            EditJobs(select=everything, assignments={"Cmd": '"/bin/echo"'}),
            ActOnJobs(select=everything, action=Action.RELEASE),
            ActOnJobs(select=everything, action=Action.REMOVE),
        ]
        say(broken, hosts.submit, "schedd", *requests)
        (ad,) = hosts.submit.jobs(str(cluster))
        assert (ad["Cmd"], ad["JobStatus"]) == (before[0]["Cmd"], 5), broken.name
    hosts.submit.tool("condor_rm", str(cluster))


def offers_to(host: Host, hosts: Hosts, name: str) -> tuple[str, list[str]]:
    """Announce work as a schedd of this name: what the negotiator answers, and the claim ids that it hands out."""

    async def announce() -> tuple[str, list[str]]:
        claim_ids: list[str] = []
        settled = trio.Event()

        def offered(_peer: Peer, request: OfferMatches) -> MatchesTaken:
            claim_ids.extend(match.claim_id for match in request.matches)
            settled.set()
            return MatchesTaken(taken=0)

        service = Service("schedd", needs.SCHEDD_TO_NEGOTIATOR)
        service.offer(
            [
                answer(OfferMatches, offered),
                answer(RejectRequests, lambda _peer, _message: settled.set()),
            ]
        )
        job = ClassAd({"RequestCpus": 1, "RequestMemory": 1, "RequestDisk": 1, "Requirements": True})
        wanted = ResourceRequest(submitter=f"nobody@{hosts.submit.name}", autocluster=1, ad=job, count=1)
        async with posing_as(host, hosts.central, "negotiator", service) as peer:
            try:
                await peer.call(AnnounceWork(schedd=name, requests=[wanted]))
            except RemoteError as error:
                return str(error), claim_ids
            with trio.move_on_after(30):
                await settled.wait()
        return "", claim_ids

    return trio.run(announce)


def test_an_execute_host_is_given_no_slots(hosts: Hosts) -> None:
    broken, _ = hosts.execute
    answer, claim_ids = offers_to(broken, hosts, broken.name)
    assert claim_ids == []
    assert "PERMISSION DENIED" in answer


def test_an_access_point_is_given_no_slots_in_the_name_of_another(hosts: Hosts) -> None:
    answer, claim_ids = offers_to(hosts.submit, hosts, f"queue@{hosts.execute[0].name}")
    assert claim_ids == []
    assert "belong" in answer


def test_an_execute_host_claims_no_slot(hosts: Hosts) -> None:
    broken, other = hosts.execute
    request = RequestClaim(
        claim_id="<127.0.0.5:1>#1#1#guessed",
        job_ad=ClassAd(),
        schedd_name=broken.name,
        submitter="nobody",
        lease_s=60,
        alive_interval_s=30,
    )
    (answer,) = say(broken, other, "startd", request)
    assert "PERMISSION DENIED" in answer
