"""Writes what jobs leave in files: each execution and each transfer by plug-ins (JOB_EPOCH_HISTORY and its directory),
each finished job (PER_JOB_HISTORY_DIR).

The queue's own history is in its database; these files are for other programs. They are written a moment later, off
the loop, and a file that cannot be written costs a line in the log, never a job.

HTCondor's manual: admin-manual/configuration/shadow (JOB_EPOCH_HISTORY), admin-manual/configuration/schedd
(PER_JOB_HISTORY_DIR), man page condor_history (-epochs).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from daemons.base.layout import PUBLIC
from daemons.base.record_file import RecordFile
from pool.classad import ClassAd
from pool.config import Config
from pool.jobs.queue import history_file
from pool.jobs.queue.history import ROWS_PER_PAGE, Page
from pool.jobs.queue.history_file import EPOCH, TRANSFERS

if TYPE_CHECKING:
    from daemons.schedd.core.access_point import AccessPoint
    from pool.jobs.queue.cluster import Job

GATHER_S: Final = 0.2
WAITING_MAX: Final = 50_000
"""Records that wait to be written; beyond that the oldest are given up."""
CLUSTERS_KEPT_MAX: Final = 16
"""So many clusters whose jobs end at the same time are written out once; one takes 12 kB."""
MIB: Final = 1 << 20
OWN_ATTRS: Final = {
    "INPUT": "INPUT_JOB_ATTRS",
    "OUTPUT": "OUTPUT_JOB_ATTRS",
    "CHECKPOINT": "CHECKPOINT_JOB_ATTRS",
}


@dataclass(frozen=True)
class RecordSettings:
    """Where records go, and how long files become; empty for nowhere."""

    epochs: str = ""
    epoch_dir: str = ""
    per_job_dir: str = ""
    epoch_bytes_max: int = 20 * MIB
    epoch_rotations: int = 2
    transfer_attrs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What of the job's ad is in the record of a transfer, by the transfer's kind."""

    @property
    def epoch_file(self) -> RecordFile:
        """The file of all executions."""
        return RecordFile(self.epochs, self.epoch_bytes_max, self.epoch_rotations)

    @classmethod
    def read(cls, config: Config) -> RecordSettings:
        """From the configuration."""
        return cls(
            epochs=config.str("JOB_EPOCH_HISTORY", default="") or "",
            epoch_dir=config.str("JOB_EPOCH_HISTORY_DIR", default="") or "",
            per_job_dir=config.str("PER_JOB_HISTORY_DIR", default="") or "",
            epoch_bytes_max=int(config.bytes("MAX_EPOCH_HISTORY_LOG", default=20 * MIB)),
            epoch_rotations=config.int("MAX_EPOCH_HISTORY_ROTATIONS", default=2),
            transfer_attrs={kind: tuple(_attrs_of(config, kind)) for kind in TRANSFERS},
        )


def _attrs_of(config: Config, kind: str) -> list[str]:
    own = OWN_ATTRS[kind]
    return config.list(own if config.is_set(own) else "TRANSFER_JOB_ATTRS", default=[])


@dataclass(frozen=True)
class _Waiting:
    """A record not yet written: the job's attributes then, its cluster's, and for an execution what is added."""

    ad: ClassAd
    cluster: ClassAd
    added: dict[str, object] | None
    at: float
    kind: str = EPOCH


