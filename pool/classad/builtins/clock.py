"""Functions of time: now, fields of a time, splitting and formatting."""

from __future__ import annotations

import math
from typing import Any, Final

from pool.classad.eval.frame import Frame
from pool.classad.eval.functions import SLOWEST, framed, plain
from pool.classad.values.attrs import Attrs
from pool.classad.values.environment import ENV, now
from pool.classad.values.strftime import Moment, strftime
from pool.classad.values.value import ERROR, UNDEFINED, AbsTime, RelTime, int32_of, int_of, wrap32


@plain(0, 0, "time")
def epoch_time() -> int:
    """Seconds since the epoch."""
    return now()


@plain(0, 0, "currentTime")
def current_time() -> AbsTime:
    """Now, in local time."""
    secs = now()
    return AbsTime(secs, ENV.zone(secs, False))


@plain(0, 0, "timeZoneOffset")
def time_zone_offset() -> RelTime:
    """How far local time is from UTC."""
    return RelTime(float(ENV.zone(now(), False)))


@plain(0, 0, "dayTime")
def day_time() -> RelTime:
    """Time since local midnight."""
    secs = now()
    return RelTime(float((secs + ENV.zone(secs, False)) % 86400))


_DATE_FIELDS: Final = ("getYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDayOfWeek")


def _enter(name: str) -> None:
    @plain(1, 1, name)
    def get_field(value: Any) -> Any:
        if type(value) is AbsTime:
            if name == "getDays":
                return ERROR
            # In this host's zone, whatever zone the time is shown with.
            return _local(value.secs).field(name)
        if type(value) is not RelTime or name in _DATE_FIELDS:
            return ERROR
        secs = int_of(value.secs)
        whole = abs(secs)
        part = {
            "getDays": whole // 86400,
            "getHours": whole % 86400 // 3600,
            "getMinutes": whole % 3600 // 60,
            "getSeconds": whole % 60,
        }[name]
        return part if secs >= 0 else -part


for _name in (*_DATE_FIELDS, "getDays", "getHours", "getMinutes", "getSeconds"):
    _enter(_name)


def _local(secs: int) -> Moment:
    return Moment.at(secs + ENV.zone(secs, False))


def _split_abstime(value: AbsTime) -> dict[str, Any]:
    moment = Moment.at(value.secs + value.offset)
    return {
        "Type": "AbsoluteTime",
        "Year": moment.year,
        "Month": moment.month,
        "Day": moment.day,
        "Hours": moment.hour,
        "Minutes": moment.minute,
        "Seconds": moment.second,
        "Offset": value.offset,
    }


def _split_reltime(secs: float) -> dict[str, Any]:
    negative, secs = secs < 0, abs(secs)
    total = int32_of(secs)
    # fmod and int cut towards zero as C does, also where the total has overflowed and is negative.
    hours = int(math.fmod(total, 86400))
    minutes = int(math.fmod(hours, 3600))
    seconds = math.fmod(minutes, 60) + (secs - math.floor(secs) if math.isfinite(secs) else math.nan)
    days, hours, minutes = int(total / 86400), int(hours / 3600), int(minutes / 60)
    if negative:
        # Only the first field that is not zero carries the sign.
        if days > 0:
            days = -days
        elif hours > 0:
            hours = -hours
        elif minutes > 0:
            minutes = -minutes
        else:
            seconds = -seconds
    return {"Type": "RelativeTime", "Days": days, "Hours": hours, "Minutes": minutes, "Seconds": seconds}


#: Seconds whose year fits into 32 bits; beyond them C has no calendar.
_CALENDAR: Final = 67_768_036_000_000_000


def _split(value: Any) -> dict[str, Any] | None:
    kind = type(value)
    if kind is int or kind is float:
        secs = value if kind is int else int32_of(value)
        if abs(secs) > _CALENDAR:
            return None
        return _split_abstime(AbsTime(secs, ENV.zone(secs, False)))
    if kind is AbsTime:
        return _split_abstime(value)
    if kind is RelTime:
        return _split_reltime(value.secs)
    return None


@framed(1, 1, "splitTime")
def split_time(frame: Frame, value: Any) -> Any:
    """An ad with the fields of a time."""
    if value is UNDEFINED:
        return UNDEFINED
    fields = _split(value)
    if fields is None:
        return ERROR
    attrs = Attrs()
    for name, field in fields.items():
        attrs[name.lower()] = field
        attrs.spell(name.lower(), name)
    # It stands nowhere, as in HTCondor: names that it lacks are not looked for further out.
    return Frame(attrs, None, frame.budget)


@plain(0, 2, "formatTime", cost=SLOWEST)
def format_time(value: Any = None, form: Any = "%c") -> Any:
    """A time as strftime writes it in the C locale: seconds, an absolute time, or what splitTime() gives."""
    if value is None:
        return strftime("%c", _local(now()))
    if type(value) is Frame:
        fields = {name: _whole(value, name) for name in ("Year", "Month", "Day", "Hours", "Minutes", "Seconds")}
    elif type(value) is RelTime:
        return ERROR
    else:
        fields = _split(value) or {}
    if not fields or type(form) is not str:
        return ERROR
    year, month = fields["Year"], fields["Month"]
    moment = Moment.of(
        # An ad without these fields is C's tm with zeros in it: year 1900, and the first month.
        1900 if year is None else year,
        1 if month is None else month,
        *(fields[name] or 0 for name in ("Day", "Hours", "Minutes", "Seconds")),
    )
    return strftime(form, moment)


def _whole(frame: Frame, name: str) -> int | None:
    value = frame.own(name.lower())
    kind = type(value)
    if kind is int:
        return wrap32(value)
    if kind is bool:
        return int(value)
    return int32_of(value) if kind is float else None


@plain(1, 1, "interval")
def interval(value: Any) -> Any:
    """Seconds as `days+hh:mm:ss`, without the leading fields that are zero."""
    from pool.classad.eval.convert import to_int

    found = to_int(value)
    if type(found) is not int:
        return ERROR
    secs = wrap32(found)
    # Only the first field carries the sign.
    sign, left = (-1, -secs) if secs < 0 else (1, secs)
    days, left = divmod(left, 86400)
    hours, left = divmod(left, 3600)
    minutes, seconds = divmod(left, 60)
    if days:
        return f"{sign * days}+{hours:02d}:{minutes:02d}:{seconds:02d}"
    if hours:
        return f"{sign * hours}:{minutes:02d}:{seconds:02d}"
    if minutes:
        return f"{sign * minutes}:{seconds:02d}"
    return str(sign * seconds)
