"""The events of a job's log as HTCondor 25.14 writes them: each is a value, and its lines are what goes into the file.

Source: HTCondor manual, "Job Event Log Codes" (codes/job-event-log-codes), and the files that HTCondor's tools write.
What holds of each event:

* `number` is HTCondor's, and `kinds` has its name. The first of `lines()` follows the header's time; the others
  begin with a tab or four spaces, and none has a line end within (`one_line`).
* What the user or a machine says is cut after LINE_CHARS_MAX characters where HTCondor's reader would cut it.
* Amounts are those of the last execution ("Run") and of all of them ("Total"); local usage is always zero.

`event` has the header, `cluster_events` the events of clusters; `reader` reads the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pool.base.words import split_list
from pool.classad import ClassAd, Error, Undefined
from pool.jobs.userlog.event import LINE_CHARS_MAX, LogEvent, one_line
from pool.jobs.userlog.kinds import TRANSFER_TYPES
from pool.jobs.userlog.usage import NO_USAGE, Usage
from pool.jobs.userlog.usage_table import Number, usage_lines

_NO_TIME: Final = "\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  "


# Events are alike in shape and written out one by one: each is to be compared with a page of the manual, and most have
# a first line, a cut or a blank of their own that HTCondor's reader depends on.
@dataclass(frozen=True)
class Submitted(LogEvent):
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
    asked = split_list(ad.eval_str("SubmitEventNotesAttrs"))
    found = ClassAd()
    for name in (*asked, "DAGNodeName", "JobBatchName"):
        value = ad.eval(name)
        if not isinstance(value, Undefined | Error):
            found[name] = value
    return one_line(found.new()) if len(found) else ""


@dataclass(frozen=True)
class Executing(LogEvent):
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
class NodeExecuting(LogEvent):
    """014: the program of one node of a parallel job was started."""

    number = 14
    node: int
    host: str
    slot_name: str = ""
    properties: Mapping[str, object] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        first, *others = Executing(self.host, self.slot_name, self.properties).lines()
        yield f"Node {self.node}{first.removeprefix('Job')}"
        yield from others


@dataclass(frozen=True)
class ImageSize(LogEvent):
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
class Terminated(LogEvent):
    """005: the job is done. Bytes and processor time of its last execution, and of all of them."""

    number = 5
    exit: Exit
    run_usage: Usage = NO_USAGE
    total_usage: Usage = NO_USAGE
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
class NodeTerminated(LogEvent):
    """015: one node of a parallel job is done."""

    number = 15
    node: int
    exit: Exit
    usage: Usage = NO_USAGE
    sent: float = 0.0
    received: float = 0.0

    def lines(self) -> Iterator[str]:
        yield f"Node {self.node} terminated."
        yield from self.exit.lines()
        for whose in ("Run", "Total"):
            yield f"\t\t{self.usage}  -  {whose} Remote Usage"
            yield _NO_TIME + f"{whose} Local Usage"
        for whose in ("Run", "Total"):
            yield f"\t{self.sent:.0f}  -  {whose} Bytes Sent By Node"
            yield f"\t{self.received:.0f}  -  {whose} Bytes Received By Node"


@dataclass(frozen=True)
class Checkpointed(LogEvent):
    """003: files that the job can go on from are kept."""

    number = 3
    run_usage: Usage = NO_USAGE
    sent: float = 0.0

    def lines(self) -> Iterator[str]:
        yield "Job was checkpointed."
        yield f"\t{self.run_usage}  -  Run Remote Usage"
        yield _NO_TIME.removeprefix("\t") + "Run Local Usage"
        yield f"\t{self.sent:.0f}  -  Run Bytes Sent By Job For Checkpoint"


@dataclass(frozen=True)
class Evicted(LogEvent):
    """004: the job left its slot before it was done; with `exit`, it ended and shall run again.

    `checkpointed`: its program was written down as it left, and goes on from there.
    """

    number = 4
    reason: str = ""
    code: int = 0
    subcode: int = 0
    exit: Exit | None = None
    run_usage: Usage = NO_USAGE
    sent: float = 0.0
    received: float = 0.0
    table: Mapping[str, Number] = field(default_factory=dict)
    checkpointed: bool = False

    def lines(self) -> Iterator[str]:
        yield f"Job was evicted. Code {self.code} Subcode {self.subcode}" if self.code else "Job was evicted."
        left = "(1) Job was checkpointed." if self.checkpointed else "(0) CPU times"
        yield f"\t{left if self.exit is None else '(0) Job terminated and was requeued'}"
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
class ShadowException(LogEvent):
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
class Generic(LogEvent):
    """008: anything that has no event of its own."""

    number = 8
    info: str

    def lines(self) -> Iterator[str]:
        yield one_line(self.info)


@dataclass(frozen=True)
class Aborted(LogEvent):
    """009: the job was removed."""

    number = 9
    reason: str = ""

    def lines(self) -> Iterator[str]:
        yield "Job was aborted."
        if self.reason:
            yield f"\t{one_line(self.reason)}"


@dataclass(frozen=True)
class Suspended(LogEvent):
    """010."""

    number = 10
    processes: int = 0

    def lines(self) -> Iterator[str]:
        yield "Job was suspended."
        yield f"\tNumber of processes actually suspended: {self.processes}"


@dataclass(frozen=True)
class Continued(LogEvent):
    """011."""

    number = 11

    def lines(self) -> Iterator[str]:
        yield "Job was unsuspended."


@dataclass(frozen=True)
class DataflowSkipped(LogEvent):
    """046: the job's output was newer than its input, so that it did not run."""

    number = 46

    def lines(self) -> Iterator[str]:
        yield "Dataflow job was skipped."


@dataclass(frozen=True)
class Held(LogEvent):
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
class Released(LogEvent):
    """013."""

    number = 13
    reason: str = ""

    def lines(self) -> Iterator[str]:
        yield "Job was released."
        if self.reason:
            yield f"\t{one_line(self.reason)}"


@dataclass(frozen=True)
class RemoteErrorEvent(LogEvent):
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
class Disconnected(LogEvent):
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
class Reconnected(LogEvent):
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
class ReconnectFailed(LogEvent):
    """024: the job will be started anew."""

    number = 24
    reason: str
    startd_name: str

    def lines(self) -> Iterator[str]:
        yield "Job reconnection failed"
        yield f"    {one_line(self.reason)[:LINE_CHARS_MAX]}"
        yield f"    Can not reconnect to {self.startd_name}, rescheduling job"


@dataclass(frozen=True)
class JobAdInformation(LogEvent):
    """028: attributes of the job that its owner or the administrator wants in the log."""

    number = 28
    attributes: Mapping[str, object]

    def lines(self) -> Iterator[str]:
        yield "Job ad information event triggered."
        ad = ClassAd(dict(self.attributes))
        for name in ad:
            yield f"{name} = {ad.text(name)}"


def information(job: ClassAd, event: LogEvent) -> JobAdInformation:
    """What goes along with an event: the attributes that job_ad_information_attrs names, and which event it was."""
    attributes: dict[str, object] = {"TriggerEventTypeNumber": event.number}
    for name in split_list(job.eval_str("JobAdInformationAttrs")):
        if name in job:
            attributes[name] = job.eval(name)
    return JobAdInformation(attributes)


@dataclass(frozen=True)
class AttributeUpdated(LogEvent):
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
class FileTransfer(LogEvent):
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
