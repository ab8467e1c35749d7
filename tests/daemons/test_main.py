"""How a daemon is started by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from daemons import __main__ as program
from daemons.daemon_core.source import ConfigSource
from pool.slots.provision.custom import custom_resources


def test_a_python_of_32_bits_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of some Raspberry Pis: uname says aarch64 there, whose system calls have other numbers."""
    monkeypatch.setattr(program, "sys", SimpleNamespace(maxsize=2**31 - 1, exit=sys.exit))
    with pytest.raises(SystemExit, match="this Python is of 32 bits"):
        program.main(["master"])


def test_a_setting_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["master", "-c", "NUM_CPUS"])
    assert "-c NUM_CPUS: expected KEY=VALUE" in capsys.readouterr().err


def test_settings_keep_their_spelling_of_which_jobs_hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """_CONDOR_AssignedGPUs is another variable than _CONDOR_AssignedGPUS."""
    sources: list[ConfigSource] = []

    def run_process(name: str, source: ConfigSource) -> int:
        sources.append(source)
        return 0

    monkeypatch.setattr("daemons.daemon_core.entry.run_process", run_process)
    monkeypatch.setattr("daemons.process.first_zygote.fork_for", lambda name: None)
    monkeypatch.setattr("daemons.base.heap.share_heap", lambda: None)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    settings = ["-c", "MACHINE_RESOURCE_GPUs = CUDA0 CUDA1", "-c", f"local_dir={tmp_path}/other"]
    assert program.main(["startd", "--dir", str(tmp_path), *settings]) == 0
    config = sources[0].load("STARTD", {})
    assert [one.name for one in custom_resources(config.names(with_defaults=False), config.__getitem__)] == ["GPUs"]
    assert config.str("LOCAL_DIR") == f"{tmp_path}/other"
