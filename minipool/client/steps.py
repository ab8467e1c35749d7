"""What the client's core asks its shell to do. Each step is a value; the answer is what `yield` returns in the core.

    def core() -> Steps[int]:
        answer = yield from call(ReserveCluster(), timeout)
        return answer.cluster

A shell performs the steps over trio (`async_line.py`) or a blocking socket (`lines.py`): `Run` says which step is next.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, TypeAlias, TypeVar

from minipool.client.patience import Attempts
from pool.base.errors import PeerError, PoolError
from protocol.rpc.remote import ConnectionLost
from protocol.wire.message import Record, Request, StreamRequest

T = TypeVar("T")
R = TypeVar("R")
item_T = TypeVar("item_T")


class Now(Record):
    """The time of the shell's clock."""


class Sleep(Record):
    """Let so many seconds pass."""

    seconds: float


class Do(Record):
    """The result of a function that may block."""

    function: Callable[[], Any]


class Connect(Record):
    """Have a connection to the schedd that works. PeerError when nobody answers."""

    patience: Attempts


class Call(Record):
    """The answer to a request, over the connection that is there."""

    request: Request[Any]
    timeout: float | None


class All(Record):
    """All items of an answer, over the connection that is there."""

    request: StreamRequest[Any]
    patience: Attempts


class AllOfCollector(Record):
    """All items of the collector's answer, over a connection of its own."""

    request: StreamRequest[Any]
    patience: Attempts


class Begin(Record):
    """Begin an answer whose items `Next` takes, over the connection that is there; the one before has ended."""

    request: StreamRequest[Any]
    patience: Attempts


class BeginOfCollector(Record):
    """Begin an answer of the collector's, over a connection of its own; the one before has ended."""

    request: StreamRequest[Any]
    patience: Attempts


class Next(Record):
    """The next item of an answer that was begun; END after the last."""

    items: Any
    patience: Attempts


class Tell(Record):
    """Hand a value to whoever iterates."""

    value: Any


END: Final = object()
Step: TypeAlias = Now | Sleep | Do | Connect | Call | All | AllOfCollector | Begin | BeginOfCollector | Next | Tell
Steps: TypeAlias = Generator[Step, Any, T]


class PoolClosed(PeerError):
    """The program has closed this pool."""

    def __init__(self) -> None:
        super().__init__("this pool has been closed")


class Run(Generic[T]):
    """Steps under way. `step` is to be performed next; None when all are done, and `result` is there."""

    result: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self.step: Step | None = None
        self.answer(None)

    def answer(self, value: object) -> None:
        """The step's answer is this."""
        self._go(lambda: self._steps.send(value))

    def fail(self, error: PoolError) -> None:
        """The step has failed; raises what the core does not handle."""
        self._go(lambda: self._steps.throw(error))

    def _go(self, go: Callable[[], Step]) -> None:
        try:
            self.step = go()
        except StopIteration as end:
            self.step, self.result = None, end.value


# ---- what the core is made of


def left(patience: Attempts) -> Steps[float | None]:
    """The seconds that are left; None when there is no timeout."""
    return patience.left((yield Now()))


def patience_of(timeout: float | None) -> Steps[Attempts]:
    """Patience from now on."""
    return Attempts((yield Now()), timeout)


def do(function: Callable[[], T]) -> Steps[T]:
    """The result of a function that may block."""
    result: T = yield Do(function=function)
    return result


def call(request: Request[R], timeout: float | None) -> Steps[R]:
    """The schedd's answer. ConnectionLost when it is not known whether the request had its effect."""
    patience = yield from patience_of(timeout)
    yield from _reach(patience)
    answer: R = yield Call(request=request, timeout=(yield from left(patience)))
    return answer


def items(request: StreamRequest[item_T], timeout: float | None) -> Steps[list[item_T]]:
    """All items of the schedd's answer to what changes nothing, so that it may be asked for again."""
    patience = yield from patience_of(timeout)
    while True:
        yield from _reach(patience)
        try:
            answer: list[item_T] = yield All(request=request, patience=patience)
            return answer
        except ConnectionLost as error:
            yield from pause(patience, error)


def changes(
    request: StreamRequest[item_T], patience: Attempts, take: Callable[[item_T | None], Steps[bool]]
) -> Steps[None]:
    """`take` each item of an answer without end, until it returns True; None when the answer begins anew."""
    while True:
        yield from _reach(patience)
        try:
            came = yield Begin(request=request, patience=patience)
            item = None
            while item is not END:
                if (yield from take(item)):
                    return
                item = yield Next(items=came, patience=patience)
                # Any word of the schedd's starts its time anew. The end of the answer is none: a schedd that ends each
                # at once would be asked for ever.
                if item is not END:
                    patience.heard()
            error = ConnectionLost("the schedd has ended its answer")
        except ConnectionLost as lost:
            error = lost
        yield from pause(patience, error)


def _reach(patience: Attempts) -> Steps[None]:
    """Connect; a schedd that is gone is looked for as long as `patience` lasts."""
    while True:
        try:
            yield Connect(patience=patience)
            return
        # The program itself has closed the pool: to look for the schedd again would go on for minutes.
        except PoolClosed:
            raise
        except PeerError as error:
            yield from pause(patience, error)


def pause(patience: Attempts, error: PeerError) -> Steps[None]:
    """Wait before the next attempt; raises the error where there is none."""
    yield Sleep(seconds=patience.pause((yield Now()), error))
