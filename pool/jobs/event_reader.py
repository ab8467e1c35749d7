"""Reads event logs: HTCondor's text form, as it grows.

    reader = EventReader()
    for event in reader.feed(text): ...      # complete events only; the rest waits for more text

The attributes of an event are those of HTCondor's own event ads (`ReturnValue`, `HoldReason`, `ExecuteHost` ...).
Lines that are not understood are skipped, so that a log with events of a newer kind can be read.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pool.classad import ClassAd, parse_ad, parse_long
from pool.errors import ClassAdError
from pool.ids import JobId
from pool.jobs.event_log import TRANSFER_TYPES

NAMES: Final[Mapping[int, str]] = {
    0: "SUBMIT",
    1: "EXECUTE",
    2: "EXECUTABLE_ERROR",
    3: "CHECKPOINTED",
    4: "JOB_EVICTED",
    5: "JOB_TERMINATED",
    6: "IMAGE_SIZE",
    7: "SHADOW_EXCEPTION",
    8: "GENERIC",
    9: "JOB_ABORTED",
    10: "JOB_SUSPENDED",
    11: "JOB_UNSUSPENDED",
    12: "JOB_HELD",
    13: "JOB_RELEASED",
    14: "NODE_EXECUTE",
    15: "NODE_TERMINATED",
    16: "POST_SCRIPT_TERMINATED",
    21: "REMOTE_ERROR",
    22: "JOB_DISCONNECTED",
    23: "JOB_RECONNECTED",
    24: "JOB_RECONNECT_FAILED",
    28: "JOB_AD_INFORMATION",
    33: "ATTRIBUTE_UPDATE",
    34: "PRESKIP",
    35: "CLUSTER_SUBMIT",
    36: "CLUSTER_REMOVE",
    37: "FACTORY_PAUSED",
    38: "FACTORY_RESUMED",
    40: "FILE_TRANSFER",
}

_TYPES: Final[Mapping[int, str]] = {
    0: "SubmitEvent",
    1: "ExecuteEvent",
    4: "JobEvictedEvent",
    5: "JobTerminatedEvent",
    6: "JobImageSizeEvent",
    7: "ShadowExceptionEvent",
    8: "GenericEvent",
    9: "JobAbortedEvent",
    10: "JobSuspendedEvent",
    11: "JobUnsuspendedEvent",
    12: "JobHeldEvent",
    13: "JobReleasedEvent",
    16: "PostScriptTerminatedEvent",
    21: "RemoteErrorEvent",
    22: "JobDisconnectedEvent",
    23: "JobReconnectedEvent",
    24: "JobReconnectFailedEvent",
    28: "JobAdInformationEvent",
    33: "AttributeUpdateEvent",
    35: "ClusterSubmitEvent",
    36: "ClusterRemoveEvent",
    40: "FileTransferEvent",
}

_HEADER: Final = re.compile(
    r"(?P<number>\d{3}) \((?P<cluster>-?\d+)\.(?P<proc>-?\d+)\.(?P<subproc>-?\d+)\) "
    r"(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)|(?P<us_month>\d\d)/(?P<us_day>\d\d)) "
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.\d+)?(?P<utc>Z?) ?(?P<rest>.*)"
)

Attributes = dict[str, object]


@dataclass(frozen=True)
class LoggedEvent:
    """One event of a log; `at` is in seconds since the epoch, `lines` are the text after the header's time."""

    number: int
    job: JobId
    subproc: int
    at: float
    lines: tuple[str, ...]
    attributes: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """HTCondor's name of the event's kind."""
        return NAMES.get(self.number, f"FUTURE_{self.number}")

    def ad(self) -> ClassAd:
        """The event as HTCondor's ad."""
        ad = ClassAd(
            {
                "MyType": _TYPES.get(self.number, "FutureEvent"),
                "EventTypeNumber": self.number,
                "EventTime": time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(self.at)),
                "Cluster": self.job.cluster,
                "Proc": self.job.proc,
                "Subproc": self.subproc,
            }
        )
        for name, value in self.attributes.items():
            ad[name] = value
        return ad


