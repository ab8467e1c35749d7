"""Jobs in images of Apptainer or Singularity: a real starter and a scripted program in the place of either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio

from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobExecuting
from protocol.messages.starter import ImageTrouble

from .bench import PATIENCE_S, bench

SCRIPT = """#!/bin/sh
# Writes its words down, and runs what stands behind the image on this host. The test of an image goes well, in time.
[ "$1" = --version ] && { echo "singularity-ce version 4.1.0"; exit 0; }
[ "$3" = test ] && { echo "$@" > {notes}/tested; [ -e {notes}/slow ] && exec sleep 1000; exit 0; }
echo "$@" > {notes}/words
while [ "$1" != -C ]; do shift; done
[ -e "$2" ] || { echo "FATAL: could not open image $2" >&2; exit 255; }
shift 2
[ -e {notes}/broken ] && { echo "FATAL: no more namespaces" >&2; exit 255; }
exec env "IN=$SINGULARITYENV_WORD" "CONFIG=$SINGULARITYENV__CONDOR_CHIRP_CONFIG" "$@"
"""
PIDS = {"SINGULARITY_USE_PID_NAMESPACES": "true"}


@pytest.fixture
def program() -> Iterator[Path]:
    """Not below pytest's own directory, which is closed to the job's account."""
    with TemporaryDirectory(prefix="singularity-") as directory:
        place = Path(directory)
        place.chmod(0o777)
        path = place / "singularity"
        path.write_text(SCRIPT.replace("{notes}", directory))
        path.chmod(0o755)
        yield path


def settings(program: Path, **knobs: str) -> dict[str, Any]:
    return {"docker": {"SINGULARITY": str(program), "SINGULARITY_VERBOSITY": "-s", **PIDS, **knobs}}


async def test_a_job_runs_in_the_image_that_it_brings(program: Path) -> None:
    async with bench(agent=True, **settings(program)) as b:
        (b.iwd / "tool.sif").write_text("an image")
        job = b.job_ad(
            "echo $IN; cat tool.sif; exit 6",
            WantContainer=True,
            WantSIF=True,
            ContainerImage="tool.sif",
            TransferInput="tool.sif",
            MountUnderScratch="/own",
            Environment="WORD=carried PATH=/bin:/usr/bin",
            ShouldTransferFiles="YES",
            WhenToTransferOutput="ON_EXIT",
        )
        end = await b.ended(await b.run(job, files=True))
        assert end.ad.eval_int("ExitCode") == 6, (end, b.log())
        assert (b.iwd / "out").read_text() == "carried\nan image"
        said = (program.parent / "words").read_text().replace(str(b.sandbox), "S")
        assert said.startswith("-s exec -S /own -W S --pwd S -B S --home S -C S/tool.sif /bin/sh -c ")
        tested = (program.parent / "tested").read_text().replace(str(b.sandbox), "S")
        assert tested == "-s -q test -S /own -W S --pwd S -B S --home S -C S/tool.sif\n"
        assert b.is_cleared


async def test_the_owner_puts_jobs_into_an_image_and_they_leave_when_told(program: Path) -> None:
    knobs = {"SINGULARITY_JOB": "TARGET.Owner isnt undefined", "SINGULARITY_IMAGE_EXPR": '"/"'}
    async with bench(**settings(program, **knobs)) as b:
        activation = await b.run(b.job_ad("sleep 1000"))
        await b.until(JobExecuting, activation)
        await b.stop(activation, StopHow.FAST)
        assert (await b.ended(activation)).ending is Ending.EVICTED


async def test_a_job_in_an_image_is_told_the_way_to_its_starter(program: Path) -> None:
    async with bench(**settings(program, SINGULARITY_JOB="true", SINGULARITY_IMAGE_EXPR='"/"')) as b:
        end = await b.ended(await b.run(b.job_ad('cut -d" " -f1 "$CONFIG"', WantIOProxy=True)))
        assert end.ad.eval_int("ExitCode") == 0, (end, b.log())
        assert (b.iwd / "out").read_text() == "127.0.0.1\n"


async def test_a_job_leaves_while_its_image_is_tested(program: Path) -> None:
    (program.parent / "slow").touch()
    async with bench(**settings(program, SINGULARITY_JOB="true", SINGULARITY_IMAGE_EXPR='"/"')) as b:
        activation = await b.run(b.job_ad("true"))
        with trio.fail_after(PATIENCE_S):
            while not (program.parent / "tested").exists():
                await trio.sleep(0.01)
        await b.stop(activation, StopHow.FAST)
        assert (await b.ended(activation)).ending is Ending.EVICTED


async def test_an_image_that_does_not_run_is_told_from_a_job_that_fails(program: Path) -> None:
    knobs = {"SINGULARITY_USE_LAUNCHER": "true", "SINGULARITY_JOB": "true", "SINGULARITY_IMAGE_EXPR": '"/"'}
    async with bench(**settings(program, **knobs)) as b:
        end = await b.ended(await b.run(b.job_ad("exit 255")))
        assert (end.ending, end.ad.eval_int("ExitCode")) == (Ending.EXITED, 255)
        (program.parent / "broken").touch()
        activation = await b.run(b.job_ad("exit 255"))
        end = await b.ended(activation)
        assert (end.ending, end.ad.eval_int("ExitCode")) == (Ending.FAILED, None)
        assert "The image did not run" in end.reason
        assert "The image did not run" in (await b.until(ImageTrouble, activation)).reason


async def test_the_machines_wrapper_wraps_the_program_for_images(program: Path) -> None:
    wrapper = program.with_name("wrapper")
    wrapper.write_text(f'#!/bin/sh\necho "$1" > {program.parent}/wrapped\nexec "$@"\n')
    wrapper.chmod(0o755)
    knobs = {"SINGULARITY_JOB": "true", "SINGULARITY_IMAGE_EXPR": '"/"'}
    async with bench(wrapper=str(wrapper), **settings(program, **knobs)) as b:
        end = await b.ended(await b.run(b.job_ad("exit 6")))
        assert end.ad.eval_int("ExitCode") == 6, (end, b.log())
        assert (program.parent / "wrapped").read_text() == f"{program}\n"


async def test_an_image_that_is_not_named_holds_the_job(program: Path) -> None:
    async with bench(**settings(program, SINGULARITY_JOB="true")) as b:
        end = await b.ended(await b.run(b.job_ad("true")))
        assert end.ending is Ending.HOLD
        assert "Singularity image, and names none" in end.reason
