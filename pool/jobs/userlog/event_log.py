"""The user's event log as HTCondor 25.14 writes it: each event is a value, and `text` is what goes into the file.

    text(Held("via condor_hold (by user ann)", 1), JobId(7, 0), at=now)

An event is a header line (number, job, local time, first words), lines of its own, and a line of three dots.
`event_reader` reads the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final

from pool.classad import ClassAd, Error, Undefined
from pool.ids import JobId
from pool.jobs.usage_table import Number, usage_lines

LINE_CHARS_MAX: Final = 8191

TRANSFER_TYPES: Final = (
    "NONE",
    "Entered queue to transfer input files",
    "Started transferring input files",
    "Finished transferring input files",
    "Entered queue to transfer output files",
    "Started transferring output files",
    "Finished transferring output files",
)


@dataclass(frozen=True)
class Event:
    """Something that a job's log tells."""

    number: ClassVar[int]

    def lines(self) -> Iterator[str]:
        """The event after its header, without line ends; the first line follows the time."""
        raise NotImplementedError


def text(event: Event, job: JobId, at: float) -> str:
    """The whole event, ready to be appended to a log."""
    header = f"{event.number:03d} ({job.cluster:03d}.{job.proc:03d}.000) {local_time(at)} "
    return header + "\n".join(event.lines()) + "\n...\n"


def cluster_text(event: Event, cluster: int, at: float) -> str:
    """An event of a whole cluster (035, 036), which has -1 for its job."""
    return f"{event.number:03d} ({cluster:03d}.-01.000) {local_time(at)} " + "\n".join(event.lines()) + "\n...\n"


_last_time: tuple[int, int, str] = (-1, 0, "")


def local_time(at: float) -> str:
    """`2026-11-20 23:51:08`, in the zone of this host."""
    global _last_time
    second = int(at)
    if _last_time[0] != second or _last_time[1] != time.timezone:
        _last_time = (second, time.timezone, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second)))
    return _last_time[2]


def one_line(reason: str) -> str:
    """A reason as one line of the log."""
    return reason.replace("\n", "|").replace("\r", " ")


@dataclass(frozen=True)
class Usage:
    """Seconds of processor time."""

    user: float = 0.0
    system: float = 0.0

    def __str__(self) -> str:
        return f"Usr {_days(self.user)}, Sys {_days(self.system)}"

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.user + other.user, self.system + other.system)


def _days(seconds: float) -> str:
    return _in_days(int(seconds))


@lru_cache(256)
def _in_days(seconds: int) -> str:
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{day} {hour:02d}:{minute:02d}:{second:02d}"


_NO_TIME: Final = "\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  "


@dataclass(frozen=True)
class Submitted(Event):
    """000. Attributes of the job, as `submit_notes` says them, or `log_notes`, and the user's own notes."""

    number = 0
    host: str
    attributes: str = ""
    log_notes: str = ""
    user_notes: str = ""
    warnings: str = ""

    def lines(self) -> Iterator[str]:
        yield f"Job submitted from host: {self.host}"
        if self.attributes:
            yield f"    {self.attributes}"
        elif self.log_notes:
            yield f"    {self.log_notes[:LINE_CHARS_MAX]}"
        if self.user_notes:
            yield f"    {self.user_notes[:LINE_CHARS_MAX]}"
        if self.warnings:
            said = "Committed job submission into the queue with the following warning(s)"
            yield f"    WARNING: {said}: {one_line(self.warnings)[:8110]}"


def submit_notes(ad: ClassAd) -> str:
    """The attributes that a job's submit event shows: those it asks for, and the names of its node and its batch.

    What has no value is left out; without any the text is empty.
    """
    asked = (ad.eval_str("SubmitEventNotesAttrs") or "").replace(",", " ").split()
    found = ClassAd()
    for name in (*asked, "DAGNodeName", "JobBatchName"):
        value = ad.eval(name)
        if not isinstance(value, Undefined | Error):
            found[name] = value
    return one_line(found.new()) if len(found) else ""


