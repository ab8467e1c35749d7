"""Samples become the attributes that policies and people read."""

from __future__ import annotations

import pytest

from pool.classad import expr
from pool.execute.cgroup import disk_traffic
from pool.execute.usage import DiskTraffic, JobUsage, UsageSample

KIB, MIB = 1024, 1 << 20


def test_the_largest_sizes_and_the_whole_traffic_are_told() -> None:
    usage = JobUsage()
    for resident, read, reads in ((5 * MIB, 3 * KIB, None), (2 * MIB, 9 * KIB, 4), (MIB, KIB, 2)):
        usage = usage.seen(UsageSample(resident=resident, traffic=DiskTraffic(read, 2 * read, reads, None)))
    ad = usage.ad()
    assert [ad[name] for name in ("ResidentSetSize", "BlockReadKbytes", "BlockWriteKbytes", "BlockReads")] == [
        5 * KIB,
        9,
        18,
        4,
    ]
    assert "BlockWrites" not in ad


@pytest.mark.parametrize(("metric", "value"), [("", 5), ("ResidentSetSize / 512", 10), ("ImageSize / 1024 + 1", 6)])
def test_memory_usage_is_what_the_machine_says_it_is(metric: str, value: int) -> None:
    usage = JobUsage(memory_metric=expr(metric) if metric else None).seen(UsageSample(resident=5 * MIB))
    assert usage.ad().eval_int("MemoryUsage") == value


@pytest.mark.parametrize(
    ("text", "traffic"),
    [
        ("", DiskTraffic(0, 0, 0, 0)),
        ("8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n", DiskTraffic(4096, 0, 1, 0)),
        ("8:0 rbytes=10 wbytes=1 rios=1 wios=2\n252:1 rbytes=5 wbytes=2 rios=3 wios=4\n", DiskTraffic(15, 3, 4, 6)),
        ("7:0 \n", DiskTraffic(0, 0, 0, 0)),
    ],
)
def test_the_traffic_of_all_disks_is_added(text: str, traffic: DiskTraffic) -> None:
    assert disk_traffic(text) == traffic
