"""Every submit command on containers: what covers it in either kind of image, or that whoever uses it is warned.

The table, tests/cases/submit/containers.txt, has the commands of HTCondor's manual 25.14.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from pool.classad import ClassAd
from pool.containers.create import create_words
from pool.submit.commands import COMMANDS
from pool.submit.without_effect import WITHOUT_EFFECT
from tests.pool.containers.test_create import JOB, PLAN, SLOT
from tests.pool.containers.test_singularity import REGISTRYS, WORKS, words
from tests.pool.submit.build import CASES, Place

ROOT = Path(__file__).parents[3]
NOTHING, WITHOUT = "-", "without effect"
OF_IMAGE = """\
universe = container
container_image = {}
transfer_container = false
executable = /bin/sh
transfer_executable = false
web_container_port = 80
"""
FAMILIES = {"web_container_port": "<service>_container_port"}


class Row(NamedTuple):
    """`covered`: by image of docker's kind, by one of Apptainer's."""

    command: str
    covered: tuple[str, str]

    @property
    def name(self) -> str:
        """Without a value."""
        return self.command.partition(" ")[0]


def rows() -> list[Row]:
    lines = (CASES / "containers.txt").read_text().splitlines()
    parts = [[part.strip() for part in line.split("|")] for line in lines if line and not line.startswith("#")]
    return [Row(command, (docker, apptainer)) for command, docker, apptainer in parts]


@cache
def named_in(path: str) -> set[str]:
    """The tests of a file."""
    nodes = ast.parse((ROOT / path).read_text()).body
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


ROWS = rows()
ATTRIBUTES = {one.name: one.attribute for one in COMMANDS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.command)
def test_a_command_acts_or_its_warning_says_why_it_does_not(row: Row) -> None:
    name = FAMILIES.get(row.name, row.name)
    assert name.startswith("+") or name in ATTRIBUTES
    assert (name in WITHOUT_EFFECT) is (row.covered == (WITHOUT, WITHOUT))
    assert row.covered != (NOTHING, NOTHING)
    meant = {row.command.lower(), row.name.lstrip("+").lower(), ATTRIBUTES.get(name, name).lower()}
    for covered in {*row.covered} - {NOTHING, WITHOUT}:
        path, _, function = covered.partition("::")
        assert not function or function in named_in(path), f"there is no {covered}"
        text = (ROOT / path).read_text().lower()
        assert any(word in text for word in meant), covered


def test_all_commands_on_containers_are_in_the_table() -> None:
    said = {FAMILIES.get(row.name, row.name) for row in ROWS}
    about = {name for name in ATTRIBUTES if "container" in name or "docker" in name or "singularity" in name}
    assert about - said == set()


@pytest.mark.parametrize(
    ("image", "wants"),
    [("docker://debian", "WantDockerImage"), ("a.sif", "WantSIF"), ("unpacked/", "WantSandboxImage")],
)
def test_the_universe_of_containers_is_that_of_their_image(place: Place, image: str, wants: str) -> None:
    text = f"universe = container\ncontainer_image = {image}\nexecutable = /bin/sh\ntransfer_container = false\nqueue"
    (ad,) = place.ads(text)
    assert ad.eval_bool("WantContainer")
    assert ad.eval_bool(wants)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("DockerNetworkType", "none"), ("DockerPullPolicy", "always"), ("DockerOverrideEntrypoint", True)],
)
def test_what_only_an_engine_can_do_says_nothing_to_apptainer(attribute: str, value: object) -> None:
    plain, asking = ({**job, **more} for job in (REGISTRYS,) for more in ({}, {attribute: value}))
    assert words(plain, WORKS) == words(asking, WORKS)
    engines = [create_words(PLAN, ClassAd({**JOB, **more}), ClassAd(SLOT), {}) for more in ({}, {attribute: value})]
    assert engines[0] != engines[1]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("docker_network_type = none", "its machine's network"),
        ("container_service_names = web", "its machine's network, and its ports"),
        ("docker_pull_policy = always", "is not pulled"),
        ("docker_override_entrypoint = true", "without an entry point"),
    ],
)
@pytest.mark.parametrize("image", ["a.sif", "unpacked/"])
def test_what_only_an_engine_can_do_draws_a_warning_where_none_runs_the_image(
    place: Place, line: str, why: str, image: str
) -> None:
    plan = place.plan(f"{OF_IMAGE.format(image)}{line}\nqueue 3")
    list(plan.procs())
    (warning,) = plan.warnings
    assert f"the command '{line.partition(' ')[0]}' has no effect: " in warning
    assert why in warning


@pytest.mark.parametrize(
    ("image", "line"),
    [
        ("docker://debian", "docker_network_type = none"),
        ("docker://debian", "docker_override_entrypoint = true"),
        ("a.sif", "docker_network_type = host"),
        ("a.sif", "docker_override_entrypoint = false"),
    ],
)
def test_no_warning_where_an_engine_may_do_it_or_it_is_done_anyway(place: Place, image: str, line: str) -> None:
    plan = place.plan(f"{OF_IMAGE.format(image)}{line}\nqueue")
    list(plan.procs())
    assert plan.warnings == []
