"""What nearly every job's ad and every slot's ad has in it: the names, and values of their kinds.

A process reads, keeps and writes an ad slowly whose names it has not met before, so a rehearsal has all of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from pool.classad import ClassAd, expr

Value: TypeAlias = str | int | float | bool

_JOBS_NUMBERS: Final = """
    ClusterId CommittedSlotTime CommittedSuspensionTime CommittedTime CpusProvisioned CumulativeSlotTime
    CumulativeSuspensionTime CurrentHosts DiskProvisioned DiskUsage EnteredCurrentStatus ExecutableSize ExitStatus
    FirstJobMatchDate GPUsProvisioned ImageSize InitialWaitDuration JobCurrentStartDate JobLeaseDuration JobNotification
    JobPrio JobRunCount JobStartDate JobStatus JobSubmitMethod JobUniverse LastJobLeaseRenewal LastJobStatus
    LastMatchTime LastSuspensionTime MachineAttrCpus0 MachineAttrSlotWeight0 MaxHosts MemoryProvisioned MinHosts
    NumCkpts NumJobCompletions NumJobMatches NumJobStarts NumRestarts NumShadowStarts NumSystemHolds ProcId QDate
    RemoteSlotID RequestCpus RequestMemory ShadowBday TotalSubmitProcs TotalSuspensions TransferInputSizeMB
"""
_JOBS_FRACTIONS: Final = """
    BytesRecvd BytesSent CumulativeRemoteSysCpu CumulativeRemoteUserCpu Rank RemoteSysCpu RemoteUserCpu
    RemoteWallClockTime
"""
_JOBS_FLAGS: Final = "ExitBySignal LeaveJobInQueue TransferErr TransferExecutable TransferIn TransferOut"
_JOBS_TEXTS: Final = """
    CondorPlatform CondorVersion FileSystemDomain GlobalJobId MyType ProvisionedResources PublicClaimId RemoteHost
    StartdIpAddr SubmitVersion TargetType UserLog
"""
_SLOTS_NUMBERS: Final = """
    ActivationRequests ClaimRequests ClockDay ClockMin ConsoleIdle CpuBusyTime CpuCacheSize CpuFamily CpuModelNumber
    Cpus DSlotId DaemonLastReconfigTime DaemonStartTime DetectedCpus DetectedDisk DetectedGPUs DetectedMemory Disk
    DiskUsage EnteredCurrentActivity EnteredCurrentState ExecutableSize ExpectedMachineGracefulDrainingBadput
    ExpectedMachineGracefulDrainingCompletion ExpectedMachineQuickDrainingBadput
    ExpectedMachineQuickDrainingCompletion GPUs HibernationLevel ImageSize JobPreemptions JobRankPreemptions JobStart
    JobStarts JobUniverse JobUserPrioPreemptions KeyboardIdle LastBenchmark MaxJobRetirementTime Memory MonitorSelfAge
    MonitorSelfImageSize MonitorSelfRegisteredSocketCount MonitorSelfResidentSetSize MonitorSelfTime MyCurrentTime
    OpSysMajorVer OpSysVer ParentSlotId Rank RecentActivationRequests RecentClaimRequests RecentJobPreemptions
    RecentJobRankPreemptions RecentJobStarts RecentJobUserPrioPreemptions RetirementTimeRemaining SlotID SlotTypeID
    TimeToLive TotalClaimRunTime TotalClaimSuspendTime TotalDisk TotalGPUs TotalJobRunTime TotalJobSuspendTime
    TotalMemory TotalSlotCpus TotalSlotDisk TotalSlotGPUs TotalSlotMemory TotalSlotVirtualMemory TotalSlots
    TotalVirtualMemory VirtualMemory
"""
_SLOTS_FRACTIONS: Final = """
    AvgTransferInputMB AvgTransferOutputMB CondorLoadAvg CpusUsage CurrentRank DaemonCoreDutyCycle LoadAvg
    MonitorSelfCPUUsage RecentDaemonCoreDutyCycle TotalCondorLoadAvg TotalCpus TotalLoadAvg TotalTransferInputMB
    TotalTransferOutputMB
"""
_SLOTS_FLAGS: Final = """
    AcceptedWhileDraining CanHibernate CgroupEnforced CpuBusy CpuIsBusy DynamicSlot HasEncryptExecuteDirectory
    HasFileTransfer HasJobDeferral HasJobNetworking HasJobTransferPlugins HasOsUser HasPerFileEncryption
    HasPrivateMounts HasReconnect HasRemoteIO HasRotationalScratch HasSelfCheckpointTransfers HasSshd HasStartDaemonAd
    HasTDP HasTransferInputRemaps
    HasUserNamespaces HasVM IsLocalStartd IsOwner IsWakeAble IsWakeOnLanEnabled IsWakeOnLanSupported
    PslotRollupInformation Start has_avx has_avx2 has_avx512_vnni has_avx512dq has_avx512f has_sse4_1 has_sse4_2
    has_ssse3
"""
_SLOTS_TEXTS: Final = """
    Activity AddressV1 Arch COLLECTOR_HOST_STRING ClientMachine CondorPlatform CondorVersion CpusEnforcement
    ExecuteVolume FileSystemDomain GlobalJobId HardwareAddress HasFileTransferPluginMethods HibernationState
    HibernationSupportedStates JobId Machine MemoryEnforcement Microarch MyAddress MyType OpSys OpSysAndVer OpSysLegacy
    OpSysLongName OpSysName OpSysShortName ProcessesEnforcement PublicClaimId RemoteOwner RemoteScheddName RemoteUser
    SlotType StartdIpAddr StarterAbilityList State SubnetMask TargetType UidDomain UtsnameMachine UtsnameNodename
    UtsnameRelease UtsnameSysname UtsnameVersion WakeOnLanEnabledFlags WakeOnLanSupportedFlags
"""


def usual_job(own: Mapping[str, Value]) -> ClassAd:
    """A job's ad with all of its usual names; `own` are the values that matter."""
    ad = _filled(_JOBS_NUMBERS, _JOBS_FRACTIONS, _JOBS_FLAGS, _JOBS_TEXTS)
    ad["RequestDisk"] = expr("MAX({ 1024,(TransferInputSizeMB + 1) * 1.25 }) * 1024")
    ad["Requirements"] = expr(
        '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Cpus >= RequestCpus) && '
        "(TARGET.Memory >= RequestMemory) && (TARGET.Disk >= RequestDisk)"
    )
    ad.update(own)
    return ad


def usual_slot(own: Mapping[str, Value]) -> ClassAd:
    """The same for a slot's ad."""
    ad = _filled(_SLOTS_NUMBERS, _SLOTS_FRACTIONS, _SLOTS_FLAGS, _SLOTS_TEXTS)
    for name, text in (
        ("Requirements", "Start && WithinResourceLimits"),
        ("SlotWeight", "Cpus"),
        ("MachineMaxVacateTime", "10 * 60"),
        ("Unhibernate", "MachineLastMatchTime =!= undefined"),
    ):
        ad[name] = expr(text)
    ad.update(own)
    return ad


def _filled(numbers: str, fractions: str, flags: str, texts: str) -> ClassAd:
    ad = ClassAd()
    for names, value in ((numbers, 1), (fractions, 0.5), (flags, False), (texts, "usual")):
        ad.update(dict.fromkeys(names.split(), value))
    return ad
