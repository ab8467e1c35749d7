"""Regular expressions, on bytes and in PCRE's dialect, with a bound on the time that one match may take.

Python's own engine can backtrack for hours on a short pattern. The `regex` package speaks nearly all of PCRE (atomic
groups, possessive quantifiers, recursion, POSIX classes) and stops when its processor time is used up; the match is
then an error value, as beyond PCRE's own match limit. Lengths are bounded as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pool.classad.limits import MAX_STRING
from pool.classad.values import ERROR, Error, to_bytes

if TYPE_CHECKING:
    import regex

MAX_PATTERN: Final = 10_000
#: Seconds of processor time for one match.
MATCH_TIME: Final = 0.1

# What PCRE writes otherwise than `regex`: quoting, control characters, ends, named references, lone braces.
_ESCAPES: Final = (
    rb"\\Q(.*?)(?:\\E|\Z)|\\E|\\c(.)|\\x\{([0-9a-fA-F]{1,2})\}|\\x(?![0-9a-fA-F]{2})([0-9a-fA-F]?)|\\o\{([0-7]{1,3})\}"
    rb"|\\k(?:\{(\w+)\}|<(\w+)>|'(\w+)')|\\g(?:\{(-?\d+|\w+)\}|(\d+))|\\(.)"
)
_PLAIN: Final = {b"Z": rb"(?=\n?\Z)", b"z": rb"\Z", b"e": rb"\x1b", b"a": rb"\x07"}


def _translate(found: re.Match[bytes]) -> bytes:
    quoted, control, hexa, short, octal, *names, escape = found.groups()
    if quoted is not None:
        return re.escape(quoted)
    if control is not None:
        return b"\\x%02x" % (control.upper()[0] ^ 64)
    if hexa is not None:
        return b"\\x%02x" % int(hexa, 16)
    if short is not None:
        return b"\\x%02x" % int(short or b"0", 16)
    if octal is not None:
        return b"\\x%02x" % (int(octal, 8) & 255)
    name = next((one for one in names if one is not None), None)
    if name is not None:
        return b"\\g<" + name + b">"
    if escape is None:
        return b""
    return _PLAIN.get(escape, b"\\" + escape)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern."""

    compiled: regex.Pattern[bytes]

    def match(self, data: bytes, at: int, *, anchored: bool = False) -> regex.Match[bytes] | Error | None:
        """The first match from `at` on, or there; ERROR when looking takes too long."""
        try:
            if anchored:
                return self.compiled.match(data, at, timeout=MATCH_TIME)
            return self.compiled.search(data, at, timeout=MATCH_TIME)
        except (TimeoutError, MemoryError, RecursionError):
            return ERROR

    def search(self, text: str) -> bool | Error:
        """Whether the pattern is found in `text`."""
        if len(text) > MAX_STRING:
            return ERROR
        found = self.match(to_bytes(text), 0)
        return found if isinstance(found, Error) else found is not None


@lru_cache(512)
def compile_pattern(text: str, options: str) -> Pattern | Error:
    """Compile a pattern with options i, m, s, x; ERROR when it is none."""
    import regex  # only an expression that uses one pays for it

    flags = 0
    for letter, flag in (("i", regex.I), ("m", regex.M), ("s", regex.S), ("x", regex.X)):
        if letter in options:
            flags |= flag
    data = to_bytes(text)
    if len(data) > MAX_PATTERN:
        return ERROR
    try:
        return Pattern(regex.compile(re.sub(_ESCAPES, _translate, data, flags=re.DOTALL), flags | regex.V0))
    except (regex.error, ValueError, OverflowError, IndexError, KeyError, RecursionError, MemoryError, TypeError):
        return ERROR


def substitute(pattern: Pattern, target: str, template: str, *, whole: bool, everywhere: bool) -> Any:
    """`template` filled in for the first match (or each); with `whole` put into `target` where the match was."""
    data, form = to_bytes(target), to_bytes(template)
    out = bytearray()
    at, empty = 0, False
    while True:
        found = pattern.match(data, at)
        if empty and not isinstance(found, Error) and found is not None and found.end() == at:
            # The same empty place again: go on behind the next byte.
            found = pattern.match(data, at + 1) if at < len(data) else None
        if isinstance(found, Error) or len(out) > MAX_STRING:
            return ERROR
        if found is None:
            break
        if whole:
            out += data[at : found.start()]
        filled = _fill(form, found)
        if filled is None:
            return ERROR
        out += filled
        at = found.end()
        empty = found.start() == found.end()
        if not everywhere:
            break
    if whole:
        out += data[at:]
    return out.decode("utf-8", "surrogateescape")


def _fill(form: bytes, found: regex.Match[bytes]) -> bytes | None:
    """The template with `\\1` and the like replaced; None when there is no such group."""
    last = max((i for i, group in enumerate(found.groups(), 1) if group is not None), default=0)
    out = bytearray()
    parts = re.split(rb"\\([0-9])", form)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            out += part
        elif int(part) > last:
            return None
        else:
            out += found.group(int(part)) or b""
    return bytes(out)
