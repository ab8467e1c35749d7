"""How a daemon is started by hand."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from daemons import __main__ as program


def test_a_python_of_32_bits_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of some Raspberry Pis: uname says aarch64 there, whose system calls have other numbers."""
    monkeypatch.setattr(program, "sys", SimpleNamespace(maxsize=2**31 - 1, exit=sys.exit))
    with pytest.raises(SystemExit, match="this Python is of 32 bits"):
        program.main(["master"])


def test_a_setting_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["master", "-c", "NUM_CPUS"])
    assert "-c NUM_CPUS: expected KEY=VALUE" in capsys.readouterr().err
