"""How an execution of a job ended, as its starter reports it and its shadow task takes it."""

from __future__ import annotations

from enum import StrEnum


class Ending(StrEnum):
    """How an execution ended; what else the report has to say is in its ad."""

    EXITED = "exited"
    """The program ended by itself: the ad has ExitBySignal, ExitCode or ExitSignal."""
    EVICTED = "evicted"
    """It was told to leave."""
    HOLD = "hold"
    """The job cannot run as it is: the ad has HoldReason, HoldReasonCode and HoldReasonSubCode."""
    FAILED = "failed"
    """This machine could not run it; another may."""
