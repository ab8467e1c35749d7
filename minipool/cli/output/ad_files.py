"""Ads in files: long, XML, JSON or new ads, found out by how they begin unless the form is given."""

from __future__ import annotations

from pool.base.errors import UserError
from pool.classad import ClassAd

_FORMS = {"": None, "a": None, "l": "long", "x": "xml", "j": "json", "n": "new"}


def form_of(qualifier: str | None) -> str | None:
    """The form that `:json` and its like name; None to find out."""
    # One letter is enough, as for HTCondor's parseAdsFileFormat.
    return _FORMS.get((qualifier or "")[:1].lower())


def text_of(path: str, *, cannot: str) -> str:
    """The text of a file, or of standard input when it is `-`. `cannot`: what is said when it cannot be opened."""
    import sys

    if path == "-":
        return sys.stdin.read()
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        raise UserError(cannot.format(path=path, why=error.strerror)) from None


def read(path: str, *, form: str | None = None, cannot: str = "Can't open file of ClassAds: {path}") -> list[ClassAd]:
    """The ads of a file, or of standard input when it is `-`. `cannot`: what is said when it cannot be opened."""
    from pool.classad.forms.lists import read_text

    return read_text(text_of(path, cannot=cannot), form=form, file="standard input" if path == "-" else path)


def read_one(path: str, *, cannot: str) -> ClassAd:
    """The one long ad of a file; empty lines in it do not end it."""
    from pool.classad import parse_long

    # condor_advertise and its like read the whole file as one ad; in other files an empty line ends one.
    lines = text_of(path, cannot=cannot).splitlines()
    return parse_long("\n".join(line for line in lines if line.strip()), file=path)
