"""The tables of condor_q, in the language of -print-format, and the functions that only condor_q knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from minipool.cli.output import mask, print_as
from minipool.cli.output.mask import MISSING, Column, Mask, PrintAs
from minipool.cli.output.print_format import PrintFormat, parse
from pool.classad import ClassAd
from pool.jobs.vocabulary.states import EXECUTING, JobStatus
from pool.jobs.vocabulary.universes import Universe

_ID = """
    ClusterId  AS ' ID' NOSUFFIX WIDTH 5 PRINTF '%4d.'
    ProcId     AS ' '   NOPREFIX WIDTH 3 PRINTF '%-3d'
"""
_OWNER = "Owner AS OWNER WIDTH -14 PRINTAS OWNER OR ??\n"
_FROM_RUN_TIME = """
    QDate          AS '  SUBMITTED'  WIDTH 11 PRINTAS QDATE
    RemoteUserCpu  AS '    RUN_TIME' WIDTH 12 PRINTAS CPU_TIME
    JobStatus      AS ST             PRINTAS JOB_STATUS
    JobPrio        AS PRI            WIDTH AUTO
    ImageSize      AS SIZE           WIDTH 4 PRINTAS MEMORY_USAGE
    Cmd            AS CMD            WIDTH 0 PRINTAS JOB_DESCRIPTION
SUMMARY STANDARD
"""
VIEWS: Final[Mapping[str, str]] = {
    "nobatch": f"SELECT{_ID}{_OWNER}{_FROM_RUN_TIME}",
    "dag": f"SELECT{_ID} Owner AS OWNER/NODENAME WIDTH -17 PRINTAS DAG_OWNER\n{_FROM_RUN_TIME}",
    "run": f"""SELECT{_ID}{_OWNER}
    QDate          AS '  SUBMITTED'  WIDTH 11 PRINTAS QDATE OR ??
    RemoteUserCpu  AS '    RUN_TIME' WIDTH 12 PRINTAS CPU_TIME OR ??
    Owner          AS HOST(S)        WIDTH 0  PRINTAS REMOTE_HOST OR ??
    """,
    "idle": f"""SELECT{_ID}{_OWNER}
    JobUniverse    AS 'UNIVERSE '    PRINTAS JOB_UNIVERSE
    RequestCpus    AS CPUS           PRINTF %4d
    RequestMemory  AS MEMORY         PRINTF %6d
    NumShadowStarts ?: 0 AS STARTS   PRINTF %6d
    LastRemoteHost AS LAST_HOST      WIDTH 0
    """,
    "hold": f"""SELECT{_ID}{_OWNER}
    EnteredCurrentStatus AS HELD_SINCE WIDTH 11 PRINTAS QDATE OR ??
    HoldReasonCode       AS CODE NOSUFFIX PRINTF %4d OR ?
    HoldReasonSubCode    AS /SUB NOPREFIX PRINTF /%-3d TRUNCATE OR ' '
    HoldReason           AS HOLD_REASON WIDTH 0
SUMMARY STANDARD
    """,
    "hold-codes": f"""SELECT
    {_OWNER}
    HoldReasonCode       AS CODE NOSUFFIX PRINTF %4d OR ?
    HoldReasonSubCode    AS /SUB NOPREFIX PRINTF /%-3d OR ' '
    JobCount             AS '   COUNT ' PRINTF %9d OR _
    ClusterId            AS OLDEST_JOB_ID PRINTAS JOB_ID
    EnteredCurrentStatus AS HELD_SINCE WIDTH 11 PRINTAS QDATE OR ??
    HoldReason           AS HOLD_REASON WIDTH 0
    """,
    "grid": f"""SELECT{_ID}
    Owner         AS OWNER WIDTH -14 PRINTAS OWNER
    GridJobStatus AS STATUS WIDTH -10 PRINTAS GRID_STATUS
    GridResource  AS 'GRID->MANAGER    HOST' WIDTH -27 PRINTAS GRID_RESOURCE
    GridJobId     AS GRID_JOB_ID WIDTH 0 PRINTAS GRID_JOB_ID
    """,
    "grid:ec2": f"""SELECT{_ID}
    Owner         AS OWNER WIDTH -14 PRINTAS OWNER
    GridJobStatus AS STATUS WIDTH -10 PRINTAS GRID_STATUS
    GridJobId     AS 'INSTANCE ID' WIDTH AUTO PRINTAS GRID_JOB_ID
    Cmd           AS CMD WIDTH AUTO PRINTF %s
    """,
    "io": f"""SELECT{_ID}{_OWNER}
    NumJobStarts           AS RUNS PRINTF %4d OR ?
    JobStatus              AS ST PRINTAS JOB_STATUS
    BytesRecvd             AS ' INPUT' OR ??
    BytesSent              AS ' OUTPUT' OR ??
    BytesRecvd + BytesSent AS ' RATE' WIDTH 10 OR ??
    JobUniverse            AS MISC
