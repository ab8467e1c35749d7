"""Tools that call their options otherwise open the same session: of the pool named there, with its language installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from minipool.cli.entry import context
from minipool.cli.entry.main import dispatch
from pool.config import Config


@pytest.mark.parametrize(("verb", "option"), [("findhost", "-p"), ("ping", "-pool"), ("status", "-pool")])
def test_a_named_pool_is_asked_with_the_language_of_this_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, option: str
) -> None:
    monkeypatch.setenv("POOL_DIR", str(tmp_path))
    (tmp_path / "config").write_text(f"LOCAL_DIR = {tmp_path}\n")
    installed: list[Config] = []
    monkeypatch.setattr(context, "install_language", installed.append)
    assert dispatch(verb, [option, "127.0.0.1:1"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err
    assert len(installed) == 1


def test_ping_reads_one_more_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POOL_DIR", str(tmp_path))
    (tmp_path / "config").write_text(f"LOCAL_DIR = {tmp_path}\n")
    (tmp_path / "more").write_text("COLLECTOR_HOST = 127.0.0.1:2\n")
    assert dispatch("ping", ["-config", str(tmp_path / "more"), "-type", "negotiator"]) == 1
    assert "127.0.0.1:2" in capsys.readouterr().err


def test_a_token_in_a_file_that_was_there_is_its_owners_alone(tmp_path: Path) -> None:
    from minipool.cli.admin_tools import tokens
    from minipool.cli.entry.options import parse
    from minipool.client.session import Session

    (tmp_path / "config").write_text(f"LOCAL_DIR = {tmp_path}\n")
    path = tmp_path / "token"
    path.write_text("before")
    path.chmod(0o644)
    parsed = parse(tokens.CREATE.options, ["-file", str(path)], unknown="{}")
    tokens._write_out(Session.open(directory=str(tmp_path)), parsed, "secret")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("secret\n", 0o600)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["put", "-mode", "cwt", "a"], "1 words are left beside the options (expected 2)"),
        (["read", "-stride", "1", "2", "x"], "1 words are left beside the options (expected 2)"),
        (["rmdir", "a", "b"], "2 words are left beside the options (expected 1)"),
        (["read", "-offset", "0", "-stride", "1"], "-stride requires 2 values"),
    ],
)
def test_a_command_of_chirp_says_which_words_it_lacks(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert dispatch("chirp", words) == 1
    assert said in capsys.readouterr().err
