"""The functions that PRINTAS names: how a value, or what an ad says beside it, is put into words.

A function gets the value of its column, the ad and the column; MISSING says that there is nothing to show, and then
the column's OR counts. `needs` names what else it reads of the ad, so that it is fetched. Source: "Print Formats" in
HTCondor's manual.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from minipool.cli.output.mask import AUTO as GROWS
from minipool.cli.output.mask import MISSING, Column, PrintAs
from minipool.cli.output.show import clock_date, literal, span
from pool.base.words import split_list
from pool.classad import UNDEFINED, ClassAd, Expr
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import UNIVERSES, Universe

STATUS_LETTERS: Final = " IRXCH>SFBP"
_STATUS_WORDS: Final = {
    1: "Idle   ", 2: "Running", 3: "Removed", 4: "Complet", 5: "Held   ", 6: "XFerOut", 7: "Suspend",
    8: "Failed ", 9: "Blocked", 10: "Preparing",
}  # fmt: skip
_STATES: Final = {
    "owner": "O", "unclaimed": "U", "matched": "M", "claimed": "C", "preempting": "P", "shutdown": "S", "delete": "X",
    "backfill": "F", "drained": "D",
}  # fmt: skip
_ACTIVITIES: Final = {
    "idle": "i", "busy": "b", "retiring": "r", "vacating": "v", "suspended": "s", "benchmarking": "e", "killing": "k",
}  # fmt: skip
_GRID_STATES: Final = {
    1: "IDLE", 2: "RUNNING", 4: "COMPLETED", 5: "HELD", 7: "SUSPENDED", 3: "REMOVED", 6: "XFER_OUT", 8: "FAILED",
    9: "BLOCKED", 10: "PREPARING",
}  # fmt: skip


def status_letter(ad: ClassAd) -> str:
    """The two letters under ST: the job's status, and arrows while files move."""
    status = ad.eval_int("JobStatus", 0)
    first, second = STATUS_LETTERS[status] if 0 < status < len(STATUS_LETTERS) else " ", " "
    queued = bool(ad.eval_bool("TransferQueued"))
    if ad.eval_bool("TransferringInput"):
        first, second = "<", "q" if queued else " "
    if ad.eval_bool("TransferringOutput") or status == JobStatus.TRANSFERRING_OUTPUT:
        first, second = "q" if queued else " ", ">"
    return first + second


def readable_bytes(amount: float) -> str:
    """`1.5 MB`."""
    for unit in ("B ", "KB", "MB", "GB"):
        # 1024 is still "1024.0 KB": HTCondor's metric_units goes on only above it.
        if amount <= 1024:
            return f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TB"


def command(ad: ClassAd) -> str | None:
    """The job in a few words: its description in brackets, or its program and arguments; None without a program."""
    program = ad.eval_str("Cmd")
    if program is None:
        return None
    described = ad.eval_str("MATCH_EXP_JobDescription")
    described = ad.eval_str("JobDescription") if described is None else described
    if described:
        return f"({described})"
    arguments = ad.eval_str("Arguments")
    arguments = ad.eval_str("Args") if arguments is None else arguments
    name = program.rpartition("/")[2]
    return f"{name} {arguments}" if arguments else name


def platform(ad: ClassAd) -> str | None:
    """The machine's platform in few letters: `x64/Debian12`."""
    system = ad.eval_str("OpSysShortName" if ad.eval_str("OpSys") == "WINDOWS" else "OpSysAndVer")
    if system is None:
        return None
    arch = ad.eval_str("Arch", "")
    return f"{ {'X86_64': 'x64', 'X86': 'x86'}.get(arch, arch) }/{system}"


def activity_code(ad: ClassAd) -> str | None:
    """State and activity in two letters, as the compact view has them."""
    state, activity = ad.eval_str("State", "").lower(), ad.eval_str("Activity", "").lower()
    if activity not in _ACTIVITIES and state not in _STATES:
        return None
    return _STATES.get(state, " ") + _ACTIVITIES.get(activity, " ")


