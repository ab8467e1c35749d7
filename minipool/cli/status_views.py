"""The tables of condor_status: the columns of each kind of daemon, and the totals below them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from minipool.cli.columns import Col
from minipool.cli.show import date, duration
from pool.classad import ClassAd


def elapsed_since(attribute: str) -> Callable[[ClassAd], str | None]:
    """The time from an attribute's moment to the moment at which the ad was true."""

    def shown(ad: ClassAd) -> str | None:
        since = ad.eval_int(attribute)
        now = ad.eval_int("MyCurrentTime") or ad.eval_int("LastHeardFrom")
        return None if since is None or now is None else duration(max(0, now - since))

    return shown


def _load(attribute: str) -> Callable[[ClassAd], str | None]:
    def shown(ad: ClassAd) -> str | None:
        load = ad.eval_float(attribute)
        return None if load is None else f"{load:.3f}"

    return shown


def _date(attribute: str) -> Callable[[ClassAd], str | None]:
    def shown(ad: ClassAd) -> str | None:
        at = ad.eval_int(attribute)
        return None if at is None else date(at)

    return shown


def _span(attribute: str) -> Callable[[ClassAd], str | None]:
    def shown(ad: ClassAd) -> str | None:
        seconds = ad.eval_int(attribute)
        return None if seconds is None else duration(seconds)

    return shown


def platform(ad: ClassAd) -> str | None:
    """The machine's platform in few letters: `x64/Debian12`."""
    arch, system = ad.eval_str("Arch"), ad.eval_str("OpSysAndVer") or ad.eval_str("OpSys")
    if arch is None or system is None:
        return None
    short = {"X86_64": "x64", "INTEL": "x86", "aarch64": "arm64"}.get(arch, arch)
    return f"{short}/{system}"


def _version(ad: ClassAd) -> str | None:
    text = ad.eval_str("CondorVersion")
    if text is None:
        return None
    words = text.split()
    packaged = re.search(r"(?:PackageID|BuildID):", text)
    return f"{words[1]}.{packaged[0]}" if len(words) > 1 and packaged else words[1] if len(words) > 1 else text


def _memory(ad: ClassAd) -> str | None:
    megabytes = ad.eval_float("DetectedMemory")
    if megabytes is None:
        return None
    return f"{megabytes / 1024:.1f} GB" if megabytes >= 1024 else f"{megabytes:.1f} MB"


def _gpus(ad: ClassAd) -> str | None:
    return str(ad.eval_int("TotalGPUs", 0) or "") or None


def activity_code(ad: ClassAd) -> str | None:
    """State and activity in two letters, as the compact view has them."""
    state, activity = ad.eval_str("State"), ad.eval_str("Activity")
    if not state or not activity:
        return None
    first = {"Owner": "O", "Unclaimed": "U", "Matched": "M", "Claimed": "C", "Preempting": "P", "Backfill": "B"}
    second = {
        "Idle": "i",
        "Busy": "b",
        "Retiring": "r",
        "Suspended": "s",
        "Vacating": "v",
        "Killing": "k",
        "Benchmarking": "m",
    }
    return first.get(state, "D" if state.startswith("Drain") else "~") + second.get(activity, "~")


_NAME = Col("Name", "Name", width=-34, alt="??", fit=True)
_OPSYS = Col("OpSys", "OpSys", width=-10, alt="??")
_ARCH = Col("Arch", "Arch", width=-8, alt="??")
_LOAD = Col("LoadAv", _load("CondorLoadAvg"), width=6, truncate=True, alt="??", needs=("CondorLoadAvg",))
_TIMES = ("MyCurrentTime", "LastHeardFrom", "EnteredCurrentActivity", "EnteredCurrentState")
_AUTO_NAME = Col("Name", "Name", width=-4, auto=True)
_LONG_NAME = Col("Name", "Name", width=-15, auto=True)
_AUTO_MACHINE = Col("Machine", "Machine", width=-7, auto=True)
_RUNNING = ("RunningJobs", "  IdleJobs", "  HeldJobs")

_ACTIVITY_TIME = elapsed_since("EnteredCurrentActivity")

