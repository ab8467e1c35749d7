"""What input and output of one activation have in common: with whom files move, as whom, and what is told of them.

The sandbox's files are fetched from the user's file agent before the job (`inputs.py`) and pushed back to it afterwards
(`outputs.py`). What has a URL for its source or its destination goes through a plug-in instead (`url_mover.py`).

Rules: inside the sandbox everything is opened with the rights of the job's account, so that a link which the job made
leads this process nowhere that the job could not have gone itself. A file that cannot move puts the job on hold, with
HTCondor's codes and words; a plug-in that says that another machine may do better sends the job back to the queue,
a few times. A connection that is lost is neither.

Source: HTCondor's manual, "Submitting Jobs Without a Shared File System: HTCondor's File Transfer Mechanism", "Third
Party/Delegated File, Credential and Checkpoint Transfer"; hold reasons of src/condor_utils/file_transfer.cpp.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from daemons.base.log import Log
from daemons.host.account import Account, acting_as
from daemons.host.url_mover import UrlMover
from daemons.starter.files.transfer_times import TransferTimes
from daemons.starter.report.line import SharedConnection
from daemons.starter.report.result import HoldJob
from pool.base.errors import PoolError
from pool.classad import ClassAd, Member
from pool.execute.exit import Hold
from pool.files.plugins import TRANSFER_CLASSES, UrlFailed, stats_of
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.agent import (
    SignUrls,
    Trouble,
)
from protocol.messages.starter import RunJob
from protocol.rpc.endpoints import Peer

TRIES_ELSEWHERE_MAX: Final = 5
"""How often a job may have failed to run before it is held for what is a machine's fault: all may be like this one."""


class NotHere(PoolError):
    """This machine cannot move the files; another may."""


@dataclass
class Transfer:
    """One activation's."""

    request: RunJob
    sandbox: str
    account: Account
    slot: str
    line: SharedConnection
    log: Log
    urls: UrlMover
    told: dict[str, Member] = field(default_factory=dict)
    """What the job's ad shall say of the transfers: TransferInputStats and its kin."""
    restored: frozenset[str] = frozenset()
    """What at the top of the sandbox came from a checkpoint: the job's own work, and output like all of that."""

    def __post_init__(self) -> None:
        self.times = TransferTimes(self.told)
        if self.urls.settings.signs:
            self.urls.sign = self._sign

    @property
    def job(self) -> ClassAd:
        """Whose files they are."""
        return self.request.job_ad

    def path(self, name: str) -> str:
        """Where a file of the sandbox is."""
        return os.path.join(self.sandbox, name)

    def agent(self) -> AbstractAsyncContextManager[Peer]:
        """The connection to the user's file agent."""
        return self.line.held(self.request.agent_address, self.request.agent_ticket)

    async def as_account(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Read or write here with the account's rights, which are taken on once for all files of a pack."""
        with acting_as(self.account):
            result = fn(*args)
        await trio.lowlevel.checkpoint()
        return result

    # ---- plug-ins

    async def _sign(self, urls: list[str], upload: bool) -> list[str]:
        async with self.agent() as peer:
            request = SignUrls(activation=self.request.activation, urls=urls, upload=upload)
            return (await peer.call(request)).urls

    def url_trouble(self, direction: str, code: HoldCode, error: UrlFailed) -> HoldJob | NotHere:
        """What a plug-in's failure is for the job."""
        reason = (
            f"Transfer {direction} files failure at execution point {self.slot} using protocol {error.scheme}. "
            f"Details: {error}"
        )
        self.tell_urls(direction.capitalize())
        tries = self.job.eval_int("NumShadowExceptions") or 0
        if error.elsewhere and tries < TRIES_ELSEWHERE_MAX:
            return NotHere(reason)
        return HoldJob(Hold(reason, code, error.subcode))

    # ---- what is told

    def tell(self, direction: str, files: int, size: int) -> None:
        """Note what has moved."""
        starts = f"Num{direction}TransferStarts"
        self.told[starts] = self.job.eval_int(starts, 0) + 1
        name = f"Transfer{direction}Stats"
        self.told[name] = stats_of(self.urls.answers, self.job.get(name), cedar_files=files, cedar_bytes=size)
        self.tell_urls(direction)

    def tell_urls(self, direction: str) -> None:
        """Note what plug-ins have done, whether all files have moved or not."""
        urls = self.urls
        for invoked in urls.invocations:
            invoked["TransferClass"] = TRANSFER_CLASSES[direction]
        for kind, ads in (("ResultList", urls.answers), ("Invocations", urls.invocations)):
            if ads:
                self.told[f"{direction}Plugin{kind}"] = [*ads]
        urls.answers, urls.invocations = [], []


def hold_of(trouble: Trouble, slot: str) -> Hold:
    """The agent's trouble, with the execution point's name."""
    reason = trouble.reason.replace("while sending files.", f"while sending files to execution point {slot}.")
    reason = reason.replace("while receiving files.", f"while receiving files from execution point {slot}.")
    return Hold(reason, trouble.hold_code, trouble.hold_subcode)
