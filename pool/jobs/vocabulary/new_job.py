"""What every job's ad has from the beginning: the figures of a job that has not run yet, and HTCondor's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pool.jobs.vocabulary.universes import Universe

NOT_RUN_YET: Final[Mapping[str, object]] = {
    "CommittedSlotTime": 0,
    "CommittedSuspensionTime": 0,
    "CommittedTime": 0,
    "CumulativeRemoteSysCpu": 0.0,
    "CumulativeRemoteUserCpu": 0.0,
    "CumulativeSlotTime": 0,
    "CumulativeSuspensionTime": 0,
    "ExitBySignal": False,
    "ExitStatus": 0,
    "LastSuspensionTime": 0,
    "NumCkpts": 0,
    "NumJobCompletions": 0,
    "NumJobStarts": 0,
    "NumRestarts": 0,
    "NumSystemHolds": 0,
    "RemoteSysCpu": 0.0,
    "RemoteUserCpu": 0.0,
    "RemoteWallClockTime": 0.0,
    "TotalSuspensions": 0,
}
"""What submitters say of it too."""
DEFAULTS: Final[Mapping[str, object]] = {
    **NOT_RUN_YET,
    "BytesRecvd": 0.0,
    "BytesSent": 0.0,
    "CurrentHosts": 0,
    "JobPrio": 0,
    "JobUniverse": Universe.VANILLA,
    "LeaveJobInQueue": False,
    "MaxHosts": 1,
    "MinHosts": 1,
    "MyType": "Job",
    "Rank": 0.0,
    "TargetType": "Machine",
}