NORMAL = (
    _NAME, _OPSYS, _ARCH,
    Col("State", "State", width=-5, auto=True, alt="??"),
    Col("Activity", "Activity", width=-8, alt="??"),
    _LOAD,
    Col("Mem", "Memory", width=6, printf="%6d", alt="??"),
    Col("  ActvtyTime", _ACTIVITY_TIME, width=12, glued=True, truncate=True, alt="-", needs=_TIMES),
)  # fmt: skip
WIDE = (
    *NORMAL[:-1],
    NORMAL[-1]._replace(heading="ActivityTime", glued=False),
)
STATE = (
    _NAME,
    Col("Cpu", "Cpus", width=-3, alt="??"),
    Col(" Mem", "Memory", width=5, printf="%5d", alt="??"),
    _LOAD,
    Col("  KbdIdle", _span("KeyboardIdle"), width=12, truncate=True, alt="??", needs=("KeyboardIdle",)),
    Col("State", "State", width=-7, alt="??"),
    Col("  StateTime", elapsed_since("EnteredCurrentState"), width=12, truncate=True, alt="??", needs=_TIMES),
    Col("Activ", "Activity", width=-5, alt="??"),
    Col("  ActvtyTime", elapsed_since("EnteredCurrentActivity"), width=12, truncate=True, alt="-", needs=_TIMES),
)  # fmt: skip
SERVER = (
    _NAME, _OPSYS, _ARCH, _LOAD,
    Col("Memory", "Memory", width=8, printf="%8d", alt="??"),
    Col("Disk", "Disk", width=9, printf="%9d", alt="??"),
    Col("Mips", "Mips", width=7, printf="%7d", alt="??"),
    Col("KFlops", "KFlops", width=9, printf="%9d", alt="??"),
)  # fmt: skip
CLAIMED = (
    _NAME, _OPSYS, _ARCH, _LOAD,
    Col("RemoteUser", "RemoteUser", width=-20, alt="??"),
    Col("ClientMachine", "ClientMachine", width=-16, alt="??"),
)  # fmt: skip
COMPACT = (
    _AUTO_MACHINE,
    Col("Platform", platform, width=-8, auto=True, needs=("Arch", "OpSysAndVer", "OpSys")),
    Col("Slots", "SlotCount", width=5, printf="%4d ", alt=" "),
    Col("Cpus", "TotalSlotCpus", width=4, printf="%4d"),
    Col("Gpus", "TotalSlotGPUs", width=4, printf="%4d"),
    Col(" TotalGb", "TotalSlotMemory / 1024.0", width=8, printf="%8.2f"),
    Col("FreCpu", "Cpus", width=6, printf="%6d"),
    Col(" FreeGb ", "Memory / 1024.0", width=8, printf="%8.2f"),
    Col("CpuLoad", "TotalLoadAvg * 1.0 / TotalCpus", width=7, printf="%7.2f"),
    Col("ST", "ActivityCode", width=-2),
    Col("Jobs/Min", "RecentJobStarts / 20.0", width=8, printf="%8.2f", alt="_"),
    Col("MaxSlotGb", "MaxSlotMemory / 1024.0", width=9, printf="%9.2f", alt="*"),
)  # fmt: skip
SCHEDD = (
    _LONG_NAME, _AUTO_MACHINE,
    *(Col(heading, name, width=len(heading), printf=f"%{len(heading)}d")
      for heading, name in zip(_RUNNING, ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs"), strict=True)),
)  # fmt: skip
SUBMITTER = (
    _LONG_NAME, _AUTO_MACHINE,
    *(Col(heading, heading.strip(), width=len(heading), printf=f"%{len(heading)}d") for heading in _RUNNING),
)  # fmt: skip
SCHEDD_RUN = (
    _LONG_NAME,
    Col("TotalJobs", "TotalJobAds", width=9, printf="%9d"),
    Col("Shadows", "ShadowsRunning", width=7, printf="%7d"),
    Col("ActiveDAGs", "TotalSchedulerJobsRunning", width=10, printf="%10d"),
    Col("IdleDAGs", "TotalSchedulerJobsIdle", width=8, printf="%8d"),
    Col("RcntDone", "RecentJobsCompleted", width=8, printf="%8d"),
    Col("RcntStart", "RecentJobsStarted", width=9, printf="%9d"),
)  # fmt: skip
MASTER = (
    _AUTO_NAME,
    Col("Version", _version, width=-14, needs=("CondorVersion",)),
    Col("Cpus", "DetectedCpus", width=4, printf="%4d"),
    Col("  Memory", _memory, width=10, needs=("DetectedMemory",)),
    Col("   Uptime", elapsed_since("DaemonStartTime"), width=13, needs=("DaemonStartTime", *_TIMES)),
)  # fmt: skip
COLLECTOR = (
    _AUTO_NAME,
    Col("Machine", "Machine", width=-18, auto=True),
    Col("RunningJobs", "RunningJobs", width=11, printf="%11d"),
    Col("  IdleJobs", "IdleJobs", width=10, printf="%10d"),
    Col("HostsTotal", "HostsTotal", width=10, printf="%10d"),
)  # fmt: skip
NEGOTIATOR = (
    _AUTO_NAME,
    Col("LastCycleEnd", _date("LastNegotiationCycleEnd0"), width=12, needs=("LastNegotiationCycleEnd0",)),
    Col("(Sec)", "LastNegotiationCycleDuration0", width=5, printf="%5d"),
    Col("  Slots", "LastNegotiationCycleTotalSlots0", width=7, printf="%7d"),
    Col("Submitrs", "LastNegotiationCycleActiveSubmitterCount0", width=8, printf="%8d"),
    Col("Schedds", "LastNegotiationCycleActiveSchedds0", width=7, printf="%7d"),
    Col("   Jobs", "LastNegotiationCycleNumIdleJobs0", width=7, printf="%7d"),
    Col("Matches", "LastNegotiationCycleMatches0", width=7, printf="%7d"),
    Col("Rejections", "LastNegotiationCycleRejections0", width=10, printf="%10d"),
)  # fmt: skip
STARTD = (
    _AUTO_NAME,
    Col("Platform", platform, width=-11, auto=True, needs=("Arch", "OpSysAndVer", "OpSys")),
    Col("Version", _version, width=-7, auto=True, needs=("CondorVersion",)),
    Col("Cpus", "DetectedCpus", width=4, printf="%4d"),
    Col("  Memory", _memory, width=10, needs=("DetectedMemory",)),
    Col("GPUs", _gpus, width=5, needs=("TotalGPUs",)),
    Col("   Uptime", elapsed_since("DaemonStartTime"), width=13, needs=("DaemonStartTime", *_TIMES)),
)  # fmt: skip
ANY = (
    Col("MyType", "MyType", width=-18, alt="??"),
    Col("TargetType", lambda ad: "Job" if ad.eval_str("MyType") == "Machine" else "None", width=-18, needs=("MyType",)),
    Col("Name", "Name", width=-41, alt="[???]"),
)  # fmt: skip


class View(NamedTuple):
    """A table of condor_status: the type of its ads, which of them, its columns, and how they are counted."""

    ad_type: str
    columns: Sequence[Col]
    totals: str = ""
    constraint: str = ""


VIEWS: Final[Mapping[str, View]] = {
    "normal": View("Machine", NORMAL, "normal"),
    "avail": View("Machine", NORMAL, "normal", 'State == "Unclaimed" && (Cpus > 0) && (Memory > 0)'),
    "claimed": View("Machine", CLAIMED, "run", 'State == "Claimed"'),
    "state": View("Machine", STATE, "state"),
    "server": View("Machine", SERVER, "server"),
    "compact": View("Machine", COMPACT, "compact"),
    "absent": View("Machine", NORMAL, "normal", "Absent =?= true"),
    "gpus": View("Machine", NORMAL, "normal", "TotalGPUs > 0"),
    "vm": View("Machine", NORMAL, "normal", "HasVM =?= true"),
    "java": View("Machine", NORMAL, "normal", "HasJava =?= true"),
    "schedd": View("Scheduler", SCHEDD, "schedd"),
    "run": View("Scheduler", SCHEDD_RUN),
    "submitters": View("Submitter", SUBMITTER, "submitter"),
    "master": View("DaemonMaster", MASTER),
    "collector": View("Collector", COLLECTOR),
    "negotiator": View("Negotiator", NEGOTIATOR),
    "startd": View("StartD", STARTD, "startd"),
    "any": View("Any", ANY),
    "grid": View("Grid", ANY),
    "defrag": View("Defrag", ANY),
    "cod": View("Machine", NORMAL, "", "CODClaims =!= undefined"),
    "generic": View("Generic", ANY),
    "storage": View("Storage", ANY),
    "license": View("License", ANY),
    "ads": View("Machine", NORMAL, "normal"),
}
