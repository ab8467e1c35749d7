"""What one evaluation may cost: steps first, and the processor's time beside them.

A step is an attribute that is computed, a member of a list that is looked at, or a few dozen characters of text: less
than half a microsecond each. Counting them costs next to nothing and gives the same answer everywhere. Every
`_LOOK_STEPS` of them the processor's clock is looked at, where one was installed (`environment`): what is dear for its
count ends there. An evaluation that has used up either is over, whatever it has found so far: its value is an error,
and who wants to know which evaluations ended so, and why, watches for them.
"""

from __future__ import annotations

from _thread import _local  # threading.local, without the module that few tools need
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from pool.base.errors import UserError
from pool.classad.values.environment import ENV
from pool.classad.values.limits import DEAR_CPU, MAX_CPU, MAX_DEPTH, MAX_STEPS
from pool.classad.values.value import ERROR, Error

if TYPE_CHECKING:
    from types import TracebackType

    from pool.classad.eval.ad import ClassAd
    from pool.classad.eval.expression import Expr
    from pool.classad.values.value import Value

T = TypeVar("T")

NEVER: Final = 1 << 60
_LOOK_STEPS: Final = 250


class OverBudget(Exception):
    """One evaluation has cost too much; caught where it began."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooDear(UserError):
    """Too many evaluations have cost much; for who asked for all of them."""


class Uncounted(Exception):
    """Compiled code has met what may be dear and does not count; the evaluator, which does, begins again."""


class _Account:
    """The part of a budget that is looked at now and then."""

    __slots__ = ("began", "dear", "left")

    def __init__(self) -> None:
        self.left = MAX_STEPS - _LOOK_STEPS
        self.began: float | None = None
        self.dear = False


class Budget:
    """What one evaluation has used: depth now, steps until the next look, and how far up the last circular reference
    reached. The account is made at the first look: most evaluations end before.
    """

    __slots__ = ("_account", "cut", "depth", "steps")

    _account: _Account

    #: Whether everything is counted, so that nothing compiled may run.
    counted = False

    def __init__(self) -> None:
        self.depth = 0
        self.steps = _LOOK_STEPS
        self.cut = NEVER

    def spend(self, steps: int) -> None:
        """Use some steps; OverBudget when there are none left."""
        self.steps -= steps
        if self.steps < 0:
            self.look()

    def look(self) -> None:
        """Look at the clock and take more steps from what is left; OverBudget when there is nothing left."""
        account = self._opened()
        # What went beyond the last portion counts as well: one call may spend thousands.
        account.left += min(self.steps, 0) - _LOOK_STEPS
        self.steps = _LOOK_STEPS
        if account.left < 0:
            raise OverBudget(f"it takes more than {MAX_STEPS} steps")
        left_s = self.time_left()
        if left_s <= 0:
            raise OverBudget(f"it takes more than {MAX_CPU * 1000:g} ms")
        # Once for each evaluation: who asked for many shall hear of many, not of one again and again.
        if left_s < MAX_CPU - DEAR_CPU and not account.dear:
            account.dear = True
            watching = getattr(_watching, "now", None)
            if watching is not None and watching.most:
                watching.note(f"it takes more than {DEAR_CPU * 1000:g} ms")

    def time_left(self) -> float:
        """Seconds of processor time; the clock starts when it is looked at first."""
        if ENV.cpu is None:
            return MAX_CPU
        account = self._opened()
        now = ENV.cpu()
        # Not at the start of the evaluation: to ask for the processor's time takes as long as a short expression.
        if account.began is None:
            account.began = now
        return MAX_CPU - (now - account.began)

    def restart_clock(self) -> None:
        """What was used so far was used for the whole process: a module has been imported."""
        self._opened().began = None

    def _opened(self) -> _Account:
        try:
            return self._account
        except AttributeError:
            self._account = account = _Account()
            return account

    def too_deep(self) -> OverBudget:
        """The error for attributes and nested evaluations that lead on and on."""
        return OverBudget(f"it is more than {MAX_DEPTH} evaluations deep")


class Counted(Budget):
    """The budget of an evaluation in which everything is counted."""

    __slots__ = ()

    counted = True


class Brief(Budget):
    """The budget of a part that is to be over before the first look at the clock; `Uncounted` when it is not."""

    __slots__ = ()

    def look(self) -> None:
        """There is no second helping."""
        raise Uncounted

    def renew(self) -> Brief:
        """Begin anew, with the next part."""
        self.steps = _LOOK_STEPS
        return self


class Overruns:
    """The evaluations that ended for their cost inside a `with` block, and why: the last reason, and a count.

    It sees those of its own thread, which is what a caller wants to know of the evaluations that he asks for. With
    `most`, those that take long though they end well count, too, half as much, and when the count has come so far the
    evaluation that is going on is the last: TooDear.
    """

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.count = 0
        self.reason = ""
        self._outer: Overruns | None = None

    def __enter__(self) -> Overruns:
        self._outer = getattr(_watching, "now", None)
        _watching.now = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _watching.now = self._outer

    def note(self, reason: str, count: int = 1) -> None:
        """An evaluation takes long, or has ended so, which counts twice."""
        self.count += count
        self.reason = reason
        if self.most and self.count >= self.most:
            raise TooDear(f"the expression costs too much processor time: {reason}")


def overrun(over: OverBudget) -> None:
    """Tell who watches that an evaluation has ended for its cost."""
    watching = getattr(_watching, "now", None)
    if watching is not None:
        watching.note(over.reason, 2)


_watching: Final = _local()


class Patience:
    """Asks one expression of many ads, until too many of the evaluations have cost too much (TooDear)."""

    def __init__(self, expression: Expr, most: int = 20) -> None:
        self._expression = expression
        self._overruns = Overruns(most)

    def eval(self, my: ClassAd) -> Value:
        """The value for an ad."""
        with self._overruns:
            return self._expression.eval(my)


def bounded(work: Callable[[Budget], T], *, counted: bool = False) -> T | Error:
    """What `work` computes within one budget; an error when that is used up. With `counted` nothing compiled runs."""
    try:
        return work(Counted() if counted else Budget())
    except Uncounted:
        return bounded(work, counted=True)
    except OverBudget as over:
        overrun(over)
        return ERROR
    except RecursionError:
        return ERROR
