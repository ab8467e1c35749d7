"""What a served directory asks of the user's file agent, and asks again while the way there is cut.

Rules: an operation waits for as long as the job may: until the agent is there again, or the job has to leave. What must
not be done twice has a number, by which an agent that was asked before knows it.
"""

from __future__ import annotations

import errno
import os
from typing import Final

import trio

from daemons.base.log import Log
from daemons.base.sync import Backoff
from daemons.starter.remote_io.order import ServeOrder
from daemons.starter.report.line import SharedConnection
from pool.base.errors import PeerError
from protocol.messages.agent import IoDone, TreeIo
from protocol.rpc.endpoints import RemoteError

CALL_S: Final = 120.0
"""How long the agent may take for an operation before it is asked again."""
PAUSE_S: Final = 0.2
PAUSE_MAX_S: Final = 5.0
_PASSING: Final = frozenset({"internal", "busy", "NotOpen"})
"""A schedd that has just come back has not opened the activation yet."""


class Home:
    """One job's way to its files."""

    def __init__(self, order: ServeOrder, line: SharedConnection, log: Log) -> None:
        self._order, self._line, self._log = order, line, log
        self._serial = 0
        self._closed: dict[int, list[int]] = {}
        self._scopes: set[trio.CancelScope] = set()
        self._is_over = False
        self.is_cut = False
        """Whether the agent is being looked for."""

    def give_up(self) -> None:
        """Nobody waits for the agent any more: what is asked fails (EIO)."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()

    def closed(self, tree: int, handle: int) -> None:
        """Say with the next question that this file is open no more; nobody waits for that."""
        self._closed.setdefault(tree, []).append(handle)

    async def ask(
        self,
        tree: int,
        operation: str,
        path: str = "",
        *,
        to: str = "",
        numbers: tuple[int, ...] = (),
        data: bytes = b"",
        handle: int = 0,
        once: bool = False,
    ) -> IoDone:
        """Have it done; OSError as it failed there."""
        if once:
            self._serial += 1
        request = TreeIo(
            activation=self._order.activation,
            tree=tree,
            operation=operation,
            path=path,
            to=to,
            numbers=list(numbers),
            handle=handle,
            closed=self._closed.pop(tree, []),
            serial=self._serial if once else 0,
            data=data,
        )
        done: IoDone | None = None
        if not self._is_over:
            with trio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    done = await self._until_done(request)
                finally:
                    self._scopes.discard(scope)
        if done is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if done.value < 0:
            raise OSError(-done.value, os.strerror(-done.value))
        return done

    async def _until_done(self, request: TreeIo) -> IoDone:
        backoff = Backoff(PAUSE_S, PAUSE_MAX_S)
        while True:
            try:
                peer = await self._line.peer(self._order.address, self._order.ticket)
                done = await peer.call(request, timeout=CALL_S)
            except RemoteError as error:
                if error.code not in _PASSING:
                    self._log.always(
                        "The file agent refuses an operation", operation=request.operation, error=str(error)
                    )
                    return IoDone(value=-errno.EACCES)
                problem = str(error)
            except (PeerError, OSError) as error:
                problem = str(error)
            else:
                if self.is_cut:
                    self.is_cut = False
                    self._log.always("The job's files are there again")
                return done
            if not self.is_cut:
                self.is_cut = True
                self._log.always("The job's files are out of reach; its operations wait", error=problem)
            await backoff.wait()
