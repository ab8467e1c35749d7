"""A job's directories at home, served while its program runs: looked for before, mounted with the rest, settled after.

    look for them at home -> open a device for each -> mount (daemons.host.namespaces) -> serve
    -> the mount goes with the job's last process -> write what is left

The device is this process's alone: when it dies, the kernel ends the mount, and whoever waits for it gets an error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from daemons.base.log import Log
from daemons.host.account import Account
from daemons.starter.launch.context import Context
from daemons.starter.remote_io.directory import HomeDirectory
from daemons.starter.remote_io.home import Home
from daemons.starter.remote_io.server import Server, open_device
from daemons.starter.remote_io.writing import Budget
from daemons.starter.report.result import HoldJob
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.execute.exit import Hold, cannot_enter
from pool.execute.isolation import HomeMount
from pool.execute.remote_io import objection, trees
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.files.facts import read_facts
from protocol.messages.starter import RunJob

GONE_S: Final = 10.0
"""How long the kernel may take to end a mount whose processes have ended."""


class NoRemoteIo(PoolError):
    """This machine cannot serve a job's files; another may."""


class ServedHomes:
    """Those of one run of a program."""

    def __init__(self, request: RunJob, context: Context, account: Account) -> None:
        settings = context.settings
        self._home = Home(request, context.agent, context.log)
        self._log, self._account = context.log, account
        cache_bytes = settings.remote_io_cache_mb << 20
        self._cache_bytes, self._budget = cache_bytes // 2, Budget(cache_bytes // 2)
        self._scope = trio.CancelScope()
        self._servers: list[tuple[Server, HomeDirectory]] = []
        self.mounts: tuple[HomeMount, ...] = ()

    async def look(self, paths: Sequence[str]) -> None:
        """HoldJob where one of them is not there."""
        for number, path in enumerate(paths):
            try:
                done = await self._home.ask(number, "stat")
                await self._home.ask(number, "access", numbers=(os.X_OK,))
            except OSError as error:
                raise HoldJob(cannot_enter(path, error.errno or 0)) from None
            if not stat.S_ISDIR(read_facts(done.data).mode):
                raise HoldJob(cannot_enter(path, 20))

    async def serve(self, paths: Sequence[str], *, task_status: trio.TaskStatus[None]) -> None:
        """Be their file systems, until told to stop."""
        devices: list[int] = []
        try:
            for _ in paths:
                devices.append(_device())
            with self._scope:
                async with trio.open_nursery() as nursery:
                    for number, device in enumerate(devices):
                        self._begin(number, device, nursery)
                    account = self._account
                    self.mounts = tuple(
                        HomeMount(path, device, account.uid, account.gid)
                        for path, device in zip(paths, devices, strict=True)
                    )
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            for device in devices:
                os.close(device)

    def _begin(self, number: int, device: int, nursery: trio.Nursery) -> None:
        share = self._cache_bytes
        server = Server(device, self._log)
        directory = HomeDirectory(number, self._home, self._account, nursery, share, self._budget, server.changed)
        self._servers.append((server, directory))
        nursery.start_soon(server.run, directory.operations, directory.at_once, directory.forget)

    async def settle(self) -> int:
        """The job's processes have ended: write the rest. The errno of what no program was told, 0 for none."""
        number = 0
        with trio.move_on_after(GONE_S):
            for server, _ in self._servers:
                if server.has_begun:
                    await server.ended.wait()
        for _, directory in self._servers:
            number = await directory.settle() or number
        return number

    def stop(self) -> None:
        """Nobody is served any more."""
        self._home.give_up()
        self._scope.cancel()


def _device() -> int:
    try:
        return open_device()
    except OSError as error:
        raise NoRemoteIo(
            f"this machine cannot serve files for jobs (want_remote_io): /dev/fuse: {error.strerror}"
        ) from None


@asynccontextmanager
async def homes_for(
    request: RunJob, job: ClassAd, context: Context, account: Account, nursery: trio.Nursery
) -> AsyncIterator[ServedHomes]:
    """Serve the job's directories inside the `with`; what it wrote last is at home afterwards, if the job has the time.

    HoldJob where they cannot be served at all, and where something that was written is lost.
    """
    paths = trees(job)
    for path in paths:
        if reason := objection(path, context.settings.execute):
            raise HoldJob(
                Hold(f"The job's files cannot be where they are (want_remote_io): {reason}", HoldCode.IWD_ERROR)
            )
    homes = ServedHomes(request, context, account)
    try:
        await homes.look(paths)
        await nursery.start(homes.serve, paths)
        yield homes
        number = await homes.settle()
    finally:
        homes.stop()
    if number:
        raise HoldJob(_lost(context.log, number))


def _lost(log: Log, number: int) -> Hold:
    reason = f"What the job wrote last could not be written at home: (errno {number}) {os.strerror(number)}"
    log.always(reason)
    return Hold(reason, HoldCode.TRANSFER_OUTPUT_ERROR, number)
