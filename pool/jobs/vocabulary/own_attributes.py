"""The attributes of a job that are the schedd's own, in one table: whoever else names them is not believed.

A submission may say them in a cluster's ad, in a job's, in a column of a table or in a recipe; so may a transform, an
edit, or the report of an execute host. What they say is left out, and the schedd stamps what it knows: whose a job is,
from the connection that submitted it, and which it is, from its place in the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from pool.classad import ClassAd


class OwnPlace(StrEnum):
    """Where such an attribute is."""

    CLUSTER = "cluster"  # the schedd puts it into the cluster's ad; no job has another
    CHOSEN = "chosen"  # the submitter says it, but in the cluster's ad, for all of its jobs
    JOB = "job"  # it follows from the job's place and state in the queue
    NOWHERE = "nowhere"  # no job has it


class Own(NamedTuple):
    """A row. `is_sent`: submitters' tools send it as a matter of course, so nobody is warned that it is ignored."""

    place: OwnPlace
    is_sent: bool = False


OWN: Final[Mapping[str, Own]] = {
    "Owner": Own(OwnPlace.CLUSTER),
    "User": Own(OwnPlace.CLUSTER),
    "OsUser": Own(OwnPlace.NOWHERE),
    "NTDomain": Own(OwnPlace.NOWHERE),
    "AuthTokenSubject": Own(OwnPlace.NOWHERE),
    "AuthTokenIssuer": Own(OwnPlace.NOWHERE),
    "AuthTokenGroups": Own(OwnPlace.NOWHERE),
    "AuthTokenId": Own(OwnPlace.NOWHERE),
    "AuthTokenScopes": Own(OwnPlace.NOWHERE),
    "AuthTokenProject": Own(OwnPlace.NOWHERE),
    "ClusterId": Own(OwnPlace.CLUSTER, is_sent=True),
    "QDate": Own(OwnPlace.CLUSTER, is_sent=True),
    "MyType": Own(OwnPlace.CLUSTER),
    "TargetType": Own(OwnPlace.CLUSTER),
    "TotalSubmitProcs": Own(OwnPlace.CLUSTER),
    "JobSetId": Own(OwnPlace.CLUSTER),
    "EditedClusterAttrs": Own(OwnPlace.CLUSTER),
    "JobUniverse": Own(OwnPlace.CHOSEN, is_sent=True),
    "ProcId": Own(OwnPlace.JOB, is_sent=True),
    "JobStatus": Own(OwnPlace.JOB, is_sent=True),
    "GlobalJobId": Own(OwnPlace.JOB, is_sent=True),
}

_SPELT: Final = {name.lower(): name for name in OWN}


def _at(*places: OwnPlace) -> frozenset[str]:
    return frozenset(name.lower() for name, own in OWN.items() if own.place in places)


SCHEDDS: Final = frozenset(_SPELT)
"""All of them, in lower case, as in the sets below."""
MADE_UP: Final = _at(OwnPlace.JOB)
"""They are in a job's ad, not in its row."""
NO_JOBS: Final = SCHEDDS - MADE_UP
"""What no job has apart from its cluster."""
NO_SUBMITTERS: Final = SCHEDDS - _at(OwnPlace.CHOSEN) - {"jobstatus"}
"""What no submitter says of a cluster, who may well say that its jobs begin on hold."""
NOBODYS_TO_SET: Final = SCHEDDS - _at(OwnPlace.CHOSEN)
"""What no transform changes either."""


def _lower(*names: str) -> frozenset[str]:
    return frozenset(name.lower() for text in names for name in text.split())


