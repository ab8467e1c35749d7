"""The transform language, case by case, and what is no transform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd, parse_long
from pool.transforms.transform import read_transform

CASES = Path(__file__).parents[2] / "cases" / "transform" / "transforms.cases"


def cases() -> Iterator[tuple[str, list[str]]]:
    for block in CASES.read_text().split("\n== ")[1:]:
        name, _, rest = block.partition("\n")
        parts: list[str] = []
        part: list[str] = []
        for line in rest.rstrip("\n").split("\n"):
            if line == "--":
                parts.append("\n".join(part))
                part = []
            else:
                part.append(line)
        yield name, [*parts, "\n".join(part)]


@pytest.mark.parametrize(("name", "parts"), [*cases()], ids=lambda value: value if isinstance(value, str) else "")
def test_transform(name: str, parts: list[str]) -> None:
    text, before, after, *complaints = parts
    ad = parse_long(before)
    said: list[str] = []
    transform = read_transform("T", text)
    if transform.matches(ad):
        transform.apply(ad, knob={"SITE_LIMIT": "42"}.get, complain=said.append)
    assert sorted(ad.long().split("\n")) == sorted(parse_long(after).long().split("\n"))
    assert len(said) == len(complaints)
    assert all(part in one for part, one in zip(complaints, said, strict=True))


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("SET A 1\nFROB B 2\n", "T:2", "FROB is not a valid transform keyword"),
        ("SET A\n", "T:1", "SET needs 2 arguments"),
        ("\nDELETE\n", "T:2", "DELETE needs an attribute"),
        ("REQUIREMENTS ((\n", "T:1", "no expression"),
        ("SET /a/ 1\n", "T:1", "no regular expression"),
        ("COPY /a(b/ c\n", "T:1:8", "/a(b/ is no regular expression: missing ), unterminated subpattern"),
        ("[ a = 1;\n  b = (;\n]", "T:2:8", "the transform T is no ad: ; has no place here"),
    ],
)
def test_what_is_no_transform_is_refused_with_its_line(text: str, where: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_transform("T", text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(where)


def test_an_if_without_a_question_is_the_transforms_fault() -> None:
    with pytest.raises(UserError, match="T:2"):
        read_transform("T", "SET A 1\nif 3 > 2\nendif\n").apply(ClassAd())


def test_the_names_of_what_was_changed_are_told() -> None:
    ad = ClassAd({"Foo": 1, "Bar": 2})
    assert read_transform("T", "SET New 1\nRENAME Foo Old\nDELETE Bar\nDEFAULT Old 2\n").apply(ad) == {
        *("new", "old", "foo", "bar")
    }
