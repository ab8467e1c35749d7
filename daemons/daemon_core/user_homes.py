"""userHome() in a daemon: the homes of accounts, without ever keeping the daemon from its other work for long.

The account database may be a server elsewhere that takes its time, and who writes an expression chooses the name. So
one thread asks, expressions wait for its answer for a moment only, and answers are kept for a while. Until an answer
has come the home counts as unknown.
"""

from __future__ import annotations

import pwd
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

WAIT_S: Final = 0.02
KEPT_S: Final = 300.0
NAMES_MAX: Final = 1000
QUESTIONS_MAX: Final = 100


class UserHomes:
    """Ask by calling it."""

    def __init__(
        self, look: Callable[[str], str | None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look or home_of
        self._clock = clock
        self._answers: dict[str, tuple[str | None, float]] = {}
        self._asked: dict[str, threading.Event] = {}
        self._questions: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, name: str) -> str | None:
        """The home of the account; None when it has none, and while that is not known."""
        known = self._answers.get(name)
        if known is None or known[1] < self._clock():
            self._ask(name).wait(WAIT_S)
            known = self._answers.get(name)
        return None if known is None else known[0]

    def _ask(self, name: str) -> threading.Event:
        answered = self._asked.get(name)
        if answered is None:
            answered = threading.Event()
            if len(self._asked) >= QUESTIONS_MAX:
                answered.set()  # without an answer: too many wait for theirs
                return answered
            self._asked[name] = answered
            self._questions.put(name)
            self._start()
        return answered

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._answer, name="user homes", daemon=True)
            self._thread.start()

    def _answer(self) -> None:
        """What the thread does, for as long as the process lives."""
        while True:
            name = self._questions.get()
            home = self._look(name)
            # Who writes expressions chooses the names: what is kept of them has to be bounded.
            if len(self._answers) >= NAMES_MAX:
                self._answers.clear()
            self._answers[name] = home, self._clock() + KEPT_S
            self._asked.pop(name).set()


def home_of(name: str) -> str | None:
    """The home of the account, however long it takes to find."""
    try:
        return pwd.getpwnam(name).pw_dir or None
    except (KeyError, ValueError):  # there is none; a name with a null byte
        return None
