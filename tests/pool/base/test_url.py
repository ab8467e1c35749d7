"""HTCondor's idea of a URL, in submission as in transfer."""

from __future__ import annotations

import pytest

from pool.base.url import is_url, scheme_of


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("https://host/file", "https"),
        ("a://b", "a"),
        ("Token+HTTPS://host/", "HTTPS"),
        ("chtc.osdf:///file", "osdf"),
        ("box-s3://bucket", "s3"),
    ],
)
def test_what_is_a_url(text: str, scheme: str) -> None:
    assert is_url(text)
    assert scheme_of(text) == scheme


@pytest.mark.parametrize("text", ["", "file", "file://", "://host", "1a://b", "a_b://c", "/a://b", "https:/host"])
def test_what_is_a_path(text: str) -> None:
    assert not is_url(text)
    assert scheme_of(text) == ""
