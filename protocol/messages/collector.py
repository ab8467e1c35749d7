"""What the collector is told and asked."""

from __future__ import annotations

from pool.ads.seen import AdChange
from pool.classad import ClassAd
from protocol.messages.common import AdBatch
from protocol.wire.message import Done, Record, Request, StreamRequest


class AdUpdate(Record):
    """An ad that replaces the one of the same MyType and name; `private` is its secret half (claim ids).

    Collectors keep an ad under its Name, a Submitter's under its Name and ScheddName (`daemon_names.kept_name`).

    MyType is one of Machine, Scheduler, Submitter, DaemonMaster, Negotiator, Collector, Accounting, Generic ...
    The ad lives for its ClassAdLifetime (seconds; the collector's default when it has none).
    """

    ad: ClassAd
    private: ClassAd | None = None
    version: int = 0
    """By which changes of this ad will name it; 0: none will come."""


class UpdateAds(Request[Done], tag="collector.update"):
    """Keep these ads."""

    updates: list[AdUpdate]


class UpdateAlike(Request[Done], tag="collector.update_alike"):
    """`UpdateAds` of ads that have the same names, which are sent once, as is what else they have in common.

    `pack_rows` of `protocol.wire.ad_rows` makes the tables.
    """

    table: bytes
    private: bytes = b""
    """The private halves, which have the same names too; empty: there are none."""
    versions: list[int]


class AdChanges(Record):
    """What is different in an ad since the version `base` of it; `private` only where that half is another."""

    ad_type: str
    name: str
    base: int
    version: int
    changed: ClassAd
    removed: list[str] = []
    private: ClassAd | None = None


class ChangesKept(Record):
    """By their numbers the changes of ads that are not there, or not in that version: those are to be sent whole."""

    whole: list[int] = []


class ChangeAds(Request[ChangesKept], tag="collector.change"):
    """Keep these ads as they are after the changes; their lifetimes begin anew."""

    changes: list[AdChanges]


class Invalidated(Record):
    """How many ads went."""

    count: int


class InvalidateAds(Request[Invalidated], tag="collector.invalidate"):
    """Forget ads of `ad_type` by the names under which they are kept, or by constraint when `names` is empty."""

    ad_type: str
    names: list[str] = []
    constraint: str | None = None


class WantedSlot(Record):
    """An offline slot that a cycle has found to suit `count` jobs; `jobs` says whose they are, an ad for each kind."""

    name: str
    count: int
    jobs: list[ClassAd] = []


class NoteWanted(Request[Done], tag="collector.note_wanted"):
    """Write into the ads of offline slots that there are jobs for them now; others stay as they are."""

    slots: list[WantedSlot]


class QueryAds(StreamRequest[AdBatch], tag="collector.query"):
    """The ads of a type (`Any` for all) for which `constraint` is true; also answered by a startd for its own slots.

    `projection` names the attributes to send (empty: all). Expressions are sent as they are. `snapshot`, to a startd:
    also what it knows beside the slots' ads, and nothing measured anew. `tables`: batches may come as tables of columns
    (`AdBatch.table`), where a projection says which.
    """

    ad_type: str
    constraint: str | None = None
    projection: list[str] = []
    limit: int | None = None
    snapshot: bool = False
    tables: bool = False


class AdDelta(Record):
    """A change of one ad. SYNCED (no ad) follows the ads that were there when the watch began.

    CHANGE holds of an ad that was told before only what is different since, and `private` where that is. `at` numbers
    what happens to ads in the time of `generation`, which SYNCED names. `resumed`: only what happened since the token
    was told. `settled`: who has not come again since this collector began is gone; if not yet, SETTLED follows then.
    """

    change: AdChange
    ad_type: str = ""
    name: str = ""
    ad: ClassAd | None = None
    private: ClassAd | None = None
    removed: list[str] = []
    at: int = 0
    generation: str = ""
    resumed: bool = False
    settled: bool = True


class WatchAds(StreamRequest[AdDelta], tag="collector.watch"):
    """All ads of the types and each change from now on. The private halves need level NEGOTIATOR.

    With `changes_only` what is told of an ad after the first time is a CHANGE. `projection` names the attributes to
    tell (empty: all). `resume` is the token of a watch before this one, `GENERATION.AT`: if the collector still knows
    what happened since, it tells that alone. Who gives one, an empty one too, is told of SETTLED.
    """

    ad_types: list[str]
    constraint: str | None = None
    private: bool = False
    changes_only: bool = False
    projection: list[str] = []
    resume: str | None = None
