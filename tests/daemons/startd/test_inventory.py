"""Programs that take stock of custom resources: what they say, and what a startd says of those that do not work."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest

from daemons.startd.machine.inventory import take_stock
from pool.base.errors import ConfigError
from pool.config import Config, load_config

NO_GPUS = "STARTD_DETECT_GPUS = false"


def configured(tmp_path: Path, *lines: str) -> Config:
    file = tmp_path / "config"
    file.write_text("\n".join([*lines, ""]))
    return load_config(environ={"CONDOR_CONFIG": str(file)})


def program(tmp_path: Path, text: str) -> str:
    script = tmp_path / "stock"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return str(script)


def stock(tmp_path: Path, script: str, limit_s: float = 60.0) -> object:
    command = program(tmp_path, script)
    return take_stock(configured(tmp_path, NO_GPUS, f"MACHINE_RESOURCE_INVENTORY_Cogs = {command} 3"), limit_s)


def test_a_program_gets_its_arguments_and_says_what_there_is(tmp_path: Path) -> None:

    found = stock(tmp_path, 'echo "DetectedCogs = $1"; echo "Nice = true"')
    assert isinstance(found, dict)
    assert found["Cogs"].count == 3
    assert list(found["Cogs"].facts) == ["Nice"]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exit 3", "ended with status 3"),
        ("echo oh no >&2; exit 1", "ended with status 1: oh no"),
        ("kill -9 $$", "ended with signal 9"),
        ("echo hello", "line 1 of what its program printed, 'hello': expected ATTRIBUTE = VALUE"),
        ("true", "printed no DetectedCogs"),
        ("echo 'DetectedCogs = (('", "line 1 of what its program printed"),
    ],
)
def test_a_program_that_does_not_work_is_named_with_its_line_in_the_configuration(
    script: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        stock(tmp_path, script)
    assert "MACHINE_RESOURCE_INVENTORY_Cogs" in str(caught.value)
    assert f"{tmp_path}/config, line 2" in str(caught.value)


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    noted = shlex.quote(str(tmp_path / "pids"))
    with pytest.raises(ConfigError, match=r"did not end within 3 s"):
        stock(tmp_path, f"sleep 600 & echo $! $$ > {noted}; wait", limit_s=3.0)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    deadline = time.monotonic() + 60
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline, "the program's children live on"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    config = configured(tmp_path, NO_GPUS, "MACHINE_RESOURCE_INVENTORY_Cogs = /no/such/program")
    with pytest.raises(ConfigError, match="cannot run /no/such/program: No such file or directory"):
        take_stock(config)


def test_gpu_discovery_is_asked_without_a_file_of_its_own(tmp_path: Path) -> None:
    config = configured(
        tmp_path, "LIBEXEC = /no/such/place", "use FEATURE : GPUs", "GPU_DISCOVERY_EXTRA = -simulate:3,2"
    )
    found = take_stock(config)["GPUs"]
    assert found.ids == ("GPU-a0223334", "GPU-b1223334")
    assert found.properties["GPU-b1223334"].eval("Capability") == 7.5


def test_every_startd_looks_for_gpus_unless_it_is_told_what_there_is(tmp_path: Path) -> None:
    asked = configured(tmp_path, "STARTD_DETECT_GPUS = -properties -simulate:4,1")
    assert take_stock(asked)["GPUs"].ids == ("GPU-a0223334",)
    for line in (NO_GPUS, "STARTD_DETECT_GPUS = 0", "MACHINE_RESOURCE_GPUs = CUDA0"):
        assert take_stock(configured(tmp_path, line)) == {}
    with pytest.raises(ConfigError, match="STARTD_DETECT_GPUS = -bogus: option -bogus is not valid"):
        take_stock(configured(tmp_path, "STARTD_DETECT_GPUS = -bogus"))