RUNS_AND_FILES: Final = _lower(
    "Cmd Args Arguments Env Environment Iwd RemoteIwd RootDir RunAsOwner PrimaryUnixGroup JarFiles JavaVMArgs",
    "JavaVMArguments ToolDaemonArgs ToolDaemonArguments ToolDaemonCmd ToolDaemonError ToolDaemonInput",
    "ToolDaemonOutput ContainerImage ContainerIsCommon ContainerServiceNames ContainerTargetDir DockerImage",
    "DockerNetworkType DockerOverrideEntrypoint DockerPullPolicy DockerSendCredentials MountUnderScratch",
    "LoadProfile SuspendJobAtExec In Out Err StreamIn StreamOut StreamErr UserLog UserLogUseXML",
    "UserLogExecuteEventAttrs DAGManNodesLog X509UserProxy ScitokensFile OAuthServicesNeeded EC2AccessKeyId",
    "EC2SecretAccessKey EC2SessionToken AWSRegion DelegateJobGSICredentialsLifetime AppendFiles BufferFiles",
    "FetchFiles FileRemaps LocalFiles CommonInputFiles PublicInputFiles CompressFiles EncryptInputFiles",
    "EncryptOutputFiles DontEncryptInputFiles DontEncryptOutputFiles ShouldTransferFiles WhenToTransferOutput",
    "TransferIn TransferOut TransferErr TransferInput TransferOutput TransferOutputRemaps TransferExecutable",
    "TransferCheckpoint TransferContainer TransferPlugins OutputDestination OutputDirectory PreserveRelativePaths",
    "CheckpointDestination MaxTransferInputMB MaxTransferOutputMB ManifestDesired ManifestDir SkipIfDataflow",
    "EraseOutputAndErrorOnRestart SpoolOnEvict TransformOnEvict WantIOProxy WantRemoteIO WantRemoteUpdates",
    "WantDelayedUpdates NotifyUser JobNotification EmailAttributes",
)
"""What runs, with which files, and who is written to. Who sets these has the files of the job's owner."""
_WHEN: Final = _lower(
    "Requirements Rank JobPrio ConcurrencyLimits NiceUser ProjectName JobBatchId JobBatchName JobSetName",
    "JobDescription AllowedExecuteDuration AllowedJobDuration CronDayOfMonth CronDayOfWeek CronHour CronMinute",
    "CronMonth DeferralTime DeferralPrepTime DeferralWindow NextJobStartDelay KeepClaimIdle JobLeaseDuration",
    "JobMaxRetries JobMaxVacateTime JobSuccessExitCode JobMaterializeLimit JobMaterializeMaxIdle LeaveJobInQueue",
    "MaxJobRetirementTime OnExitHold OnExitHoldReason OnExitHoldSubCode OnExitRemove PeriodicHold",
    "PeriodicHoldReason PeriodicHoldSubCode PeriodicRelease PeriodicRemove PeriodicVacate TimerRemove IsNoopJob",
    "NoopJobExitCode NoopJobExitSignal KillSig HoldKillSig KillSigTimeout RemoveKillSig WantGracefulRemoval",
    "WantJobNetworking WantCheckpoint WantCheckpointSignal WantFTOnCheckpoint SuccessCheckpointExitCode",
    "SuccessCheckpointExitBySignal SuccessCheckpointExitSignal DisableCoolDown RequireGPUs MaxRequestMemory",
    "NextRequestMemory GPUsMaxCapability GPUsMinCapability GPUsMinMemory GPUsMinRuntime CUDAVersion CoreSize",
    "StackSize BufferSize BufferBlockSize EncryptExecuteDirectory JobMachineAttrs JobMachineAttrsHistoryLength",
    "JobAdInformationAttrs LastMatchListLength JobStarterDebug JobStarterLog AcctGroup AcctGroupUser DAGManJobId",
    "DAGNodeName SubmitEventNotes SubmitEventNotesAttrs SubmitEventUserNotes",
)
_COUNTED: Final = _lower(
    "CommittedSlotTime CommittedSuspensionTime CommittedTime CompletionDate CumulativeRemoteSysCpu",
    "CumulativeRemoteUserCpu CumulativeSlotTime CumulativeSuspensionTime CurrentHosts EnteredCurrentStatus",
    "FirstJobMatchDate JobCoolDownExpiration JobDisconnectedDate JobRunCount JobStartDate LastRemoteWallClockTime",
    "LastSuspensionTime NumHolds NumHoldsByReason NumJobCompletions NumJobCoolDowns NumJobMatches NumJobReconnects",
    "NumJobStarts NumShadowExceptions NumShadowStarts NumSystemHolds NumVacates NumVacatesByReason",
    "NumVacatesByReasonPreExecution NumVacatesPreExecution PublicClaimId ReleaseReason RemoteHost RemoteWallClockTime",
    "RemoveReason ShadowBday StartdIpAddr TotalBytesRecvd TotalBytesSent TotalSuspensions VacateReason",
    "VacateReasonCode VacateReasonSubCode AllRemoteHosts MaxHosts MinHosts OrigMaxHosts",
    "ParallelShutdownPolicy RemoteHosts Scheduler WantParallelSchedulingGroups",
)
"""What the schedd counts and notes itself of a job's executions."""
_NO_STARTERS: Final = RUNS_AND_FILES | _WHEN | _COUNTED
_SUBMITTERS_KIN: Final = ("request", "transformbody_", "jobvm", "vmparam_")


def is_no_starters(name: str) -> bool:
    """Whether an attribute (lower case) is the submitter's or the schedd's to say, whatever an execute host reports."""
    return name in _NO_STARTERS or name.startswith(_SUBMITTERS_KIN) or name.endswith("_containerport")


ODD_FROM: Final = 2**53
_NOWHERE: Final = _at(OwnPlace.NOWHERE)


def stamp(cluster: ClassAd, *, owner: str, user: str) -> None:
    """Have a cluster's ad say whose its jobs are, and nothing else of the kind."""
    for name in _NOWHERE:
        if name in cluster.attrs:
            del cluster[name]
    cluster["Owner"], cluster["User"] = owner, user
    cluster["MyType"], cluster["TargetType"] = "Job", "Machine"


def contradicted(ad: ClassAd, cluster: ClassAd, names: Iterable[str]) -> list[str]:
    """Which of these names (lower case) an ad says something of that its submitter should hear is ignored."""
    found = []
    for name in names:
        value = ad.attrs.get(name)
        if value is None or ad.text(name).lower() == "undefined":
            continue
        row = OWN.get(_SPELT.get(name, ""))
        known = cluster.attrs.get(name)
        if row is None or not (row.is_sent or (type(value) is type(known) and value == known)):
            found.append(_SPELT.get(name) or ad.attrs.name_any(name))
    return found


def without_own(attributes: Mapping[str, object]) -> Mapping[str, object]:
    """Attributes for a job, less those that are the schedd's to say."""
    if SCHEDDS.isdisjoint(map(str.lower, attributes)):
        return attributes
    return {name: value for name, value in attributes.items() if name.lower() not in SCHEDDS}


def strip(ad: ClassAd, names: Iterable[str] = NO_JOBS) -> None:
    """Take these names (lower case) out of an ad's own attributes."""
    for name in names:
        if name in ad.attrs:
            del ad[name]


def is_odd(value: object) -> bool:
    """Whether a figure is none: a number that nothing can be added to, or that no clock and no counter ever shows."""
    return type(value) in (int, float) and not -ODD_FROM < value < ODD_FROM  # type: ignore[operator]


def has_nul(value: object) -> bool:
    """Whether a value has a text with the character 0 in it: no file has such a name, and no ad can be read with it."""
    if type(value) is str:
        return "\0" in value
    if type(value) is list:
        return any(map(has_nul, value))
    return any(has_nul(inner) for _, inner in value.own()) if isinstance(value, ClassAd) else False
