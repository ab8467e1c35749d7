"""The blocking API's connections to a schedd: one for each thread, made anew when it is lost.

A connection that its process inherited by a fork counts as lost there, and stays its parent's.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref

from minipool.patience import Patience
from minipool.session import Session
from pool.errors import PeerError
from pool.hints import Iterator, TypeVar
from protocol.blocking import BlockingPeer
from protocol.message import Request, StreamRequest
from protocol.remote import ConnectionLost

R = TypeVar("R")
item_T = TypeVar("item_T")


class Line:
    """One thread's connection; `peer` is the one that works now."""

    def __init__(self, session: Session, schedd: str | None) -> None:
        self._session, self._schedd = session, schedd
        self._peer: BlockingPeer | None = None

    def open(self, timeout: float | None = None) -> BlockingPeer:
        """The connection; a new one when there is none that works. PeerError when nobody answers."""
        if self._peer is None or not self._peer.is_open():
            self.close()
            where = self._session.address("schedd", name=self._schedd)
            self._peer = self._session.connect(where, timeout=timeout)
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
    """All threads' connections of one Pool."""

    def __init__(self, session: Session, schedd: str | None) -> None:
        self._session, self._schedd = session, schedd
        self._of_thread = threading.local()
        self._all: weakref.WeakSet[Line] = weakref.WeakSet()
        self._closed = False
        self._line().open()

    def _line(self) -> Line:
        line: Line | None = getattr(self._of_thread, "line", None)
        if line is None:
            line = self._of_thread.line = Line(self._session, self._schedd)
            self._all.add(line)
        return line

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        for line in list(self._all):
            line.close()

    def peer(self, patience: Patience) -> BlockingPeer:
        """This thread's connection, for which a schedd that is gone is looked for as long as `patience` lasts."""
        if self._closed:
            raise PeerError("this pool has been closed")
        while True:
            try:
                return self._line().open(patience.connecting(time.monotonic()))
            except PeerError as error:
                time.sleep(patience.pause(time.monotonic(), error))

    def call(self, request: Request[R], timeout: float | None) -> R:
        """The answer. ConnectionLost when it is not known whether the request had its effect."""
        patience = Patience(time.monotonic(), timeout)
        peer = self.peer(patience)
        return peer.call(request, timeout=patience.left(time.monotonic()))

    def items(self, request: StreamRequest[item_T], timeout: float | None) -> list[item_T]:
        """All items of an answer that changes nothing, so that it may be asked for again."""
        patience = Patience(time.monotonic(), timeout)
        while True:
            try:
                return list(self.peer(patience).stream(request, deadline=patience.deadline))
            except ConnectionLost as error:
                time.sleep(patience.pause(time.monotonic(), error))

    def changes(self, request: StreamRequest[item_T], patience: Patience) -> Iterator[item_T | None]:
        """The items of an answer without end; None when it begins anew on another connection."""
        while True:
            peer = self.peer(patience)
            yield None
            try:
                for item in peer.stream(request, deadline=patience.deadline):
                    patience.heard()
                    yield item
                error = ConnectionLost("the schedd has ended its answer")
            except ConnectionLost as lost:
                error = lost
            time.sleep(patience.pause(time.monotonic(), error))
