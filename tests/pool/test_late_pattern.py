"""A late pattern answers as the pattern does, and is compiled once."""

from __future__ import annotations

import re

import pytest

from pool.late_pattern import late_pattern


def test_a_late_pattern_answers_as_the_pattern_does() -> None:
    late, now = late_pattern(r"(a+)(b)?", re.IGNORECASE), re.compile(r"(a+)(b)?", re.IGNORECASE)
    for method in ("match", "fullmatch", "search"):
        found, expected = getattr(late, method)("xAAb", 1), getattr(now, method)("xAAb", 1)
        assert (found and found.groups()) == (expected and expected.groups())
    assert late.sub(r"<\1>", "aab x") == now.sub(r"<\1>", "aab x")
    assert late.findall("ab aa") == now.findall("ab aa")
    assert late.split("1ab2") == now.split("1ab2")
    assert late.flags == now.flags


def test_a_late_pattern_is_compiled_when_it_is_first_used_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    really = re.compile

    def compile(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return really(text, flags)

    monkeypatch.setattr(re, "compile", compile)
    late = late_pattern("x+")
    assert compiled == []
    assert late.match("xx")
    assert late.search("axx")
    assert compiled == ["x+"]
