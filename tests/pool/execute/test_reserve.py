"""When a job has to leave a disk that is nearly full, and how many processes it may have."""

from __future__ import annotations

import pytest

from pool.execute.cgroup import processes_limit
from pool.execute.scratch import is_in_the_way, no_disk_left, reserve_bytes

GB = 1 << 30


def test_the_reserve_is_a_twentieth_of_a_small_disk() -> None:
    assert reserve_bytes(1024, 1000 * GB) == GB
    assert reserve_bytes(1024, 10 * GB) == GB // 2
    assert reserve_bytes(0, 10 * GB) == 0


@pytest.mark.parametrize(
    ("used", "allocated", "free", "for_s", "goes"),
    [
        (50, 10, 0.9, 0.0, True),  # far more than its own
        (10, 10, 0.0, 100.0, False),  # what it asked for is its own, to the last byte
        (10.5, 10, 0.9, 100.0, False),  # less than is left
        (10.5, 10, 0.1, 0.0, False),  # others may be to blame
        (10.5, 10, 0.1, 6.0, True),
    ],
)
def test_who_has_taken_too_much_goes(used: float, allocated: float, free: float, for_s: float, goes: bool) -> None:
    taken, given, left = (int(amount * GB) for amount in (used, allocated, free))
    assert is_in_the_way(taken, given, left, GB, for_s=for_s) is goes


def test_the_hold_says_what_there_was() -> None:
    hold = no_disk_left(GB, 40 * GB, GB // 2)
    assert (hold.code, hold.subcode) == (34, 104)
    assert "(512.00 MB left), and the job uses more of it (40.00 GB) than it was allocated (1.00 GB)" in hold.reason


@pytest.mark.parametrize(
    ("wanted", "cpus", "limit"),
    [(4096, 1, 1536), (100, 1, 100), (0, 1, 0), (-1, 1, 0), (40960, 16, 24576), (4096, 64, 4096)],
)
def test_no_job_gets_more_than_its_cpus_share_of_the_machines_processes(wanted: int, cpus: int, limit: int) -> None:
    assert processes_limit(wanted, cpus=cpus, machine_cpus=16, machine=32768) == limit


def test_a_job_on_a_small_share_has_enough_to_work() -> None:
    assert processes_limit(4096, cpus=1, machine_cpus=128, machine=32768) == 512
