"""What this release says of itself."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import minipool
from minipool.cli.admin_tools import version as tool
from pool.base import version
from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION, RELEASED, VERSION, arch

ROOT = Path(__file__).parents[3]


def test_the_package_is_of_the_version_that_it_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION == minipool.__version__
    assert f"{RELEASED} BuildID: minipool-{VERSION} " in CONDOR_VERSION


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("x86_64", "X86_64"),
        ("aarch64", "aarch64"),
        ("i686", "INTEL"),
        ("i586", "INTEL"),
        ("ppc64", "PPC64"),
        ("ppc64le", "ppc64le"),
    ],
)
def test_the_platform_is_that_of_this_host(monkeypatch: pytest.MonkeyPatch, machine: str, said: str) -> None:
    from importlib import reload

    assert arch(machine) == said
    with monkeypatch.context() as here:
        here.setattr(os, "uname", lambda: SimpleNamespace(machine=machine, sysname="Linux"))
        platform = reload(version).CONDOR_PLATFORM
    reload(version)
    assert platform == f"$CondorPlatform: {said}-Linux $"


def test_the_tool_says_what_the_platform_says(capsys: pytest.CaptureFixture[str]) -> None:
    expected = CONDOR_PLATFORM.split()[1].partition("-")
    for option, said in (("-arch", expected[0]), ("-opsys", expected[2])):
        assert tool.main("condor_version", [option]) == 0
        assert capsys.readouterr().out == f"{said}\n"
    assert expected[0] == arch(os.uname().machine)