def short_version(text: str, *, build: bool) -> str:
    """The version out of `$CondorVersion: 25.14.1 2026-10-16 BuildID: 123 $`: `25.14.1.123`, or without the build."""
    words = text.split()
    if len(words) < 2:
        return ""
    rest = words[2:]
    rest = rest[1:] if rest and rest[0][4:5] == "-" and rest[0][7:8] == "-" else rest[3:]
    if rest and rest[0].startswith("B"):
        rest = rest[1:]
    if not rest or rest[0].startswith("$") or not build:
        return words[1]
    # A build id may be as long as its builder likes; the column has room for this much.
    return f"{words[1]}.{rest[0].partition('-')[0]}"[:20]


def _ad_text(name: str) -> Any:
    """A renderer for a text of the ad, whatever the column's value is."""

    def render(_: Any, ad: ClassAd, column: Column) -> Any:
        text = ad.eval_str(name)
        return MISSING if text is None else text

    return render


def _of_ad(what: Any) -> Any:
    """A renderer that looks at the ad alone."""

    def render(_: Any, ad: ClassAd, column: Column) -> Any:
        found = what(ad)
        return MISSING if found is None else found

    return render


def batch_name(ad: ClassAd) -> str | None:
    """What a batch is called: by its user, or as a DAG or a DAG's node."""
    name = ad.eval_str("JobBatchName")
    if name is not None:
        return name
    if ad.eval_int("JobUniverse", 0) == Universe.SCHEDULER:
        return f"DAG: {ad.eval_int('ClusterId', 0)}"
    node = ad.eval_str("DAGNodeName") if "DAGManJobId" in ad else None
    return None if node is None else f"NODE: {node}"


def _buffer_io_misc(ad: ClassAd) -> str:
    said = [
        word
        for name, word in (("TransferringInput", "in"), ("TransferringOutput", "out"), ("TransferQueued", "queued"))
        if ad.eval_bool(name)
    ]
    return f" transfer={','.join(said)}" if said else ""


def _dag_owner(ad: ClassAd) -> str | None:
    if "DAGManJobId" in ad:
        node = ad.eval_str("DAGNodeName")
        if node is not None:
            return node
        sys.stderr.write("DAG node job with no DAGNodeName attribute!\n")
    return ad.eval_str("Owner")


def _grid_job_id(ad: ClassAd) -> str | None:
    text = ad.eval_str("GridJobId")
    if text is None:
        return None
    last = text.rpartition(" ")[2]
    address = last.partition("://")[2] if "://" in last else last
    slash = address.find("/")
    return address[slash:] if slash >= 0 else address


def _grid_resource(ad: ClassAd) -> str | None:
    text = ad.eval_str("GridResource")
    if text is None:
        return None
    kind, blank, rest = text.partition(" ")
    if not blank:
        kind, rest = "globus", text
    where, blank, manager = rest.partition(" ")
    if not blank:
        at = where.find("jobmanager-")
        manager = where[at + 11 :] if at >= 0 else "[?]"
        where = where[:at] if at >= 0 else where
    host = where.partition("://")[2] if "://" in where else where
    for mark in ":/":
        host = host.partition(mark)[0]
    if kind == "ec2":
        return f"{kind} {ad.eval_str('EC2RemoteVirtualMachineName') or host}"
    return f"{kind}->{manager.replace(' ', '/')} {host}"


def _grid_status(ad: ClassAd) -> str | None:
    word = ad.eval_str("GridJobStatus")
    code = ad.eval_int("GridJobStatus")
    return word if word is not None else None if code is None else _GRID_STATES.get(code, str(code))


def _job_command(ad: ClassAd) -> str | None:
    program = ad.eval_str("Cmd")
    arguments = ad.eval_str("Args")
    arguments = ad.eval_str("Arguments") if arguments is None else arguments
    return program if program is None or arguments is None else f"{program} {arguments}"


def job_id(ad: ClassAd) -> str | None:
    """`12.3`."""
    cluster = ad.eval_int("ClusterId")
    if cluster is None:
        return ad.eval_str("JobId")
    return f"{cluster}.{ad.eval_int('ProcId', -1)}"


def memory_usage(ad: ClassAd) -> float | None:
    """What the job takes in megabytes; the size of its image where nobody has measured."""
    usage = ad.eval_int("MemoryUsage")
    if usage is not None:
        return float(usage)
    image = ad.eval_int("ImageSize")
    return None if image is None else image / 1024