class JobRecords:
    """Takes records as they come, and writes them together."""

    def __init__(self, point: AccessPoint) -> None:
        self._point = point
        self._waiting: deque[_Waiting] = deque(maxlen=WAITING_MAX)
        self._wake = trio.Event()
        self._texts: dict[int, tuple[tuple[int, ...], ClassAd, str]] = {}

    @property
    def settings(self) -> RecordSettings:
        """The knobs as they are now."""
        return self._point.settings.records

    def execution(self, job: Job, status: int) -> None:
        """An execution of the job is over; `status`: the job's until then."""
        if self.settings.epochs or self.settings.epoch_dir:
            ad = self._point.queue.ad(job)
            if ad.eval_int("NumShadowStarts", 0) > 0:
                now = self._point.now()
                self._put(ad, {**history_file.run_attributes(ad, EPOCH, now), "JobStatus": status}, now)

    def transfers(self, job: Job, told: Mapping[str, object]) -> None:
        """Plug-ins have moved files of the job, its starter says; called before the job's ad says the same."""
        if not self.settings.epochs and not self.settings.epoch_dir:
            return
        ad = self._point.queue.ad(job)
        for kind in TRANSFERS:
            invocations = f"{kind.capitalize()}PluginInvocations"
            if not told.get(invocations) or told[invocations] == ad.get(invocations):
                continue
            now = self._point.now()
            results = f"{kind.capitalize()}PluginResultList"
            record = {
                results: told.get(results, []),
                invocations: told[invocations],
                "TransferClass": kind,
                **history_file.run_attributes(ad, kind, now),
            }
            for wanted in (*history_file.OF_TRANSFERS, *self.settings.transfer_attrs.get(kind, ())):
                if (value := ad.get(wanted)) is not None:
                    record.setdefault(wanted, value)
            self._append_soon(_Waiting(ClassAd(), ClassAd(), record, now, kind))

    def finished(self, job: Job) -> None:
        """The job leaves the queue."""
        if self.settings.per_job_dir:
            self._put(self._point.queue.ad(job), None, self._point.now())

    def _put(self, ad: ClassAd, added: dict[str, object] | None, now: float) -> None:
        cluster = ad.parent or ClassAd()
        self._append_soon(_Waiting(ad.copy(), cluster.copy(), added, now))

    def _append_soon(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self._wake.set()

    async def run(self) -> None:
        """Write until the schedd ends, and then what is left."""
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                await trio.sleep(GATHER_S)
                await self._point.start.world.threads.run_sync(self._write, self._taken())
        finally:
            self._write(self._taken())

    def _taken(self) -> list[_Waiting]:
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def _write(self, rows: list[_Waiting]) -> None:
        settings = self.settings
        epochs: list[str] = []
        for row in rows:
            text = self._cluster_text(row.cluster) + history_file.own_lines(row.ad)
            if row.added is None:
                self._per_job(row.ad, text)
                continue
            extra = ClassAd(row.added, parent=row.ad)
            text += history_file.own_lines(extra) + history_file.run_banner(row.kind, extra, row.at)
            epochs.append(text)
            if settings.epoch_dir:
                name = f"job.runs.{extra.eval_int('ClusterId', 0)}.{extra.eval_int('ProcId', 0)}.ads"
                self._append(os.path.join(settings.epoch_dir, name), text)
        if epochs and settings.epochs:
            try:
                settings.epoch_file.append("".join(epochs), now=rows[-1].at)
            except OSError as error:
                self._point.log.always(f"{settings.epochs} cannot be written: {error.strerror}")

    def _cluster_text(self, cluster: ClassAd) -> str:
        """The cluster's attributes as lines; the same values are written out once for all jobs."""
        number = cluster.eval_int("ClusterId", 0)
        # By identity, which costs nothing: values are never changed in place.
        key = tuple(map(id, cluster.attrs.values()))
        known = self._texts.get(number)
        if known is not None and known[0] == key:
            return known[2]
        if known is None and len(self._texts) >= CLUSTERS_KEPT_MAX:
            del self._texts[next(iter(self._texts))]  # the oldest
        text = history_file.own_lines(cluster)
        self._texts[number] = key, cluster, text  # the values live as long as their identities are compared
        return text

    def _per_job(self, ad: ClassAd, text: str) -> None:
        name = f"history.{ad.eval_int('ClusterId', 0)}.{ad.eval_int('ProcId', 0)}"
        directory = self.settings.per_job_dir
        hidden, path = os.path.join(directory, f".{name}.tmp"), os.path.join(directory, name)
        try:
            with open(hidden, "w", encoding="utf-8", errors="surrogateescape") as file:
                os.chmod(hidden, PUBLIC)  # the directory decides: it is there for other programs
                file.write(text)
            os.replace(hidden, path)
        except OSError as error:
            self._point.log.always(f"{path} cannot be written: {error.strerror}")

    def _append(self, path: str, text: str) -> None:
        try:
            with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        except OSError as error:
            self._point.log.always(f"{path} cannot be written: {error.strerror}")


class RecordReader:
    """Pages of the records of executions, as the history's reader has pages of finished jobs."""

    def __init__(self, path: str, kinds: Iterable[str]) -> None:
        self._path, self._kinds = path, {kind.upper() for kind in kinds}
        self._records: Iterator[history_file.HistoryRecord] | None = None

    def page(
        self,
        after: int | None = None,
        *,
        forwards: bool = False,
        cluster: int | None = None,
        proc: int | None = None,
        owner: str | None = None,
    ) -> Page:
        """The next records, newest first unless `forwards`, of one cluster, job or owner if given."""
        if self._records is None:
            self._records = self._all(forwards)
        about = "" if cluster is None else f" ClusterId={cluster} " + ("" if proc is None else f"ProcId={proc} ")
        whose = "" if owner is None else f' Owner="{owner}" '
        ads = []
        for record in self._records:
            wanted = "ALL" in self._kinds or record.kind in self._kinds
            if wanted and about in record.banner and whose in record.banner:
                ads.append(record.ad())
                if len(ads) == ROWS_PER_PAGE:
                    return Page(ads, 1)
        return Page(ads, None)

    def _all(self, forwards: bool) -> Iterator[history_file.HistoryRecord]:
        directory = os.path.dirname(self._path) or "."
        try:
            earlier = [
                os.path.join(directory, name) for name in history_file.rotations(self._path, os.listdir(directory))
            ]
        except OSError:
            earlier = []
        paths = [*earlier, self._path]
        for path in paths if forwards else reversed(paths):
            try:
                with open(path, encoding="utf-8", errors="surrogateescape") as file:
                    text = file.read()
            except OSError:
                continue
            yield from history_file.records(text, backwards=not forwards)

    def close(self) -> None:
        """Nothing is kept open."""
