"""condor_ssh_to_job of a job in an image of Apptainer or Singularity: the shell is in the image, with the account's rights.

The program is a script that makes the namespaces which Apptainer makes, or Apptainer itself where it is installed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

PROGRAM = r"""#!/bin/sh
# Singularity without rights of its own: a process in a new user namespace, and below it one whose root is the image,
# with processes of its own. The sandbox is on /mnt/job.
[ "$1" = --version ] && { echo "singularity-ce version 4.1.0"; exit 0; }
[ "$1" = build ] && exit 255
[ "$3" = test ] && exit 0
while [ "${1##*/}" != sandbox ] && [ "${1##*/}" != image ]; do shift; done
[ "${1##*/}" = sandbox ] && exec unshare -r -m "$1$2"
exec unshare -r -m unshare -p -f unshare -m sh -c '
    mount -t tmpfs none "$0/mnt"; mkdir "$0/mnt/job"; mount --rbind . "$0/mnt/job"; mount -t proc none "$0/proc"; cd /
    exec chroot "$0" /bin/sh -c "cd /mnt/job; \"\$@\"; exit \$?" sh "$@"' "$@"
"""
JOB = """executable = /bin/sh
arguments = "-c 'echo ready > ready; while [ ! -e over ]; do sleep 0.1; done'"
transfer_executable = false
container_image = {image}
transfer_container = false
container_target_dir = /mnt/job
environment = "WORD=carried"
should_transfer_files = yes
+TransferOutput = ""
output = out
error = err
log = job.log
queue
"""


LOOK = "cat /name /proc/1/comm /proc/${_CONDOR_JOB_PIDS%% *}/comm"
PROGRAMS = ("/bin/sh", "/bin/cat", "/bin/sleep", "/usr/bin/touch")


def make_image(root: Path) -> None:
    """A directory with a few of this machine's programs, and what they load."""
    for name in ("dev", "proc", "sys", "tmp", "var/tmp", "etc", "home", "mnt/job"):
        (root / name).mkdir(parents=True)
    libraries: set[str] = set()
    for program in PROGRAMS:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        libraries |= {word for word in said.split() if word.startswith("/")}
    for path in (*PROGRAMS, *libraries):
        target = root / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    (root / "name").write_text("an image\n")
    test = root / ".singularity.d/actions/test"
    test.parent.mkdir(parents=True)
    test.write_text("#!/bin/sh\n")
    test.chmod(0o755)


def _makes_user_namespaces() -> bool:
    done = subprocess.run(["unshare", "-r", "-m", "true"], capture_output=True, check=False)
    return done.returncode == 0


def _entered(pool: RealPool) -> list[str]:
    """What a shell in a running job sees, line by line."""
    image = pool.directory / "image"
    make_image(image)
    pool.start()
    pool.until(lambda: [ad for ad in pool.slots() if ad.eval("HasSingularity") is True], "the program to be tried")
    cluster = pool.submit(JOB.format(image=image), cwd=pool.place("home"))
    pool.until(lambda: [ad for ad in pool.jobs() if ad.eval_int("JobStatus") == 2], "the job to run")
    # The job's first sign of life: until then its program is another, or not there yet.
    pool.tool("condor_ssh_to_job", "-auto-retry", str(cluster), "while [ ! -e ready ]; do sleep 0.1; done")
    said = pool.tool("condor_ssh_to_job", str(cluster), f'echo "$WORD"; pwd; {LOOK}; touch over')
    (job,) = pool.until_done(cluster)
    assert job.eval_int("ExitCode") == 0
    return said.splitlines()


@pytest.mark.skipif(not _makes_user_namespaces(), reason="this machine does not let this account have user namespaces")
def test_a_shell_is_in_the_image_of_its_job() -> None:
    with real_pool(start=False) as pool:
        program = pool.directory / "singularity"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        pool.settings["SINGULARITY"] = str(program)
        assert _entered(pool) == ["carried", "/mnt/job", "an image", "sh", "sh"]


@pytest.mark.skipif(not shutil.which("apptainer"), reason="apptainer is not installed")
def test_a_shell_is_in_the_image_that_apptainer_runs() -> None:
    with real_pool(start=False) as pool:
        assert _entered(pool) == ["carried", "/mnt/job", "an image", "appinit", "sh"]
