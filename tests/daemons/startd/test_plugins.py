from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons.startd.machine.plugins import METHODS, ask, known_at_once
from pool.config import Config, load_config

WORKS = """#!/bin/sh
[ "$1" = -classad ] || exec cp /dev/null "$4"
echo 'MultipleFileSupport = true'
echo 'PluginType = "FileTransfer"'
echo 'SupportedMethods = "oak,elm"'
echo 'StartdAttrs = "OakAge"'
echo 'OakAge = 400'
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other accounts can read."""
    with tempfile.TemporaryDirectory(prefix="minipool-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def configured(place: Path, **knobs: str) -> Config:
    path = place / "config"
    path.write_text("".join(f"{name} = {value}\n" for name, value in knobs.items()))
    return load_config(environ={"CONDOR_CONFIG": str(path)})


def a_program(place: Path, name: str, text: str) -> str:
    path = place / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_the_pools_own_schemes_need_no_asking(place: Path) -> None:
    assert "https" in known_at_once(configured(place))[METHODS]
    assert METHODS not in known_at_once(configured(place, ENABLE_URL_TRANSFERS="false"))


def test_plugins_say_what_they_can_do_and_those_that_do_not_work_are_named(place: Path) -> None:
    good, bad = a_program(place, "good", WORKS), a_program(place, "bad", "#!/bin/sh\nexit 3\n")
    facts, problems = ask(configured(place, FILETRANSFER_PLUGINS=f"{good}, {bad}, /nowhere, /no/curl_plugin"))
    assert facts["OakAge"] == 400
    assert facts[METHODS].startswith("oak,elm,http")
    assert len(problems) == 2
    assert "status 3" in problems[0]
    assert "/nowhere" in problems[1]


def test_a_scheme_that_fails_its_test_is_not_shown(place: Path) -> None:
    good = a_program(place, "good", WORKS)
    facts, problems = ask(configured(place, FILETRANSFER_PLUGINS=good, oak_TEST_URL="oak://test"))
    assert facts[METHODS] == "elm"
    assert "oak" in problems[0]


def test_a_plugin_that_never_answers_costs_its_time_only(place: Path) -> None:
    slow = a_program(place, "slow", "#!/bin/sh\nsleep 600\n")
    limit = {"FILETRANSFER_PLUGIN_CLASSAD_TIMEOUT": "1"}
    facts, problems = ask(configured(place, FILETRANSFER_PLUGINS=slow, **limit))
    assert facts == {METHODS: ""}
    assert "1 s" in problems[0]
