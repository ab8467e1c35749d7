"""Whose files move now: fair between users, within limits, and nobody for ever."""

from __future__ import annotations

import random

import pytest

from pool.base.errors import UserError
from pool.jobs.transfers.load import Load, Throttle, ThrottleKnobs, read_spans, read_throttle
from pool.jobs.transfers.transfer_queue import TransferLimits, TransferQueue, Turn

SPANS = {"1m": 60.0, "5m": 300.0}


def ask(queue: TransferQueue, *keys: str, upload: bool = True, at: float = 0.0) -> None:
    """`ann.1`: ann's first."""
    for key in keys:
        queue.ask(Turn(key, key.partition(".")[0], upload, 1 << 20, at))


def granted(queue: TransferQueue, now: float = 0.0, **options: int) -> list[str]:
    return [turn.key for turn in queue.grant(now, **options)]


def test_turns_go_to_the_user_with_the_fewest() -> None:
    queue = TransferQueue(TransferLimits(uploads=3))
    ask(queue, "ann.1", "ann.2", "ann.3", "bob.1", "bob.2")
    assert granted(queue) == ["ann.1", "bob.1", "ann.2"]
    queue.end("ann.1")
    assert granted(queue) == ["bob.2"]


def test_of_users_with_as_many_the_one_comes_first_who_has_waited_longest_since_his_last_turn() -> None:
    queue = TransferQueue(TransferLimits(uploads=1))
    ask(queue, "ann.1", "ann.2", "ann.3", "bob.1", "cy.1", "bob.2")
    order = granted(queue)
    while order[-1] in queue:
        queue.end(order[-1])
        order += granted(queue)
    assert order == ["ann.1", "bob.1", "cy.1", "ann.2", "bob.2", "ann.3"]


def test_uploads_and_downloads_have_limits_of_their_own() -> None:
    queue = TransferQueue(TransferLimits(uploads=1, downloads=0))
    ask(queue, "ann.1", "ann.2")
    ask(queue, "ann.3", "ann.4", upload=False)
    assert granted(queue) == ["ann.3", "ann.4", "ann.1"]
    assert queue.waits
    assert queue.figures(10.0, upload=True).waiting == 1
    assert queue.figures(10.0, upload=True).waited_s == 10.0
    assert queue.figures(10.0, upload=True, user="bob").waiting == 0


def test_the_load_limits_both_together() -> None:
    queue = TransferQueue(TransferLimits())
    ask(queue, "ann.1", "ann.2", "ann.3")
    assert granted(queue, together_max=2) == ["ann.1", "ann.2"]
    assert granted(queue, together_max=2) == []
    assert granted(queue) == ["ann.3"]


def test_a_turn_is_too_old_only_where_somebody_waits() -> None:
    queue = TransferQueue(TransferLimits(uploads=1, age_s=100.0))
    ask(queue, "ann.1")
    queue.grant(0.0)
    assert queue.outworn(1000.0) is None
    ask(queue, "bob.1", at=1000.0)
    old = queue.outworn(1000.0)
    assert old is not None
    assert old.key == "ann.1"
    assert queue.outworn(50.0) is None
    queue.end(old.key)
    assert granted(queue) == ["bob.1"]


def test_nothing_is_lost_or_kept_whatever_happens() -> None:
    rng = random.Random(7)
    queue = TransferQueue(TransferLimits(uploads=3, downloads=2))
    known: set[str] = set()
    for number in range(2000):
        if rng.random() < 0.5:
            key = f"{rng.choice(('ann', 'bob', 'cy'))}.{number}"
            ask(queue, key, upload=rng.random() < 0.5)
            known.add(key)
        elif known:
            key = rng.choice(sorted(known))
            known.discard(key)
            queue.end(key)
            queue.end(key)
        queue.grant(float(number))
        for upload, limit in ((True, 3), (False, 2)):
            figures = queue.figures(number, upload=upload)
            assert figures.moving == min(limit, figures.moving + figures.waiting)
    for key in known:
        queue.end(key)
    assert not queue.waits
    assert queue.moving == 0


def test_averages_follow_what_happens() -> None:
    load = Load()
    for _ in range(60):
        load.add({"UploadBytes": 1000.0, "FileReadSeconds": 5.0})
        load.sample(10.0, SPANS)
    shown = load.attributes(SPANS, "Owner_ann_")
    assert shown["Owner_ann_FileTransferUploadBytes"] == 60_000
    assert shown["Owner_ann_FileTransferUploadBytesPerSecond_1m"] == pytest.approx(100, rel=0.01)
    assert shown["Owner_ann_FileTransferFileReadLoad_1m"] == pytest.approx(0.5, rel=0.01)
    assert load.disk("1m") == pytest.approx(0.5, rel=0.01)


def test_a_rate_is_shown_when_its_span_has_passed() -> None:
    load = Load()
    for _ in range(6):
        load.sample(10.0, SPANS)
    names = {name for name in load.attributes(SPANS) if "_" in name}
    assert {name.rpartition("_")[2] for name in names} == {"1m"}


def test_the_throttle_lets_one_more_move_while_the_load_is_low_and_none_while_it_is_high() -> None:
    throttle, load = Throttle(ThrottleKnobs(1.8, 2.0)), Load()
    assert throttle.decide(load, 0, 0.0) == 1
    assert throttle.decide(load, 1, 59.0) == 1
    assert throttle.decide(load, 1, 61.0) == 2
    for _ in range(60):
        load.add({"FileWriteSeconds": 30.0})
        load.sample(10.0, SPANS)
    assert throttle.decide(load, 2, 200.0) == 2
    assert throttle.decide(load, 1, 300.0) == 1
    for _ in range(200):
        load.sample(10.0, SPANS)
    assert throttle.decide(load, 1, 3000.0) == 2


@pytest.mark.parametrize(
    ("text", "bounds"), [("2.0", (1.8, 2.0)), ("5 to 6.5", (5.0, 6.5)), ("", None), (" ", None), ("0", (0.0, 0.0))]
)
def test_a_throttle_is_a_number_or_a_range(text: str, bounds: tuple[float, float] | None) -> None:
    assert read_throttle(text) == bounds


@pytest.mark.parametrize("text", ["fast", "6 to 5", "-1", "1 to"])
def test_what_is_no_throttle_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        read_throttle(text)


def test_spans_have_names_and_seconds() -> None:
    assert read_spans("1m:60 5m:300") == SPANS
    with pytest.raises(UserError, match="1m"):
        read_spans("1m")
    with pytest.raises(UserError, match="x:y"):
        read_spans("x:y")
