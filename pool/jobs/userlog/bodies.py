"""What the lines of an event say: each kind's, as the attributes of HTCondor's ad of that event.

Where HTCondor 25's own reader loses a part (the former value in 033, all of it when the attribute is new), the ad
lacks it too: programs get the same from both.

* Each kind has a function in `_READERS`, by its number. A line that it does not know is passed over.
* A user may have written into the log: what cannot be read is left out.

Source: HTCondor manual, "Job Event Log Codes", and the ads that HTCondor's reader makes of its own logs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from pool.base.errors import ClassAdError
from pool.base.ids import is_number
from pool.classad import ClassAd, parse_ad, parse_long
from pool.jobs.userlog.kinds import TRANSFER_TYPES

Attributes = dict[str, object]
Lines = tuple[str, ...]


def read_body(number: int, lines: Lines) -> Attributes:
    """The attributes that an event's lines give."""
    attributes: Attributes = {}
    read = _READERS.get(number)
    if read is not None:
        read(lines, attributes)
    return attributes


def _after(prefix: str, line: str) -> str | None:
    return line[len(prefix) :] if line.startswith(prefix) else None


def _read_submit(lines: Lines, ad: Attributes) -> None:
    ad["SubmitHost"] = lines[0].partition(": ")[2]
    notes = []
    for line in lines[1:]:
        line = line.strip()
        if line.startswith("WARNING: "):
            ad["Warnings"] = line
        else:
            notes.append(line)
    ad.update(zip(("LogNotes", "UserNotes"), notes, strict=False))
    if notes:
        _read_structured(notes[0], ad)


def _read_structured(note: str, ad: Attributes) -> None:
    """A first note that is an ad, or the name of a DAG's node."""
    node = _after("DAG Node: ", note)
    try:
        if note.startswith("["):
            ad["StructuredNotes"] = parse_ad(note)
        elif node is not None:
            ad["StructuredNotes"] = ClassAd({"DAGNodeName": node})
    except ClassAdError:
        return


def _read_cluster_submit(lines: Lines, ad: Attributes) -> None:
    ad["SubmitHost"] = lines[0].partition(": ")[2]


_MATERIALIZED: Final = re.compile(r"\tMaterialized (-?\d+) jobs from (-?\d+) items\.\s*(.*)")
_COMPLETIONS: Final = {"Complete": 1, "Incomplete": 0, "Paused": 2}


def _read_cluster_remove(lines: Lines, ad: Attributes) -> None:
    for line in lines[1:]:
        found = _MATERIALIZED.match(line)
        if found:
            ad["NextProcId"], ad["NextRow"] = int(found[1]), int(found[2])
            ad["Completion"] = _COMPLETIONS.get(found[3].strip(), -1)
        elif line.strip():
            ad["Notes"] = line.strip()


def _read_paused(lines: Lines, ad: Attributes) -> None:
    ad["PauseCode"], ad["HoldCode"] = 0, 0
    for line in lines[1:]:
        found = re.fullmatch(r"\s*(PauseCode|HoldCode) (-?\d+)", line)
        if found:
            ad[found[1]] = int(found[2])
        elif line.strip():
            ad["Reason"] = line.strip()


def _read_execute(lines: Lines, ad: Attributes) -> None:
    ad["ExecuteHost"] = lines[0].partition(": ")[2]
    properties = []
    for line in lines[1:]:
        slot = _after("\tSlotName: ", line)
        if slot is not None:
            ad["SlotName"] = slot.strip('"')
        else:
            properties.append(line.strip())
    if properties:
        try:
            ad["ExecuteProps"] = parse_long("\n".join(properties))
        except ClassAdError:
            return


def _read_node(lines: Lines, ad: Attributes) -> None:
    found = re.match(r"Node (\d+)", lines[0])
    if found:
        ad["Node"] = int(found[1])


def _read_node_execute(lines: Lines, ad: Attributes) -> None:
    _read_node(lines, ad)
    _read_execute(lines, ad)


def _read_node_terminated(lines: Lines, ad: Attributes) -> None:
    _read_node(lines, ad)
    _read_end(lines, ad)
    ad.setdefault("TerminatedBySignal", -1)
    ad.setdefault("ReturnValue", -1)


def _read_not_executable(lines: Lines, ad: Attributes) -> None:
    found = re.match(r"\((\d+)\)", lines[0])
    if found:
        ad["ExecuteErrorType"] = int(found[1])


_USAGE: Final = re.compile(r"\t\t(Usr .*)  -  (Run|Total) (Remote|Local) Usage")
_BYTES: Final = re.compile(r"\t(\d+)  -  (Run|Total) Bytes (Sent|Received) By ")
_EXIT: Final = re.compile(
    r"\t\([01]\) (?:Normal termination \(return value (-?\d+)\)|Abnormal termination \(signal (\d+)\))"
)