@dataclass(frozen=True)
class ClusterSubmitted(Event):
    """035: a cluster whose jobs are made as they are needed."""

    number = 35
    host: str

    def lines(self) -> Iterator[str]:
        yield f"Cluster submitted from host: {self.host}"


@dataclass(frozen=True)
class ClusterRemoved(Event):
    """036: the last job of such a cluster is gone."""

    number = 36
    jobs: int
    items: int
    complete: bool = True

    def lines(self) -> Iterator[str]:
        yield "Cluster removed"
        how = "Complete" if self.complete else "Incomplete"
        yield f"\tMaterialized {self.jobs} jobs from {self.items} items.\t{how}"


@dataclass(frozen=True)
class FactoryPaused(Event):
    """037: no more jobs of such a cluster are made for now."""

    number = 37
    reason: str
    pause_code: int
    hold_code: int = 0

    def lines(self) -> Iterator[str]:
        yield "Job Materialization Paused"
        yield f"\t{one_line(self.reason)}"
        if self.pause_code:
            yield f"\tPauseCode {self.pause_code}"
        if self.hold_code:
            yield f"\tHoldCode {self.hold_code}"


@dataclass(frozen=True)
class FactoryResumed(Event):
    """038: they are made again."""

    number = 38
    reason: str

    def lines(self) -> Iterator[str]:
        yield "Job Materialization Resumed"
        if self.reason:
            yield f"\t{one_line(self.reason)}"


@dataclass(frozen=True)
class Executing(Event):
    """001: the program was started. `properties` are what the slot gives: Cpus, Memory, CondorScratchDir ..."""

    number = 1
    host: str
    slot_name: str = ""
    properties: Mapping[str, object] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield f"Job executing on host: {self.host}"
        if self.slot_name:
            yield f"\tSlotName: {self.slot_name}"
        ad = ClassAd(dict(self.properties))
        for name in sorted(ad, key=str.lower):
            yield f"\t{name} = {ad.text(name)}"


@dataclass(frozen=True)
class ImageSize(Event):
    """006: how much memory the job takes (KB, MB, KB)."""

    number = 6
    image_size: int
    memory_usage: int | None = None
    resident_set_size: int | None = None
    proportional_set_size: int | None = None

    def lines(self) -> Iterator[str]:
        yield f"Image size of job updated: {self.image_size}"
        if self.memory_usage is not None:
            yield f"\t{self.memory_usage}  -  MemoryUsage of job (MB)"
        if self.resident_set_size is not None:
            yield f"\t{self.resident_set_size}  -  ResidentSetSize of job (KB)"
        if self.proportional_set_size is not None:
            yield f"\t{self.proportional_set_size}  -  ProportionalSetSize of job (KB)"


@dataclass(frozen=True)
class Exit:
    """How a program ended: with `code`, or by `signal`."""

    code: int | None = None
    signal: int | None = None
    core_file: str = ""

    def lines(self) -> Iterator[str]:
        """The lines of events 004 and 005 that say so."""
        if self.signal is None:
            yield f"\t(1) Normal termination (return value {self.code or 0})"
            return
        yield f"\t(0) Abnormal termination (signal {self.signal})"
        yield f"\t(1) Corefile in: {self.core_file}" if self.core_file else "\t(0) No core file"


@dataclass(frozen=True)
class Terminated(Event):
    """005: the job is done. Bytes and processor time of its last execution, and of all of them."""

    number = 5
    exit: Exit
    run_usage: Usage = Usage()
    total_usage: Usage = Usage()
    sent: float = 0.0
    received: float = 0.0
    total_sent: float = 0.0
    total_received: float = 0.0
    table: Mapping[str, Number] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield "Job terminated."
        yield from self.exit.lines()
        yield f"\t\t{self.run_usage}  -  Run Remote Usage"
        yield _NO_TIME + "Run Local Usage"
        yield f"\t\t{self.total_usage}  -  Total Remote Usage"
        yield _NO_TIME + "Total Local Usage"
        yield f"\t{self.sent:.0f}  -  Run Bytes Sent By Job"
        yield f"\t{self.received:.0f}  -  Run Bytes Received By Job"
        yield f"\t{self.total_sent:.0f}  -  Total Bytes Sent By Job"
        yield f"\t{self.total_received:.0f}  -  Total Bytes Received By Job"
        yield from usage_lines(self.table)


