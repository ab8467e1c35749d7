"""Images of Singularity in a real pool: what its machines say of the program, and the test of an image before a job.

The program is a script. It really runs what is in an image that is a directory; an image file is the archive of one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool

PROGRAM = """#!/bin/sh
# Singularity as far as a startd and a starter use it. TROUBLE, in a file, says what does not work.
trouble() {{ grep -q "$1" {notes}/trouble; }}
echo "$(id -u) $@" >> {notes}/calls
[ "$1" = --version ] && {{ trouble version && exit 3; echo "singularity-ce version 4.1.0"; exit 0; }}
if [ "$1" = build ]; then
    trouble build && {{ echo "FATAL: mksquashfs not found" >&2; exit 255; }}
    exec cp -r "$3" "$2"
fi
if [ "$3" = test ]; then
    trouble test && {{ printf '\\033[31mFATAL:\\033[0m   could not open image tool.sif\\n' >&2; exit 255; }}
    trouble hangs && exec sleep 1000
    exit 0
fi
for word; do
    [ "$word" = -C ] && trouble pids && {{ echo "ERROR: no pid namespaces" >&2; exit 255; }}
done
while [ "${{1##*/}}" != sandbox ] && [ "${{1%.sif}}" = "$1" ]; do shift; done
case "$1" in
    *.sif) trouble files && {{ printf 'INFO: mounting\\n\\033[31mFATAL:\\033[0m no squashfs\\n' >&2; exit 255; }};;
    *) trouble directories && {{ echo "FATAL: no directories" >&2; exit 255; }};;
esac
image=$1
shift
[ -x "$image$1" ] && exec "$image$1"
exec "$@"
"""
JOB = """executable = /bin/sh
arguments = "-c 'echo ran'"
transfer_executable = false
container_image = tool.sif
should_transfer_files = yes
output = out
log = job.log
queue
"""
SAID = ("HasSingularity", "HasSIF", "HasSandboxImage", "HasContainer", "HasDockerURL", "HasPidNamespaces")


def scripted(pool: RealPool, trouble: str = "") -> Path:
    """The program in place, with its notes beside it; everybody's, for it runs as jobs do."""
    notes = pool.directory / "notes"
    notes.mkdir()
    for name in ("calls", "trouble"):
        (notes / name).write_text(trouble if name == "trouble" else "")
        (notes / name).chmod(0o666)
    (notes / "singularity").write_text(PROGRAM.format(notes=notes))
    (notes / "singularity").chmod(0o755)
    pool.settings["SINGULARITY"] = str(notes / "singularity")
    return notes


def told(pool: RealPool, wanted: bool) -> ClassAd:
    """The slot, when it says this of the program."""
    found = pool.until(
        lambda: [ad for ad in pool.slots() if ad.eval("HasSingularity") is wanted], f"HasSingularity {wanted}"
    )
    return found[0]


@pytest.mark.parametrize(
    ("trouble", "says", "reason"),
    [
        ("", [True, True, True, True, True, True], None),
        ("pids", [True, True, True, True, True, False], None),
        ("files", [True, None, True, True, False, True], "registries cannot be run: FATAL: no squashfs"),
        ("directories", [True, True, None, True, True, True], None),
        ("build", [True, True, True, True, False, True], "could be made of one: FATAL: mksquashfs not found"),
        ("files directories", [False, None, None, None, None, None], "could be run: FATAL: no squashfs"),
        ("version", [False, None, None, None, None, None], "--version' exited with status 3"),
    ],
)
def test_a_machine_says_what_it_has_seen_to_work(trouble: str, says: list[bool | None], reason: str | None) -> None:
    with real_pool(start=False) as pool:
        notes = scripted(pool, trouble)
        pool.start()
        slot = told(pool, says[0] is True)
        assert [slot.eval_bool(name) for name in SAID] == says
        assert (reason or "") in (slot.eval_str("SingularityOfflineReason") or "")
        assert (slot.eval_str("SingularityOfflineReason") is None) is (reason is None)
        if trouble != "version":
            assert slot.eval_str("SingularityVersion") == "singularity-ce version 4.1.0"
        if says[2] and os.uname().machine in ("x86_64", "aarch64"):
            assert slot.eval_bool("SingularityUserNamespaces") is False  # the script makes none
        if os.geteuid() == 0:
            assert not any(line.startswith("0 ") for line in (notes / "calls").read_text().splitlines())
        assert not list((pool.directory / "execute").iterdir())


def test_a_program_that_is_mended_is_seen_at_the_next_reconfiguration() -> None:
    with real_pool(start=False, user=None) as pool:
        notes = scripted(pool, "files directories")
        pool.start()
        told(pool, False)
        (notes / "trouble").write_text("")
        pool.tool("condor_reconfig")
        slot = told(pool, True)
        assert not slot.eval_str("SingularityOfflineReason")
        (notes / "trouble").write_text("files directories")
        pool.tool("condor_reconfig")
        slot = told(pool, False)
        assert [slot.eval_bool(name) for name in SAID] == [False] * 6


@pytest.mark.parametrize(
    ("trouble", "knobs", "says"),
    [
        ("test", {}, "Singularity test failed: FATAL:   could not open image tool.sif"),
        ("hangs", {"SINGULARITY_TEST_TIMEOUT": "1"}, "Singularity test failed: it took more than 1 s"),
    ],
)
def test_an_image_that_fails_its_test_sends_the_job_back_with_the_reason(
    trouble: str, knobs: dict[str, str], says: str
) -> None:
    with real_pool(start=False, user=None, **knobs) as pool:
        notes = scripted(pool)
        pool.start()
        told(pool, True)
        (notes / "trouble").write_text(trouble)
        (pool.directory / "tool.sif").write_text("an image")
        cluster = pool.submit(JOB)
        (job,) = pool.until(lambda: [ad for ad in pool.jobs() if ad.eval_int("NumVacates")], "the job to be sent back")
        assert job.eval_int("JobStatus") != 5
        reason = job.eval_str("VacateReason") or ""
        assert reason.startswith("Error from slot1")
        assert reason.endswith(says)
        assert [job.eval_int(f"VacateReason{part}") for part in ("Code", "SubCode")] == [45, -1000]
        events = (pool.directory / "job.log").read_text()
        assert f"\t{says}" in events
        assert "Code 45 Subcode -1000" in events
        (notes / "trouble").write_text("")
        (done,) = pool.until_done(cluster)
        assert done.eval_int("ExitCode") == 0
        assert (pool.directory / "out").read_text() == "ran\n"


def test_without_the_knob_no_image_is_tested() -> None:
    with real_pool(start=False, user=None, SINGULARITY_RUN_TEST_BEFORE_JOB="false") as pool:
        notes = scripted(pool)
        pool.start()
        told(pool, True)
        (notes / "trouble").write_text("test")
        (pool.directory / "tool.sif").write_text("an image")
        (job,) = pool.until_done(pool.submit(JOB))
        assert job.eval_int("ExitCode") == 0
        assert not job.eval_int("NumVacates")
