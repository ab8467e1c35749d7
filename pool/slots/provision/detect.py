"""What this machine has, and what is going on at it: the facts that slot ads are made of.

`hardware_facts` and `system_facts` do not change while a startd lives; `look` is taken anew for each evaluation of
policy.

Source: HTCondor's manual, "Machine ClassAd Attributes" (Arch, OpSys, DetectedCpus, KeyboardIdle, LoadAvg and their
kin).
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import struct_time
from typing import Final

import psutil

from pool.base.ids import is_number
from pool.base.version import arch
from pool.slots.provision.limits import cpus_allowed, memory_allowed

MIB: Final = 1024 * 1024
SSHD: Final = "/usr/sbin/sshd"
_NAMES: Final = {
    "debian": "Debian",
    "ubuntu": "Ubuntu",
    "fedora": "Fedora",
    "rhel": "RedHat",
    "centos": "CentOS",
    "almalinux": "AlmaLinux",
    "rocky": "Rocky",
    "opensuse-leap": "openSUSE",
    "sles": "SUSE",
    "arch": "Arch",
    "alpine": "Alpine",
    "amzn": "AmazonLinux",
}
_ADVERTISED_FLAGS: Final = {
    "avx": "has_avx",
    "avx2": "has_avx2",
    "avx512f": "has_avx512f",
    "avx512dq": "has_avx512dq",
    "avx512_vnni": "has_avx512_vnni",
    "ssse3": "has_ssse3",
    "sse4_1": "has_sse4_1",
    "sse4_2": "has_sse4_2",
}
_LEVELS: Final = (
    ("x86_64-v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
    ("x86_64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    ("x86_64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
)


@dataclass(frozen=True)
class HardwareFacts:
    """Cores, memory (MiB), swap (KiB) that the machine has, and those that may be used."""

    cpus_total: int
    cpus: int
    memory_total: int
    memory: int
    swap: int


def hardware_facts(*, hyperthreads: bool = True) -> HardwareFacts:
    """What may be divided among slots. `hyperthreads` false counts physical cores only."""
    total = psutil.cpu_count(logical=hyperthreads) or psutil.cpu_count() or 1
    physical = psutil.virtual_memory().total
    allowed = memory_allowed(physical)
    return HardwareFacts(
        cpus_total=total,
        cpus=min(total, cpus_allowed()),
        memory_total=physical // MIB,
        memory=allowed // MIB,
        swap=(allowed + psutil.swap_memory().total) // 1024,
    )


def free_disk_kib(directory: str) -> int:
    """KiB that an unprivileged user can write in the file system of `directory`."""
    return shutil.disk_usage(directory).free // 1024


def disk_size_kib(directory: str) -> int:
    """How large the file system of `directory` is, in KiB."""
    return shutil.disk_usage(directory).total // 1024


def has_sshd() -> bool:
    """Whether a job's machine can be entered by ssh."""
    return os.access(SSHD, os.X_OK)


def file_system(directory: str) -> str:
    """What tells one file system from another: the device number, as ExecuteVolume shows it."""
    return str(os.stat(directory).st_dev)


_USER_NAMESPACE_SWITCHES: Final = {
    "user/max_user_namespaces": "0",
    "kernel/unprivileged_userns_clone": "0",
    "kernel/apparmor_restrict_unprivileged_userns": "1",
}
"""Files of /proc/sys, with what in them keeps ordinary accounts from making user namespaces."""


def has_user_namespaces(proc: Path = Path("/proc")) -> bool:
    """Whether a job can make user namespaces without root's rights."""
    if not (proc / "self/ns/user").exists():
        return False
    for name, refusing in _USER_NAMESPACE_SWITCHES.items():
        try:
            if (proc / "sys" / name).read_text().strip() == refusing:
                return False
        except OSError:
            continue  # a kernel without this switch
    return True


def is_rotational(directory: str, sys: Path = Path("/sys")) -> bool:
    """Whether the directory is on a disk that turns."""
    device = os.stat(directory).st_dev
    place = sys / "dev/block" / f"{os.major(device)}:{os.minor(device)}"
    for part in (place / "queue", place / "../queue"):  # of a disk, or of a part of one
        try:
            return (part / "rotational").read_text().strip() == "1"
        except OSError:
            continue
    return False


