"""The kinds of events: their numbers, HTCondor's names for them, and the MyType of their ads."""

from __future__ import annotations

from typing import Final, NamedTuple


class EventKind(NamedTuple):
    """One kind. `my_type` is that of the event's ad; a reader of HTCondor 25 takes those without one as future ones."""

    name: str
    my_type: str = "FutureEvent"


KINDS: Final[dict[int, EventKind]] = {
    0: EventKind("SUBMIT", "SubmitEvent"),
    1: EventKind("EXECUTE", "ExecuteEvent"),
    2: EventKind("EXECUTABLE_ERROR", "ExecutableErrorEvent"),
    3: EventKind("CHECKPOINTED", "CheckpointedEvent"),
    4: EventKind("JOB_EVICTED", "JobEvictedEvent"),
    5: EventKind("JOB_TERMINATED", "JobTerminatedEvent"),
    6: EventKind("IMAGE_SIZE", "JobImageSizeEvent"),
    7: EventKind("SHADOW_EXCEPTION", "ShadowExceptionEvent"),
    8: EventKind("GENERIC", "GenericEvent"),
    9: EventKind("JOB_ABORTED", "JobAbortedEvent"),
    10: EventKind("JOB_SUSPENDED", "JobSuspendedEvent"),
    11: EventKind("JOB_UNSUSPENDED", "JobUnsuspendedEvent"),
    12: EventKind("JOB_HELD", "JobHeldEvent"),
    13: EventKind("JOB_RELEASED", "JobReleaseEvent"),
    14: EventKind("NODE_EXECUTE", "NodeExecuteEvent"),
    15: EventKind("NODE_TERMINATED", "NodeTerminatedEvent"),
    16: EventKind("POST_SCRIPT_TERMINATED", "PostScriptTerminatedEvent"),
    21: EventKind("REMOTE_ERROR", "RemoteErrorEvent"),
    22: EventKind("JOB_DISCONNECTED", "JobDisconnectedEvent"),
    23: EventKind("JOB_RECONNECTED", "JobReconnectedEvent"),
    24: EventKind("JOB_RECONNECT_FAILED", "JobReconnectFailedEvent"),
    25: EventKind("GRID_RESOURCE_UP", "GridResourceUpEvent"),
    26: EventKind("GRID_RESOURCE_DOWN", "GridResourceDownEvent"),
    27: EventKind("GRID_SUBMIT", "GridSubmitEvent"),
    28: EventKind("JOB_AD_INFORMATION", "JobAdInformationEvent"),
    29: EventKind("JOB_STATUS_UNKNOWN"),
    30: EventKind("JOB_STATUS_KNOWN"),
    31: EventKind("JOB_STAGE_IN"),
    32: EventKind("JOB_STAGE_OUT"),
    33: EventKind("ATTRIBUTE_UPDATE", "AttributeUpdateEvent"),
    34: EventKind("PRESKIP"),
    35: EventKind("CLUSTER_SUBMIT", "ClusterSubmitEvent"),
    36: EventKind("CLUSTER_REMOVE", "ClusterRemoveEvent"),
    37: EventKind("FACTORY_PAUSED", "FactoryPausedEvent"),
    38: EventKind("FACTORY_RESUMED", "FactoryResumedEvent"),
    40: EventKind("FILE_TRANSFER", "FileTransferEvent"),
    41: EventKind("RESERVE_SPACE", "ReserveSpaceEvent"),
    42: EventKind("RELEASE_SPACE", "ReleaseSpaceEvent"),
    43: EventKind("FILE_COMPLETE", "FileCompleteEvent"),
    44: EventKind("FILE_USED", "FileUsedEvent"),
    45: EventKind("FILE_REMOVED", "FileRemovedEvent"),
    46: EventKind("DATAFLOW_JOB_SKIPPED", "DataflowJobSkippedEvent"),
    47: EventKind("COMMON_FILES", "CommonFilesEvent"),
}
TRANSFER_TYPES: Final = (
    "NONE",
    "Entered queue to transfer input files",
    "Started transferring input files",
    "Finished transferring input files",
    "Entered queue to transfer output files",
    "Started transferring output files",
    "Finished transferring output files",
)
"""What events 040 say, by their number."""


def kind_of(number: int) -> EventKind:
    """The kind of an event, of those still to come too."""
    return KINDS.get(number) or EventKind(f"FUTURE_{number}")