@dataclass(frozen=True)
class Checkpointed(Event):
    """003: files that the job can go on from are kept."""

    number = 3
    run_usage: Usage = Usage()
    sent: float = 0.0

    def lines(self) -> Iterator[str]:
        yield "Job was checkpointed."
        yield f"\t{self.run_usage}  -  Run Remote Usage"
        yield _NO_TIME.removeprefix("\t") + "Run Local Usage"
        yield f"\t{self.sent:.0f}  -  Run Bytes Sent By Job For Checkpoint"


@dataclass(frozen=True)
class Evicted(Event):
    """004: the job left its slot before it was done; with `exit`, it ended and shall run again."""

    number = 4
    reason: str = ""
    code: int = 0
    subcode: int = 0
    exit: Exit | None = None
    run_usage: Usage = Usage()
    sent: float = 0.0
    received: float = 0.0
    table: Mapping[str, Number] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield f"Job was evicted. Code {self.code} Subcode {self.subcode}" if self.code else "Job was evicted."
        yield "\t(0) CPU times" if self.exit is None else "\t(0) Job terminated and was requeued"
        yield f"\t\t{self.run_usage}  -  Run Remote Usage"
        yield _NO_TIME + "Run Local Usage"
        yield f"\t{self.sent:.0f}  -  Run Bytes Sent By Job"
        yield f"\t{self.received:.0f}  -  Run Bytes Received By Job"
        if self.exit is not None:
            yield from self.exit.lines()
        if self.reason:
            yield f"\t{'Reason: ' if self.exit is None else ''}{one_line(self.reason)}"
        yield from usage_lines(self.table)


@dataclass(frozen=True)
class ShadowException(Event):
    """007: the job could not be watched over any longer, or not be started; it runs again."""

    number = 7
    message: str
    sent: float = 0.0
    received: float = 0.0

    def lines(self) -> Iterator[str]:
        yield "Shadow exception!"
        yield f"\t{one_line(self.message)}"
        yield f"\t{self.sent:.0f}  -  Run Bytes Sent By Job"
        yield f"\t{self.received:.0f}  -  Run Bytes Received By Job"


@dataclass(frozen=True)
class Generic(Event):
    """008: anything that has no event of its own."""

    number = 8
    info: str

    def lines(self) -> Iterator[str]:
        yield one_line(self.info)


@dataclass(frozen=True)
class Aborted(Event):
    """009: the job was removed."""

    number = 9
    reason: str = ""

    def lines(self) -> Iterator[str]:
        yield "Job was aborted."
        if self.reason:
            yield f"\t{one_line(self.reason)}"


@dataclass(frozen=True)
class Suspended(Event):
    """010."""

    number = 10
    processes: int = 0

    def lines(self) -> Iterator[str]:
        yield "Job was suspended."
        yield f"\tNumber of processes actually suspended: {self.processes}"


@dataclass(frozen=True)
class Continued(Event):
    """011."""

    number = 11

    def lines(self) -> Iterator[str]:
        yield "Job was unsuspended."


@dataclass(frozen=True)
class Held(Event):
    """012."""

    number = 12
    reason: str = ""
    code: int = 0
    subcode: int = 0

    def lines(self) -> Iterator[str]:
        yield "Job was held."
        yield f"\t{one_line(self.reason) or 'Reason unspecified'}"
        yield f"\tCode {self.code} Subcode {self.subcode}"


