"""What a job has used so far, from all who know of it, and telling that while it runs."""

from __future__ import annotations

from dataclasses import replace

import trio

from daemons.host.child_settings import StarterSettings
from daemons.starter.chirp.job import ChirpJob
from daemons.starter.launch.body import Body
from daemons.starter.report.local_link import Link
from daemons.starter.watch.disk import Disk
from pool.base.errors import PeerError
from pool.classad import ClassAd, Member, expr
from pool.execute.exit import Hold
from pool.execute.usage import JobUsage
from protocol.messages.shadow import JobUpdate
from protocol.messages.starter import JobInfo, RunJob
from protocol.rpc.endpoints import Peer


class Figures:
    """One activation's."""

    def __init__(self, disk: Disk, chirp: ChirpJob, memory_metric: str = "") -> None:
        self._disk, self._chirp = disk, chirp
        self.usage = JobUsage(memory_metric=expr(memory_metric) if memory_metric else None)
        self.of_devices = ClassAd()
        """What it has used of its devices, as the startd's monitors see it."""
        self.moved: dict[str, Member] = {}
        """How many bytes were transferred: BytesRecvd, BytesSent."""
        self._told = ClassAd()

    @property
    def has_begun(self) -> bool:
        """Whether the program has run at all."""
        return self.usage.processes_seen

    def begin(self) -> None:
        """The program runs."""
        self.usage = self.usage.begun()

    def take_over(self, usage: JobUsage, moved: ClassAd, of_devices: ClassAd) -> None:
        """The program was begun by another process, which has seen this much."""
        self.usage = replace(usage, memory_metric=self.usage.memory_metric)
        self.of_devices = of_devices
        self.moved.update(moved)

    async def look(self, body: Body) -> None:
        """See what the program uses now, and what it has to say of itself."""
        sample = await body.sample()
        self.usage = self.usage.seen(sample)
        self._told = body.told()

    def hear(self, body: Body) -> None:
        """What the program has to say of itself at its end."""
        self._told = body.told()

    def measure_disk(self) -> None:
        """See what the sandbox holds now."""
        self.usage = self._disk.measured(self.usage)

    def over_disk(self) -> Hold | None:
        """Why the job is to be held, if it has used up its disk."""
        return self._disk.over(self.usage)

    def ad(self) -> ClassAd:
        """All of it but the transfers."""
        ad = ClassAd()
        ad.update(self.usage.ad() if self.has_begun else {})
        ad.update(self.of_devices)
        ad.update(self._chirp.delayed_ad())
        ad.update(self._told)
        return ad

    def final_ad(self) -> ClassAd:
        """All of it."""
        ad = self.ad()
        ad.update(self.moved)
        return ad

    def bytes_moved(self, name: str) -> int:
        """How many bytes were transferred, as a number."""
        figure = self.moved.get(name)
        return int(figure) if isinstance(figure, int | float) else 0


async def look_now_and_then(figures: Figures, body: Body, pause_s: float) -> None:
    """See what the running program uses, lest its largest size be missed, until cancelled."""
    while True:
        await trio.sleep(pause_s)
        await figures.look(body)


async def tell_now_and_then(
    figures: Figures, body: Body, settings: StarterSettings, request: RunJob, link: Link, startd: Peer
) -> None:
    """Let the schedd and the startd know how the running program does, until cancelled."""
    pause = settings.update_first_s
    while True:
        await trio.sleep(pause)
        pause = settings.update_s
        await figures.look(body)
        figures.measure_disk()
        ad = figures.ad()
        await link.update(JobUpdate(job_id=request.job_id, activation=request.activation, ad=ad))
        try:
            sandbox_kib = -(-figures.usage.disk_now // 1024)
            await startd.notify(JobInfo(activation=request.activation, ad=ad, sandbox_kib=sandbox_kib))
        except PeerError:
            continue
