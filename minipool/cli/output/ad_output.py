"""Whole ads on standard output: long, JSON and XML, attributes in alphabetical order as HTCondor's tools have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minipool.cli.entry.options import Parsed
from pool.base.words import split_list
from pool.classad import ClassAd


def wanted_form(parsed: Parsed) -> str | None:
    """Which form of whole ads the options ask for, or None when they ask for a table."""
    for key in ("json", "xml"):
        if parsed.has(key):
            return key
    if parsed.has("long"):
        for word in (parsed.qualifier("long") or "").lower().split(","):
            # -long:x and -long:j are as good as the whole words; -long:nosort and the like change nothing here.
            found = next((form for form in ("xml", "json", "new") if word and form.startswith(word)), None)
            if found is not None:
                return found
        return "long"
    return None


def attribute_list(parsed: Parsed) -> list[str]:
    """The names given with -attributes."""
    return [name for text in parsed.values("attributes") for name in split_list(text)]


def sorted_names(ad: ClassAd, only: Sequence[str] = ()) -> list[str]:
    """The ad's attribute names in alphabetical order, whatever their case."""
    if only:
        wanted = {name.lower() for name in only}
        return sorted((name for name in ad if name.lower() in wanted), key=str.lower)
    return sorted(ad, key=str.lower)


def long_form(ad: ClassAd, only: Sequence[str] = ()) -> str:
    """`Name = value` lines and an empty line."""
    return "".join(f"{name} = {ad.text(name)}\n" for name in sorted_names(ad, only)) + "\n"


def json_form(ad: ClassAd, only: Sequence[str] = ()) -> str:
    """One JSON object with a line for each attribute."""
    from pool.classad.forms.json_form import to_json

    return to_json(ad, sorted_names(ad, only)) + "\n"


XML_HEAD = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
XML_FOOT = "</classads>\n"


def write_all(
    ads: Iterable[ClassAd], form: str, only: Sequence[str] = (), *, empty_json: bool = False, xml_gap: str = ""
) -> Iterable[str]:
    """The text of all ads in a form, piece by piece. `empty_json`: no ads are `[` and `]` rather than nothing."""
    if form == "json":
        yield from _listed(("[\n", ",\n", "]\n"), (json_form(ad, only) for ad in ads), empty_json)
    elif form == "new":
        yield from _listed(("{\n", ",\n", "}\n"), (f"{_new_form(ad, only)}\n" for ad in ads), empty_json)
    elif form == "xml":
        from pool.classad.forms.xml_form import to_xml

        yield XML_HEAD
        for ad in ads:
            yield to_xml(ad, sorted_names(ad, only)) + "\n" + xml_gap
        yield XML_FOOT
    else:
        for ad in ads:
            yield long_form(ad, only)


def _listed(marks: tuple[str, str, str], texts: Iterable[str], even_empty: bool) -> Iterable[str]:
    first = True
    for text in texts:
        yield (marks[0] if first else marks[1]) + text
        first = False
    if not first:
        yield marks[2]
    elif even_empty:
        yield marks[0] + marks[2]


def _new_form(ad: ClassAd, only: Sequence[str]) -> str:
    return ad.project(sorted_names(ad, only)).new()
