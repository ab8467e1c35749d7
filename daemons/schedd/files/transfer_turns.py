"""The transfer queue of this access point, for the file agents of all users: `transfer_queue` decides.

An agent says on the connection that it was born with when files of a job want to move, and when they have moved; when
the connection ends, so do its turns. So nothing of the queue has to outlive this process: agents that come after a
restart ask anew, as starters do.

HTCondor's manual: admin-manual/configuration/schedd (MAX_CONCURRENT_UPLOADS, FILE_TRANSFER_DISK_LOAD_THROTTLE).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from daemons.base.faults import fault
from pool.base.errors import PeerError
from pool.base.ids import JobId, is_number
from pool.base.words import split_list
from pool.classad import ClassAd, Expr, Member
from pool.config import Config
from pool.files.spool import SPOOLED
from pool.jobs.queue.cluster import Job
from pool.jobs.transfers.load import (
    Load,
    Throttle,
    ThrottleKnobs,
    closest_span,
    read_spans,
    read_throttle,
)
from pool.jobs.transfers.transfer_queue import MIB, QueueFigures, TransferLimits, TransferQueue, Turn
from protocol.messages.agent import TurnGiven, TurnTakenBack
from protocol.messages.schedd import AskTurn, EndTurn, TransferReport
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer

if TYPE_CHECKING:
    from daemons.schedd.core.core import Core

LOOK_S: Final = 10.0
"""How often the queue is looked at where no interval of reports says so."""
USER_LOADS_MAX: Final = 1000
TURNS_PER_EXECUTION_MAX: Final = 4
"""How many turns one execution may have and wait for; agents ask for one in each direction."""
BYTES_PER_S_MAX: Final = 1e11


@dataclass(frozen=True)
class TransferSettings:
    """The knobs, typed."""

    limits: TransferLimits
    user: Expr | None
    interval_s: float
    spans: dict[str, float]
    throttle: ThrottleKnobs | None
    per_user: bool
    uploads_per_user: int

    @classmethod
    def read(cls, config: Config) -> TransferSettings:
        """From the configuration."""
        spans = read_spans(config.str("TRANSFER_IO_REPORT_TIMESPANS"))
        bounds = read_throttle(config.str("FILE_TRANSFER_DISK_LOAD_THROTTLE"))
        interval_s = config.seconds("TRANSFER_IO_REPORT_INTERVAL")
        name = "FILE_TRANSFER_DISK_LOAD_THROTTLE"
        throttle = None
        if bounds is not None and spans and interval_s > 0:
            throttle = ThrottleKnobs(
                *bounds,
                closest_span(config.str(f"{name}_SHORT_HORIZON"), spans),
                closest_span(config.str(f"{name}_LONG_HORIZON"), spans),
                config.seconds(f"{name}_WAIT_BETWEEN_INCREMENTS"),
            )
        return cls(
            limits=TransferLimits(
                config.int("MAX_CONCURRENT_UPLOADS"),
                config.int("MAX_CONCURRENT_DOWNLOADS"),
                config.seconds("MAX_TRANSFER_QUEUE_AGE"),
            ),
            user=config.expr("TRANSFER_QUEUE_USER_EXPR"),
            interval_s=interval_s,
            spans=spans,
            throttle=throttle,
            per_user=_publishes_users(config.str("STATISTICS_TO_PUBLISH")),
            uploads_per_user=config.int("MAX_CONCURRENT_UPLOADS_PER_USER"),
        )


def _publishes_users(text: str) -> bool:
    """Whether `TRANSFER:2` is among what statistics shall be published."""
    for word in split_list(text.upper()):
        name, _, level = word.partition(":")
        if name in ("TRANSFER", "ALL", "DEFAULT"):
            return is_number(level[:1]) and level[:1] >= "2"
    return False


class TransferTurns:
    """The queue, and what transfers cost."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._queue = TransferQueue(core.settings.transfers.limits)
        self._peers: dict[str, tuple[Peer, str]] = {}
        """By the turn's name here: whose agent has it or waits for it, and the agent's name for it."""
        self._activations: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        """How many turns each execution has and waits for."""
        self._reported_at: dict[str, float] = {}
        self._load = Load()
        self._loads: dict[str, Load] = {}
        self._holds_back = False
        """Some user's jobs ask for no slots until his input has moved."""
        self._knobs: ThrottleKnobs | None = None
        self._throttle: Throttle | None = None

    @property
    def agent_timeout_s(self) -> float:
        """How long an agent may be silent: its turns are others' then."""
        return self._core.settings.agent_timeout_s

    @property
    def _settings(self) -> TransferSettings:
        return self._core.settings.transfers

    def answers(self, owner: str) -> list[Answer]:
        """What the file agent of this user says, on the connection that it was born with."""
        return [
            answer(AskTurn, lambda peer, message: self.ask(owner, peer, message)),
            answer(EndTurn, self.end),
            answer(TransferReport, lambda peer, message: self.report(owner, message)),
        ]

    def gone(self, peer: Peer) -> None:
        """An agent has died: its turns are free."""
        keys = [key for key, (whose, _) in self._peers.items() if whose is peer]
        for key in keys:
            self._forget(key)
        self._grant()

    # ---- from agents

    def ask(self, owner: str, peer: Peer, message: AskTurn) -> None:
        """Files of a job want to move. An agent speaks for its own user's jobs only."""
        key = self._key(peer, message.turn)
        if not self._is_of(owner, message.activation) or self._counts[message.activation] >= TURNS_PER_EXECUTION_MAX:
            self._core.log.full(f"The file agent of {owner} asks for a turn that it cannot have")
            return
        if key in self._peers:
            self._forget(key)
        now = self._core.now()
        self._peers[key] = peer, message.turn
        self._activations[key] = message.activation
        self._counts[message.activation] += 1
        user = self._user(owner, message.activation)
        self._queue.ask(Turn(key, user, message.upload, message.size, now))
        self._grant()
        shadow = self._core.executions.shadows.get(message.activation)
        if shadow is not None and any(turn.key == key and turn.granted_at is None for turn in self._queue):
            shadow.transfer_queued(upload=message.upload)
            fault("schedd.transfer_queued")

    def end(self, peer: Peer, message: EndTurn) -> None:
        """They have moved, or will not."""
        self._forget(self._key(peer, message.turn))
        self._grant()

    def report(self, owner: str, message: TransferReport) -> None:
        """What files have cost on their way. An agent speaks for its own user's jobs only."""
        if not self._is_of(owner, message.activation):
            return
        user = self._user(owner, message.activation)
        amounts = self._believable(message)
        if user not in self._loads and len(self._loads) >= USER_LOADS_MAX:
            self._loads = {name: load for name, load in self._loads.items() if not load.is_idle}
        for load in (self._load, self._loads.setdefault(user, Load())):
            load.add(amounts)

    def _is_of(self, owner: str, activation: str) -> bool:
        """Whether this is an execution of the user's, or files that he spools."""
        job: Job | None = None
        if (shadow := self._core.executions.shadows.get(activation)) is not None:
            job = shadow.job
        elif activation.startswith(SPOOLED):
            job = self._core.queue.get(JobId.parse(activation.removeprefix(SPOOLED)))
        return job is not None and job.cluster.owner == owner

    def _believable(self, message: TransferReport) -> dict[str, float]:
        """The amounts, as far as they can have come since the last report: everybody's throttle is set by them."""
        now = self._core.now()
        if len(self._reported_at) > USER_LOADS_MAX:
            self._reported_at = {name: at for name, at in self._reported_at.items() if now - at < LOOK_S}
        since = now - self._reported_at.get(message.activation, now - LOOK_S)
        self._reported_at[message.activation] = now
        return {
            # In a second no more than a second can have been spent.
            name: min(amount, since * (1.0 if name.endswith("Seconds") else BYTES_PER_S_MAX))
            for name, amount in message.amounts.items()
            if math.isfinite(amount)
        }

    def _user(self, owner: str, activation: str) -> str:
        """By whom turns are divided fairly."""
        shadow, text = self._core.executions.shadows.get(activation), self._settings.user
        ad = ClassAd({"Owner": owner}) if shadow is None else self._core.queue.ad(shadow.job)
        value = text.eval(ad) if text is not None else None
        return value if isinstance(value, str) and value else f"Owner_{owner}"

    @staticmethod
    def _key(peer: Peer, turn: str) -> str:
        # Agents number their turns from 1: only with the connection is a number somebody's.
        return f"{id(peer)}.{turn}"

    def has_enough(self, submitter: str) -> bool:
        """Whether so much input of a user's moves or waits that more of his jobs would only wait with their slots."""
        limit = self._settings.uploads_per_user
        if not limit or not self._peers:
            return False
        now = self._core.now()
        of = self._queue.figures(now, upload=True, user=f"Owner_{submitter.rpartition('@')[0] or submitter}")
        enough = of.moving + of.waiting >= limit
        self._holds_back |= enough
        return enough

    def _forget(self, key: str) -> None:
        self._queue.end(key)
        if self._holds_back:
            self._holds_back = False
            self._core.work_changed(True)
        self._peers.pop(key, None)
        if (activation := self._activations.pop(key, None)) is not None:
            self._counts[activation] -= 1
            if not self._counts[activation]:
                del self._counts[activation]

    # ---- deciding

    def _grant(self) -> None:
        now = self._core.now()
        self._queue.limits = self._settings.limits
        limit = self._limit(now) if self._queue.waits else None
        for turn in self._queue.grant(now, together_max=limit):
            peer, name = self._peers[turn.key]
            self._core.tasks.start(self._tell, peer, TurnGiven(turn=name))
            shadow = self._core.executions.shadows.get(self._activations[turn.key])
            if shadow is not None:
                shadow.transfer_started(upload=turn.upload)

    def _limit(self, now: float) -> int | None:
        """How many may move, by the disk's load."""
        knobs = self._settings.throttle
        if knobs != self._knobs:
            self._knobs, self._throttle = knobs, None if knobs is None else Throttle(knobs)
        return None if self._throttle is None else self._throttle.decide(self._load, self._queue.moving, now)

    async def _tell(self, peer: Peer, message: TurnGiven | TurnTakenBack) -> None:
        try:
            await peer.notify(message)
        except PeerError:  # its turns end with it
            return

    async def run(self) -> None:
        """Look at the queue now and then: the load changes, and turns become too old."""
        while True:
            interval_s = self._settings.interval_s
            await trio.sleep(interval_s or LOOK_S)
            if interval_s > 0:
                for load in (self._load, *self._loads.values()):
                    load.sample(interval_s, self._settings.spans)
            self.look()

    def look(self) -> None:
        """Take back what is too old, and hand out what is free."""
        old = self._queue.outworn(self._core.now())
        if old is not None:
            peer, name = self._peers[old.key]
            self._core.log.always(
                "A transfer has taken too long while others wait, and has to ask again",
                activation=self._activations[old.key],
                user=old.user,
            )
            self._core.tasks.start(self._tell, peer, TurnTakenBack(turn=name))
            self._forget(old.key)
        self._grant()

    # ---- what is shown

    def attributes(self) -> dict[str, Member]:
        """The queue in the schedd's ad."""
        now, settings, queue = self._core.now(), self._settings, self._queue
        up, down = (queue.figures(now, upload=upload) for upload in (True, False))
        shown: dict[str, Member] = {
            "TransferQueueMaxUploading": settings.limits.uploads,
            "TransferQueueMaxDownloading": settings.limits.downloads,
            "TransferQueueNumUploading": up.moving,
            "TransferQueueNumDownloading": down.moving,
            "TransferQueueNumWaitingToUpload": up.waiting,
            "TransferQueueNumWaitingToDownload": down.waiting,
            "TransferQueueUploadWaitTime": int(up.waited_s),
            "TransferQueueDownloadWaitTime": int(down.waited_s),
            "FileTransferMBWaitingToUpload": _mb(up),
            "FileTransferMBWaitingToDownload": _mb(down),
            **self._load.attributes(settings.spans),
        }
        if settings.user is not None:
            shown["TransferQueueUserExpr"] = settings.user
        if settings.throttle is not None:
            shown["FileTransferDiskThrottleLow"] = settings.throttle.low
            shown["FileTransferDiskThrottleHigh"] = settings.throttle.high
            shown["FileTransferDiskThrottleLevel"] = self._throttle.limit if self._throttle is not None else 0
        if settings.per_user:
            for user in sorted(self._loads.keys() | queue.users()):
                shown.update(self._of_user(user, now))
        return shown

    def _of_user(self, user: str, now: float) -> dict[str, Member]:
        prefix = "".join(letter if letter.isalnum() else "_" for letter in user.partition("@")[0]) + "_"
        shown = self._loads.get(user, Load()).attributes(self._settings.spans, prefix)
        for upload, name in ((True, "Upload"), (False, "Download")):
            shown[f"{prefix}FileTransferMBWaitingTo{name}"] = _mb(self._queue.figures(now, upload=upload, user=user))
        return shown


def _mb(figures: QueueFigures) -> float:
    return round(figures.bytes_waiting / MIB, 3)
