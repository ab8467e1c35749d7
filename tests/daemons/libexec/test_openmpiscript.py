"""openmpiscript: what the machine's configuration says of Open MPI. Real shell; mpirun and the tools are stand-ins."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "deploy" / "libexec" / "openmpiscript"
CONFIG_VAL = """#!/bin/sh
case $1 in
    OPENMPI_INSTALL_PATH) echo '{where}';;
    OPENMPI_EXCLUDE_NETWORK_INTERFACES) echo '{without}';;
esac
"""
MPIRUN = """#!/bin/sh
[ "$1" != --version ] || exec echo 'mpirun.openmpi (Open MPI) {version}'
echo "{place} $1 $2 $3 $OMPI_MCA_btl_tcp_if_exclude"
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def run(place: Path) -> subprocess.CompletedProcess[str]:
    """Run the script as node 0 of two; programs are in `path`, and the pool's tools in `bin`."""
    (place / "job.ad").write_text("RequestCpus = 2\n")
    env = {
        "PATH": f"{place / 'path'}:/usr/bin:/bin",
        "_CONDOR_BIN": str(place / "bin"),
        "_CONDOR_SCRATCH_DIR": str(place),
        "_CONDOR_JOB_AD": str(place / "job.ad"),
        "_CONDOR_PROCNO": "0",
        "_CONDOR_NPROCS": "2",
    }
    return subprocess.run(
        ["sh", str(SCRIPT), "ring"], env=env, cwd=place, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("is_set", [True, False])
def test_what_the_configuration_says_of_open_mpi_reaches_it(tmp_path: Path, is_set: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    where, without = (str(elsewhere), "docker0,virbr0") if is_set else ("", "")
    program(tmp_path / "bin" / "condor_config_val", CONFIG_VAL.format(where=where, without=without))
    program(tmp_path / "path" / "mpirun.openmpi", MPIRUN.format(place="on PATH", version="4.1.4"))
    program(elsewhere / "bin" / "mpirun.openmpi", MPIRUN.format(place="elsewhere", version="4.1.4"))
    said = run(tmp_path)
    if is_set:
        assert said.stdout == f"elsewhere --prefix {elsewhere} --host 127.0.0.1/8,sppp,docker0,virbr0\n"
    else:
        assert said.stdout == "on PATH --host 0:2,1:2 sh 127.0.0.1/8,sppp\n"


@pytest.mark.parametrize(("version", "starts"), [("3.1.6", True), ("4.1.4", True), ("5.0.7", False), ("10.0.1", False)])
def test_an_open_mpi_that_cannot_be_started_is_said_to_be_that(tmp_path: Path, version: str, starts: bool) -> None:
    program(tmp_path / "path" / "mpirun.openmpi", MPIRUN.format(place="on PATH", version=version))
    said = run(tmp_path)
    assert (said.returncode == 0, "is of an Open MPI later than 4" in said.stderr) == (starts, not starts)
