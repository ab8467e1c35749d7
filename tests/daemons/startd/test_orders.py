"""What a starter is told waits for it in order, and not without end."""

from __future__ import annotations

import signal
import subprocess

from daemons.startd.starters.living import ORDERS_MAX, LivingStarter
from protocol.messages.starter import ContinueJob


class Sleeper:
    """A process that heeds nothing."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])
        self.pid = self.process.pid

    def kill(self, signum: int) -> None:
        self.process.send_signal(signum)


def test_a_starter_that_heeds_nothing_is_killed() -> None:
    child = Sleeper()
    try:
        starter = LivingStarter(child, "/execute")  # type: ignore[arg-type]
        for number in range(ORDERS_MAX):
            starter.tell(ContinueJob(activation=str(number)))
        assert child.process.poll() is None
        starter.tell(ContinueJob(activation="too many"))
        assert child.process.wait(10) == -signal.SIGKILL
        order = starter.orders.receive_nowait()
        assert isinstance(order, ContinueJob)
        assert order.activation == "0"
        starter.is_gone()
        starter.tell(ContinueJob(activation="too late"))
    finally:
        child.process.kill()
        child.process.wait()
