"""condor_transform_ads: rules of a file or of the configuration change ads of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minipool.cli.admin_tools.transform_ads import main

MANUAL = """ResidentSetSize = 500
DiskUsage = 2500000
NumCkpts = 0
TransferrErr = false
Err = "/dev/null"
"""
RULES = """# File: my_rules
EVALSET MemoryUsage ( ResidentSetSize / 100 )
EVALMACRO WantDisk = ( DiskUsage * 2 )
SET RequestDisk ( $(WantDisk) / 1024 )
RENAME NumCkpts NumCheckPoints
DELETE /(.+)Err/
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").write_text('JOB_TRANSFORM_Tag = SET Tag "$(MY.Owner)-$(what)"\n')
    monkeypatch.setenv("CONDOR_CONFIG", str(tmp_path / "config"))
    (tmp_path / "ads").write_text(MANUAL)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = main("transform_ads", argv)
    return (status, *capsys.readouterr())


def test_the_manuals_example(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "rules").write_text(RULES)
    assert said(capsys, "-rules", "rules", "-in", "ads") == (
        0,
        'DiskUsage = 2500000\nErr = "/dev/null"\nMemoryUsage = 5\nNumCheckPoints = 0\n'
        "RequestDisk = (5000000 / 1024)\nResidentSetSize = 500\n\n",
        "",
    )


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("TRANSFORM", ["plain"]),
        ("TRANSFORM 1", ["plain"]),
        ("TRANSFORM x in (2.0, 100)", ["2.0", "100"]),
        ("TRANSFORM 2 x in (a b)", ["a", "a", "b", "b"]),
        ("TRANSFORM x from (\none\ntwo\n)", ["one", "two"]),
    ],
)
def test_each_ad_is_written_as_often_as_transform_says(
    here: Path, capsys: pytest.CaptureFixture[str], statement: str, values: list[str]
) -> None:
    (here / "rules").write_text(f'SET V "$(x)"\n{statement}\n')
    given = ["x=plain"] if len(values) == 1 else []
    status, out, _ = said(capsys, "-rules", "rules", "-json", *given, "-out", "-", "-in:long", "ads")
    assert (status, [ad["V"] for ad in json.loads(out)]) == (0, values)


def test_transforms_of_the_configuration_are_applied_after_those_before_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "rules").write_text('DEFAULT Owner "ann"\n')
    status, _, err = said(capsys, "-rules", "rules", "-jobt", "Tag", "what=x", "-out:new", "made", "ads")
    assert (status, err) == (0, "")
    assert 'Tag = "ann-x"' in (here / "made").read_text()


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["ads"], "ERROR : no transform rules specified."),
        (["-rules", "nowhere", "ads"], "Can't open rules file: nowhere"),
        (["-jobtransforms", "Other", "ads"], "JOB_TRANSFORM_Other is not in the configuration"),
        (["-jobtransforms", "Tag"], "Warning: no input file specified - nothing to transform."),
        (["-jobtransforms", "Tag", "-out:yaml", "-", "ads"], "there is no such form"),
    ],
)
def test_what_cannot_be_done_is_said(capsys: pytest.CaptureFixture[str], argv: list[str], why: str) -> None:
    status, out, err = said(capsys, *argv)
    assert (status, out) == (1, "")
    assert why in err