def interface_facts(address: str) -> dict[str, str]:
    """HardwareAddress and SubnetMask of the interface that has this IP address."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.address == address:
                hardware = next((a.address for a in addresses if a.family == psutil.AF_LINK), "")
                facts = {"HardwareAddress": hardware, "SubnetMask": one.netmask or ""}
                return {name: value for name, value in facts.items() if value}
    return {}


def system_facts() -> dict[str, str | int | bool]:
    """Arch, OpSys and its kin, kernel and processor: attributes that are the same for all slots."""
    uname = os.uname()
    facts: dict[str, str | int | bool] = {
        "Arch": arch(uname.machine),
        "OpSys": uname.sysname.upper(),
        "OpSysLegacy": uname.sysname.upper(),
        "UtsnameSysname": uname.sysname,
        "UtsnameNodename": uname.nodename,
        "UtsnameRelease": uname.release,
        "UtsnameVersion": uname.version,
        "UtsnameMachine": uname.machine,
    }
    facts.update(distribution(_os_release()))
    try:
        facts.update(processor(Path("/proc/cpuinfo").read_text(errors="replace"), arch(uname.machine)))
    except OSError:
        pass
    return facts


def _os_release() -> Mapping[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def distribution(release: Mapping[str, str]) -> dict[str, str | int]:
    """OpSysName, OpSysVer ... from what /etc/os-release says."""
    ident = release.get("ID", "linux").lower()
    name = _NAMES.get(ident, ident.capitalize())
    version = release.get("VERSION_ID", "").split(".")
    major = int(version[0]) if is_number(version[0]) else 0
    minor = int(version[1]) if len(version) > 1 and is_number(version[1]) else 0
    return {
        "OpSysName": name,
        "OpSysShortName": name,
        "OpSysLongName": release.get("PRETTY_NAME", name),
        "OpSysAndVer": f"{name}{major}",
        "OpSysMajorVer": major,
        "OpSysVer": major * 100 + minor,
    }


def processor(cpuinfo: str, architecture: str) -> dict[str, str | int | bool]:
    """CpuFamily, CpuModelNumber, CpuCacheSize (KiB), Microarch and has_<flag> from the text of /proc/cpuinfo.

    All of them are words of x86. On another architecture the file has none of them, or (where its programs are run by
    an emulator) those of a processor that these programs cannot use: then nothing is said.
    """
    if architecture not in ("X86_64", "INTEL"):
        return {}
    first: dict[str, str] = {}
    for line in cpuinfo.split("\n\n", 1)[0].splitlines():
        key, _, value = line.partition(":")
        first[key.strip()] = value.strip()
    facts: dict[str, str | int | bool] = {}
    for key, name in (("cpu family", "CpuFamily"), ("model", "CpuModelNumber"), ("cache size", "CpuCacheSize")):
        digits = first.get(key, "").split(" ")[0]
        if is_number(digits):
            facts[name] = int(digits)
    flags = set(first.get("flags", "").split())
    facts.update({name: True for flag, name in _ADVERTISED_FLAGS.items() if flag in flags})
    if architecture == "X86_64":
        facts["Microarch"] = microarchitecture(flags)
    return facts


def microarchitecture(flags: set[str]) -> str:
    """The level of x86-64 that a processor with these flags has."""
    level = "x86_64-v1"
    for name, needed in _LEVELS:
        if not needed <= flags:
            break
        level = name
    return level


@dataclass(frozen=True)
class Look:
    """What is going on at the machine now."""

    load: float
    keyboard_idle: int
    console_idle: int | None
    clock_min: int
    clock_day: int
    busy_s: float = 0.0
    """The processor seconds that were not idle since the machine was started."""


def look(local: struct_time, idle: tuple[int, int | None]) -> Look:
    """The load now; `local` is local time, and `idle` how long keyboard and console were not used (`LastUse`)."""
    keyboard, console = idle
    return Look(
        load=round(os.getloadavg()[0], 2),
        keyboard_idle=keyboard,
        console_idle=console,
        clock_min=local.tm_hour * 60 + local.tm_min,
        clock_day=(local.tm_wday + 1) % 7,
        busy_s=processors_busy_s(),
    )


def processors_busy_s() -> float:
    """The processor seconds that were not idle since the machine was started, of all processors."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