def _remote_host(ad: ClassAd) -> str | None:
    if ad.eval_int("JobUniverse", Universe.VANILLA) == Universe.GRID:
        return ad.eval_str("EC2RemoteVirtualMachineName") or ad.eval_str("GridResource")
    return ad.eval_str("RemoteHost")


def _activity_or_ocu(value: str, ad: ClassAd, _: Column) -> Any:
    activity = ad.eval_str("Activity", "")
    if not activity:
        return "??"
    return "OCU" if activity == "Idle" and ad.eval_bool("OCU") else value


def _activity_time(since: int, ad: ClassAd, _: Column) -> Any:
    now = ad.eval_int("MyCurrentTime")
    now = ad.eval_int("LastHeardFrom") if now is None else now
    return MISSING if now is None else max(0, now - since)


def _since_heard(since: int, ad: ClassAd, _: Column) -> Any:
    now = ad.eval_int("LastHeardFrom")
    return MISSING if now is None else now - since


def _due(seconds: int, ad: ClassAd, _: Column) -> Any:
    now = ad.eval_int("LastHeardFrom")
    return MISSING if now is None else now + seconds


def _condor_platform(text: str, _: ClassAd, __: Column) -> Any:
    words = text.split()
    if not words:
        return MISSING
    shown = (words[1] if len(words) > 1 else words[0]).partition(".")[0].partition("$")[0]
    shown = ("x" + shown[1:] if shown.startswith("X") else shown).replace("-", "_")
    at = shown.find("WINDOWS_")
    return shown[: at + 7] if at >= 0 else shown


def _condor_version(text: str, _: ClassAd, column: Column) -> Any:
    wide = bool(column.flags & GROWS) or column.width >= 10
    return short_version(text, build=wide) if text else MISSING


def _factory_mode(value: Any, _: Column) -> str:
    if value is UNDEFINED:
        return ""
    if isinstance(value, bool | int | float):
        return {-1: "Errs", 0: "Norm", 1: "Held", 2: "Done", 3: "Gone"}.get(int(value), "Unk")
    return "????"


def _readable(scale: int) -> Any:
    def show(value: Any, _: Column) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return " " * 8
        return readable_bytes(float(value) * scale)

    return show


def members(value: Any) -> list[Any] | None:
    """The members of a list, or of a text that holds one."""
    if isinstance(value, list):
        return value
    return split_list(value) if isinstance(value, str) else None


def _member_count(value: Any, _: ClassAd, __: Column) -> Any:
    found = members(value)
    return MISSING if found is None else len(found)


def _strings_from_list(value: Any, _: ClassAd, __: Column) -> Any:
    if not isinstance(value, list):
        return MISSING
    return ", ".join(one for one in value if isinstance(one, str))


def _unique(value: Any, _: ClassAd, __: Column) -> Any:
    found = members(value)
    if found is None:
        return MISSING
    return ", ".join(sorted({one if isinstance(one, str) else literal(one) for one in found}))


def _unhealth(value: Any, ad: ClassAd, column: Column) -> Any:
    if not isinstance(value, list):
        reason = ad.eval_str("SlotBrokenReason")
        return reason if reason is not None else _unique(ad.eval("BrokenReasons"), ad, column)
    stored = ad.get(column.expression)
    # The expressions themselves say what has failed; their values are a row of "false".
    texts = stored if isinstance(stored, list) and len(stored) == len(value) else value
    failed = zip(texts, value, strict=True)
    return ", ".join(
        one.old_text if isinstance(one, Expr) else literal(one) for one, found in failed if found is False or found == 0
    )


