"""Who is let in, and who gives up a place when there is none."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import trio

from protocol.network.admission import LONG_BYTES_MAX, Admission, ConnectionBounds, ConnectionPlace, UserShare

SMALL = ConnectionBounds(files_max=64, strangers_max=5, user_max=8, calls_max=3)


@dataclass
class Door:
    """An admission, and what it has dropped."""

    book: Admission = field(default_factory=lambda: Admission(SMALL))
    dropped: list[str] = field(default_factory=list)

    def stranger(self, origin: str, name: str = "", *, is_ours: bool = False) -> ConnectionPlace | None:
        return self.book.enter(origin, lambda _: self.dropped.append(name or origin), is_ours=is_ours)

    def user(self, who: str, name: str = "", *, is_idle: bool = True) -> ConnectionPlace | None:
        """One that has authenticated; None when it was not let in or may not stay."""
        place = self.stranger(f"host of {who}", name or who)
        if place is None:
            return None
        place.is_idle = lambda: is_idle
        return place if self.book.know(place, who, is_ours=False) else None


def test_the_bounds_leave_room_for_files_and_for_the_pools_own() -> None:
    assert SMALL.total == 48
    assert SMALL.others_max == 42
    assert ConnectionBounds(files_max=1024).strangers_of_one_max < ConnectionBounds(files_max=1024).others_max // 3
    assert ConnectionBounds(files_max=500_000).strangers_of_one_max == 1000


def test_of_one_crowd_of_strangers_the_oldest_goes() -> None:
    door = Door()
    for number in range(7):
        assert door.stranger("10.0.0.1", str(number)) is not None
    assert door.dropped == ["0", "1"]
    assert door.stranger("10.0.0.2") is not None
    assert door.dropped == ["0", "1"]


def test_who_has_authenticated_is_no_stranger_any_more() -> None:
    door = Door()
    for number in range(7):
        assert door.user(f"user{number}") is not None
    assert door.dropped == []


def test_a_user_with_too_many_loses_what_is_idle_and_is_refused_when_nothing_is() -> None:
    door = Door()
    for number in range(8):
        door.user("alice", f"alice {number}", is_idle=number == 3)
    assert door.user("alice", is_idle=False) is not None
    assert door.dropped == ["alice 3"]
    assert door.user("alice") is None
    assert door.user("bob") is not None


def test_when_all_is_full_who_has_most_gives_one_up() -> None:
    door = Door()
    for user, count in (("alice", 8), ("carol", 7), ("dave", 7), ("erin", 7), ("fred", 7), ("gina", 6)):
        for number in range(count):
            assert door.user(user, f"{user} {number}", is_idle=False) is not None
    assert door.user("bob") is not None
    assert door.dropped == ["alice 0"]


def test_strangers_go_before_users_where_they_are_a_crowd() -> None:
    door = Door(Admission(ConnectionBounds(files_max=64, strangers_max=20, user_max=40)))
    for number in range(10):
        assert door.stranger("10.0.0.1", f"stranger {number}") is not None
    for number in range(32):
        assert door.user(f"user {number}") is not None
    assert door.user("bob") is not None
    assert door.dropped == ["stranger 0"]


def test_a_single_stranger_is_not_dropped_for_another() -> None:
    door = Door(Admission(ConnectionBounds(files_max=64, strangers_max=20, user_max=40)))
    first = door.stranger("10.0.0.1", "first")
    for number in range(41):
        door.user(f"user {number % 3}", f"user {number % 3}")
    assert door.stranger("10.0.0.2", "second") is not None
    assert "first" not in door.dropped
    assert first is not None


def test_the_pools_own_find_the_places_that_are_kept_for_them() -> None:
    door = Door()
    users = [door.user(f"user {number}", is_idle=False) for number in range(42)]
    assert all(users)
    for _ in range(6):
        assert door.stranger("uid 0", is_ours=True) is not None
    assert door.dropped == []
    assert door.stranger("uid 0", is_ours=True) is not None
    assert len(door.dropped) == 1


def test_nobody_has_to_go_for_one_more_of_the_largest_crowd() -> None:
    door = Door(Admission(ConnectionBounds(files_max=64, strangers_max=20, user_max=60)))
    for _ in range(21):
        door.user("alice", "alice", is_idle=False)
    for _ in range(21):
        door.user("bob", "bob", is_idle=False)
    assert door.user("alice", is_idle=False) is None or "bob" not in door.dropped[1:]


def test_calls_of_one_user_are_counted_on_all_connections() -> None:
    door = Door()
    one, two, other = door.user("alice"), door.user("alice"), door.user("bob")
    assert one is not None
    assert two is not None
    assert other is not None
    assert [door.book.begin_call(place) for place in (one, two, one, two, other)] == [True, True, True, False, True]
    door.book.end_call(two)
    assert door.book.begin_call(one)


def test_what_has_left_is_forgotten() -> None:
    door = Door()
    place = door.user("alice")
    assert place is not None
    assert door.book.begin_call(place)
    door.book.leave(place)
    door.book.leave(place)
    door.book.end_call(place)
    assert door.book._users == {}
    assert door.book._strangers == {}
    assert door.book._others == 0


async def test_long_messages_of_one_user_wait_for_room(autojump_clock: trio.testing.MockClock) -> None:
    share, order = UserShare("alice"), []

    async def one(name: str, size: int) -> None:
        await share.take(size)
        order.append(name)
        await trio.sleep(1)
        share.give(size)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, "first", LONG_BYTES_MAX)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(one, "second", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert order == ["first"]
    assert order == ["first", "second"]
    assert share.long_bytes == 0


@pytest.mark.parametrize("files_max", [64, 256, 1024, 20_000, 524_288])
def test_no_one_can_take_all(files_max: int) -> None:
    bounds = ConnectionBounds(files_max=files_max)
    assert 2 * bounds.user_of_one_max <= bounds.others_max < bounds.total < files_max
