"""Jobs in containers through podman's own program, where podman can run a container at all."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from pool.containers import probe_image
from protocol.messages.common import StopHow
from protocol.messages.starter import ContinueJob, SuspendJob
from tests.daemons.starter.bench import Bench, bench
from tests.nodes.thin import thin

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(600)]

PODMAN = shutil.which("podman") or ""
IMAGE = f"localhost/minipool-thin:{os.getpid()}"
CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
"""
"""What a machine needs that may not raise limits, and whose control groups are hybrid."""


def podman(*words: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([PODMAN, *words], input=data, capture_output=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image in podman's store; the test is skipped where podman itself cannot run one."""
    files = probe_image.archive(platform.machine())
    if not PODMAN or files is None:
        pytest.skip("podman is not installed")
    file = tmp_path_factory.mktemp("podman") / "containers.conf"
    file.write_text(CONFIGURATION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(file))
        probe = f"localhost/minipool-probe:{os.getpid()}"
        podman("import", "-", probe, data=files)
        tried = podman("run", "--rm", "--network", "none", probe, probe_image.PROGRAM)
        podman("rmi", "-f", probe)
        if tried.returncode != probe_image.STATUS:
            pytest.skip(f"podman runs no container here: {tried.stderr.decode(errors='replace')}")
        assert podman("import", "-", IMAGE, data=thin()).returncode == 0
        yield IMAGE
        podman("rmi", "-f", IMAGE)


def settings() -> dict[str, Any]:
    knobs = {
        "DOCKER": PODMAN,
        "DOCKER_RUN_UNDER_INIT": "false",
        "DOCKER_TRUST_LOCAL_IMAGES": "true",
        "DOCKER_MOUNT_VOLUMES": "USR",
        "DOCKER_VOLUME_DIR_USR": "/usr:/usr:ro",
    }
    return {"docker": knobs}


def job(b: Bench, image: str, command: str, **more: Any) -> Any:
    given = {"WantDocker": True, "DockerImage": image, "User": "ann@test", "DockerNetworkType": "none", **more}
    return b.job_ad(command, **given)


def left(b: Bench) -> list[str]:
    label = f"label=org.htcondorproject.execute={b.execute}"
    return podman("ps", "-a", "-q", "--filter", label).stdout.decode().split()


async def until_file(path: Path, text: str) -> None:
    with trio.fail_after(60):
        while not path.exists() or text not in path.read_text():
            await trio.sleep(0.02)


async def test_a_job_runs_and_its_container_is_gone(image: str) -> None:
    async with bench(**settings()) as b:
        end = await b.ended(await b.run(job(b, image, "id -u; ls /; echo made > made; exit 3")))
        assert end.ad.eval_int("ExitCode") == 3, (end, b.log())
        lines = (b.iwd / "out").read_text().split()
        assert lines[0] != "0" or os.geteuid() != 0
        assert "execute" not in lines
        assert left(b) == []


async def test_what_podman_cannot_run_is_said_in_words(image: str) -> None:
    async with bench(**settings()) as b:
        end = await b.ended(await b.run(job(b, image, "", Cmd="/no/such/program")))
        assert end.ad.eval_int("HoldReasonCode") == 6, (end, b.log())
        assert "/no/such/program" in end.ad.eval_str("HoldReason", "")
        gone = await b.ended(await b.run(job(b, "localhost:1/nothing", "true")))
        assert gone.ad.eval_int("HoldReasonCode") == 35, (gone, b.log())
        assert "Cannot pull image localhost:1/nothing:latest" in gone.ad.eval_str("HoldReason", "")
        assert left(b) == []


async def test_it_stands_still_goes_on_and_leaves_when_told(image: str) -> None:
    async with bench(**settings()) as b:
        assert b.startd is not None
        tick = "while :; do echo x; sleep 0.05; done"
        activation = await b.run(job(b, image, tick))
        await until_file(b.iwd / "out", "x\nx\n")
        assert len(left(b)) == 1
        await b.startd.call(SuspendJob(activation=activation))
        await b.startd.call(ContinueJob(activation=activation))
        size = (b.iwd / "out").stat().st_size
        with trio.fail_after(60):
            while (b.iwd / "out").stat().st_size <= size:
                await trio.sleep(0.02)
        await b.stop(activation, StopHow.FAST)
        assert (await b.ended(activation)).ending.value == "evicted"
        assert left(b) == []