class EventReader:
    """Takes a log's text piece by piece. `year` dates events of old logs, whose times have none."""

    def __init__(self, *, year: int = 1970) -> None:
        self._rest = ""
        self._year = year

    def feed(self, text: str) -> Iterator[LoggedEvent]:
        """The events that are complete now."""
        parts = (self._rest + text).replace("\r\n", "\n").split("\n...\n")
        self._rest = parts.pop()
        for part in parts:
            event = self._event(part.lstrip("\n"))
            if event is not None:
                yield event

    @property
    def unfinished(self) -> str:
        """The text after the last complete event."""
        return self._rest

    def _event(self, text: str) -> LoggedEvent | None:
        first, *more = text.split("\n")
        found = _HEADER.match(first)
        if found is None:
            return None
        lines = (found["rest"], *more)
        number = int(found["number"])
        attributes: Attributes = {}
        read = _READERS.get(number)
        if read is not None:
            read(lines, attributes)
        return LoggedEvent(
            number=number,
            job=JobId(int(found["cluster"]), int(found["proc"])),
            subproc=int(found["subproc"]),
            at=self._seconds(found),
            lines=lines,
            attributes=attributes,
        )

    def _seconds(self, found: re.Match[str]) -> float:
        year = int(found["year"] or self._year)
        month, day = int(found["month"] or found["us_month"]), int(found["day"] or found["us_day"])
        parts = (year, month, day, int(found["hour"]), int(found["minute"]), int(found["second"]), 0, 0, -1)
        if found["utc"]:
            return float(calendar.timegm(parts))
        return time.mktime(parts)


Lines = tuple[str, ...]


def _after(prefix: str, line: str) -> str | None:
    return line[len(prefix) :] if line.startswith(prefix) else None


def _read_submit(lines: Lines, ad: Attributes) -> None:
    ad["SubmitHost"] = lines[0].partition(": ")[2]
    notes = []
    for line in lines[1:]:
        line = line.strip()
        if line.startswith("["):
            try:
                ad.update(parse_ad(line).items())
            except ClassAdError:
                notes.append(line)
        elif line.startswith("WARNING: "):
            ad["Warnings"] = line.partition("(s): ")[2]
        else:
            notes.append(line)
    if notes:
        ad["LogNotes" if notes[0].startswith("DAG Node: ") or len(notes) > 1 else "UserNotes"] = notes[0]
    if len(notes) > 1:
        ad["UserNotes"] = notes[1]


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


_USAGE: Final = re.compile(r"\t\t(Usr .*)  -  (Run|Total) (Remote|Local) Usage")
_BYTES: Final = re.compile(r"\t(\d+)  -  (Run|Total) Bytes (Sent|Received) By ")
_EXIT: Final = re.compile(
    r"\t\([01]\) (?:Normal termination \(return value (-?\d+)\)|Abnormal termination \(signal (\d+)\))"
)


def _read_end(lines: Lines, ad: Attributes) -> None:
    """What events 004 and 005 have in common."""
    for at, line in enumerate(lines):
        if found := _EXIT.match(line):
            ad["TerminatedNormally"] = found[1] is not None
            ad["ReturnValue" if found[1] is not None else "TerminatedBySignal"] = int(found[1] or found[2])
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
    for line in lines[1:]:
        name = line.partition(":")[0].partition("(")[0].strip()
        for start, end, attribute in zip(starts, ends, (f"{name}Usage", f"Request{name}", name), strict=True):
            cell = line[start:end].strip()
            if re.fullmatch(r"-?\d+", cell):
                ad[attribute] = int(cell)
            elif re.fullmatch(r"-?\d+\.\d+", cell):
                ad[attribute] = float(cell)
        assigned = line[ends[2] :].strip()
        if assigned:
            ad[f"Assigned{name}"] = assigned.strip('"')


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
    for line in lines:
        reason = _after("\tReason: ", line)
        if reason is not None:
            ad["Reason"] = reason


