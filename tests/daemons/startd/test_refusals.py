"""A machine that refuses mounts, and a startd that finds out before its jobs do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from daemons.host import namespaces
from daemons.host.child_settings import StarterSettings, starter_payload
from daemons.host.namespaces import can_isolate
from daemons.startd.machine import refusals
from pool.config import Config
from pool.config.load import load_config
from pool.execute.cgroup import Trees
from pool.execute.isolation import MOUNTS, PIDS
from tests.daemons.mount_lines import mount_lines

ROOTS = pytest.mark.skipif(not can_isolate(), reason="namespaces are root's to make")

IN_A_CHROOT = """
import os, sys
from daemons.startd.machine.refusals import refused, said
from daemons.host.namespaces import can_isolate
from pool.config.load import load_config
config = load_config([], overrides={"USE_PID_NAMESPACES": "true", "LOCAL_DIR": "/"}, environ={})
can_isolate()
os.chroot(sys.argv[1])
os.chdir("/")
print("\\n".join(said(refused(config, "/"))))
"""
"""A root directory that is no mount point is a machine whose mounts cannot be made private."""


def _config(root: Path, **knobs: str) -> Config:
    return load_config([], overrides={"LOCAL_DIR": str(root), "EXECUTE": str(root), **knobs}, environ={})


@ROOTS
def test_a_machine_that_refuses_mounts_is_found_out_and_says_why(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_CHROOT, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.splitlines() == [
        "Jobs have no private directories, and see each other's sandboxes: this machine refuses mounts "
        "(mounting none on /: Invalid argument)",
        "Jobs have no pid namespaces: this machine refuses them (mounting none on /: Invalid argument)",
        "Jobs cannot have their files where they are (want_remote_io): this machine refuses it "
        "([Errno 2] No such file or directory: '/dev/fuse')",
    ], done.stderr


@ROOTS
def test_looking_leaves_the_startd_where_it_was(tmp_path: Path) -> None:
    before = mount_lines(tmp_path)
    refusals.refused(_config(tmp_path, USE_PID_NAMESPACES="true"), str(tmp_path))
    assert mount_lines(tmp_path) == before


@pytest.mark.parametrize("refused", [(), (MOUNTS,), (PIDS,), (MOUNTS, PIDS)])
def test_jobs_go_without_what_the_machine_refuses(tmp_path: Path, refused: tuple[str, ...]) -> None:
    config = _config(tmp_path, USE_PID_NAMESPACES="true")
    settings = StarterSettings.unpack(starter_payload(config, trees=Trees(0), refused=refused))
    assert (settings.job_namespaces, settings.pid_namespaces) == (MOUNTS not in refused, PIDS not in refused)


def test_that_jobs_cannot_be_kept_from_the_network_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _config(tmp_path, NO_JOB_NETWORKING="true", PER_JOB_NAMESPACES="false", ENABLE_REMOTE_IO="false")
    if can_isolate():
        assert refusals.refused(config, str(tmp_path)) == {}
    monkeypatch.setattr(namespaces, "can_isolate", lambda: False)
    assert refusals.said(refusals.refused(config, str(tmp_path))) == [
        "NO_JOB_NETWORKING is true and jobs cannot be kept from the network, so that no job will run "
        "(it takes root's rights)"
    ]


def test_nothing_is_tried_where_nothing_is_wanted(tmp_path: Path) -> None:
    config = _config(tmp_path, PER_JOB_NAMESPACES="false", ENABLE_REMOTE_IO="false")
    assert refusals.refused(config, "/no/such/directory") == {}
