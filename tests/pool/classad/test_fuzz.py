"""Any text is ads, or an error that says where: texts of all forms, cut, joined and mangled."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from pool.base.errors import ClassAdError
from pool.classad import expr, parse_ad, parse_long
from pool.classad.forms.lists import FORMS, read_text, write_ads
from tests.pool.classad.generate import Generator

PIECES = ['"', "'", "\\", "[", "]", "{", "}", "(", ")", "=", ";", ",", "?:", "/*", "*/", "//", "\n", "\0", "\ud800", "é", "\x7f",
          "<c>", "</c>", '<a n="', "&lt;", "&#0;", "&x;", "<![CDATA[", "]]>", "<!--", "<?xml", "/Expr(", ")/", "\\u0000", "null",
          "1e999", "NaN", "0x", "9" * 30, "absTime(", 'relTime("', "=?=", "..", "- -", "is", "\\777", "\r\n", "\ufeff", "1e", "#"]  # fmt: skip
READERS: dict[str, Callable[[str], object]] = {"expression": expr, "ad": parse_ad, "long": parse_long, "any": read_text}
for _form in FORMS:
    READERS[f"{_form} list"] = lambda text, form=_form: read_text(text, form=form)  # type: ignore[misc]

#: What fuzzing found; each of these once ended in something else than ads or a ClassAdError with a place.
FOUND: list[tuple[str, str]] = [
    ("expression", '"\ud800\\303\\251"'),  # half a surrogate pair beside an escaped byte
    ("json list", '{"a": "/Expr(\\"\\ud800\\\\303\\")/"}'),
]


def mangled(seed: int) -> str:
    """A text that was right once."""
    rng = Random(seed)
    generator = Generator(rng)
    text = generator.expression(2) if rng.random() < 0.3 else generator.ad(2, least=2)
    if rng.random() < 0.6:
        try:
            text = "".join(write_ads([parse_ad(text)] * rng.randrange(1, 3), rng.choice(FORMS)))
        except ClassAdError:
            pass
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(4):
            case 0:
                text = text[:at] + rng.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + rng.randrange(1, 6) :]
            case 2:
                text = text[:at] + text[rng.randrange(len(text) + 1) :][:40] + text[at:]
            case _:
                text = text[:at]
    return text


def check(reader: str, text: str) -> None:
    refused: ClassAdError | None = None
    try:
        READERS[reader](text)
    except ClassAdError as error:
        refused = error
    if refused is not None:
        assert refused.span is not None, (reader, text)
        assert refused.span.line > 0, (reader, text)
        assert str(refused)


@pytest.mark.parametrize("reader", READERS)
def test_mangled_text_is_ads_or_an_error_with_its_place(reader: str) -> None:
    for seed in range(600):
        check(reader, mangled(seed))


@pytest.mark.parametrize(("reader", "text"), FOUND)
def test_what_fuzzing_found(reader: str, text: str) -> None:
    check(reader, text)


#: Texts that once printed as what is not read back, or meant something else than to HTCondor: what they print as.
PRINTED: list[tuple[str, str]] = [
    ("5 .n", "5 .n"),
    ("-0 .n + 3", "0 .n + 3"),
    ('relTime("24855+03:14:08")', 'relTime("-24855+-3:-14:-8")'),
    ('relTime("-24855+03:14:08.5")', 'relTime("--24855+-3:-14:-7.5")'),
    (".5 .n", "5.000000000000000E-01.n"),  # a selection from a real: the point follows a digit
    ("1e3.n", "1.000000000000000E+03.n"),
    ("1.5e3.x.y", "1.500000000000000E+03.x.y"),
    ('relTime("191992+00:00:01")', 'relTime("-6849+01:53:03")'),  # days, hours and minutes wrap around in 32 bits
    ('relTime("-191992+00:00:01")', 'relTime("6849+01:53:03")'),
    ('relTime("1000000:00:00")', 'relTime("-8043+14:28:16")'),
    ('relTime("0+1193046:71582788:00")', 'relTime("-28:32")'),
]
REFUSED: list[tuple[str, str, str]] = [
    ("expression", '"a\0b"', "may not contain the character 0"),  # its escape was refused already
    ("expression", "'a\0b'", "may not contain the character 0"),
    ("expression", "5.n", "ends in a point"),
    ("expression", "1.5.", "the name of an attribute"),
    ("ad", "['' = 1]", "an attribute without a name"),
    ("json list", '[{"": 1}]', "an attribute without a name"),
    ("json list", '[{"a\\u0000": 1}]', "a name may not contain the character 0"),
]


@pytest.mark.parametrize(("text", "printed"), PRINTED)
def test_what_fuzzing_found_prints_as_what_is_read_back(text: str, printed: str) -> None:
    assert str(expr(text)) == printed
    assert str(expr(printed)) == printed


@pytest.mark.parametrize(("reader", "text", "says"), REFUSED)
def test_what_no_form_can_carry_is_refused(reader: str, text: str, says: str) -> None:
    with pytest.raises(ClassAdError, match=says) as caught:
        READERS[reader](text)
    assert caught.value.span is not None


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("block", range(20))
def test_mangled_text_for_a_long_time(block: int) -> None:
    for seed in range(1_000_000 + block * 50_000, 1_000_000 + (block + 1) * 50_000):
        text = mangled(seed)
        for reader in READERS:
            check(reader, text)
