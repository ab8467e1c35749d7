"""What every daemon answers, and the records that several receivers share."""

from __future__ import annotations

from enum import StrEnum

from pool.classad import ClassAd
from protocol.wire.message import Done, Record, Request, StreamRequest


class Pong(Record):
    """Who answered, and who the caller is in its eyes (what `condor_ping` shows)."""

    daemon: str
    version: str
    identity: str
    method: str
    levels: list[str]


class Ping(Request[Pong], tag="common.ping"):
    """Are you there, and who am I?"""


class Reconfigure(Request[Done], tag="common.reconfigure"):
    """Read the configuration again."""


class Setting(Record):
    """One knob of a daemon: its value, its text as it was written, where that was and under which name."""

    name: str
    value: str
    raw: str
    where: str
    found_as: str


class Settings(Record):
    """Those knobs of the ones asked for that have a value, and the files that were read."""

    settings: list[Setting]
    files: list[str]


class GetConfig(Request[Settings], tag="common.get_config"):
    """What the daemon's configuration says of these names, or of all (`condor_config_val -name`)."""

    names: list[str] = []
    all: bool = False


class SetConfig(Request[Done], tag="common.set_config"):
    """Change a knob of the daemon from its next reconfiguration on: until it ends, or for good; no value unsets it."""

    name: str
    value: str | None = None
    lasting: bool = False


class StopHow(StrEnum):
    """How a daemon or a claim ends: after its jobs, with their vacate time, or at once."""

    PEACEFUL = "peaceful"
    GRACEFUL = "graceful"
    FAST = "fast"


class Stop(Request[Done], tag="common.stop"):
    """End; answered when the end has begun."""

    how: StopHow = StopHow.GRACEFUL


class SetLogLevel(Request[Done], tag="common.set_log_level"):
    """Change a running daemon's debug level, in the words of `<SUBSYS>_DEBUG`."""

    level: str


class LogPart(Record):
    """Some bytes of a log, in order."""

    data: bytes


class FetchLog(StreamRequest[LogPart], tag="common.fetch_log"):
    """A log of this host: `SCHEDD` is the file of SCHEDD_LOG, `SCHEDD.old` the one before it (`condor_fetchlog`)."""

    name: str


class AdReply(Record):
    """One ad."""

    ad: ClassAd


class GetAd(Request[AdReply], tag="common.get_ad"):
    """The daemon's own ad, with its metrics (loop lag among them), or those of its attributes that are named."""

    projection: list[str] = []


class AdBatch(Record):
    """Some ads of a longer answer; the order is that of the whole answer.

    `table`: the ads in the form of `wire.ad_table`, in place of `ads`; sent only to those who asked for tables.
    """

    ads: list[ClassAd]
    table: bytes = b""
