"""The tables of condor_q: which columns each view has, and how a job's attributes fill them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from minipool.cli.columns import Col
from minipool.cli.show import date, duration
from pool.classad import ClassAd

STATUS_LETTERS: Final = "UIRXCH>S"
UNIVERSES: Final = {
    1: "Standard", 2: "Pipe", 3: "Linda", 4: "PVM", 5: "Vanilla", 6: "PVMD", 7: "Scheduler", 8: "MPI",
    9: "Grid", 10: "Java", 11: "Parallel", 12: "Local", 13: "VM",
}  # fmt: skip
IDLE, RUNNING, REMOVED, COMPLETED, HELD, TRANSFERRING, SUSPENDED = range(1, 8)


def status_letter(ad: ClassAd) -> str:
    """The two letters under ST: the job's status, and arrows while files move."""
    status = ad.eval_int("JobStatus", 0)
    first, second = STATUS_LETTERS[status] if 0 <= status < len(STATUS_LETTERS) else "?", " "
    queued = bool(ad.eval_bool("TransferQueued"))
    if ad.eval_bool("TransferringInput"):
        first, second = "<", "q" if queued else " "
    if ad.eval_bool("TransferringOutput") or status == TRANSFERRING:
        first, second = "q" if queued else " ", ">"
    return first + second


def wall_time(ad: ClassAd, *, current_run: bool = False) -> float:
    """Seconds that the job has run: its earlier runs, and the present one so far."""
    status = ad.eval_int("JobStatus", 0)
    born = ad.eval_int("ShadowBday", 0)
    total = 0.0 if current_run else ad.eval_float("RemoteWallClockTime", 0.0)
    if status in (RUNNING, TRANSFERRING, SUSPENDED) and born:
        total += max(0, ad.eval_int("ServerTime", born) - born)
    elif status in (IDLE, HELD) and current_run:
        total = ad.eval_float("LastRemoteWallClockTime", total)
    return total


def _run_time(ad: ClassAd) -> str:
    return duration(wall_time(ad))


def _current_run(ad: ClassAd) -> str:
    return duration(wall_time(ad, current_run=True))


def _cpu_time(ad: ClassAd) -> str:
    return duration(ad.eval_float("RemoteUserCpu", 0.0))


def submitted(ad: ClassAd) -> str | None:
    """When the job was submitted."""
    at = ad.eval_int("QDate")
    return None if at is None else date(at)


def _held_since(ad: ClassAd) -> str | None:
    at = ad.eval_int("EnteredCurrentStatus")
    return None if at is None else date(at)


def _size(ad: ClassAd) -> str | None:
    usage = ad.eval_int("MemoryUsage")
    if usage is not None:
        return f"{usage:.1f}"
    image = ad.eval_int("ImageSize")
    return None if image is None else f"{image / 1024:.1f}"


def command(ad: ClassAd) -> str:
    """The job in a few words: its description, or its program and arguments."""
    described = ad.eval_str("JobDescription") or ad.eval_str("MATCH_EXP_JobDescription")
    if described:
        return described
    program = (ad.eval_str("Cmd") or "").rpartition("/")[2]
    arguments = ad.eval_str("Args") or ad.eval_str("Arguments")
    return f"{program} {arguments}" if arguments else program


def _remote_host(ad: ClassAd) -> str | None:
    return ad.eval_str("RemoteHost")


def _universe(ad: ClassAd) -> str:
    return UNIVERSES.get(ad.eval_int("JobUniverse", 5), "Unknown")


def _dag_name(ad: ClassAd) -> str | None:
    if "DAGManJobId" in ad:
        return f" |-{ad.eval_str('DAGNodeName', '')}"
    return ad.eval_str("Owner")


def _bytes(names: Sequence[str]) -> Callable[[ClassAd], str | None]:
    def shown(ad: ClassAd) -> str | None:
        amounts = [ad.eval_float(name) for name in names]
        if any(amount is None for amount in amounts):
            return None
        return readable_bytes(sum(amount or 0.0 for amount in amounts))

    return shown


