"""Lines as HTCondor writes them, categories, rotation."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from daemons.base.log import Log, log_times
from pool.config import load_config


def test_a_line_has_time_category_message_and_fields(tmp_path: Path) -> None:
    log = Log(tmp_path / "SchedLog", wall=lambda: 1_795_000_000.0)
    log.always("claim granted", slot="slot1@h", reason='it "fits"', took=0.25)
    log.close()
    (line,) = (tmp_path / "SchedLog").read_text().splitlines()
    assert re.fullmatch(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d \(D_ALWAYS\) .*", line)
    assert line.endswith('claim granted slot=slot1@h reason="it \\"fits\\"" took=0.25')


@pytest.mark.parametrize(
    ("lines", "time"),
    [
        ("", r"11/18/26 \d\d:\d\d:\d\d"),
        ("LOGS_USE_TIMESTAMP = true", "1795000000"),
        ('DEBUG_TIME_FORMAT = "%Y-%m-%d day"', "2026-11-18 day"),
    ],
)
def test_lines_tell_the_time_as_the_configuration_wants_it(tmp_path: Path, lines: str, time: str) -> None:
    (tmp_path / "config").write_text(f"LOG = {tmp_path}\n{lines}\n")
    config = load_config([str(tmp_path / "config")], environ={})
    log = Log(tmp_path / "log", wall=lambda: 1_795_000_000.0, times=log_times(config))
    log.always("here")
    log.close()
    assert re.fullmatch(rf"{time} \(D_ALWAYS\) here\n", (tmp_path / "log").read_text())


def test_p9_a_value_cannot_forge_a_line(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.always("submit", name="x\n11/22/26 01:02:03 (D_ALWAYS) root did it", long="y" * 99_999)
    log.close()
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert len(line) < 5000


@pytest.mark.parametrize(
    ("level", "wanted", "unwanted"),
    [
        ("", [], ["D_FULLDEBUG", "D_MATCH"]),
        ("D_FULLDEBUG", ["D_FULLDEBUG"], ["D_MATCH"]),
        ("match, D_SECURITY:2|D_PID", ["D_MATCH", "D_SECURITY", "D_PID"], ["D_FULLDEBUG"]),
        ("D_ALL", ["D_FULLDEBUG", "D_ANYTHING"], []),
    ],
)
def test_the_level_chooses_categories(level: str, wanted: list[str], unwanted: list[str]) -> None:
    log = Log(level=level)
    assert all(map(log.wants, [*wanted, "D_ALWAYS", "D_ERROR"]))
    assert not any(map(log.wants, unwanted))


@pytest.mark.parametrize(("old_max", "names"), [(1, 2), (3, 4)])
def test_a_full_log_is_set_aside(tmp_path: Path, old_max: int, names: int) -> None:
    now = iter(range(1_795_000_000, 1_796_000_000))
    log = Log(tmp_path / "log", bytes_max=1000, old_max=old_max, wall=lambda: float(next(now)))
    for number in range(200):
        log.always(f"line {number}")
    log.close()
    found = sorted(path.name for path in tmp_path.iterdir())
    assert len(found) == names
    assert all((tmp_path / name).stat().st_size <= 1000 for name in found)
    assert "line 199" in (tmp_path / "log").read_text()
    assert old_max > 1 or found == ["log", "log.old"]


def test_what_libraries_log_comes_too(tmp_path: Path) -> None:
    root, log = logging.getLogger(), Log(tmp_path / "log")
    before, level = root.handlers[:], root.level
    try:
        log.capture_logging()
        logging.getLogger("protocol.rpc.endpoints").warning("%s broke the protocol", "eve")
        logging.getLogger("protocol.rpc.endpoints").debug("detail")
        try:
            raise ValueError("inside")
        except ValueError:
            logging.getLogger("x").exception("a handler failed")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        log.close()
    text = (tmp_path / "log").read_text()
    assert "(D_ALWAYS) eve broke the protocol" in text
    assert "(D_ERROR) a handler failed" in text
    assert "ValueError: inside" in text
    assert "detail" not in text


def test_p9_a_message_cannot_forge_a_line_or_speak_to_a_terminal(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.always("refused: x\n11/22/26 01:02:03 (D_ALWAYS) forged\r\x1b[2J")
    log.always("from a\u2028b\x00c")
    log.always("x" * 100_000)
    log.close()
    forged, foreign, long = (tmp_path / "log").read_text().split("\n")[:3]
    assert forged.endswith(r"refused: x\n11/22/26 01:02:03 (D_ALWAYS) forged\r\x1b[2J")
    assert foreign.endswith(r"from a\u2028b\x00c")
    assert len(long) < 20_000
