"""With which configurations a master does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.base.errors import ConfigError
from pool.config import load_config
from pool.config.listed_daemons import ListedDaemon, listed_daemons


def refusal(tmp_path: Path, text: str) -> str:
    """What is said of this configuration; nothing when it is taken."""
    (tmp_path / "config").write_text(text)
    try:
        listed_daemons(load_config([str(tmp_path / "config")], environ={}))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["GANGLIAD", "JOB_ROUTER", "KBDD", "CREDD"])
def test_daemons_that_do_not_exist(tmp_path: Path, name: str) -> None:
    said = refusal(tmp_path, f"NUM_CPUS = 1\nDAEMON_LIST = MASTER, COLLECTOR, {name}\n")
    assert f"{tmp_path}/config:2:15: DAEMON_LIST: there is no daemon {name} (there are MASTER, COLLECTOR," in said


def test_a_misspelt_daemon_is_told_the_right_name(tmp_path: Path) -> None:
    assert 'no daemon SHCEDD (did you mean "SCHEDD"?)' in refusal(tmp_path, "DAEMON_LIST = MASTER SHCEDD\n")


def test_the_master_is_the_shared_port(tmp_path: Path) -> None:
    assert refusal(tmp_path, "DAEMON_LIST = MASTER, SHARED_PORT, schedd\n") == ""


def listed(tmp_path: Path, text: str) -> list[ListedDaemon]:
    (tmp_path / "config").write_text(text)
    return listed_daemons(load_config([str(tmp_path / "config")], environ={}))


def test_further_negotiators_have_local_names(tmp_path: Path) -> None:
    text = (
        "DAEMON_LIST = MASTER SCHEDD NEGOTIATOR FAST XYZZY COLLECTOR\n"
        "FAST = $(NEGOTIATOR)\nXYZZY = /usr/sbin/condor_negotiator\nXYZZY_ARGS = -f -local-name slow\n"
    )
    assert listed(tmp_path, text) == [
        ListedDaemon("collector", "collector"),
        ListedDaemon("negotiator", "negotiator"),
        ListedDaemon("fast", "negotiator", "FAST"),
        ListedDaemon("xyzzy", "negotiator", "slow"),
        ListedDaemon("schedd", "schedd"),
    ]
    assert load_config([str(tmp_path / "config")], environ={}).warnings == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("-name x", "X_ARGS: -name is no argument that is known here (expected -local-name NAME)"),
        ("-local-name a/b", "X_ARGS: a/b is no local name (expected letters, digits and _)"),
        ("-local-name schedd", "X_ARGS: schedd is no local name"),
        ("-local-name y", "DAEMON_LIST: two negotiators have the same local name"),
    ],
)
def test_arguments_that_say_no_local_name(tmp_path: Path, args: str, said: str) -> None:
    text = f"DAEMON_LIST = MASTER X Y\nX = $(NEGOTIATOR)\nY = $(NEGOTIATOR)\nX_ARGS = {args}\n"
    assert said in refusal(tmp_path, text)


def test_other_daemons_are_there_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, "DAEMON_LIST = MASTER SECOND\nSECOND = $(SBIN)/condor_schedd\n")
    assert "there is no daemon SECOND" in said
