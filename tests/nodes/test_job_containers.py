"""Jobs in containers of a real engine: limits, files, memory, an image that is not to be had, a starter that is killed."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from pool.containers import probe_image
from pool.containers.image import LIST_FORMAT, real_name, stored_images
from tests.daemons.starter.bench import bench
from tests.fakes.registry import registry
from tests.nodes.image import BASE
from tests.whole.probe import Probe
from tests.whole.real_pool import RealPool, real_pool

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(600)]

DOCKER = shutil.which("docker") or "docker"
WANTED = f"docker_image = {BASE}\nrequest_memory = 128"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(
        user="www-data", NUM_CPUS=4, DOCKER=DOCKER, DOCKER_TRUST_LOCAL_IMAGES="true", MASTER_BACKOFF_CEILING=1
    ) as pool:
        pool.until(lambda: [ad for ad in pool.slots() if ad.eval_bool("HasDocker")], "a container to be tried")
        yield pool


def containers(pool: RealPool) -> list[str]:
    """Those of this pool."""
    label = f"label=org.htcondorproject.execute={pool.directory / 'execute'}"
    return subprocess.run(
        [DOCKER, "ps", "-a", "-q", "--filter", label], capture_output=True, text=True, check=True
    ).stdout.split()


def test_a_job_has_its_files_its_limits_and_no_rights(pool: RealPool) -> None:
    probe = Probe(pool)
    (probe.directory / "show.py").write_text(
        "import os, sys\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(os.getuid() != 0, os.path.exists('/execute'), status['CapEff'].strip(), status['NoNewPrivs'].strip())\n"
        "print(sorted(os.listdir('/sys/class/net')), sys.stdin.read(), open('data').read())\n"
        "open('made', 'w').write(os.getcwd())\n"
        "sys.exit(5)\n"
    )
    for name in ("given", "data"):
        (probe.directory / name).write_text(name)
    text = (
        f"universe = docker\ndocker_image = {BASE}\nexecutable = /usr/bin/python3\ntransfer_executable = false\n"
        "arguments = show.py\ntransfer_input_files = show.py, data\ninput = given\noutput = out\nerror = err\n"
        "docker_network_type = none\nshould_transfer_files = yes\ncontainer_target_dir = /data\nqueue\n"
    )
    (ad,) = pool.until_done(pool.submit(text, cwd=probe.directory))
    assert ad.eval_int("ExitCode") == 5, (probe.directory / "err").read_text()
    assert (probe.directory / "out").read_text() == "True False 0000000000000000 1\n['lo'] given data\n"
    assert (probe.directory / "made").read_text() == "/data"
    assert containers(pool) == []


@pytest.mark.parametrize(
    ("image", "program", "code", "words"),
    [
        (BASE, "x = bytearray(900 << 20)", 34, "Docker job has gone over memory limit of 128 Mb"),
        ("localhost:1/nothing", "pass", 35, "Cannot pull image localhost:1/nothing:latest"),
    ],
)
def test_what_cannot_go_on_is_held(pool: RealPool, image: str, program: str, code: int, words: str) -> None:
    text = (
        f"docker_image = {image}\nexecutable = /usr/bin/python3\ntransfer_executable = false\n"
        f"arguments = \"-c '{program}'\"\nrequest_memory = 128\nshould_transfer_files = yes\nqueue\n"
    )
    (ad,) = pool.until_status(pool.submit(text, cwd=Probe(pool).directory), 5)
    assert ad.eval_int("HoldReasonCode") == code, ad
    assert words in ad.eval_str("HoldReason", "")
    assert containers(pool) == []


def test_p6_a_container_ends_with_its_starter_and_the_job_starts_again(pool: RealPool) -> None:
    probe = Probe(pool, None, more=WANTED)
    probe.submit()
    probe.until_begun()
    (record,) = (pool.run_dir / "containers").iterdir()
    assert len(containers(pool)) == 1
    os.kill(int(record.name.partition(".")[0]), signal.SIGKILL)
    pool.until(lambda: probe.trace() == ["begin", "begin"], "another begin")
    probe.may_end()
    ad = probe.assert_ended_once()
    assert ad["NumJobStarts"] == 2
    pool.until(lambda: not containers(pool), "the end of the container")
    pool.until(lambda: not list((pool.run_dir / "containers").iterdir()), "the end of its record")


async def test_an_image_is_pulled_once_for_a_user_and_kept_under_his_name() -> None:
    files = probe_image.archive(platform.machine())
    assert files is not None
    names: list[str] = []
    with registry(files, {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]) as (address, asked):
        async with bench(docker={"DOCKER": DOCKER}) as b:
            image = f"{address}/tests/exit"
            try:
                for user in ("alice@x", "alice@x", "Bob@x"):
                    job = b.job_ad(Cmd=probe_image.PROGRAM, Arguments="", WantDocker=True, DockerImage=image, User=user)
                    end = await b.ended(await b.run(job))
                    assert end.ad.eval_int("ExitCode") == probe_image.STATUS, end
                listed = subprocess.run(
                    [DOCKER, "images", "--format", LIST_FORMAT], capture_output=True, text=True, check=True
                )
                names = [one.name for one in stored_images(listed.stdout) if address.rpartition(":")[2] in one.name]
                assert len(names) == 3
                assert all(real_name(name) == f"{image}:latest" for name in names if name.startswith("htcondor.org/"))
                assert sum(path.endswith("/manifests/latest") for path in asked) >= 2  # by HEAD, GET, or both
            finally:
                subprocess.run([DOCKER, "rmi", *names], capture_output=True, check=False)
