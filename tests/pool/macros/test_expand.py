"""Macro references and functions, as 25.14 expands them."""

from __future__ import annotations

import pytest

from pool.base.errors import UserError
from pool.macros.expand import Expander, next_reference, references

NAMES = {
    "x": "3",
    "y": "$(x)*2",
    "a": "1",
    "b1": "hit",
    "list": "a, b,c",
    "s": "abcdefgh",
    "p": "/data/set1/file.name.tar.gz",
    "r": "dir/sub/x.y",
    "bare": "file",
    "quoted": '"/with space/f.c"',
    "empty": "",
    "round1": "$(round2)",
    "round2": "$(round1)",
}


def an_expander(**options: object) -> Expander:
    return Expander(lambda name: NAMES.get(name.lower()), environ={"HOME": "/h"}, cwd="/here", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("$(x)$(X)", "33"),
        ("[$(nope)]", "[]"),
        ("$(nope:7) $(x:7) $(empty:d)", "7 3 d"),
        ("$(nope:$(x)0)", "30"),
        ("$(nope:a b,c) $(nope:/d/e)", "a b,c /d/e"),
        ("$(nope:-1)", "$(nope:-1)"),
        ("$(b$(a))", "hit"),
        ("$(y)", "3*2"),
        ("$$(x) $$(x:$(x)) $$([x + 1])", "$$(x) $$(x:3) $$([x + 1])"),
        ("$(DOLLAR)(x) $(dollar)", "$(x) $"),
        ("$$$(x)", "$$3"),
        ("$ENV(HOME) $ENV(NOPE) $ENV(NOPE:d)", "/h UNDEFINED d"),
        ("$INT(x) $INT(y) $INT(y,%03d) $INT(7/2)", "3 6 006 3"),
        ("$REAL(x) $REAL(y,%.2f) $REAL(x,%g)", "3 6.00 3.0"),
        ("$STRING(s) $STRING(s,%10s|)", "abcdefgh   abcdefgh|"),
        ("$EVAL(y) $EVAL(x)", "6 3"),
        ("$CHOICE(1,list) $CHOICE(x,p,q,r,z)", "b z"),
        ("$SUBSTR(s,2) $SUBSTR(s,2,3) $SUBSTR(s,-3,2) $SUBSTR(s,-2) $SUBSTR(s,1,-1)", "cdefgh cde fg gh bcdefg"),
        ("$RANDOM_CHOICE(k) $RANDOM_INTEGER(4,4)", "k 4"),
        ("$F(p) $Fp(p) $Fn(p) $Fx(p) $Fnx(p)", f"{NAMES['p']} /data/set1/ file.name.tar .gz file.name.tar.gz"),
        ("$Fd(p) $Fdb(p) $Fddnx(p) $Fbx(p) $Fpb(p)", "set1/ set1 data/set1/file.name.tar.gz gz /data/set1"),
        ("$Fq(r) $Fqa(r) $Ff(r) $Fn(bare) $Fp(bare)|", "\"dir/sub/x.y\" 'dir/sub/x.y' /here/dir/sub/x.y file |"),
        (
            "$F(quoted) $Fn(quoted) $BASENAME(p) $DIRNAME(p)",
            "/with space/f.c f file.name.tar.gz /data/set1/",
        ),
        ("$Unknown(x) $x $", "$Unknown(x) $x $"),
    ],
)
def test_expansion(text: str, expanded: str) -> None:
    assert an_expander().expand(text) == expanded


@pytest.mark.parametrize(
    "text",
    [
        "$(round1)",
        "$INT(s)",
        "$REAL(nope)",
        "$INT(x,%s)",
        "$CHOICE(9,list)",
        "$CHOICE(x,nope)",
        "$RANDOM_INTEGER(5,1)",
        "$RANDOM_INTEGER(a,b)",
        "$SUBSTR(s,z)",
    ],
)
def test_what_cannot_be_expanded(text: str) -> None:
    with pytest.raises(UserError):
        an_expander().expand(text)


def test_a_complaint_instead_of_an_error() -> None:
    said: list[str] = []
    assert an_expander(complain=said.append).expand("<$INT(s)>") == "<>"
    assert said == ["$INT() macro: abcdefgh does not evaluate to an integer!"]


def test_only_references_to_the_name_itself() -> None:
    expander = an_expander()
    assert expander.expand_self("$(x) $(a) $(X:9) $(b$(x))", "x") == "3 $(a) 3 $(b3)"


def test_references_of_a_text() -> None:
    assert [(one.function, one.name, one.default) for one in references("$(a:1) $$(b) $Fn(c)")] == [
        ("", "a", "1"),
        ("Fn", "c", None),
    ]
    assert next_reference("nothing $ here") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$STRING(one,%S)", "one"),
        ("$STRING(one,%-5S|)", "one  |"),
        ("$REAL(1.5,%a)", "0x1.8000000000000p+0"),
        ("$REAL(1.5,%A)", "0X1.8000000000000P+0"),
        ("$INT(65,%c)", "A"),
        ("$INT(321,%c)", "A"),
    ],
)
def test_formats_that_c_has_and_python_has_not(text: str, said: str) -> None:
    assert Expander(lambda name: None).expand(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "$INT(1,%2000000000d)",
        "$REAL(1,%.99999999f)",
        "$STRING(a,%1000000s)",
        "$RANDOM_INTEGER(1_0,20)",
        "$RANDOM_INTEGER(1,\u0662\u0660)",
        f"$INT({'1' * 5000}x)",
    ],
)
def test_what_is_no_number_or_too_wide_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        Expander(lambda name: None).expand(text)


def test_a_number_of_thousands_of_digits_ends_nothing() -> None:
    assert isinstance(Expander(lambda name: None, complain=lambda said: None).expand(f"$INT({'1' * 5000})"), str)


@pytest.mark.parametrize("said", ["$CHOICE(a,x,y)", "$INT(a)", "$(b)$EVAL(a)", "$F(a)"])
def test_a_macro_that_names_itself_in_a_function_is_told(said: str) -> None:
    with pytest.raises(UserError, match="refers to itself without end"):
        Expander({"a": said, "b": ""}.get).expand("$(a)")
