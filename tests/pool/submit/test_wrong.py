"""A wrong description of every kind is refused with the place of what is wrong, before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.base.errors import SubmitError
from tests.pool.submit.build import CASES, Place

LINES = [line for line in (CASES / "wrong.cases").read_text().splitlines() if line and not line.startswith("#")]
PLAIN = "executable = job.sh\n"


@pytest.mark.parametrize("case", LINES)
def test_it_is_refused_with_its_place(place: Place, case: str) -> None:
    line, message, text = (part.strip(" ") for part in case.split("|", 2))
    with pytest.raises(SubmitError) as caught:
        place.ads(PLAIN + text.replace("\\n", "\n") + "\n")
    error = caught.value
    assert message.lower() in str(error).lower()
    assert error.span is not None, error
    assert (error.span.file, error.span.line) == ("t.sub", int(line)), error


def test_a_description_that_cannot_be_read_names_itself(place: Place) -> None:
    assert not Path(place.where, "missing").exists()
    with pytest.raises(SubmitError, match=r"t\.sub:2"):
        place.ads(PLAIN + "queue x from missing\n")


MEANT = (
    ("executable: job.sh\nqueue\n", "`executable = job.sh`"),
    ("executable job.sh\nqueue\n", "`executable = job.sh`"),
    ("argumnts 5\nqueue\n", "`arguments = 5`"),
    ("que 5\n", "`queue 5`"),
    ("queue 5 jobs\n", "`queue 5`"),
    ("request_memory = 4 gigs\nqueue\n", "`4 GB`"),
    ("request_disk = 2.5 GiB\nqueue\n", "`2.5 GB`"),
    ("allowed_job_duration = 10m\nqueue\n", "such as 600"),
    ("job_lease_duration = 1h\nqueue\n", "such as 3600"),
    ("periodic_remove = time() - QDate > 10m\nqueue\n", "such as 600 for 10m"),
    ("universe = vanila\nqueue\n", "'vanilla'"),
    ("universe = ²\nqueue\n", "vanilla, container, docker, java, local or scheduler"),
    ("universe = batch\nqueue\n", "vanilla, container, docker, java, local or scheduler"),
    ("request_memroy = 4 GB\nqueue\n", "Did you mean 'request_memory'?"),
    ('requirements = OpSys = "LINUX"\nqueue\n', '`OpSys == "LINUX"`'),
    ('requirements = Memory > 5 and not (Name = "a and b")\nqueue\n', '`Memory > 5 && ! (Name == "a and b")`'),
)


@pytest.mark.parametrize(("text", "meant"), MEANT)
def test_it_is_told_what_was_probably_meant(place: Place, text: str, meant: str) -> None:
    with pytest.raises(SubmitError) as caught:
        place.ads(PLAIN + text)
    assert meant in str(caught.value)


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("#!/bin/bash\n#SBATCH --mem=4G\nmodule load x\nsrun hostname\n", "script for Slurm"),
        ("#PBS -l nodes=1\nN=1\n./run\n", "script for PBS"),
        ("#!/bin/sh\necho hi\n", "this is a script, and"),
    ],
)
def test_a_script_of_another_system_is_known(place: Place, text: str, system: str) -> None:
    with pytest.raises(SubmitError, match=f"^t.sub:1: .*{system}") as caught:
        place.ads(text)
    assert "`executable = t.sub`" in str(caught.value)
    assert not caught.value.others


def test_the_column_is_that_of_what_was_written(place: Place) -> None:
    with pytest.raises(SubmitError) as caught:
        place.ads(PLAIN + 'requirements = (Memory > 1) && OpSys = "LINUX"\nqueue\n')
    assert str(caught.value).splitlines()[-2:] == [
        '    requirements = (Memory > 1) && OpSys = "LINUX"',
        "                                         ^",
    ]


def test_all_that_is_wrong_is_told_at_once_in_its_order(place: Place) -> None:
    text = "executabel = x\nuniverse = vanila\nmodule load gcc\nrequest_cpus = -1.5\n+RequestMemory = -5\nrank = 1 +\nqueue 2\n"
    with pytest.raises(SubmitError) as caught:
        place.ads(text)
    places = [line for line in str(caught.value).splitlines() if line.startswith("t.sub")]
    parts = (
        "Did you mean 'executable'",
        "'vanila'",
        "invalid queue",
        "request_cpus = -1.5",
        "request_memory = -5",
        "ends",
    )
    assert len(places) == len(parts)
    for number, (said, part) in enumerate(zip(places, parts, strict=True), 1):
        assert said.startswith(f"t.sub:{number}:")
        assert part in said


def test_a_later_job_cannot_ask_for_less_than_nothing_either(place: Place) -> None:
    with pytest.raises(SubmitError, match="less than nothing"):
        place.ads(PLAIN + "queue request_memory in (1 -2)\n")
