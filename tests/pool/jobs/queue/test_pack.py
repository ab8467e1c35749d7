"""Packed ads, and what can be said of them without unpacking any."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.jobs.queue.cluster import Cluster, Job, any_may_have
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.queue.pack import EMPTY, PackedAd, columns_of, lower_names, pack, pack_columns, read_packed
from pool.jobs.vocabulary.priority import ORDINARY
from pool.jobs.vocabulary.states import JobStatus


def _all_ways(ad: ClassAd) -> list[PackedAd]:
    """The ad as it is packed one by one, as a row of a table, and as it is read from the queue's file."""
    (row,) = pack_columns(list(ad), [[ad[name]] for name in ad], 1)
    return [pack(ad), row, read_packed(pack(ad).text)]


@pytest.mark.parametrize("stored", ["PeriodicHold", "periodichold", "PERIODICHOLD"])
@pytest.mark.parametrize("asked", ["PeriodicHold", "periodichold"])
def test_a_name_is_found_in_any_spelling(stored: str, asked: str) -> None:
    for packed in _all_ways(ClassAd({"Args": "1", stored: True})):
        assert packed.has_any(lower_names("Rank", asked))


@pytest.mark.parametrize("name", ["Grün", 'so"called', "back\\slash", "two words", ":colon,", "n", "x"])
def test_a_name_that_text_escapes_is_found(name: str) -> None:
    for packed in _all_ways(ClassAd({"A": expr("b + 1"), name: "v"})):
        assert packed.names == {"a", name.lower()}
        assert packed.has_any(lower_names(name))
        assert packed.has_any(lower_names(name.upper()))


def test_what_is_not_there_is_not_found_though_values_read_like_it() -> None:
    values = {"PeriodicHoldReason": "periodic", "Args": '{"Hold":1,"PeriodicHold":2}', "Rank": expr('"Hold" == n')}
    for packed in _all_ways(ClassAd(values)):
        assert not packed.has_any(lower_names("PeriodicHold", "Hold", "n", "x"))
        assert not packed.has_any(frozenset())


def test_names_in_a_list_or_an_ad_within_are_not_the_ads_own() -> None:
    for packed in _all_ways(ClassAd({"Inner": ClassAd({"Hold": 1}), "List": [ClassAd({"Rank": 2})]})):
        assert packed.names == {"inner", "list"}


def test_alike_ads_share_one_set_of_names() -> None:
    rows = pack_columns(["Args", "Out"], [["1", "2", "3"], ["a", None, "c"]], 3)
    assert [row.names for row in rows] == [{"args", "out"}, {"args"}, {"args", "out"}]
    assert rows[0].names is rows[2].names
    assert read_packed(rows[1].text).names is read_packed('{"Args":"9"}').names


def test_an_ad_that_has_nothing_is_one_for_all() -> None:
    assert read_packed("{}") is EMPTY
    assert pack_columns([], [], 2) == [EMPTY, EMPTY]
    assert not EMPTY.has_any(lower_names("Args"))


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"A":', "7", "nul"])
def test_a_row_that_cannot_be_read_is_found_by_who_unpacks_it(text: str) -> None:
    packed = read_packed(text)
    assert not packed.has_any(lower_names("A"))
    with pytest.raises((ValueError, AttributeError)):
        packed.unpack()


def test_columns_of_packed_ads() -> None:
    rows = [pack(ClassAd(own)) for own in ({"Args": "1", "Out": "a"}, {"Args": "2"})]
    assert columns_of(rows, None) == {"Args": ["1", "2"], "Out": ["a", None]}
    assert columns_of(rows, {"out"}) == {"Out": ["a", None]}
    assert columns_of([*rows, pack(ClassAd({"args": "3"}))], None) is None
    assert columns_of([*rows, pack(ClassAd({"Args": expr("Rank")}))], None) is None


def test_what_is_left_out_has_no_name() -> None:
    packed = pack(ClassAd({"Args": "1", "ProcId": 7}), without={"procid"})
    assert packed.text == '{"Args":"1"}'
    assert packed.names == {"args"}


def test_a_job_whose_ad_is_at_hand_may_have_what_its_row_does_not_say_yet() -> None:
    queue = JobQueue("ap")
    cluster = Cluster(queue.new_id(), ClassAd(), user="ann@here", owner="ann")
    jobs = [Job(cluster, proc, JobStatus.IDLE, ORDINARY, EMPTY) for proc in range(3)]
    queue.add(cluster, jobs)
    queue.take()
    asked = lower_names("PeriodicHold")
    assert not any_may_have(jobs, asked)
    queue.change(jobs[2], {"periodichold": True})
    assert any_may_have(jobs, asked)
    queue.take()
    assert not jobs[2].has_ad
    assert any_may_have(jobs, asked)
    assert [job.may_have(asked) for job in jobs] == [False, False, True]
