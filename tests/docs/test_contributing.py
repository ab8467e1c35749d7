"""What CONTRIBUTING.md says can be followed: its files exist, and no recipe sends a newcomer to more than three."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES = dict(re.findall(r"^## (Add a .*)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE))
INSTALLED = ("pool/", "protocol/", "daemons/", "minipool/")


def home_of(path: str) -> Path:
    """Where a file of the page lies: packages may be installed elsewhere than the tests."""
    if not path.startswith(INSTALLED):
        return ROOT / path
    package, _, rest = path.partition("/")
    return Path(__import__(package).__path__[0]) / rest


def test_the_files_of_the_page_exist() -> None:
    paths = {path.rstrip("/") for path in re.findall(r"`((?:pool|protocol|daemons|minipool|tests|docs)/[^`]*)`", PAGE)}
    assert len(paths) > 15
    assert sorted(path for path in paths if not home_of(path + "/").exists()) == []


def test_there_is_a_recipe_for_each_usual_change() -> None:
    assert set(RECIPES) == {
        f"Add a {what}" for what in ("knob", "submit command", "tool option", "message", "slot move")
    }


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_touches_at_most_three_files(name: str) -> None:
    steps = re.findall(r"^\d\. (?:.+\n(?=   |\d\.|\n))+", RECIPES[name], re.MULTILINE)
    assert 1 <= len(re.findall(r"^\d\. ", "".join(steps), re.MULTILINE)) <= 3
    assert 1 <= len(set(re.findall(r"`([\w/]+\.(?:py|txt))`", "".join(steps)))) <= 3


def test_the_commit_hooks_are_the_projects_own_tools() -> None:
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    entries = re.findall(r"entry: \.venv/bin/(\w+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert entries == ["ruff", "ruff", "mypy"]
    assert all(any(needed.startswith(tool) for needed in dev) for tool in entries)
