"""What is read off the machine, and that limits set from outside are respected."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pool.slots.provision import detect
from pool.slots.provision.limits import cpus_allowed, memory_allowed

GIB = 1 << 30


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "cg/a/b/cpu.max": "max 100000"}, 8),
        ({"proc/self/cgroup": "0::/a/b\n", "cg/a/b/cpu.max": "150000 100000"}, 2),
        ({"proc/self/cgroup": "0::/a/b\n", "cg/a/b/x": "", "cg/a/cpu.max": "300000 100000"}, 3),
        (
            {
                "proc/self/cgroup": "1:cpu:/c\n",
                "cg/cpu/c/cpu.cfs_quota_us": "50000",
                "cg/cpu/c/cpu.cfs_period_us": "100000",
            },
            1,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/c\n",
                "cg/cpu/c/cpu.cfs_quota_us": "-1",
                "cg/cpu/c/cpu.cfs_period_us": "100000",
            },
            8,
        ),
        ({"proc/self/cgroup": "0::/../../x\n", "cg/cpu.max": "200000 100000", "x/cpu.max": "1 1"}, 2),
        ({}, 8),
    ],
)
def test_cpu_quotas_of_cgroups_are_respected(tmp_path: Path, files: dict[str, str], cpus: int) -> None:
    tree(tmp_path, files)
    assert cpus_allowed(proc=tmp_path / "proc", cgroups=tmp_path / "cg", affinity=8) == cpus


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({"proc/self/cgroup": "0::/a\n", "cg/a/memory.max": "max"}, 8 * GIB),
        ({"proc/self/cgroup": "0::/a\n", "cg/a/memory.max": str(GIB)}, GIB),
        ({"proc/self/cgroup": "4:memory:/a\n", "cg/memory/a/memory.limit_in_bytes": str(2 * GIB)}, 2 * GIB),
        ({"proc/self/cgroup": "4:memory:/a\n", "cg/memory/a/memory.limit_in_bytes": str(1 << 62)}, 8 * GIB),
    ],
)
def test_memory_limits_of_cgroups_are_respected(tmp_path: Path, files: dict[str, str], memory: int) -> None:
    tree(tmp_path, files)
    assert memory_allowed(8 * GIB, proc=tmp_path / "proc", cgroups=tmp_path / "cg") == memory


def test_affinity_is_respected() -> None:
    assert 1 <= detect.hardware_facts().cpus <= len(os.sched_getaffinity(0))


def test_the_machine_has_what_ads_need(tmp_path: Path) -> None:
    facts = detect.hardware_facts()
    assert facts.memory > 0
    assert facts.memory <= facts.memory_total
    assert detect.free_disk_kib(str(tmp_path)) > 0
    system = detect.system_facts()
    assert {"Arch", "OpSys", "OpSysAndVer", "OpSysMajorVer", "UtsnameRelease"} <= system.keys()
    assert system["OpSys"] == "LINUX"


def test_distributions_are_named_as_htcondor_names_them() -> None:
    debian = detect.distribution({"ID": "debian", "VERSION_ID": "12", "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)"})
    assert (debian["OpSysAndVer"], debian["OpSysVer"], debian["OpSysMajorVer"]) == ("Debian12", 1200, 12)
    ubuntu = detect.distribution({"ID": "ubuntu", "VERSION_ID": "22.04"})
    assert (ubuntu["OpSysAndVer"], ubuntu["OpSysVer"], ubuntu["OpSysName"]) == ("Ubuntu22", 2204, "Ubuntu")
    assert detect.distribution({"ID": "rocky", "VERSION_ID": "9.3"})["OpSysAndVer"] == "Rocky9"
    assert detect.distribution({})["OpSysVer"] == 0


V2 = "sse2 cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
V3 = V2 + " avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = V3 + " avx512f avx512bw avx512cd avx512dq avx512vl"


def cpuinfo(flags: str) -> str:
    return f"processor : 0\ncpu family : 6\nmodel : 167\ncache size : 480 KB\nflags : {flags}\n\nprocessor : 1"


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ("sse2", "v1"),
        (V2, "v2"),
        (V3, "v3"),
        (V4, "v4"),
        ("avx2 " + V2, "v2"),
        (V3.replace(" xsave", ""), "v2"),  # whose system does not keep the registers of AVX
    ],
)
def test_levels_of_x86_64(flags: str, level: str) -> None:
    facts = detect.processor(cpuinfo(flags), "X86_64")
    assert facts["Microarch"] == f"x86_64-{level}"
    assert (facts["CpuFamily"], facts["CpuModelNumber"], facts["CpuCacheSize"]) == (6, 167, 480)
    assert ("has_avx2" in facts) == ("avx2" in flags.split())


def test_levels_are_those_of_64_bits() -> None:
    assert "Microarch" not in detect.processor(cpuinfo(V2), "INTEL")


ARM = """\
processor\t: 0
BogoMIPS\t: 125.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3

processor\t: 1
"""


@pytest.mark.parametrize("text", [ARM, cpuinfo(V4)], ids=["an own one", "that of the machine which emulates it"])
def test_another_architecture_has_nothing_of_x86(text: str) -> None:
    assert detect.processor(text, "aarch64") == {}


@pytest.mark.parametrize(
    ("text", "minute", "day"),
    [("2026-11-22 08:00", 480, 0), ("2026-11-23 16:59", 1019, 1), ("2026-11-21 12:00", 720, 6)],
)
def test_clock_attributes_are_minutes_and_days_from_sunday(text: str, minute: int, day: int) -> None:
    seen = detect.look(time.strptime(text, "%Y-%m-%d %H:%M"), (5, None))
    assert (seen.clock_min, seen.clock_day) == (minute, day)


@pytest.mark.parametrize(
    ("place", "said", "turns"), [("queue", "1", True), ("queue", "0", False), ("../queue", "1", True)]
)
def test_a_disk_that_turns_is_known_by_its_queue(place: str, said: str, turns: bool, tmp_path: Path) -> None:
    device = os.stat(tmp_path).st_dev
    disk = tmp_path / "sys/dev/block" / f"{os.major(device)}:{os.minor(device)}"
    disk.mkdir(parents=True)
    (disk / place).mkdir()
    (disk / place / "rotational").write_text(f"{said}\n")
    assert detect.is_rotational(str(tmp_path), tmp_path / "sys") is turns


def test_a_file_system_without_a_disk_does_not_turn(tmp_path: Path) -> None:
    assert detect.is_rotational(str(tmp_path), tmp_path / "sys") is False


def test_the_interface_is_that_with_the_address() -> None:
    assert detect.interface_facts("192.0.2.1") == {}
    assert detect.interface_facts("127.0.0.1").keys() <= {"HardwareAddress", "SubnetMask"}


@pytest.mark.parametrize(
    ("files", "has"),
    [
        ({}, False),
        ({"self/ns/user": ""}, True),
        ({"self/ns/user": "", "sys/user/max_user_namespaces": "96365\n"}, True),
        ({"self/ns/user": "", "sys/user/max_user_namespaces": "0\n"}, False),
        ({"self/ns/user": "", "sys/kernel/unprivileged_userns_clone": "0\n"}, False),
        ({"self/ns/user": "", "sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, False),
    ],
)
def test_user_namespaces_are_there_where_nothing_keeps_jobs_from_them(
    tmp_path: Path, files: dict[str, str], has: bool
) -> None:
    assert detect.has_user_namespaces(tree(tmp_path, files)) is has
