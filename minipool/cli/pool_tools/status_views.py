"""The tables of condor_status, in the language of -print-format: columns, which ads, and how they are counted.

A view is its text, the type of its ads, the constraint that they meet, and the kind of its totals. Source: HTCondor's
manual page condor_status, and its layouts, which `tests/cases/cli` holds.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from minipool.cli.output import mask
from minipool.cli.output.print_format import PrintFormat, parse
from minipool.cli.pool_tools.status_print_as import FUNCTIONS

_SLOT = """SELECT
    Name   WIDTH -34 FIT PRINTF %s OR ??
    OpSys  WIDTH -10 OR ??
    Arch   WIDTH -8 OR ??
"""
_LOAD = "CondorLoadAvg AS LoadAv WIDTH 6 TRUNCATE PRINTAS LOAD_AVG OR ??\n"
_STATE_ACTIVITY = """
    State    WIDTH AUTO OR ??
    Activity WIDTH -8 PRINTAS ACTIVITY_OR_OCU OR ??
"""
_TIME = "EnteredCurrentActivity AS '  ActvtyTime' WIDTH 12 NOPREFIX TRUNCATE PRINTAS ACTIVITY_TIME OR -\n"
_WIDE_TIME = "EnteredCurrentActivity AS ActivityTime WIDTH 12 TRUNCATE PRINTAS ACTIVITY_TIME OR -\n"
_MEMORY = "Memory AS Mem WIDTH 6 PRINTF %6d OR ??\n"
_NORMAL = _SLOT + _STATE_ACTIVITY + _LOAD + _MEMORY + _TIME
_MACHINE = """SELECT
    Machine      WIDTH AUTO
    OpSys        AS Platform PRINTAS PLATFORM
    SlotCount    AS Slot PRINTF %4d OR ' '
    SlotType     AS s NOPREFIX PRINTAS SLOT_COUNT_TAG
"""
_SIZES = """
    TotalSlotCpus            AS Cpus PRINTF %4d
    TotalSlotGPUs            AS Gpus PRINTF %4d
    TotalSlotMemory / 1024.0 AS ' TotalGb' PRINTF %8.2f
"""
_ROLLED_LOAD = "TotalLoadAvg * 1.0 / TotalCpus AS CpuLoad PRINTF %7.2f\n"
_ROLLED_STATE = """
    ActivityCode           AS ST WIDTH 2
    RecentJobStarts / 20.0 AS Jobs/Min PRINTF %8.2f OR _
"""
_JOBS = """
    {}RunningJobs AS RunningJobs  PRINTF %11d
    {}IdleJobs    AS '  IdleJobs' PRINTF %10d
    {}HeldJobs    AS '  HeldJobs' PRINTF %10d
"""
_NAMED = "SELECT\n Name WIDTH AUTO\n"
_DAEMON_SIZE = """
    DetectedCpus    AS Cpus        WIDTH 4 PRINTF %4d OR ??
    DetectedMemory  AS '  Memory'  WIDTH 10 PRINTAS READABLE_MB OR ??
"""
_UPTIME = "DaemonStartTime AS '   Uptime' WIDTH 13 PRINTAS ELAPSED_TIME\n"
_HEALTH = """FIT
    int(HealthFactor * 100) AS {} PRINTF %5d%% OR ?
    HealthExprs AS FAILED_HEALTH_CHECKS RENDERAS UNHEALTH OR ?
"""
_ANY = """SELECT
    MyType ?: "None"     AS MyType     WIDTH -18
    (size(TargetType) ?: 0) > 0 ? TargetType : (MyType == "Machine" ? "Job" : "None") AS TargetType WIDTH -18
    Name WIDTH -41 FIT OR ?
"""


class View(NamedTuple):
    """A table: the type of its ads, its text, how it is counted, which ads it is about, its name's least width."""

    ad_type: str
    text: str
    totals: str = ""
    constraint: str = ""
    name_width: int = 0
    machine_width: int = 0
    grows: bool = True


