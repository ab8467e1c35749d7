"""The master before its event loop: what it does in a child, so that nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemons.master.process import ChildFailed, in_child


def test_what_a_child_does_is_done_when_the_call_returns(tmp_path: Path) -> None:
    def work() -> None:
        (tmp_path / "made").write_text(str(os.getpid()))

    in_child(work)
    assert int((tmp_path / "made").read_text()) != os.getpid()


def test_what_goes_wrong_in_a_child_is_raised_here_in_its_words() -> None:
    def fail() -> None:
        raise PermissionError(13, "Permission denied", "/keys")

    with pytest.raises(ChildFailed, match="Permission denied: '/keys'"):
        in_child(fail)


def test_a_master_that_made_the_pools_keys_has_not_imported_what_makes_them(tmp_path: Path) -> None:
    asked = (
        "import sys\n"
        "from daemons.master.process import make_directories, make_keys\n"
        "from daemons.daemon_core.source import ConfigSource\n"
        f"config = ConfigSource({str(tmp_path)!r}).load('MASTER', {{}})\n"
        "make_directories(config)\n"
        "make_keys(config)\n"
        "print('cryptography' in sys.modules)\n"
    )
    found = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert found.stdout == "False\n"
    assert list(tmp_path.rglob("ca.pem"))
