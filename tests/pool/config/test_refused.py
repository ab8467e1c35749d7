"""With which configurations a master does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.base.errors import ConfigError
from pool.config import load_config
from pool.config.refused import check


def refusal(tmp_path: Path, text: str) -> str:
    """What is said of this configuration; nothing when it is taken."""
    (tmp_path / "config").write_text(text)
    try:
        check(load_config([str(tmp_path / "config")], environ={}))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["GANGLIAD", "JOB_ROUTER", "ROOSTER", "KBDD", "CREDD"])
def test_daemons_that_do_not_exist(tmp_path: Path, name: str) -> None:
    said = refusal(tmp_path, f"NUM_CPUS = 1\nDAEMON_LIST = MASTER, COLLECTOR, {name}\n")
    assert f"{tmp_path}/config:2:15: DAEMON_LIST: there is no daemon {name} (there are MASTER, COLLECTOR," in said


def test_a_misspelt_daemon_is_told_the_right_name(tmp_path: Path) -> None:
    assert 'no daemon SHCEDD (did you mean "SCHEDD"?)' in refusal(tmp_path, "DAEMON_LIST = MASTER SHCEDD\n")


def test_the_master_is_the_shared_port(tmp_path: Path) -> None:
    assert refusal(tmp_path, "DAEMON_LIST = MASTER, SHARED_PORT, schedd\n") == ""