VIEWS: Final[Mapping[str, View]] = {
    "normal": View("Machine", _NORMAL, "normal"),
    "avail": View("Machine", _NORMAL, "normal", 'State == "Unclaimed" && Cpus > 0 && Memory > 0'),
    "vm": View(
        "Machine",
        _NORMAL.replace("OpSys  WIDTH -10", "VM_Type AS VmType WIDTH -6")
        .replace("Arch   WIDTH -8", "VM_Networking_Types AS Network WIDTH -9")
        .replace(_MEMORY, "VM_Memory AS VMMem WIDTH 5 PRINTF %4d OR ??\n"),
        "normal",
        "HasVM =?= true",
    ),
    "java": View(
        "Machine",
        _NORMAL.replace("OpSys  WIDTH -10", "JavaVendor WIDTH -10").replace("Arch   WIDTH -8", "JavaVersion WIDTH -6"),
        "normal",
        "HasJava =?= true",
    ),
    "claimed": View(
        "Machine",
        f"{_SLOT}{_LOAD} RemoteUser WIDTH -20 OR ??\n ClientMachine WIDTH -16 OR ??\n",
        "run",
        'State == "Claimed"',
    ),
    "state": View(
        "Machine",
        f"""SELECT
    Name                   WIDTH -34 FIT PRINTF %s OR ??
    Cpus                   AS Cpu OR ??
    Memory                 AS ' Mem' WIDTH 5 OR ??
    {_LOAD}
    KeyboardIdle           AS '  KbdIdle' WIDTH 12 TRUNCATE PRINTAS TIME OR ??
    State                  WIDTH -7 OR ??
    EnteredCurrentState    AS '  StateTime' WIDTH 12 TRUNCATE PRINTAS ELAPSED_TIME OR ??
    Activity               AS Activ OR ??
    EnteredCurrentActivity AS '  ActvtyTime' WIDTH 12 TRUNCATE PRINTAS ELAPSED_TIME OR -
    """,
        "state",
    ),
    "server": View(
        "Machine",
        f"""{_SLOT}{_LOAD}
    Memory WIDTH 8 PRINTF %8d OR ??
    Disk   WIDTH 9 PRINTF %9d OR ??
    Mips   WIDTH 7 PRINTF %7d OR ??
    KFlops WIDTH 9 PRINTF %9d OR ??
    """,
        "server",
    ),
    "absent": View(
        "Machine",
        f"""{_SLOT}
    LastHeardFrom   AS 'Went Absent' WIDTH -11 PRINTAS DATE OR ??
    ClassAdLifetime AS 'Will Forget' WIDTH -11 PRINTAS DUE_DATE OR ??
    """,
        "normal",
        "Absent =?= true",
    ),
    "offline": View(
        "Machine",
        """SELECT
    Name             WIDTH -34 FIT PRINTF %s OR ??
    OfflineUniverses AS 'Offline Universes' WIDTH -42 PRINTAS STRINGS_FROM_LIST OR '  '
    """,
        "normal",
        "size(OfflineUniverses) != 0",
    ),
    "gpus": View(
        "Machine",
        """SELECT
    Name       WIDTH AUTO
    Activity   AS ST WIDTH 2 PRINTAS ACTIVITY_CODE
    RemoteUser AS User WIDTH AUTO PRINTF %s OR _
    GPUs       PRINTF %4d
    GPUs_GlobalMemoryMB AS GPU-Memory PRINTAS READABLE_MB OR _
    GPUs_DeviceName ?: join(",", evalInEachContext(DeviceName, AvailableGPUs)) ?: CUDADeviceName \\
        AS GPU-Name PRINTF %s OR *
    """,
        "state",
        "(PartitionableSlot && AssignedGPUs isnt undefined) ?: GPUs > 0",
    ),
    "broken": View(
        "Machine",
        f"{_NAMED} SlotBrokenCode AS Code PRINTF %4d OR ' '\n SlotBrokenReason AS Reason\n",
        "",
        "size(SlotBrokenReason) > 0",
    ),
    "lvm": View(
        "Machine",
        """SELECT
    Name AS NAME WIDTH AUTO
    LvmUseThinProvisioning =?= true ? "thin " : "thick" AS PROVISION WIDTH 9 PRINTF %-9s
    Disk AS ALLOCATED WIDTH 9 PRINTAS READABLE_KB
    (DiskUsage ?: 0 / real(Disk)) * 100 AS '  USAGE' WIDTH AUTO PRINTF '%3.2f%%'
    """,
        "",
        "IsEnforcingDiskUsage && PartitionableSlot =!= true",
    ),
    "healthy": View("Machine", f"SELECT\n Name AS SLOT_NAME {_HEALTH.format('Health')}", "health"),
    "compact": View(
        "Machine",
        f"""{_MACHINE}{_SIZES}
    Cpus            AS FreCpu PRINTF %6d
    Memory / 1024.0 AS ' FreeGb ' PRINTF %8.2f
    {_ROLLED_LOAD}{_ROLLED_STATE}
    MaxSlotMemory / 1024.0 AS MaxSlotGb PRINTF %9.2f OR *
    """,
        "compact",
        machine_width=12,
    ),
    "compact claimed": View(
        "Machine",
        f"{_MACHINE} ChildRemoteUser AS Users PRINTAS UNIQUE\n",
        "run",
        '(State == "Claimed" && DynamicSlot =!= true) || NumDynamicSlots > 0',
        machine_width=12,
    ),
    "compact state": View("Machine", f"{_MACHINE}{_SIZES}{_ROLLED_LOAD}{_ROLLED_STATE}", "state", machine_width=12),
    "compact server": View(
        "Machine",
        f"""{_MACHINE}{_SIZES}
    Mips   AS ' Mips  ' PRINTF %7d OR -
    KFlops AS ' KFlops  ' PRINTF %9d OR -
    {_ROLLED_LOAD}{_ROLLED_STATE}""",
        "server",
        machine_width=12,
    ),
    "compact gpus": View(
        "Machine",
        f"""{_MACHINE}
    GPUs          AS FreGPU PRINTF %6d
    TotalSlotGPUs AS TotGPUs WIDTH 7 PRINTAS TOTAL_GPUS
    AssignedGPUs  AS Capability PRINTAS GPUS_CAPS
    AssignedGPUs  AS GPUsMemory PRINTAS GPUS_MEM
    AssignedGPUs  AS DeviceNames PRINTAS GPUS_NAMES
    """,
        "",
        "AvailableGPUs isnt undefined && "
        "(size(AvailableGPUs) > 0 || (PartitionableSlot && AssignedGPUs isnt undefined))",
        machine_width=12,
    ),
    "startd": View(
        "StartD",
        f"""{_NAMED}
    OpSys         AS Platform WIDTH AUTO PRINTAS PLATFORM
    CondorVersion AS Version WIDTH AUTO PRINTAS CONDOR_VERSION
    {_DAEMON_SIZE}
    DetectedGPUs  AS GPUs WIDTH 5 PRINTAS MEMBER_COUNT OR ' '
    {_UPTIME}""",
        "startd",
    ),
    "startd gpus": View(
        "StartD",
        f"""{_NAMED}
    DetectedCpus   AS Cores
    DetectedMemory AS '  Memory' WIDTH 10 PRINTAS READABLE_MB
    DetectedGPUs   AS GPUs PRINTAS MEMBER_COUNT
    evalInEachContext(GlobalMemoryMB, DetectedGPUs) AS GPU-Memory PRINTAS UNIQUE OR ' '
    evalInEachContext(DeviceName, DetectedGPUs)     AS GPU-Name PRINTAS UNIQUE OR ' '
    OfflineGPUs    AS Offline-GPUs PRINTAS UNIQUE
    """,
        "startd",
        "TotalGPUs > 0 || size(DetectedGPUs) > 0",
    ),
    "startd broken": View(
        "StartD",
        """SELECT
    Name AS Machine WIDTH AUTO
    BrokenReasons ?: BrokenSlots AS 'Resource     Reason' PRINTAS BROKEN_REASONS_VECTOR
    """,
        "",
        "size(BrokenReasons ?: BrokenSlots) > 0",
    ),
    "startd lvm": View(
        "StartD",
        """SELECT
    Name             AS HOST WIDTH AUTO
    LvmBackingStore  AS DEVICE WIDTH AUTO OR ??
    LvmUseThinProvisioning =?= true ? "thin " : "thick" AS PROVISION WIDTH 9 PRINTF %-9s
    max({(LvmDetectedDisk ?: 0 - LvmNonCondorDiskUsage ?: 0), 0}) AS '    DISK' WIDTH 9 PRINTAS READABLE_BYTES
    LvmIsLoopback =?= true ? " true" : "false" AS LOOPBACK WIDTH 8 PRINTF %8s
    """,
        "",
        "IsEnforcingDiskUsage",
    ),
    "startd healthy": View("StartD", f"SELECT\n Name AS HOST_NAME {_HEALTH.format('HEALTH')}", "health"),
    "schedd": View("Scheduler", f"{_NAMED} Machine WIDTH AUTO\n{_JOBS.format(*['Total'] * 3)}", "schedd", "", 15, 12),
    "data": View(
        "Scheduler",
        f"""{_NAMED}
    TransferQueueNumDownloading                    AS Download     PRINTF %8d
    FileTransferDownloadBytesPerSecond_5m / 1024.0 AS 'KB/sec(5m)' PRINTF %9.2f
    TransferQueueNumWaitingToDownload              AS Waiting      PRINTF %7d
    FileTransferMBWaitingToDownload                AS WaitingMB    PRINTF %9.2f
    TransferQueueNumUploading                      AS '      Upload' PRINTF %12d
    FileTransferUploadBytesPerSecond_5m / 1024.0   AS 'KB/sec(5m)' PRINTF %9.2f
    TransferQueueNumWaitingToUpload                AS Waiting      PRINTF %7d
    FileTransferMBWaitingToUpload                  AS WaitingMB    PRINTF %9.2f
    """,
        "",
        "TransferQueueMaxUploading isnt undefined",
        15,
    ),
    "run": View(
        "Scheduler",
        f"""{_NAMED}
    TotalJobAds               AS TotalJobs  PRINTF %9d
    ShadowsRunning            AS Shadows    PRINTF %7d
    TotalSchedulerJobsRunning AS ActiveDAGs PRINTF %10d
    TotalSchedulerJobsIdle    AS IdleDAGs   PRINTF %8d
    RecentJobsCompleted       AS RcntDone   PRINTF %8d
    RecentJobsStarted         AS RcntStart  PRINTF %9d
    """,
        "",
        "(ShadowsRunning + TotalSchedulerJobsRunning) > 0",
        15,
    ),
    "submitters": View(
        "Submitter", f"{_NAMED} Machine WIDTH AUTO\n{_JOBS.format('', '', '')}", "submitter", "", 15, 12
    ),
    "master": View(
        "DaemonMaster",
        f"{_NAMED} CondorVersion AS Version WIDTH -14 PRINTAS CONDOR_VERSION\n{_DAEMON_SIZE}{_UPTIME}",
        name_width=12,
    ),
    "collector": View(
        "Collector",
        f"""{_NAMED}
    Machine WIDTH AUTO
    RunningJobs PRINTF %11d
    IdleJobs AS '  IdleJobs' PRINTF %10d
    HostsTotal PRINTF %10d
    """,
        machine_width=-18,
    ),
    "negotiator": View(
        "Negotiator",
        f"""{_NAMED}
    LastNegotiationCycleEnd0                  AS LastCycleEnd WIDTH 12 PRINTAS DATE
    LastNegotiationCycleDuration0             AS (Sec) PRINTF %5d
    LastNegotiationCycleCandidateSlots0       AS '  Slots' PRINTF %7d
    LastNegotiationCycleActiveSubmitterCount0 AS Submitrs PRINTF %8d
    LastNegotiationCycleNumSchedulers0        AS Schedds PRINTF %7d
    LastNegotiationCycleNumIdleJobs0          AS '   Jobs' PRINTF %7d
    LastNegotiationCycleMatches0              AS Matches PRINTF %7d
    LastNegotiationCycleRejections0           AS Rejections PRINTF %10d
    """,
        name_width=12,
    ),
    "accounting": View(
        "Accounting",
        f"""{_NAMED}
    Priority                 PRINTF %8.2f
    PriorityFactor           AS PrioFactor PRINTF %10.2f
    ResourcesUsed            AS ResInUse PRINTF %8d
    WeightedAccumulatedUsage AS WeightedUsage WIDTH 13 PRINTF %13.2f
    LastUsageTime            AS '  LastUsage' WIDTH 12 PRINTAS ELAPSED_TIME
    """,
        name_width=12,
        grows=False,
    ),
    "defrag": View(
        "Defrag",
        f"""{_NAMED}
    MachinesDraining     AS Draining PRINTF %8d
    MachinesDrainingPeak AS '    Peak' PRINTF %8d
    DrainedMachines      AS TotalDrained PRINTF %12d
    """,
        name_width=12,
    ),
    "grid": View(
        "Grid",
        """SELECT
    Name           WIDTH -34 FIT OR ??
    NumJobs        WIDTH 7 PRINTF %7d OR ??
    SubmitsAllowed AS Allowed WIDTH 7 PRINTF %7d OR ??
    SubmitsWanted  AS ' Wanted' WIDTH 7 PRINTF %7d OR ??
    RunningJobs    WIDTH 11 PRINTF %11d OR ??
    IdleJobs       WIDTH 8 PRINTF %8d OR ??
    """,
    ),
    "any": View("Any", _ANY, grows=False),
    "generic": View("Generic", _ANY, grows=False),
    "had": View("HAD", _ANY, grows=False),
    "storage": View(
        "Storage",
        "SELECT\n Name WIDTH -34 FIT OR ??\n Disk AS AvailDisk WIDTH 9 PRINTF %-9s OR ??\n Subnet WIDTH -11 OR ??\n",
        grows=False,
    ),
    "ckptsrvr": View(
        "CkptServer",
        "SELECT\n Name WIDTH -34 FIT OR ??\n Disk AS AvailDisk WIDTH 9 PRINTF %-9s OR ??\n Subnet WIDTH -11 OR ??\n",
        "ckptsrvr",
        grows=False,
    ),
    "license": View("License", _ANY, grows=False),
    "cod": View("Machine", _NORMAL, "", "NumCODClaims > 0"),
}

_GROWING_NAMES: Final = frozenset(("normal", "avail", "vm", "java", "claimed", "state", "server", "healthy"))


def view(name: str, *, wide: bool) -> PrintFormat:
    """One of the standard tables. `wide`: there is room, so that columns of names grow with the names."""
    how = VIEWS[name]
    text = how.text
    if wide:
        text = text.replace(_TIME, _WIDE_TIME)
    table = parse(text.split("\n"), FUNCTIONS, name=name, truncate=False)
    growing = mask.AUTO if wide or name in _GROWING_NAMES or (how.name_width and how.grows) else 0
    columns = []
    for one in table.mask.columns:
        if one.expression == "Name":
            one = one._replace(width=how.name_width or one.width, flags=one.flags | growing)
        elif one.expression == "Machine" and how.machine_width:
            fixed = one.flags & ~mask.AUTO if how.machine_width < 0 and not wide else one.flags | mask.AUTO
            one = one._replace(width=abs(how.machine_width), flags=fixed | mask.LEFT)
        elif name.endswith("broken") and one.heading.endswith("Reason"):
            one = one._replace(flags=one.flags | mask.MULTI_LINE)
        columns.append(one)
    table.mask.replace(columns)
    return table