def _read_image_size(lines: Lines, ad: Attributes) -> None:
    ad["Size"] = int(lines[0].partition(": ")[2] or 0)
    for line in lines[1:]:
        value, _, what = line.strip().partition("  -  ")
        if value.isdigit():
            ad[what.partition(" of ")[0]] = int(value)


def _read_exception(lines: Lines, ad: Attributes) -> None:
    ad["Message"] = lines[1].strip() if len(lines) > 1 else ""
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
    ad["NumberOfPIDs"] = int(count) if count.isdigit() else 0


def _read_remote_error(lines: Lines, ad: Attributes) -> None:
    found = re.match(r"(Error|Message) from (\S+) on (.*):", lines[0])
    if found:
        ad["CriticalError"], ad["Daemon"], ad["ExecuteHost"] = found[1] == "Error", found[2], found[3]
    said = []
    for line in lines[1:]:
        codes = _CODES.fullmatch(line)
        if codes:
            ad["HoldReasonCode"], ad["HoldReasonSubCode"] = int(codes[1]), int(codes[2])
        else:
            said.append(line.strip())
    ad["ErrorMsg"] = "\n".join(said)


def _read_disconnected(lines: Lines, ad: Attributes) -> None:
    if len(lines) > 2:
        ad["DisconnectReason"] = lines[1].strip()
        name, _, address = (_after("    Trying to reconnect to ", lines[2]) or "").partition(" ")
        ad["StartdName"], ad["StartdAddr"] = name, address


def _read_reconnected(lines: Lines, ad: Attributes) -> None:
    ad["StartdName"] = _after("Job reconnected to ", lines[0]) or ""
    for line in lines[1:]:
        what, _, address = line.strip().partition(" address: ")
        ad["StartdAddr" if what == "startd" else "StarterAddr"] = address


def _read_reconnect_failed(lines: Lines, ad: Attributes) -> None:
    if len(lines) > 2:
        ad["Reason"] = lines[1].strip()
        ad["StartdName"] = (_after("    Can not reconnect to ", lines[2]) or "").partition(",")[0]


def _read_attribute(lines: Lines, ad: Attributes) -> None:
    changed = re.match(r"Changing job attribute (\S+) from (.*) to (.*)", lines[0])
    if changed:
        ad["Attribute"], ad["OldValue"], ad["Value"] = changed[1], changed[2], changed[3]
        return
    made = re.match(r"Setting job attribute (\S+) to (.*)", lines[0])
    if made:
        ad["Attribute"], ad["Value"] = made[1], made[2]


def _read_transfer(lines: Lines, ad: Attributes) -> None:
    if lines[0] in TRANSFER_TYPES:
        ad["Type"] = TRANSFER_TYPES.index(lines[0])
    for line in lines[1:]:
        host = _after("\tTransferring to host: ", line)
        delay = _after("\tSeconds spent in queue: ", line)
        if host is not None:
            ad["Host"] = host
        elif delay is not None and delay.isdigit():
            ad["QueueingDelay"] = int(delay)


def _read_job_ad(lines: Lines, ad: Attributes) -> None:
    try:
        ad.update(parse_long("\n".join(lines[1:])).items())
    except ClassAdError:
        return


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
    4: _read_evicted,
    5: _read_end,
    6: _read_image_size,
    7: _read_exception,
    8: _read_generic,
    9: _read_reason,
    10: _read_suspended,
    12: _read_held,
    13: _read_reason,
    16: _read_post_script,
    21: _read_remote_error,
    22: _read_disconnected,
    23: _read_reconnected,
    24: _read_reconnect_failed,
    28: _read_job_ad,
    33: _read_attribute,
    35: _read_submit,
    40: _read_transfer,
}
