"""Ads in files: long, XML, JSON or new ads, found out by how they begin unless the form is given."""

from __future__ import annotations

from pool.classad import ClassAd
from pool.errors import UserError

_FORMS = {"": None, "a": None, "l": "long", "x": "xml", "j": "json", "n": "new"}


def form_of(qualifier: str | None) -> str | None:
    """The form that `:json` and its like name; None to find out."""
    return _FORMS.get((qualifier or "")[:1].lower())


def read(path: str, *, form: str | None = None, cannot: str = "Can't open file of ClassAds: {path}") -> list[ClassAd]:
    """The ads of a file, or of standard input when it is `-`. `cannot`: what is said when it cannot be opened."""
    import sys

    from pool.classad.forms.lists import read_ads, read_text

    if path == "-":
        return read_text(sys.stdin.read(), form=form, file="standard input")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return list(read_ads(file, form=form, file=path))
    except OSError as error:
        raise UserError(cannot.format(path=path, why=error.strerror)) from None
