"""Which program removes checkpoints, and what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemons.libexec import checkpoint_cleaner
from pool.classad import ClassAd
from pool.files.checkpoint_cleanup import command_for, read_map, removals

MAP = """# destinations
*   file:///mnt/      short,-x
*   file:///mnt/fast/ /opt/cleaner,-prefix,\\0,-path,/fast
not a rule
*   osdf:///vo/       cleaner,a,b
"""


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("file:///mnt/fast/ann", ["/opt/cleaner", "-prefix", "file:///mnt/fast/", "-path", "/fast"]),
        ("file:///mnt/slow/ann", ["/libexec/short", "-x"]),
        ("osdf:///vo/x", ["/libexec/cleaner", "a", "b"]),
        ("https://elsewhere/", None),
    ],
)
def test_the_longest_prefix_says_which_program(url: str, command: list[str] | None) -> None:
    assert command_for(read_map(MAP.splitlines()), url, "/libexec") == command


def test_each_file_of_a_checkpoint_is_named_with_where_it_is() -> None:
    job = ClassAd({"CheckpointDestination": "osdf:///vo/box/", "GlobalJobId": "ap#7.0#1"})
    assert list(removals(job, 3, ["state", "d/more"], "/x/.job.ad")) == [
        ["-from", "osdf:///vo/box/ap_7.0_1/0003", "-delete", "state", "-jobad", "/x/.job.ad"],
        ["-from", "osdf:///vo/box/ap_7.0_1/0003", "-delete", "d/more", "-jobad", "/x/.job.ad"],
    ]


def words(root: Path, name: str, **other: str) -> list[str]:
    options = {"prefix": "box://a/", "path": str(root), "from": "box://a/ann/job/0003", "delete": name, "jobad": "x"}
    return [word for key, value in {**options, **other}.items() for word in (f"-{key}", value)]


def test_a_mounted_checkpoint_goes_with_its_directories_and_nothing_else_does(tmp_path: Path) -> None:
    for name in ("0003/state", "0003/d/e/more", "0004/state"):
        path = tmp_path / "ann" / "job" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert checkpoint_cleaner.main(words(tmp_path, "d/e/more")) == 0
    assert sorted(path.name for path in (tmp_path / "ann" / "job" / "0003").iterdir()) == ["state"]
    assert checkpoint_cleaner.main(words(tmp_path, "state")) == 0
    assert checkpoint_cleaner.main(words(tmp_path, "state")) == 0
    assert [path.name for path in (tmp_path / "ann" / "job").iterdir()] == ["0004"]
    last = {"from": "box://a/ann/job/0004"}
    assert checkpoint_cleaner.main(words(tmp_path, "state", **last)) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ann"]
    assert not list((tmp_path / "ann").iterdir())


@pytest.mark.parametrize("other", [{"prefix": "box://b/"}, {"delete": "../../../x"}])
def test_nothing_elsewhere_is_removed(
    tmp_path: Path, other: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert checkpoint_cleaner.main(words(tmp_path, "state", **other)) == 1
    assert capsys.readouterr().err
    assert checkpoint_cleaner.main(["-prefix", "x"]) == 1
