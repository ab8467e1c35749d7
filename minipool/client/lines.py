"""The blocking shell of the core: it performs its steps over connections to a schedd, one for each thread.

A connection that its process inherited by a fork counts as lost there, and stays its parent's.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, TypeVar

from minipool.client import steps
from minipool.client.patience import Attempts
from minipool.client.session import Session
from pool.base.errors import PoolError
from protocol.rpc.blocking import BlockingPeer
from protocol.rpc.remote import ConnectionLost
from protocol.wire.message import StreamRequest

T = TypeVar("T")
item_T = TypeVar("item_T")


class ThreadConnection:
    """One thread's connection; `peer` is the one that works now."""

    def __init__(self, session: Session, schedd: str | None) -> None:
        self._session, self._schedd = session, schedd
        self._peer: BlockingPeer | None = None

    def open(self, timeout: float | None = None) -> BlockingPeer:
        """The connection; a new one when there is none that works. PeerError when nobody answers."""
        # A peer that is not used for a while may have been hung up on; to ask costs one look at the socket.
        if self._peer is None or not self._peer.is_open():
            self.close()
            where = self._session.address("schedd", name=self._schedd)
            self._peer = self._session.connect(where, timeout=timeout)
        return self._peer

    def there(self) -> BlockingPeer:
        """The connection as it was opened; ConnectionLost, of it or of what it is asked, when it is lost since."""
        if self._peer is None:
            raise ConnectionLost("the connection to the schedd is lost: closed")
        return self._peer

    def close(self) -> None:
        """Close the connection."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.close()  # its thread has ended


class Lines:
    """All threads' connections of one Pool. `for_ads`: to ask only the collector, so that no schedd is needed."""

    def __init__(self, session: Session, schedd: str | None, *, for_ads: bool = False) -> None:
        self._session, self._schedd = session, schedd
        self._of_thread = threading.local()
        # Weakly, so that the connection of a thread that has ended is closed with it.
        self._all: weakref.WeakSet[ThreadConnection] = weakref.WeakSet()
        self._closed = False
        if not for_ads:
            self._line().open()

    def _line(self) -> ThreadConnection:
        line: ThreadConnection | None = getattr(self._of_thread, "line", None)
        if line is None:
            line = self._of_thread.line = ThreadConnection(self._session, self._schedd)
            self._all.add(line)
        return line

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        for line in list(self._all):
            line.close()

    def perform(self, asked: steps.Steps[T]) -> T:
        """The result of these steps."""
        run = steps.Run(asked)
        while run.step is not None:
            self._advance(run)
        return run.result

    def stream(self, asked: steps.Steps[None]) -> Iterator[Any]:
        """The values that these steps tell."""
        run = steps.Run(asked)
        while run.step is not None:
            if isinstance(run.step, steps.Tell):
                yield run.step.value
                run.answer(None)
            else:
                self._advance(run)

    def _advance(self, run: steps.Run[Any]) -> None:
        assert run.step is not None
        try:
            answer = self._do(run.step)
        except PoolError as error:
            run.fail(error)
        else:
            run.answer(answer)

    def _do(self, step: steps.Step) -> object:
        match step:
            case steps.Now():
                return time.monotonic()
            case steps.Sleep(seconds=seconds):
                time.sleep(seconds)
                return None
            case steps.Do(function=function):
                return function()
            case steps.Connect(patience=patience):
                return self._open_line().open(patience.connecting(time.monotonic()))
            case steps.Call(request=request, timeout=timeout):
                return self._open_line().there().call(request, timeout=timeout)
            case steps.All(request=request, patience=patience):
                return list(self._open_line().there().stream(request, deadline=patience.deadline))
            case steps.AllOfCollector(request=request, patience=patience):
                return self._all_of_collector(request, patience)
            case steps.Begin(request=request, patience=patience):
                return self._open_line().there().stream(request, deadline=patience.deadline)
            case steps.BeginOfCollector(request=request, patience=patience):
                return self._of_collector(request, patience)
            case steps.Next(items=items):
                return next(items, steps.END)
            case steps.Tell():
                raise AssertionError("nobody listens")

    def _open_line(self) -> ThreadConnection:
        """This thread's connection, of a pool that is not closed."""
        if self._closed:
            raise steps.PoolClosed
        return self._line()

    def _of_collector(self, request: StreamRequest[item_T], patience: Attempts) -> Iterator[item_T]:
        if self._closed:
            raise steps.PoolClosed
        # Connected here and not with the first item, so that who cannot be reached is told apart from who is lost.
        peer = self._session.collector(timeout=patience.connecting(time.monotonic()))
        return _items(peer, request, patience)

    def _all_of_collector(self, request: StreamRequest[item_T], patience: Attempts) -> list[item_T]:
        with self._session.collector(timeout=patience.connecting(time.monotonic())) as peer:
            return list(peer.stream(request, deadline=patience.deadline))


def _items(peer: BlockingPeer, request: StreamRequest[item_T], patience: Attempts) -> Iterator[item_T]:
    with peer:
        yield from peer.stream(request, deadline=patience.deadline)