def readable_bytes(amount: float) -> str:
    """`1.5 MB`."""
    for unit in ("B ", "KB", "MB", "GB", "TB"):
        if amount < 1024 or unit == "TB":
            return f"{amount:.1f} {unit}"
        amount /= 1024
    return ""


CLUSTER = Col(" ID", "ClusterId", width=5, printf="%4d.")
PROC = Col(" ", "ProcId", width=-3, printf="%-3d", glued=True)
_OWNER = Col("OWNER", "Owner", width=-14, alt="??")
_SUBMITTED = Col("  SUBMITTED", submitted, width=11, needs=("QDate",))
_WALL = ("JobStatus", "ServerTime", "ShadowBday", "RemoteWallClockTime", "LastRemoteWallClockTime")
_RUN_TIME = Col("    RUN_TIME", _run_time, width=12, needs=_WALL)
_STATUS = Col(
    "ST", status_letter, width=-2, needs=("JobStatus", "TransferringInput", "TransferringOutput", "TransferQueued")
)
_CMD = Col("CMD", command, width=0, needs=("Cmd", "Args", "Arguments", "JobDescription", "MATCH_EXP_JobDescription"))
_PRI = Col("PRI", "JobPrio", width=-3, auto=True)
_SIZE = Col("SIZE", _size, width=4, needs=("MemoryUsage", "ResidentSetSize", "ImageSize"))

NOBATCH = (CLUSTER, PROC, _OWNER, _SUBMITTED, _RUN_TIME, _STATUS, _PRI, _SIZE, _CMD)
DAG = (
    CLUSTER,
    PROC,
    Col("OWNER/NODENAME", _dag_name, width=-17, needs=("Owner", "DAGManJobId", "DAGNodeName")),
    *NOBATCH[3:],
)
RUN = (
    CLUSTER,
    PROC,
    _OWNER,
    _SUBMITTED,
    _RUN_TIME,
    Col("HOST(S)", _remote_host, width=0, alt="??", needs=("RemoteHost",)),
)
IDLE_VIEW = (
    CLUSTER, PROC, _OWNER,
    Col("UNIVERSE ", _universe, width=-9, needs=("JobUniverse",)),
    Col("CPUS", "RequestCpus", width=4, printf="%4d"),
    Col("MEMORY", "RequestMemory", width=6, printf="%6d"),
    Col("STARTS", "NumShadowStarts ?: 0", width=6, printf="%6d"),
    Col("LAST_HOST", lambda ad: ad.eval_str("LastRemoteHost", "undefined"), width=0, needs=("LastRemoteHost",)),
)  # fmt: skip
HOLD = (
    CLUSTER, PROC, _OWNER,
    Col("HELD_SINCE", _held_since, width=11, alt="??", needs=("EnteredCurrentStatus",)),
    Col("CODE", "HoldReasonCode", width=4, printf="%4d", alt="?"),
    Col("/SUB", "HoldReasonSubCode", width=-4, printf="/%-3d", glued=True, truncate=True, alt=" "),
    Col("HOLD_REASON", "HoldReason", width=0),
)  # fmt: skip
GRID = (
    CLUSTER, PROC, _OWNER,
    Col("STATUS", "GridJobStatus", width=-10),
    Col("GRID->MANAGER    HOST", "GridResource", width=-27),
    Col("GRID_JOB_ID", "GridJobId", width=0),
)  # fmt: skip
IO = (
    CLUSTER, PROC, _OWNER,
    Col("RUNS", "NumJobStarts", width=4, printf="%4d", alt="?"),
    _STATUS,
    Col(" INPUT", _bytes(["BytesRecvd"]), width=6, alt="??", needs=("BytesRecvd",)),
    Col(" OUTPUT", _bytes(["BytesSent"]), width=7, alt="??", needs=("BytesSent",)),
    Col(" RATE", _bytes(["BytesRecvd", "BytesSent"]), width=10, alt="??"),
    Col("MISC", lambda _: "", width=0),
)  # fmt: skip
FACTORY = (
    CLUSTER, PROC, _OWNER, _SUBMITTED,
    Col(" LIMIT", "JobMaterializeLimit", width=6, printf="%6d"),
    Col("PRESNT", "JobsPresent", width=6, printf="%6d"),
    Col("  RUN ", "JobsRunning", width=6, printf="%6d"),
    Col("  IDLE", "JobsIdle", width=6, printf="%6d"),
    Col("  HOLD", "JobsHeld", width=6, printf="%6d"),
    Col("NEXTID", "JobMaterializeNextProcId", width=6, printf="%6d"),
    Col("MODE", lambda ad: "Norm" if not ad.eval_int("JobMaterializePaused", 0) else "Hold", width=-4),
    Col("DIGEST", "JobMaterializeDigestFile", width=0),
)  # fmt: skip
AUTOCLUSTER = (
    Col("   ID", "AutoClusterId", width=5, printf="%5d"),
    Col("COUNT", "JobCount", width=5, printf="%5d"),
    Col("UNIVERSE", _universe, width=-8, needs=("JobUniverse",)),
    Col("CPUS", "RequestCpus", width=4, printf="%4d", alt="??"),
    Col("MEMORY", "RequestMemory", width=6, printf="%6d", alt="??"),
    Col("    DISK", "RequestDisk", width=8, printf="%8d", alt="??"),
    Col("REQUIREMENTS", "Requirements", width=0, printf="%r"),
)  # fmt: skip
HOLD_CODES = (
    _OWNER,
    Col("CODE", "HoldReasonCode", width=4, printf="%4d", alt="?"),
    Col("/SUB", "HoldReasonSubCode", width=-4, printf="/%-3d", glued=True, alt=" "),
    Col("   COUNT ", "JobCount", width=9, printf="%9d", alt="_"),
    Col("OLDEST_JOB_ID", lambda ad: f"{ad.eval_int('ClusterId', 0)}.{ad.eval_int('ProcId', 0)}", width=-13),
    Col("HELD_SINCE", _held_since, width=11, alt="??", needs=("EnteredCurrentStatus",)),
    Col("HOLD_REASON", "HoldReason", width=0),
)  # fmt: skip


