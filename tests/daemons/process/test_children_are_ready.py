from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from {module} import {name}
for heavy in ("numpy", "rich", "lark", "sqlite3", "subprocess"):
    if heavy in sys.modules:
        print(heavy)
"""


@pytest.mark.parametrize(
    ("module", "allowed"),
    [("daemons.starter.main", {"subprocess"}), ("daemons.agent.main", {"subprocess"})],
)
def test_a_zygote_imports_nothing_that_its_children_do_not_need(module: str, allowed: set[str]) -> None:
    program = PROGRAM.format(module=module, name="child_main")
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert set(said) <= allowed


@pytest.mark.parametrize("module", ["daemons.starter.main", "daemons.agent.main"])
def test_everything_is_imported_before_there_are_children(module: str) -> None:
    """What a child imports later it may not be able to read any more, and every child would pay for it anew."""
    program = (
        "import sys, threading\n"
        f"import {module} as m\n"
        "getattr(m, 'warm_up', lambda: None)()\n"
        "print(threading.active_count())\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "1"
