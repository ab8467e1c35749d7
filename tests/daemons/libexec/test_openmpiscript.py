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
echo "{place} $1 $2 $3 $OMPI_MCA_btl_tcp_if_exclude"
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("is_set", [True, False])
def test_what_the_configuration_says_of_open_mpi_reaches_it(tmp_path: Path, is_set: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    where, without = (str(elsewhere), "docker0,virbr0") if is_set else ("", "")
    program(tmp_path / "bin" / "condor_config_val", CONFIG_VAL.format(where=where, without=without))
    program(tmp_path / "path" / "mpirun.openmpi", MPIRUN.format(place="on PATH"))
    program(elsewhere / "bin" / "mpirun.openmpi", MPIRUN.format(place="elsewhere"))
    (tmp_path / "job.ad").write_text("RequestCpus = 2\n")
    env = {
        "PATH": f"{tmp_path / 'path'}:/usr/bin:/bin",
        "_CONDOR_BIN": str(tmp_path / "bin"),
        "_CONDOR_SCRATCH_DIR": str(tmp_path),
        "_CONDOR_JOB_AD": str(tmp_path / "job.ad"),
        "_CONDOR_PROCNO": "0",
        "_CONDOR_NPROCS": "2",
    }
    said = subprocess.run(
        ["sh", str(SCRIPT), "ring"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    if is_set:
        assert said.stdout == f"elsewhere --prefix {elsewhere} --host 127.0.0.1/8,sppp,docker0,virbr0\n"
    else:
        assert said.stdout == "on PATH --host 0:2,1:2 sh 127.0.0.1/8,sppp\n"
