"""Amounts with units, read once into numbers: `4 GB`, `10 Mb`, `+1h`, `90s`."""

from __future__ import annotations

import re
from typing import Final

# Texts, which `re` compiles and keeps when they are first matched: many a tool reads no amount.
# So many digits at most: int() refuses 4301 of them, and a real of 310 is infinite.
_DIGITS: Final = "[0-9]{1,30}"
_BYTES: Final = rf"\s*([-+]?{_DIGITS}(?:\.[0-9]*)?|[-+]?\.[0-9]+)\s*([kKmMgGtTpP]?)([iI]?[bB]?)(?:ytes?)?\s*\Z"
_REQUEST: Final = rf"\s*({_DIGITS}(?:\.[0-9]*)?|\.[0-9]+)\s*(?:([kKmMgGtT])[bB]?)?\s*(?=\Z|,)"
"""What HTCondor takes for an amount in a submit file: no sign, no `i`, and a comma may follow."""
_SCALE = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_TIME: Final = rf"\s*\+?\s*({_DIGITS}(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*"
_SECONDS = {
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("w", "week", "weeks"), 604800),
}


def parse_bytes(text: str, *, unit: int = 1) -> int | None:
    """Bytes in `text`; a bare number counts in `unit` bytes. None when it is not an amount."""
    found = re.match(_BYTES, text)
    if found is None:
        return None
    scale = found[2].lower()
    number = float(found[1]) if "." in found[1] else int(found[1])
    if not scale and not found[3]:
        return int(number * unit)
    return int(number * (1 << _SCALE[scale]))


def parse_in_units(text: str, unit: int) -> int | None:
    """`text` as a number of `unit` bytes, rounded up: what `request_memory = 2.5 GB` means in MiB."""
    amount = parse_bytes(text, unit=unit)
    return None if amount is None else -(-amount // unit)


def requested_amount(text: str, unit: int) -> tuple[int, bool, str] | None:
    """What a submit file asks for, rounded up to `unit` bytes: (number, had a unit, the text after it)."""
    found = re.match(_REQUEST, text)
    if found is None:
        return None
    number = float(found[1]) if "." in found[1] else int(found[1])
    rest = text[found.end() :]
    if found[2] is None:
        # Rounded up as HTCondor does: a slot must never be smaller than what was asked for.
        return int(-(-number // 1)), False, rest
    return int(-(-number * (1 << _SCALE[found[2].lower()]) // unit)), True, rest


def parse_seconds(text: str) -> float | None:
    """Seconds in `90`, `1.5h`, `+1d 2h`; None when it is not a time."""
    at, total = 0, 0.0
    if not text.strip():
        return None
    while at < len(text):
        found = re.match(_TIME, text[at:])
        if found is None or found[2].lower() not in _SECONDS:
            return None
        total += float(found[1]) * _SECONDS[found[2].lower()]
        at += found.end()
    return total


def show_seconds(seconds: float) -> str:
    """`D+HH:MM:SS`, as the tools print times."""
    total = max(0, int(seconds))
    days, rest = divmod(total, 86400)
    return f"{days}+{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
