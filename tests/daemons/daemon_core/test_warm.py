"""What is learnt before the first fork, and what no daemon may import."""

from __future__ import annotations

import subprocess
import sys

import pytest

BORN = "from daemons.master import born\nimport sys\nborn.warm_up()\n"


def said(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "module", ["numpy", "cryptography", "lark", "rich", "asyncio", "importlib.resources", "email", "pynvml"]
)
def test_what_all_daemons_share_has_no_module_that_few_of_them_need(module: str) -> None:
    assert said(f"{BORN}print({module!r} in sys.modules)") == "False\n"


def test_after_warming_up_messages_are_ready_and_nothing_runs() -> None:
    program = (
        f"{BORN}import threading\n"
        "from protocol.wire.message import MESSAGES\n"
        "print(all(one._plan for one in MESSAGES.values()))\n"
        "print(threading.active_count())\n"
    )
    assert said(program) == "True\n1\n"
