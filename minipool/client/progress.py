"""How jobs come along: counted from a schedd's stream of changes, shown live by `pool watch` and the demonstration."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pool.classad import ClassAd
from pool.jobs.vocabulary.states import EXECUTING, JobStatus

if TYPE_CHECKING:
    from minipool.client.model import JobState
    from minipool.client.session import Session
    from protocol.messages.schedd import Selection

NEEDS = (
    "ClusterId", "ProcId", "JobStatus", "JobBatchName", "TotalSubmitProcs", "Owner", "RemoteHost",
    "ExitCode", "ExitBySignal", "HoldReason",
)  # fmt: skip


class Batch(NamedTuple):
    """One batch's jobs by state; `done` counts those that left the queue, of which `removed` were removed."""

    name: str
    total: int
    idle: int
    running: int
    held: int
    done: int
    removed: int

    @property
    def over(self) -> bool:
        """Whether no job of the batch is in the queue any more."""
        return not (self.idle or self.running or self.held)


class Progress:
    """The jobs of some clusters, as far as the changes seen so far tell."""

    def __init__(self) -> None:
        self.ads: dict[str, ClassAd] = {}
        self.left: dict[str, ClassAd] = {}
        self.synced = False

    def take(self, states: Iterable[JobState], *, synced: bool) -> None:
        """What has changed; `synced`: everything that is there is now known."""
        self.synced = synced
        for state in states:
            name, ad = str(state.id), state.ad
            ad["ClusterId"], ad["ProcId"] = state.id
            self.ads[name] = ad
            if state.left:
                self.left[name] = ad

    @property
    def over(self) -> bool:
        """Whether all jobs that were ever seen have left the queue."""
        return self.synced and len(self.left) == len(self.ads)

    def batches(self) -> list[Batch]:
        """The counts, a line for each batch, in order of the first job."""
        groups: dict[str, list[str]] = {}
        for name, ad in self.ads.items():
            label = ad.eval_str("JobBatchName") or f"ID: {ad.eval_int('ClusterId', 0)}"
            groups.setdefault(label, []).append(name)
        return [self._batch(label, names) for label, names in groups.items()]

    def _batch(self, label: str, names: Sequence[str]) -> Batch:
        idle, running, held = JobStatus.IDLE, JobStatus.RUNNING, JobStatus.HELD
        states = {idle: 0, running: 0, held: 0}
        totals: dict[int, int] = {}
        seen: dict[int, int] = {}
        done = removed = 0
        for name in names:
            ad = self.ads[name]
            cluster = ad.eval_int("ClusterId", 0)
            totals[cluster] = max(totals.get(cluster, 0), ad.eval_int("TotalSubmitProcs", 0))
            seen[cluster] = seen.get(cluster, 0) + 1
            status = ad.eval_int("JobStatus", JobStatus.IDLE)
            if name in self.left:
                done += 1
                removed += status == JobStatus.REMOVED
            else:
                kind = running if status in EXECUTING else held if status == held else idle
                states[kind] += 1
        # Jobs that left before the watch began are known by their number alone (TotalSubmitProcs), and count as done.
        gone = sum(max(0, total - seen[cluster]) for cluster, total in totals.items())
        total = sum(max(total, seen[cluster]) for cluster, total in totals.items())
        return Batch(label, total, states[idle], states[running], states[held], done + gone, removed)


def follow(session: Session, select: Selection, *, name: str | None = None) -> Generator[Progress, None, None]:
    """The progress of the selected jobs after each change, from the moment when all that is there is known.

    It goes on when the schedd has restarted.
    """
    from minipool.client import core
    from minipool.client.lines import Lines
    from minipool.client.patience import Attempts
    from minipool.client.steps import Tell

    progress = Progress()

    def take(states: Sequence[JobState], complete: bool) -> Iterable[Tell]:
        progress.take(states, synced=complete)
        return (Tell(value=progress),) if complete else ()

    lines = Lines(session, name)
    try:
        yield from lines.stream(core.follow(select, Attempts(0, None), take, forever=True, projection=NEEDS))
    finally:
        lines.close()


def line(batch: Batch) -> str:
    """One batch in words, for output that is not a terminal."""
    held = f", {batch.held} held" if batch.held else ""
    return f"{batch.name}: {batch.done} of {batch.total} done, {batch.running} running, {batch.idle} idle{held}"


def bars(batches: Iterable[Batch], width: int = 40) -> str:
    """The batches with a bar for each, plain text: `=` done, `-` running, `!` held."""
    lines = []
    for batch in batches:
        total = batch.total or 1
        done = width * batch.done // total
        # Rounded up: the one job of a thousand that runs, or is held, must be seen.
        running = -(-width * batch.running // total) if batch.running else 0
        held = -(-width * batch.held // total) if batch.held else 0
        bar = ("=" * done + "-" * running + "!" * held)[:width]
        lines.append(f"{batch.name:<24.24} [{bar:<{width}}] {batch.done}/{batch.total}")
    return "\n".join(lines)
