"""How large an ad may be that somebody sends to a daemon: in attributes, and in bytes of names, texts and expressions.

What is counted is close to what the ad takes in a message. In memory an ad takes a few times as much.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pool.base.errors import UserError
from pool.classad import ClassAd, Expr
from pool.classad.values.attrs import Attrs

if TYPE_CHECKING:
    from pool.config import Config

ATTRIBUTES_MAX: Final = 5000
JOB_BYTES_MAX: Final = 4 << 20
DAEMON_BYTES_MAX: Final = 1 << 20
_EACH: Final = 9
"""Bytes of a number, or of what a value is written with."""
_FLAT: Final = frozenset({str, int, bool, float})


@dataclass(frozen=True, slots=True)
class AdLimits:
    """What one ad may have."""

    attributes: int
    size: int

    def check(self, ad: ClassAd, what: str) -> int:
        """The bytes of the ad's own attributes; UserError when it is too large."""
        size = size_of(ad.attrs)
        self.judge(len(ad.attrs), size, what)
        return size

    def judge(self, attributes: int, size: int, what: str) -> None:
        """UserError when these are too many attributes, or bytes."""
        if attributes > self.attributes:
            raise UserError(f"{what} has {attributes} attributes", expected=f"at most {self.attributes}")
        if size > self.size:
            raise UserError(f"{what} has {size} bytes", expected=f"at most {self.size}")


def asked_for(names: Sequence[str]) -> Sequence[str]:
    """The attributes that somebody wants to see of each ad; UserError when they are more than an ad has."""
    if len(names) > ATTRIBUTES_MAX:
        raise UserError(f"{len(names)} attributes are asked for", expected=f"at most {ATTRIBUTES_MAX}")
    return names


JOBS: Final = AdLimits(ATTRIBUTES_MAX, JOB_BYTES_MAX)
DAEMONS: Final = AdLimits(ATTRIBUTES_MAX, DAEMON_BYTES_MAX)


def job_limits(config: Config) -> AdLimits:
    """Of a job's ad, and of what all jobs of a cluster share."""
    return AdLimits(config.int("MAX_AD_ATTRIBUTES"), config.int("MAX_JOB_AD_BYTES"))


def daemon_limits(config: Config) -> AdLimits:
    """Of the ads in the collector."""
    return AdLimits(config.int("MAX_AD_ATTRIBUTES"), config.int("MAX_DAEMON_AD_BYTES"))


def size_of(attrs: Attrs) -> int:
    """The bytes of an ad's own attributes, close enough."""
    values = attrs.values()
    size = names_size(attrs) + sum([len(value) for value in values if type(value) is str])
    if not _FLAT.issuperset(map(type, values)):
        size += sum([_size_of(value) for value in values if type(value) not in _FLAT])
    return size


def names_size(keys: Collection[str]) -> int:
    """What names cost, and that there are values."""
    return len(keys) * _EACH + sum(map(len, keys))


def value_size(value: Any) -> int:
    """What a value costs beyond that there is one."""
    kind = type(value)
    if kind is str:
        return len(value)
    return 0 if kind in _FLAT else _size_of(value)


def _size_of(value: Any) -> int:
    kind = type(value)
    if kind is str:
        return len(value) + _EACH
    if kind is Expr:
        return len(value.text)
    if kind is list:
        return sum(map(_size_of, value)) + _EACH
    if isinstance(value, ClassAd):
        return size_of(value.attrs) + _EACH
    return _EACH
