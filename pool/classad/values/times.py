"""Times as text: reading `absTime("...")` and `relTime("...")` literals, and writing them."""

from __future__ import annotations

import math
import re
from typing import Final

from pool.base.dates import civil, utc_seconds
from pool.classad.values.environment import ENV
from pool.classad.values.value import AbsTime, RelTime, int32_of, wrap32

_SPACE: Final = " \t\n\v\f\r"
# Texts, compiled by their first use: few of the tools that import this read a time.
_ZONE: Final = r"(?a)([+-])(\d\d):?(\d\d)\Z"
_YEAR: Final = r"(?as)\D*(\d...)"
_FIELD: Final = r"(?as)\D*(\d.)"
_DIGIT: Final = r"(?a)\D*\d"


def read_abstime(text: str) -> AbsTime | None:
    """Read `2024-02-29T12:34:56-06:00`, and its shorter and untidier forms; None when there is no year in it.

    Months and days out of range carry over, as with C's mktime. Without an offset the local one is meant.
    """
    body, offset = text, None
    stripped = text.rstrip(_SPACE)
    if len(stripped) > 1 and stripped[-1] in "zZ":
        body, offset = text[: len(stripped) - 1] + text[len(stripped) :], 0
    elif len(text) > 5 and (zone := re.search(_ZONE, text)) is not None and zone.start() > 0:
        sign = -1 if zone[1] == "-" else 1
        body, offset = text[: zone.start()], sign * (int(zone[2]) * 3600 + int(zone[3]) * 60)
    found = re.match(_YEAR, body)
    if found is None:
        return None
    # What zeros in C's tm mean: January, and the day before its first.
    fields = [1, 0, 0, 0, 0]
    at, field = found.end(), re.compile(_FIELD)
    for i in range(5):
        part = field.match(body, at)
        if part is None:
            break
        fields[i] = _leading_int(part[1])
        at = part.end()
    if re.match(_DIGIT, body[at:]):
        return None
    return _moment(_leading_int(found[1]), fields, offset)


def _leading_int(text: str) -> int:
    digits = ""
    for c in text:
        if not "0" <= c <= "9":
            break
        digits += c
    return int(digits)


def _moment(year: int, fields: list[int], offset: int | None) -> AbsTime | None:
    month, day, hour, minute, second = fields
    secs = utc_seconds(year, month, day, hour, minute, second)
    if secs == -1:  # what mktime answers for a failure, so HTCondor takes the last second of 1969 for one
        return None
    if offset is None:
        offset = ENV.zone(secs, False)
    return AbsTime(secs - offset, offset)


def read_reltime(text: str) -> RelTime | None:
    """Read `[-][days+][hh:][mm:]ss[.s]`, also with d, h, m, s for the separators; None for anything else."""
    found = _read_span(text)
    if found is None:
        found = _read_overflow(text)
    return None if found is None else RelTime(found)


def _read_overflow(text: str) -> float | None:
    """What spans of 32 bits and more print as (`show_reltime`), so that every ad that was written can be read."""
    sign, rest = (-1, text[1:]) if text.startswith("--") else (1, text)
    before, mark, seconds = rest.partition("-24855+-3:-14:-")
    if before or not mark or not seconds.replace(".", "", 1).isdecimal() or not seconds.isascii():
        return None
    return sign * (2**31 + 8 - float(seconds))


def _read_span(text: str) -> float | None:
    """From the end backwards, as each field is optional and its mark follows it."""
    rest = text.rstrip(_SPACE)
    secs = 0.0
    if rest and (rest[-1] in "sS" or (rest[-1].isdigit() and rest[-1].isascii())):
        if rest[-1] in "sS":
            rest = rest[:-1].rstrip(_SPACE)
        rest, digits = _cut_digits(rest)
        if rest.endswith("."):
            rest, whole = _cut_digits(rest[:-1])
            digits = f"{whole}.{digits}"
        secs = float(digits) if any(map(str.isdigit, digits)) else 0.0
    counts = []
    for marks in ("mM:", "hH:", "dD+"):
        rest = rest.rstrip(_SPACE)
        count = 0
        if rest and rest[-1] in marks:
            rest, digits = _cut_digits(rest[:-1].rstrip(_SPACE))
            # What does not fit into 32 bits counts as nothing, as in HTCondor.
            count = int(digits) if digits and len(digits) < 11 and int(digits) < 2**31 else 0
        counts.append(count)
    rest = rest.rstrip(_SPACE)
    sign = 1
    if rest.endswith("-"):
        sign, rest = -1, rest[:-1].rstrip(_SPACE)
    if rest:
        return None
    # Days, hours and minutes add up in 32 bits, as HTCondor counts them; seconds are a real.
    return sign * (wrap32(counts[2] * 86400 + counts[1] * 3600 + counts[0] * 60) + secs)


def _cut_digits(text: str) -> tuple[str, str]:
    end = len(text)
    start = end
    while start and "0" <= text[start - 1] <= "9":
        start -= 1
    return text[:start], text[start:]


def show_abstime(at: AbsTime) -> str:
    """`2024-02-29T12:34:56-06:00`."""
    sign = "+" if at.offset > 0 else "-"
    offset = abs(at.offset)
    return f"{show_moment(at.secs + at.offset)}{sign}{offset // 3600:02d}:{offset // 60 % 60:02d}"


def show_moment(secs: int) -> str:
    """`2024-02-29T12:34:56`, for any number of seconds since the epoch."""
    # Python's divmod goes down also for times before 1970, which is what a calendar needs.
    days, rest = divmod(secs, 86400)
    year, month, day = civil(days)
    return f"{year}-{month:02d}-{day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def show_reltime(secs: float) -> str:
    """`days+hh:mm:ss`, without the leading fields that are zero."""
    sign = "-" if secs < 0 else ""
    secs = abs(secs)
    if not math.isfinite(secs):
        # The conversion of C on x86: what does not fit is the smallest integer.
        total, fraction = -(2**31), math.nan
    else:
        fraction = secs - math.floor(secs)
        total = int32_of(secs)
    hours, minutes = int(math.fmod(total, 86400)), 0
    minutes = int(math.fmod(hours, 3600))
    seconds = int(math.fmod(minutes, 60)) + fraction
    shown = f"{int(seconds):02d}" if fraction == 0 else _g(seconds)
    days, hours, minutes = int(total / 86400), int(hours / 3600), int(minutes / 60)
    if days:
        return f"{sign}{days}+{hours:02d}:{minutes:02d}:{shown}"
    if hours:
        return f"{sign}{hours:02d}:{minutes:02d}:{shown}"
    if minutes:
        return f"{sign}{minutes:02d}:{shown}"
    return sign + shown


def _g(seconds: float) -> str:
    shown = format(seconds, "02g")
    # glibc's printf shows the sign that such a NaN has on x86.
    return "-nan" if shown == "nan" else shown
