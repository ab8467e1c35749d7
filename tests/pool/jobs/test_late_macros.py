"""`$$()` against a slot's ad."""

from __future__ import annotations

import pytest

from pool.classad import ClassAd, expr
from pool.jobs.late_macros import CannotExpand, expand, has_macros

SLOT = ClassAd({"OpSys": "LINUX", "Memory": 2048, "Quoted": 'a "b" \\c', "Half": expr("Memory / 2")})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("prog.$$(OpSys)", "prog.LINUX"),
        ("$$(opsys)-$$(Memory)", "LINUX-2048"),
        ("$$(NoSuch:fall back)", "fall back"),
        ("$$(NoSuch:)", ""),
        ("$$(CondorScratchDir)/lib:$$(condorscratchdir)", "#CoNdOrScRaTcHdIr#/lib:#CoNdOrScRaTcHdIr#"),
        ("$$([TARGET.Memory * 2])", "4096"),
        ('$$([strcat(TARGET.OpSys, "!")])', "LINUX!"),
        ("$$([RequestMemory + 1])x", "65x"),
        ("$$(Quoted)", 'a "b" \\c'),
        ("$$(DOLLARDOLLAR)(x)", "$$(x)"),
        ("$$(Unclosed", "$$(Unclosed"),
        ("$(Plain) and $$", "$(Plain) and $$"),
    ],
)
def test_expansion(value: str, expected: str) -> None:
    job = ClassAd({"Args": value, "RequestMemory": 64})
    changed = expand(job, SLOT)
    for name, new in changed.items():
        job[name] = new
    assert job.eval("Args") == expected
    assert ("MATCH_EXP_Args" in changed) == (value != expected)


@pytest.mark.parametrize("macro", ["NoSuch", "a.b", "[(]", "[error]"])
def test_what_cannot_be_expanded_is_named(macro: str) -> None:
    with pytest.raises(CannotExpand, match=r"^Cannot expand \$\$ expression \("):
        expand(ClassAd({"Args": f"$$({macro})"}), SLOT)


def test_what_was_expanded_before_is_left_alone() -> None:
    job = ClassAd({"MATCH_EXP_Args": "$$(NoSuch)", "Count": 3})
    assert not has_macros(job)
    assert expand(job, SLOT) == {}