@dataclass(frozen=True)
class Released(Event):
    """013."""

    number = 13
    reason: str = ""

    def lines(self) -> Iterator[str]:
        yield "Job was released."
        if self.reason:
            yield f"\t{one_line(self.reason)}"


@dataclass(frozen=True)
class RemoteError(Event):
    """021: what `daemon` on the execution host has to say; with a hold code when the job is held for it."""

    number = 21
    daemon: str
    host: str
    message: str
    critical: bool = True
    code: int = 0
    subcode: int = 0

    def lines(self) -> Iterator[str]:
        yield f"{'Error' if self.critical else 'Message'} from {self.daemon} on {self.host}:"
        for line in self.message.splitlines():
            yield f"\t{line}"
        if self.code:
            yield f"\tCode {self.code} Subcode {self.subcode}"


@dataclass(frozen=True)
class Disconnected(Event):
    """022."""

    number = 22
    reason: str
    startd_name: str
    startd_address: str

    def lines(self) -> Iterator[str]:
        yield "Job disconnected, attempting to reconnect"
        yield f"    {one_line(self.reason)[:LINE_CHARS_MAX]}"
        yield f"    Trying to reconnect to {self.startd_name} {self.startd_address}"


@dataclass(frozen=True)
class Reconnected(Event):
    """023."""

    number = 23
    startd_name: str
    startd_address: str
    starter_address: str

    def lines(self) -> Iterator[str]:
        yield f"Job reconnected to {self.startd_name}"
        yield f"    startd address: {self.startd_address}"
        yield f"    starter address: {self.starter_address}"


@dataclass(frozen=True)
class ReconnectFailed(Event):
    """024: the job will be started anew."""

    number = 24
    reason: str
    startd_name: str

    def lines(self) -> Iterator[str]:
        yield "Job reconnection failed"
        yield f"    {one_line(self.reason)[:LINE_CHARS_MAX]}"
        yield f"    Can not reconnect to {self.startd_name}, rescheduling job"


@dataclass(frozen=True)
class JobAdInformation(Event):
    """028: attributes of the job that its owner or the administrator wants in the log."""

    number = 28
    attributes: Mapping[str, object]

    def lines(self) -> Iterator[str]:
        yield "Job ad information event triggered."
        ad = ClassAd(dict(self.attributes))
        for name in ad:
            yield f"{name} = {ad.text(name)}"


def information(job: ClassAd, event: Event) -> JobAdInformation:
    """What goes along with an event: the attributes that job_ad_information_attrs names, and which event it was."""
    attributes: dict[str, object] = {"TriggerEventTypeNumber": event.number}
    for name in (job.eval_str("JobAdInformationAttrs") or "").replace(",", " ").split():
        if name in job:
            attributes[name] = job.eval(name)
    return JobAdInformation(attributes)


@dataclass(frozen=True)
class AttributeUpdated(Event):
    """033: somebody changed the job's ad; values as expression texts."""

    number = 33
    name: str
    value: str
    old_value: str | None = None

    def lines(self) -> Iterator[str]:
        if self.old_value is None:
            yield f"Setting job attribute {self.name} to {one_line(self.value)}"
        else:
            yield f"Changing job attribute {self.name} from {one_line(self.old_value)} to {one_line(self.value)}"


@dataclass(frozen=True)
class FileTransfer(Event):
    """040: `kind` is an index into TRANSFER_TYPES."""

    number = 40
    kind: int
    host: str = ""
    queueing_delay: int | None = None

    def lines(self) -> Iterator[str]:
        yield TRANSFER_TYPES[self.kind]
        if self.queueing_delay is not None:
            yield f"\tSeconds spent in queue: {self.queueing_delay}"
        if self.host:
            yield f"\tTransferring to host: {self.host}"


def split(joined: str) -> Sequence[str]:
    """The events of a text that holds several, each complete."""
    return [part + "\n...\n" for part in joined.split("\n...\n")[:-1]]
