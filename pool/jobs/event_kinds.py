"""The kinds of events: their numbers, HTCondor's names for them, and the MyType of their ads."""

from __future__ import annotations

from typing import Final, NamedTuple


class Kind(NamedTuple):
    """One kind. `my_type` is that of the event's ad; a reader of HTCondor 25 takes those without one as future ones."""

    name: str
    my_type: str = "FutureEvent"


KINDS: Final[dict[int, Kind]] = {
    0: Kind("SUBMIT", "SubmitEvent"),
    1: Kind("EXECUTE", "ExecuteEvent"),
    2: Kind("EXECUTABLE_ERROR", "ExecutableErrorEvent"),
    3: Kind("CHECKPOINTED", "CheckpointedEvent"),
    4: Kind("JOB_EVICTED", "JobEvictedEvent"),
    5: Kind("JOB_TERMINATED", "JobTerminatedEvent"),
    6: Kind("IMAGE_SIZE", "JobImageSizeEvent"),
    7: Kind("SHADOW_EXCEPTION", "ShadowExceptionEvent"),
    8: Kind("GENERIC", "GenericEvent"),
    9: Kind("JOB_ABORTED", "JobAbortedEvent"),
    10: Kind("JOB_SUSPENDED", "JobSuspendedEvent"),
    11: Kind("JOB_UNSUSPENDED", "JobUnsuspendedEvent"),
    12: Kind("JOB_HELD", "JobHeldEvent"),
    13: Kind("JOB_RELEASED", "JobReleaseEvent"),
    14: Kind("NODE_EXECUTE", "NodeExecuteEvent"),
    15: Kind("NODE_TERMINATED", "NodeTerminatedEvent"),
    16: Kind("POST_SCRIPT_TERMINATED", "PostScriptTerminatedEvent"),
    21: Kind("REMOTE_ERROR", "RemoteErrorEvent"),
    22: Kind("JOB_DISCONNECTED", "JobDisconnectedEvent"),
    23: Kind("JOB_RECONNECTED", "JobReconnectedEvent"),
    24: Kind("JOB_RECONNECT_FAILED", "JobReconnectFailedEvent"),
    25: Kind("GRID_RESOURCE_UP", "GridResourceUpEvent"),
    26: Kind("GRID_RESOURCE_DOWN", "GridResourceDownEvent"),
    27: Kind("GRID_SUBMIT", "GridSubmitEvent"),
    28: Kind("JOB_AD_INFORMATION", "JobAdInformationEvent"),
    29: Kind("JOB_STATUS_UNKNOWN"),
    30: Kind("JOB_STATUS_KNOWN"),
    31: Kind("JOB_STAGE_IN"),
    32: Kind("JOB_STAGE_OUT"),
    33: Kind("ATTRIBUTE_UPDATE", "AttributeUpdateEvent"),
    34: Kind("PRESKIP"),
    35: Kind("CLUSTER_SUBMIT", "ClusterSubmitEvent"),
    36: Kind("CLUSTER_REMOVE", "ClusterRemoveEvent"),
    37: Kind("FACTORY_PAUSED", "FactoryPausedEvent"),
    38: Kind("FACTORY_RESUMED", "FactoryResumedEvent"),
    40: Kind("FILE_TRANSFER", "FileTransferEvent"),
    41: Kind("RESERVE_SPACE", "ReserveSpaceEvent"),
    42: Kind("RELEASE_SPACE", "ReleaseSpaceEvent"),
    43: Kind("FILE_COMPLETE", "FileCompleteEvent"),
    44: Kind("FILE_USED", "FileUsedEvent"),
    45: Kind("FILE_REMOVED", "FileRemovedEvent"),
    46: Kind("DATAFLOW_JOB_SKIPPED", "DataflowJobSkippedEvent"),
    47: Kind("COMMON_FILES", "CommonFilesEvent"),
}


def kind_of(number: int) -> Kind:
    """The kind of an event, of those still to come too."""
    return KINDS.get(number) or Kind(f"FUTURE_{number}")