SUMMARY STANDARD
    """,
    "factory": f"""SELECT{_ID}{_OWNER}
    QDate                    AS '  SUBMITTED' WIDTH 11 PRINTAS QDATE
    JobMaterializeLimit      AS ' LIMIT' WIDTH 6 PRINTF %6d
    JobsPresent              AS PRESNT WIDTH 6 PRINTF %6d
    JobsRunning              AS '  RUN ' WIDTH 6 PRINTF %6d
    JobsIdle                 AS '  IDLE' WIDTH 6 PRINTF %6d
    JobsHeld                 AS '  HOLD' WIDTH 6 PRINTF %6d
    JobMaterializeNextProcId AS NEXTID WIDTH 6 PRINTF %6d
    JobMaterializePaused ?: JobFactoryPaused AS MODE PRINTAS JOB_FACTORY_MODE OR _
    JobMaterializeDigestFile AS DIGEST
    """,
    "jobset": """SELECT
    JobSetId      AS JOBSETID  WIDTH 8 PRINTF %8d
    JobSetName    AS NAME      WIDTH AUTO
    Owner         AS OWNER     WIDTH AUTO PRINTAS OWNER OR ??
    NumCompleted  AS COMPLETE  WIDTH 8 PRINTF %8d
    NumRemoved    AS REMOVED   WIDTH 7 PRINTF %7d
    NumIdle       AS '   IDLE' WIDTH 7 PRINTF %7d
    NumRunning    AS RUNNING   WIDTH 7 PRINTF %7d
    NumHeld       AS '   HELD' WIDTH 7 PRINTF %7d
    """,
    "autocluster": """SELECT FROM AUTOCLUSTER
    AutoClusterId AS '   ID'    WIDTH 5 PRINTF %5d
    JobCount      AS COUNT      WIDTH 5 PRINTF %5d
    JobUniverse   AS UNIVERSE   WIDTH -8 PRINTAS JOB_UNIVERSE OR ??
    RequestCpus   AS CPUS       WIDTH 4 PRINTF %4d OR ??
    RequestMemory AS MEMORY     WIDTH 6 PRINTF %6d OR ??
    RequestDisk   AS '    DISK' WIDTH 8 PRINTF %8d OR ??
    Requirements  AS REQUIREMENTS PRINTF %r
    """,
}
_ACTIVE: Final = " || ".join(f"JobStatus == {status}" for status in sorted(EXECUTING))
CONSTRAINTS: Final = {
    "run": _ACTIVE,
    "idle": f"JobStatus == {JobStatus.IDLE}",
    "hold": f"JobStatus == {JobStatus.HELD}",
    "hold-codes": f"JobStatus == {JobStatus.HELD}",
    "grid": f"JobUniverse == {Universe.GRID}",
    "grid:ec2": f"JobUniverse == {Universe.GRID}",
    "io": "TransferQueued =?= true || TransferringOutput =?= true || TransferringInput =?= true",
    "factory": "ProcId =?= undefined && JobMaterializeDigestFile =!= undefined",
    "jobset": "ProcId =?= undefined",
}
"""Which jobs a view is about; the view of all jobs is none of these."""


class Clock:
    """What stands under RUN_TIME: the time of all runs, of the present one, or the processors' time."""

    def __init__(self, *, cpu: bool = False, current: bool = False) -> None:
        self.cpu, self.current = cpu, current

    def seconds(self, ad: ClassAd) -> float | None:
        """The job's time; None where the ad does not count it."""
        # Without this attribute the ad counts no time at all: a job of HTCondor's own always has it.
        used = ad.eval_float("RemoteUserCpu")
        if used is None or self.cpu:
            return used
        status, born = ad.eval_int("JobStatus", 0), ad.eval_int("ShadowBday", 0)
        now = ad.eval_int("ServerTime", 0)
        if not now:
            return -1
        total = 0.0 if self.current else ad.eval_float("RemoteWallClockTime", 0.0)
        if status in EXECUTING and born:
            total += now - born
        # Of a job between runs, -currentrun means the last one.
        elif status in (JobStatus.IDLE, JobStatus.HELD) and self.current:
            total = ad.eval_float("LastRemoteWallClockTime", total)
        return total


def functions(clock: Clock, *, dag: bool = False) -> Mapping[str, PrintAs]:
    """What PRINTAS may name in a table of condor_q."""

    def cpu_time(_: Any, ad: ClassAd, column: Column) -> Any:
        seconds = clock.seconds(ad)
        return MISSING if seconds is None else seconds

    needs = ("JobStatus", "ServerTime", "ShadowBday", "RemoteWallClockTime", "LastRemoteWallClockTime")
    own = {"CPU_TIME": PrintAs("f", render=cpu_time, printf="%T", needs=(*needs, "RemoteUserCpu"))}
    if not dag:
        own["DAG_OWNER"] = print_as.FUNCTIONS["OWNER"]
    return {**print_as.FUNCTIONS, **own}


def view(name: str, clock: Clock) -> PrintFormat:
    """One of the standard tables."""
    text = VIEWS[name].replace("    RUN_TIME", "    CPU_TIME") if clock.cpu else VIEWS[name]
    return parse(text.split("\n"), functions(clock, dag=name == "dag"), name=name)


def widen(table: Mask, ads: Sequence[ClassAd], *, owner: int = 0) -> None:
    """Make room for long job ids, owners and sizes; `owner` is how wide that column may become."""
    clusters = max((ad.eval_int("ClusterId", 0) for ad in ads), default=0)
    procs = max((ad.eval_int("ProcId", 0) for ad in ads), default=0)
    longest = max((len(ad.eval_str("Owner", "")) for ad in ads), default=0)
    # What the views have room for; nearly every queue fits.
    if clusters < 9999 and procs < 999 and longest <= 14:
        return
    columns = []
    for at, one in enumerate(table.columns):
        if at == 0 and one.heading == " ID" and clusters > 9999:
            wide = len(str(clusters))
            one = one._replace(width=wide + 1, printf=f"%{wide}d.")
        elif at == 1 and one.heading == " " and procs > 999:
            wide = len(str(procs))
            one = one._replace(width=wide, printf=f"%-{wide}d", flags=one.flags | mask.LEFT)
        elif at == 2 and owner and longest > 14:
            one = one._replace(width=max(one.width, min(longest, owner)))
        elif one.heading == "SIZE" and one.how is not None:
            largest = max((print_as.memory_usage(ad) or 0.0 for ad in ads), default=0.0)
            one = one._replace(width=max(one.width, len(f"{largest:.1f}")))
        columns.append(one)
    table.replace(columns)
