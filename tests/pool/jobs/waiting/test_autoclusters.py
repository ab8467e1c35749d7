"""Jobs that look alike, and the order in which they get slots."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.queue.pack import pack
from pool.jobs.vocabulary.priority import priority_of
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.waiting.autoclusters import NUMBERS_BYTES_MAX, SLOT_NAMES_MAX, Autoclusters, is_timeless
from pool.jobs.waiting.groups import Waiting

ANN = "ann@here"


class Bench:
    """A queue with clusters of waiting jobs."""

    def __init__(self) -> None:
        self.queue = JobQueue("ap")
        self.autoclusters = Autoclusters(self.queue)
        self.waiting = Waiting(self.autoclusters)

    def add(self, *procs: dict[str, object], **attributes: object) -> list[Job]:
        number = self.queue.new_id()
        ad = ClassAd({"ClusterId": number, "Requirements": expr("TARGET.Memory > RequestMemory"), **attributes})
        ad.setdefault("RequestMemory", 1)
        cluster = Cluster(number, ad, user=ANN, owner="ann")
        jobs = []
        for proc, own in enumerate(procs or ({},)):
            priority = priority_of(ClassAd(own, parent=ad))
            jobs.append(Job(cluster, proc, JobStatus.IDLE, priority, pack(ClassAd(own))))
        self.queue.add(cluster, jobs)
        return jobs

    def wait(self, jobs: list[Job]) -> None:
        for job in jobs:
            self.waiting.add(job, ANN)

    def taken(self, like: Job) -> list[str]:
        """All jobs that a claim for `like` would run, in order."""
        order = []
        number = self.autoclusters.number_of(like)
        while (job := self.waiting.next(ANN, number)) is not None:
            self.waiting.discard(job)
            order.append(str(job.id))
        return order


def test_what_no_slot_can_tell_apart_is_one_autocluster() -> None:
    bench = Bench()
    one, two = bench.add({"Args": "1"}, {"Args": "2", "Out": "x"})
    (three,) = bench.add(Cmd="/bin/other", Iwd="/elsewhere")
    numbers = {bench.autoclusters.number_of(job) for job in (one, two, three)}
    assert len(numbers) == 1


def test_what_requirements_read_of_the_job_tells_apart() -> None:
    bench = Bench()
    one, two = bench.add({}, {"RequestMemory": 2000})
    assert bench.autoclusters.number_of(one) != bench.autoclusters.number_of(two)
    (three,) = bench.add(Requirements=expr("TARGET.Kind == MY.Wanted"), Wanted="a")
    (four,) = bench.add(Requirements=expr("TARGET.Kind == MY.Wanted"), Wanted="b")
    assert bench.autoclusters.number_of(three) != bench.autoclusters.number_of(four)


def test_a_job_that_was_just_changed_is_sorted_by_what_it_is_now() -> None:
    bench = Bench()
    one, two = bench.add({}, {})
    before = bench.autoclusters.number_of(one)
    bench.queue.change(two, {"RequestMemory": 2000})
    assert bench.autoclusters.number_of(two) != before
    assert bench.autoclusters.number_of(one) == before


def test_one_and_true_and_text_are_not_alike() -> None:
    bench = Bench()
    jobs = [*bench.add(Rank=1), *bench.add(Rank=1.0), *bench.add(Rank=True), *bench.add(Rank="1")]
    assert len({bench.autoclusters.number_of(job) for job in jobs}) == 4


def test_a_slot_that_reads_more_sorts_all_jobs_anew() -> None:
    bench = Bench()
    jobs = bench.add({"Color": "red"}, {"Color": "blue"})
    bench.wait(jobs)
    assert len(list(bench.waiting.groups())) == 1
    assert bench.autoclusters.learn_slot(ClassAd({"Requirements": expr('TARGET.Color == "red"')}))
    assert not bench.autoclusters.learn_slot(ClassAd({"Requirements": expr('TARGET.Color == "red"')}))
    bench.waiting.sort_some(1_000_000)
    assert sorted(group.count for group in bench.waiting.groups()) == [1, 1]
    assert bench.taken(jobs[0]) == ["1.0"]
    assert bench.taken(jobs[1]) == ["1.1"]


def test_what_an_expression_that_start_names_reads_tells_apart() -> None:
    bench = Bench()
    one, two = bench.add({"Foo": 1}, {"Foo": 5})
    slot = {"Start": expr("MyPolicy"), "Requirements": expr("Start")}
    assert not bench.autoclusters.learn_slot(ClassAd({**slot, "MyPolicy": expr("Cpus > 1"), "Cpus": 2}))
    assert bench.autoclusters.number_of(one) == bench.autoclusters.number_of(two)
    assert bench.autoclusters.learn_slot(ClassAd({**slot, "MyPolicy": expr("TARGET.Foo > 3")}))
    assert bench.autoclusters.number_of(one) != bench.autoclusters.number_of(two)


def test_what_an_expression_that_requirements_name_reads_tells_apart() -> None:
    bench = Bench()
    wanted = {"Requirements": expr("Wanted")}
    (first,) = bench.add(Wanted=expr("TARGET.Memory > MY.Low"), Low=1, **wanted)
    one, two = bench.add({}, {"High": 5}, High=1, Wanted=expr("TARGET.Memory < MY.High"), **wanted)
    assert len({bench.autoclusters.number_of(job) for job in (first, one, two)}) == 3


def test_slots_of_ever_new_policies_do_not_have_jobs_compared_in_ever_more() -> None:
    bench = Bench()
    job, other = bench.add({}, {"Mine": 2}, Mine=1, Requirements=expr("TARGET.Memory > MY.Mine"))
    bench.autoclusters.number_of(job)
    for number in range(3 * SLOT_NAMES_MAX):
        assert bench.autoclusters.learn_slot(ClassAd({"Start": expr(f"TARGET.A{number} > 3")}))
    assert len(bench.autoclusters.significant) <= SLOT_NAMES_MAX + 20
    assert f"a{3 * SLOT_NAMES_MAX - 1}" in bench.autoclusters.significant
    assert bench.autoclusters.number_of(job) != bench.autoclusters.number_of(other), "what jobs read stays"
    told = [f"B{number}" for number in range(SLOT_NAMES_MAX)]
    assert bench.autoclusters.learn_names(told)
    assert {name.lower() for name in told} <= bench.autoclusters.significant


@pytest.mark.parametrize("read", ["MY.LastRemoteHost", "LastRemoteHost"])
def test_what_a_job_gets_that_its_cluster_lacks_tells_apart_where_requirements_read_it(read: str) -> None:
    bench = Bench()
    new, known, other = bench.add({}, {}, {}, Requirements=expr(f"TARGET.Name =!= {read}"))
    alike = {bench.autoclusters.number_of(job) for job in (new, known, other)}
    assert len(alike) == 1
    bench.queue.change(known, {"LastRemoteHost": "slot1@a"})
    bench.queue.change(other, {"LastRemoteHost": "slot1@b"})
    numbers = [bench.autoclusters.number_of(job) for job in (new, known, other)]
    assert len(set(numbers)) == 3


def test_jobs_whose_requirements_read_their_numbers_are_not_alike() -> None:
    bench = Bench()
    jobs = bench.add({}, {}, Requirements=expr("TARGET.SlotID == ProcId"))
    assert len({bench.autoclusters.number_of(job) for job in jobs}) == 2


def test_what_is_configured_adds_to_what_slots_read_and_removes_from_it() -> None:
    bench = Bench()
    jobs = bench.add({"Color": "red", "MemoryUsage": 1}, {"Color": "blue", "MemoryUsage": 2})

    def kinds() -> int:
        return len({bench.autoclusters.number_of(job) for job in jobs})

    bench.autoclusters.configure([], ["memoryusage"])
    assert not bench.autoclusters.learn_slot(ClassAd({"Start": expr("MemoryUsage < 7")}))
    assert kinds() == 1
    bench.autoclusters.configure(["COLOR"], ["MemoryUsage"])
    assert kinds() == 2
    bench.autoclusters.configure([], ["MemoryUsage"])
    assert kinds() == 1
    bench.add(Requirements=expr("TARGET.Memory > MemoryUsage"), MemoryUsage=3)
    assert [bench.autoclusters.number_of_cluster(one) for one in bench.queue.clusters.values()]
    assert kinds() == 2, "what jobs themselves read counts"


def test_what_jobs_of_long_ago_looked_like_is_forgotten_and_not_what_many_look_like() -> None:
    bench = Bench()
    (common,) = bench.add()
    text = "x" * 100_000

    def number_of(ad: ClassAd) -> int:
        return bench.autoclusters.number_of_cluster(Cluster(1, ad, user=ANN, owner="ann"))

    first, others = number_of(common.cluster.ad), set()
    for number in range(1500):
        others.add(number_of(ClassAd({"Rank": f"{number}{text}"})))
        assert number_of(common.cluster.ad) == first
    assert len(others) == 1500
    assert len(bench.autoclusters._numbers) * len(text) < NUMBERS_BYTES_MAX


def test_jobs_that_are_added_together_wait_as_those_that_are_added_one_by_one() -> None:
    together, alone = Bench(), Bench()
    for bench in (together, alone):
        rows: list[dict[str, object]] = [{"Args": f"{n}"} for n in range(30)]
        rows[4]["JobPrio"] = rows[20]["JobPrio"] = 3
        rows[9]["RequestMemory"] = 7
        rows[12]["Requirements"] = expr("TARGET.Disk > Args")
        rows[13]["Color"] = "red"
        jobs = bench.add(*rows)
        if bench is together:
            bench.waiting.add_alike(jobs[:20], "ann")
            bench.waiting.add_alike(jobs[20:], "ann")
        else:
            for job in jobs:
                bench.waiting.add(job, "ann")
        bench.autoclusters.learn_slot(ClassAd({"Requirements": expr("TARGET.Color is undefined")}))
        bench.waiting.sort_some(1_000_000)
    told = [
        sorted((group.priority.prio, sorted(job.id for job in group.members())) for group in bench.waiting.groups())
        for bench in (together, alone)
    ]
    assert told[0] == told[1]
    assert sum(len(ids) for _, ids in told[0]) == 30
    assert (0, [(1, 9)]) in told[0]


def test_a_group_that_stays_alike_keeps_its_order_when_something_new_is_significant() -> None:
    bench = Bench()
    jobs = bench.add(*({} for _ in range(50)))
    bench.waiting.add_alike(jobs, "ann")
    for job in jobs[::2]:
        bench.waiting.discard(job)
    bench.autoclusters.learn_slot(ClassAd({"Requirements": expr("TARGET.Color is undefined")}))
    bench.waiting.sort_some(1_000_000)
    for job in jobs[::2]:
        bench.waiting.add(job, "ann")
    (group,) = bench.waiting.groups()
    assert group.autocluster == bench.autoclusters.number_of(jobs[0])
    found = []
    while (first := group.first()) is not None:
        found.append(first.proc)
        bench.waiting.discard(first)
    assert found == list(range(50))


def test_the_higher_priority_goes_first_then_the_older_job() -> None:
    bench = Bench()
    first = bench.add({}, {"JobPrio": 5}, {"JobPrio": -1}, {"JobPrio": 5})
    second = bench.add({}, {"JobPrio": 5})
    bench.wait(second + first)
    assert bench.taken(first[0]) == ["1.1", "1.3", "2.1", "1.0", "2.0", "1.2"]


def test_a_job_that_waits_again_keeps_its_place() -> None:
    bench = Bench()
    jobs = bench.add({}, {}, {})
    bench.wait(jobs)
    bench.waiting.discard(jobs[0])
    bench.wait([jobs[0], jobs[0]])
    assert bench.taken(jobs[0]) == ["1.0", "1.1", "1.2"]
    assert list(bench.waiting.groups()) == []


def test_who_does_not_wait_is_not_taken() -> None:
    bench = Bench()
    jobs = bench.add({}, {}, {})
    bench.wait(jobs)
    for job in jobs[:2]:
        bench.waiting.discard(job)
        bench.waiting.discard(job)
    assert [group.count for group in bench.waiting.groups()] == [1]
    assert bench.taken(jobs[0]) == ["1.2"]


def test_what_is_announced_has_no_long_texts() -> None:
    bench = Bench()
    (job,) = bench.add(Environment="A=1", Args="x", Owner="ann")
    ad = bench.autoclusters.representative(bench.queue.ad(job))
    assert "Environment" not in ad
    assert "Args" not in ad
    assert ad["Owner"] == "ann"
    (reads,) = bench.add(Requirements=expr("TARGET.A == Args"), Args="x")
    bench.autoclusters.number_of(reads)
    assert "Args" in bench.autoclusters.representative(bench.queue.ad(reads))


@pytest.mark.parametrize(
    ("requirements", "timeless"),
    [
        ("TARGET.Memory >= RequestMemory && stringListMember(TARGET.Arch, Wanted)", True),
        ("time() > 100", False),
        ("CurrentTime > 100", False),
        ("random() > 0.5", False),
        ("TARGET.Load < 0.3", False),
        ("TARGET.Unknown =!= true", True),
        ("Later", False),
    ],
)
def test_requirements_are_timeless_when_nothing_that_they_read_moves(requirements: str, timeless: bool) -> None:
    job = ClassAd(
        {"Requirements": expr(requirements), "RequestMemory": 1, "Wanted": "a", "Later": expr("QDate < time()")}
    )
    slot = ClassAd({"Memory": 5, "Arch": "a", "Load": expr("1 - time() % 2")})
    assert is_timeless(job, slot) is timeless