FUNCTIONS: Final[Mapping[str, PrintAs]] = {
    "ACTIVITY_CODE": PrintAs("s", render=_of_ad(activity_code), needs=("State", "Activity")),
    "ACTIVITY_OR_OCU": PrintAs("s", render=_activity_or_ocu, needs=("State", "Activity", "OCU")),
    "ACTIVITY_TIME": PrintAs(
        "i",
        render=_activity_time,
        printf="%T",
        needs=("LastHeardFrom", "MyCurrentTime"),
        whole=lambda since, _, now: max(0, now - since),
    ),
    "BATCH_NAME": PrintAs(
        "s",
        render=_of_ad(batch_name),
        needs=("JobBatchName", "JobUniverse", "ClusterId", "DAGManJobId", "DAGNodeName"),
    ),
    "BUFFER_IO_MISC": PrintAs(
        "s", render=_of_ad(_buffer_io_misc), needs=("TransferringInput", "TransferringOutput", "TransferQueued")
    ),
    "CONDOR_PLATFORM": PrintAs("s", render=_condor_platform),
    "CONDOR_VERSION": PrintAs("s", render=_condor_version),
    "DAG_OWNER": PrintAs("s", render=_of_ad(_dag_owner), needs=("Owner", "DAGManJobId", "DAGNodeName")),
    "DATE": PrintAs("i", show=lambda value, _: clock_date(value)),
    "DUE_DATE": PrintAs("i", render=_due, printf="%Y", needs=("LastHeardFrom",)),
    "ELAPSED_TIME": PrintAs("i", render=_since_heard, printf="%T", needs=("LastHeardFrom",)),
    "GRID_JOB_ID": PrintAs("s", render=_of_ad(_grid_job_id), needs=("GridJobId", "GridResource")),
    "GRID_RESOURCE": PrintAs("s", render=_of_ad(_grid_resource), needs=("GridResource", "EC2RemoteVirtualMachineName")),
    "GRID_STATUS": PrintAs("s", render=_of_ad(_grid_status), needs=("GridJobStatus",)),
    "JOB_COMMAND": PrintAs("s", render=_of_ad(_job_command), needs=("Cmd", "Args", "Arguments")),
    "JOB_DESCRIPTION": PrintAs(
        "s",
        render=_of_ad(command),
        needs=("Cmd", "Args", "Arguments", "JobDescription", "MATCH_EXP_JobDescription"),
    ),
    "JOB_FACTORY_MODE": PrintAs("v", show=_factory_mode),
    "JOB_ID": PrintAs("s", render=_of_ad(job_id), needs=("ClusterId", "ProcId", "JobId")),
    "JOB_STATUS": PrintAs(
        "s",
        render=_of_ad(lambda ad: status_letter(ad) if ad.eval_int("JobStatus") is not None else None),
        needs=("JobStatus", "TransferringInput", "TransferringOutput", "TransferQueued"),
    ),
    "JOB_STATUS_RAW": PrintAs("i", show=lambda value, _: _STATUS_WORDS.get(value, "Unk    ")),
    "JOB_UNIVERSE": PrintAs("i", show=lambda value, _: UNIVERSES.get(value, "Unknown")),
    "LOAD_AVG": PrintAs("f", show=lambda value, _: f"{value:.3f}"),
    "MEMBER_COUNT": PrintAs("v", render=_member_count, printf="%d"),
    "MEMORY_USAGE": PrintAs(
        "f",
        render=_of_ad(memory_usage),
        printf="%.1f",
        needs=("MemoryUsage", "ImageSize", "ResidentSetSize"),
    ),
    "OWNER": PrintAs("s", render=_ad_text("Owner"), needs=("Owner",)),
    "PLATFORM": PrintAs("s", render=_of_ad(platform), needs=("OpSys", "Arch", "OpSysAndVer", "OpSysShortName")),
    "QDATE": PrintAs("i", show=lambda value, _: clock_date(value), printf="%Y"),
    "READABLE_BYTES": PrintAs("v", show=_readable(1)),
    "READABLE_KB": PrintAs("v", show=_readable(1024)),
    "READABLE_MB": PrintAs("v", show=_readable(1024 * 1024)),
    "REMOTE_HOST": PrintAs(
        "s",
        render=_of_ad(_remote_host),
        needs=("JobUniverse", "RemoteHost", "EC2RemoteVirtualMachineName", "GridResource"),
    ),
    "RUNTIME": PrintAs("f", show=lambda value, _: span(value)),
    "STRINGS_FROM_LIST": PrintAs("v", render=_strings_from_list),
    "TIME": PrintAs("i", show=lambda value, _: span(value)),
    "UNHEALTH": PrintAs("v", render=_unhealth, needs=("HealthExprs", "Healthy", "BrokenReasons", "SlotBrokenReason")),
    "UNIQUE": PrintAs("v", render=_unique),
}
"""What every tool knows; condor_q and condor_status have some of their own."""