def _read_end(lines: Lines, ad: Attributes) -> None:
    """What events 004 and 005 have in common."""
    for at, line in enumerate(lines):
        if found := _EXIT.match(line):
            normal, number = found[1] is not None, int(found[1] or found[2])
            ad["TerminatedNormally"] = normal
            if number >= 0:  # HTCondor has no attribute for another
                ad["ReturnValue" if normal else "TerminatedBySignal"] = number
        elif found := _USAGE.match(line):
            ad[f"{found[2]}{found[3]}Usage"] = found[1]
        elif found := _BYTES.match(line):
            ad[f"{'Total' if found[2] == 'Total' else ''}{found[3]}Bytes"] = float(found[1])
        elif core := _after("\t(1) Corefile in: ", line):
            ad["CoreFile"] = core
        elif line.startswith("\tPartitionable Resources"):
            _read_table(lines[at:], ad)
            return


def _read_table(lines: Lines, ad: Attributes) -> None:
    title = lines[0]
    ends = [title.find(word) + len(word) for word in ("Usage", "Request", "Allocated")]
    starts = [title.find(":") + 1, ends[0], ends[1]]
    assigned_at = title.find("Assigned")
    for line in lines[1:]:
        if ":" not in line:
            return
        name = line.partition(":")[0].partition("(")[0].strip()
        for start, end, attribute in zip(starts, ends, (f"{name}Usage", f"Request{name}", name), strict=True):
            cell = line[start:end].strip()
            if re.fullmatch(r"-?\d+", cell):
                ad[attribute] = int(cell)
            elif re.fullmatch(r"-?\d+\.\d+", cell):
                ad[attribute] = float(cell)
        assigned = line[assigned_at:].strip() if assigned_at > 0 else ""
        if assigned:
            ad[f"Assigned{name}"] = assigned.strip('"')


_CORE: Final = re.compile(r"\t\((?:0\) No core file|1\) Corefile in: )")
_CODES: Final = re.compile(r"\s*Code (-?\d+) Subcode (-?\d+)")


def _read_evicted(lines: Lines, ad: Attributes) -> None:
    found = _CODES.search(lines[0])
    if found:
        ad["ReasonCode"] = int(found[1])
        if int(found[2]):
            ad["ReasonSubCode"] = int(found[2])
    ad["Checkpointed"] = any(line.startswith("\t(1) Job was checkpointed") for line in lines)
    requeued = any(line.startswith("\t(0) Job terminated and was requeued") for line in lines)
    ad["TerminatedAndRequeued"], ad["TerminatedNormally"] = requeued, False
    _read_end(tuple(line for line in lines if not line.startswith("\tPartitionable Resources")), ad)
    reason = _requeue_reason(lines) if requeued else None
    for line in lines:
        reason = _after("\tReason: ", line) or reason
    if reason is not None:
        ad["Reason"] = reason


def _requeue_reason(lines: Lines) -> str | None:
    """The line after those that say how the program ended."""
    ended = [at for at, line in enumerate(lines) if _EXIT.match(line) or _CORE.match(line)]
    after = lines[ended[-1] + 1 :] if ended else ()
    return after[0].strip() if after and not after[0].startswith("\tPartitionable Resources") else None


def _read_checkpointed(lines: Lines, ad: Attributes) -> None:
    ad["SentBytes"] = 0.0
    _read_end(lines, ad)


def _read_image_size(lines: Lines, ad: Attributes) -> None:
    size = lines[0].partition(": ")[2]
    ad["Size"], ad["ResidentSetSize"] = int(size) if is_number(size) else 0, 0
    for line in lines[1:]:
        value, _, what = line.strip().partition("  -  ")
        if is_number(value):
            ad[what.partition(" of ")[0]] = int(value)


def _read_exception(lines: Lines, ad: Attributes) -> None:
    ad["Message"] = lines[1].strip() if len(lines) > 1 else ""
    ad["SentBytes"] = ad["ReceivedBytes"] = 0.0
    _read_end(lines, ad)


def _read_reason(lines: Lines, ad: Attributes) -> None:
    if len(lines) > 1 and lines[1].strip():
        ad["Reason"] = lines[1].strip()


def _read_held(lines: Lines, ad: Attributes) -> None:
    if len(lines) > 1 and lines[1].strip() != "Reason unspecified":
        ad["HoldReason"] = lines[1].strip()
    found = _CODES.match(lines[2]) if len(lines) > 2 else None
    ad["HoldReasonCode"], ad["HoldReasonSubCode"] = (int(found[1]), int(found[2])) if found else (0, 0)


def _read_suspended(lines: Lines, ad: Attributes) -> None:
    count = lines[1].rpartition(": ")[2] if len(lines) > 1 else ""
    ad["NumberOfPIDs"] = int(count) if is_number(count) else 0