class View(NamedTuple):
    """A table of condor_q: its columns, which jobs it is about, and whether totals follow."""

    columns: Sequence[Col]
    constraint: str = ""
    totals: bool = True


_ACTIVE = "(JobStatus == 2 || JobStatus == 6 || JobStatus == 7)"
VIEWS: Final[dict[str, View]] = {
    "nobatch": View(NOBATCH),
    "dag": View(DAG),
    "run": View(RUN, _ACTIVE, totals=False),
    "idle": View(IDLE_VIEW, "JobStatus == 1", totals=False),
    "hold": View(HOLD, "JobStatus == 5"),
    "hold-codes": View(HOLD_CODES, "JobStatus == 5", totals=False),
    "grid": View(GRID, "JobUniverse == 9", totals=False),
    "io": View(IO, "(TransferQueued =?= true || TransferringOutput =?= true || TransferringInput =?= true)"),
    "factory": View(FACTORY, "ProcId =?= undefined && JobMaterializeDigestFile =!= undefined", totals=False),
    "autocluster": View(AUTOCLUSTER, totals=False),
}


def widened(columns: Sequence[Col], ads: Sequence[ClassAd]) -> list[Col]:
    """The columns with the job id as wide as the largest id needs."""
    clusters = max((ad.eval_int("ClusterId", 0) for ad in ads), default=0)
    procs = max((ad.eval_int("ProcId", 0) for ad in ads), default=0)
    out = []
    for column in columns:
        if column is CLUSTER and clusters > 9999:
            wide = len(str(clusters))
            column = column._replace(width=wide + 1, printf=f"%{wide}d.")
        elif column is PROC and procs > 999:
            wide = len(str(procs))
            column = column._replace(width=-wide, printf=f"%-{wide}d")
        out.append(column)
    return out


def clocked(columns: Sequence[Col], how: str) -> list[Col]:
    """The columns with another time under RUN_TIME: `cputime`, or of the current run only."""
    if how == "cputime":
        changed = _RUN_TIME._replace(heading="    CPU_TIME", source=_cpu_time, needs=("RemoteUserCpu",))
    elif how == "currentrun":
        changed = _RUN_TIME._replace(source=_current_run)
    else:
        return list(columns)
    return [changed if column is _RUN_TIME else column for column in columns]
