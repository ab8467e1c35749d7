"""URLs of object stores, and what they are when they are signed."""

from __future__ import annotations

import pytest

from pool.base.errors import UserError
from pool.files.s3 import SKEW_S, Endpoint, Keys, needs_signature, place_of, signature_of, signed

# The example of Amazon's documentation of presigned URLs (signature version 4).
AMAZON = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
MOMENT = 1369353600.0
SIGNATURE = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"


def test_the_signature_is_that_of_the_documentation() -> None:
    scope = "20130524/us-east-1/s3/aws4_request"
    query = (
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    )
    place = Endpoint("examplebucket.s3.amazonaws.com", "/test.txt", "us-east-1")
    assert place_of("s3://examplebucket/test.txt") == place
    assert signature_of("GET", place, query, AMAZON.secret, "20130524T000000Z", scope) == SIGNATURE


def test_a_signed_url_says_who_signed_and_for_how_long() -> None:
    url = signed("s3://examplebucket/a b/c+d.txt", AMAZON, "GET", MOMENT + SKEW_S)
    assert url.startswith("https://examplebucket.s3.amazonaws.com/a%20b/c%2Bd.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&")
    assert "X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&" in url
    assert "X-Amz-Date=20130524T000000Z&X-Amz-Expires=3600&" in url
    assert AMAZON.secret not in url
    assert AMAZON.secret not in repr(AMAZON)
    assert signed("s3://examplebucket/a b/c+d.txt", AMAZON, "PUT", MOMENT + SKEW_S) != url


@pytest.mark.parametrize(
    ("url", "region", "host", "path", "signs_for"),
    [
        ("s3://box/key", "", "box.s3.amazonaws.com", "/key", "us-east-1"),
        ("s3://box/key", "eu-west-1", "box.s3.eu-west-1.amazonaws.com", "/key", "eu-west-1"),
        ("S3://box.s3.us-west-2.amazonaws.com/d/key", "", "box.s3.us-west-2.amazonaws.com", "/d/key", "us-west-2"),
        ("s3://my_box/key", "", "s3.amazonaws.com", "/my_box/key", "us-east-1"),
        ("s3://Box/key", "", "s3.amazonaws.com", "/Box/key", "us-east-1"),
        ("s3://store.example.org:9000/box/key", "", "store.example.org:9000", "/box/key", "us-east-1"),
        ("s3://localhost:9000/box/key", "here", "localhost:9000", "/box/key", "here"),
        ("gs://box/key", "", "storage.googleapis.com", "/box/key", "us-east-1"),
    ],
)
def test_where_an_object_is(url: str, region: str, host: str, path: str, signs_for: str) -> None:
    assert needs_signature(url)
    assert place_of(url, region) == Endpoint(host, path, signs_for)


@pytest.mark.parametrize("url", ["s3://box", "s3:///key", "s3://box.amazonaws.com/key"])
def test_what_names_no_object_is_refused(url: str) -> None:
    with pytest.raises(UserError):
        place_of(url)


def test_other_urls_need_no_signature() -> None:
    assert not needs_signature("https://host/s3")