def _read_remote_error(lines: Lines, ad: Attributes) -> None:
    found = re.match(r"(Error|Message) from (\S+) on (.*):", lines[0])
    if found:
        ad["Daemon"], ad["ExecuteHost"] = found[2], found[3]
    said = []
    for line in lines[1:]:
        codes = _CODES.fullmatch(line)
        if codes:
            ad["HoldReasonCode"], ad["HoldReasonSubCode"] = int(codes[1]), int(codes[2])
        else:
            said.append(line.strip())
    ad["ErrorMsg"] = "\n".join(said)


def _read_disconnected(lines: Lines, ad: Attributes) -> None:
    ad["EventDescription"] = "Job disconnected, attempting to reconnect"
    if len(lines) > 2:
        ad["DisconnectReason"] = lines[1].strip()
        name, _, address = (_after("    Trying to reconnect to ", lines[2]) or "").partition(" ")
        ad["StartdName"], ad["StartdAddr"] = name, address


def _read_reconnected(lines: Lines, ad: Attributes) -> None:
    ad["EventDescription"] = "Job reconnected"
    ad["StartdName"] = _after("Job reconnected to ", lines[0]) or ""
    for line in lines[1:]:
        what, _, address = line.strip().partition(" address: ")
        ad["StartdAddr" if what == "startd" else "StarterAddr"] = address


def _read_reconnect_failed(lines: Lines, ad: Attributes) -> None:
    ad["EventDescription"] = "Job reconnect impossible: rescheduling job"
    if len(lines) > 2:
        ad["Reason"] = lines[1].strip()
        ad["StartdName"] = (_after("    Can not reconnect to ", lines[2]) or "").partition(",")[0]


def _read_attribute(lines: Lines, ad: Attributes) -> None:
    """HTCondor's reader takes one word for each part, and nothing from the line about a new attribute."""
    words = lines[0].split()
    changed = words[:3] == ["Changing", "job", "attribute"] and len(words) > 3
    ad["Attribute"] = words[3] if changed else ""
    ad["Value"] = words[7] if changed and len(words) > 7 and (words[4], words[6]) == ("from", "to") else ""


def _read_transfer(lines: Lines, ad: Attributes) -> None:
    if lines[0] in TRANSFER_TYPES:
        ad["Type"] = TRANSFER_TYPES.index(lines[0])
    for line in lines[1:]:
        host = _after("\tTransferring to host: ", line)
        delay = _after("\tSeconds spent in queue: ", line)
        if host is not None:
            ad["Host"] = host
        elif delay is not None and is_number(delay):
            ad["QueueingDelay"] = int(delay)


def _read_job_ad(lines: Lines, ad: Attributes) -> None:
    try:
        ad.update(parse_long("\n".join(lines[1:])).items())
    except ClassAdError:
        return


def _read_head(lines: Lines, ad: Attributes) -> None:
    ad["EventHead"] = lines[0]


def _read_common_files(lines: Lines, ad: Attributes) -> None:
    ad["Type"] = _after("Common files event: ", lines[0]) or ""


def _read_grid(lines: Lines, ad: Attributes) -> None:
    for line in lines[1:]:
        name, colon, value = line.strip().partition(": ")
        if colon and name in ("GridResource", "GridJobId"):
            ad[name] = value


def _read_pre_skip(lines: Lines, ad: Attributes) -> None:
    if len(lines) > 1:
        ad["SkipEventLogNotes"] = lines[1].strip()


def _read_generic(lines: Lines, ad: Attributes) -> None:
    ad["Info"] = lines[0]


def _read_post_script(lines: Lines, ad: Attributes) -> None:
    _read_end(lines, ad)
    for line in lines[1:]:
        node = _after("    DAG Node: ", line)
        if node is not None:
            ad["DAGNodeName"] = node


_READERS: Final[Mapping[int, Callable[[Lines, Attributes], None]]] = {
    0: _read_submit,
    1: _read_execute,
    2: _read_not_executable,
    3: _read_checkpointed,
    4: _read_evicted,
    5: _read_end,
    6: _read_image_size,
    7: _read_exception,
    8: _read_generic,
    9: _read_reason,
    10: _read_suspended,
    12: _read_held,
    13: _read_reason,
    14: _read_node_execute,
    15: _read_node_terminated,
    16: _read_post_script,
    21: _read_remote_error,
    22: _read_disconnected,
    23: _read_reconnected,
    24: _read_reconnect_failed,
    25: _read_grid,
    26: _read_grid,
    27: _read_grid,
    28: _read_job_ad,
    31: _read_head,
    32: _read_head,
    33: _read_attribute,
    34: _read_pre_skip,
    35: _read_cluster_submit,
    36: _read_cluster_remove,
    37: _read_paused,
    38: _read_reason,
    40: _read_transfer,
    46: _read_reason,
    47: _read_common_files,
}
