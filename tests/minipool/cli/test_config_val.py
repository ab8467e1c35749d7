"""condor_config_val: what is set where."""

from __future__ import annotations

from pathlib import Path

import pytest

from minipool.cli.entry.main import dispatch


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "condor_config"
    path.write_text(
        f"LOCAL_DIR = {tmp_path}\nSCHEDD_INTERVAL = 5\nNUM_CPUS = 2 * 2\nNETWORK_HOSTNAME = ap1.pool.test\nMINE = $(NUM_CPUS)x\n"
    )
    monkeypatch.setenv("CONDOR_CONFIG", str(path))
    monkeypatch.delenv("POOL_DIR", raising=False)
    return path


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = dispatch("config_val", list(argv))
    shown = capsys.readouterr()
    return status, shown.out, shown.err


@pytest.mark.parametrize(
    ("argv", "status", "out", "err"),
    [
        (["LOG"], 0, "{dir}/log\n", ""),
        (["LOG", "SCHEDD_INTERVAL"], 0, "{dir}/log\n5\n", ""),
        (["-raw", "LOG"], 0, "$(LOCAL_DIR)/log\n", ""),
        (["-evaluate", "NUM_CPUS"], 0, "4\n", ""),
        (["-macro", "$(LOG)/x"], 0, "{dir}/log/x\n", ""),
        (["NOSUCHPARAM"], 1, "", "Not defined: NOSUCHPARAM\n"),
        (["-v", "NOSUCHPARAM"], 1, "\n", "Not defined: NOSUCHPARAM\n"),
        (
            ["-v", "SCHEDD_INTERVAL"],
            0,
            "SCHEDD_INTERVAL = 5\n # at: {config}, line 2\n # raw: SCHEDD_INTERVAL = 5\n\n",
            "",
        ),
        (["-verbose", "LOG"], 0, "LOG = {dir}/log\n # at: <Default>\n # raw: LOG = $(LOCAL_DIR)/log\n\n", ""),
        (["-config"], 0, "\t{config}\n", "Configuration source:\n"),
        (["-subsystem", "SCHEDD", "LOG"], 0, "{dir}/log\n", ""),
        (
            ["-dump", "^MINE$"],
            0,
            "# Configuration from machine: ap1.pool.test\n\n# Parameters with names that match ^MINE$:\nMINE = 2 * 2x\n"
            "# Contributing configuration file(s):\n#\t{config}\n",
            "",
        ),
    ],
)
def test_what_is_said_about_a_knob(
    config: Path, capsys: pytest.CaptureFixture[str], argv: list[str], status: int, out: str, err: str
) -> None:
    shown = said(capsys, *argv)
    assert shown == (status, out.format(dir=config.parent, config=config), err)


def test_the_summary_shows_what_each_file_sets(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = said(capsys, "-summary")
    assert status == 0
    assert f"\n#\n# from {config}\n#\nLOCAL_DIR = {config.parent}\nSCHEDD_INTERVAL = 5\n" in out


def test_templates_can_be_seen(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = said(capsys, "use", "ROLE")
    assert (status, out.splitlines()[0]) == (0, "use ROLE accepts")
    assert "  Personal" in out.splitlines()
    assert said(capsys, "use", "ROLE:Submit")[:2] == (0, "use ROLE:Submit is\n\tDAEMON_LIST=$(DAEMON_LIST) SCHEDD\n")


@pytest.mark.parametrize("argv", [[], ["-nosuch"], ["-set", "A=1"]])
def test_a_wrong_command_line_is_refused(config: Path, capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    status, out, err = said(capsys, *argv)
    assert (status, out) == (1, "")
    assert err
