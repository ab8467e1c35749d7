"""URLs of object stores (`s3://`, `gs://`) as `https://` URLs that are signed for an hour: AWS signature version 4.

Whoever moves the file then needs no key: keys stay at the access point.

    s3://bucket/key                              Amazon's, in the region asked for, else us-east-1
    s3://bucket.s3.region.amazonaws.com/key
    s3://host.with.dots[:port]/bucket/key        any other store
    gs://bucket/key                              s3://storage.googleapis.com/bucket/key
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from pool.base.errors import UserError

SCHEMES: Final = ("s3", "gs")
EXPIRES_S: Final = 3600
SKEW_S: Final = 5
"""Clocks may differ by so much."""
DEFAULT_REGION: Final = "us-east-1"
_AMAZON: Final = ".amazonaws.com"
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class Keys:
    """Who signs."""

    access: str
    secret: str = field(repr=False)
    session: str = field(default="", repr=False)
    region: str = ""


@dataclass(frozen=True)
class Endpoint:
    """What a URL means."""

    host: str
    path: str
    region: str


def needs_signature(url: str) -> bool:
    """Whether this is the URL of an object store."""
    return url.partition("://")[0].lower() in SCHEMES


def place_of(url: str, region: str = "") -> Endpoint:
    """Where the object is; `region` counts where the URL names none."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() == "gs":
        rest = f"storage.googleapis.com/{rest}"
    authority, slash, key = rest.partition("/")
    if not slash or not authority:
        raise UserError(f"{url} names no object", expected="s3://BUCKET/OBJECT")
    name, colon, port = authority.partition(":")
    prefix = "/"
    if name.endswith(_AMAZON):
        bucket, found, region = name.removesuffix(_AMAZON).rpartition(".s3.")
        if not found or not bucket:
            raise UserError(f"{url} names no bucket", expected=f"s3://BUCKET.s3.REGION{_AMAZON}/OBJECT")
    elif "." not in name and name != "localhost":
        if not region and (("_" in name) or name.lower() != name):  # it cannot be part of a host's name
            prefix, name, region = f"/{_encoded(name)}/", f"s3{_AMAZON}", DEFAULT_REGION
        else:
            name = f"{name}.s3.{region}{_AMAZON}" if region else f"{name}.s3{_AMAZON}"
    return Endpoint(f"{name}{colon}{port}", prefix + quote(key, safe="/-_.~"), region or DEFAULT_REGION)


def signed(url: str, keys: Keys, verb: str, now: float) -> str:
    """The https URL that lets its bearer do `verb` (GET or PUT) for an hour."""
    place = place_of(url, keys.region)
    moment = time.gmtime(now - SKEW_S)
    stamp, date = time.strftime("%Y%m%dT%H%M%SZ", moment), time.strftime("%Y%m%d", moment)
    scope = f"{date}/{place.region}/s3/aws4_request"
    query = {
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(EXPIRES_S),
        "X-Amz-SignedHeaders": "host",
    }
    if keys.session:
        query["X-Amz-Security-Token"] = keys.session
    canonical = "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in sorted(query.items()))
    signature = signature_of(verb, place, canonical, keys.secret, stamp, scope)
    return f"https://{place.host}{place.path}?{canonical}&X-Amz-Signature={signature}"


def signature_of(verb: str, place: Endpoint, query: str, secret: str, stamp: str, scope: str) -> str:
    """The signature of a request that signs its host alone. `query` is sorted and encoded."""
    request = f"{verb}\n{place.path}\n{query}\nhost:{place.host}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    return hmac.digest(key, f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}".encode(), "sha256").hex()


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")
