"""Regular expressions, on bytes and in PCRE's dialect, with a bound on the time that one match may take.

Python's own engine can backtrack for hours on a short pattern. The `regex` package speaks nearly all of PCRE (atomic
groups, possessive quantifiers, recursion, POSIX classes) and stops when its processor time is used up; the evaluation
is then an error, as beyond PCRE's own match limit. Most matches are over before the clock would have been looked at.
To compile cannot be stopped: patterns are refused that would be too large, as PCRE refuses them.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pool.classad.eval.budget import Budget, OverBudget
from pool.classad.values.environment import ENV
from pool.classad.values.kept import Kept
from pool.classad.values.limits import MAX_STRING
from pool.classad.values.value import ERROR, Error, to_bytes

if TYPE_CHECKING:
    import regex

MAX_PATTERN: Final = 5_000
#: Parts of a pattern when what is repeated a fixed number of times is written out, as compiling does.
MAX_PARTS: Final = 10_000
#: Seconds of processor time that a match may take without having been counted, and the steps that it counts for.
BRIEF: Final = 0.0002
MATCH_STEPS: Final = 5
#: Steps that a longer match counts for where there is no clock to say how long it took.
LONG_MATCH_STEPS: Final = 25_000
#: Bytes of text that are made in a step.
BYTES_BUILT: Final = 64
#: Steps for each byte of a pattern that is compiled.
COMPILE_STEPS: Final = 10

# What PCRE writes otherwise than `regex`: quoting, control characters, ends, named references, lone braces.
_ESCAPES: Final = (
    rb"\\Q(.*?)(?:\\E|\Z)|\\E|\\c(.)|\\x\{([0-9a-fA-F]{1,2})\}|\\x(?![0-9a-fA-F]{2})([0-9a-fA-F]?)|\\o\{([0-7]{1,3})\}"
    rb"|\\k(?:\{(\w+)\}|<(\w+)>|'(\w+)')|\\g(?:\{(-?\d+|\w+)\}|(\d+))|\\(.)"
)
_PLAIN: Final = {b"Z": rb"(?=\n?\Z)", b"z": rb"\Z", b"e": rb"\x1b", b"a": rb"\x07"}


def _translate(found: re.Match[bytes]) -> bytes:
    # One alternative at a time took part: its group tells which.
    quoted, control, hexa, short, octal, *names, escape = found.groups()
    if quoted is not None:
        return re.escape(quoted)
    if control is not None:
        # As ASCII has control characters: the letter with its bit 6 turned over (pcre2pattern(3)).
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
    text: str
    options: str

    def match(self, data: bytes, at: int, budget: Budget) -> regex.Match[bytes] | None:
        """The first match from `at` on; OverBudget when looking takes too long."""
        # Before the search, so that a thousand short matches are not free.
        budget.steps -= MATCH_STEPS
        if budget.steps < 0:
            budget.look()
        try:
            return self.compiled.search(data, at, timeout=BRIEF)
        except (TimeoutError, MemoryError, RecursionError):
            return self._long_match(data, at, budget)

    def _long_match(self, data: bytes, at: int, budget: Budget) -> regex.Match[bytes] | None:
        """With the clock in hand."""
        budget.look()
        # Without a clock nothing bounds the search but this count: a pattern that needs it is dear.
        if ENV.cpu is None:
            budget.spend(LONG_MATCH_STEPS)
        try:
            found = self.compiled.search(data, at, timeout=max(BRIEF, budget.time_left()))
        except (TimeoutError, MemoryError, RecursionError):
            raise OverBudget("a regular expression takes too long") from None
        budget.look()
        return found

    def not_empty_here(self, budget: Budget) -> Pattern | Error:
        """What matches exactly where the search begins, and not nothing; ERROR when it cannot be had."""
        return compile_pattern(
            f"\\G(?:{self.text}\n)(?!\\G)" if "x" in self.options else f"\\G(?:{self.text})(?!\\G)",
            self.options,
            budget,
        )

    def search(self, text: str, budget: Budget) -> bool:
        """Whether the pattern is found in `text`."""
        # Strings of the ad itself may be longer than what evaluation makes.
        if len(text) > MAX_STRING:
            raise OverBudget("a string is too long for a regular expression")
        return self.match(text.encode() if text.isascii() else to_bytes(text), 0, budget) is not None


_BYTES_EACH: Final = 20_000
_BYTES_PER_CHARACTER: Final = 200
_compiled: Final[Kept[tuple[str, str], Pattern | Error]] = Kept(32 << 20)


def compile_pattern(text: str, options: str, budget: Budget) -> Pattern | Error:
    """Compile a pattern with options i, m, s, x; ERROR when it is none."""
    # The usual way, without the bookkeeping of the store: a policy matches the same pattern for each slot.
    young = _compiled.young.get((text, options))
    if young is not None:
        return young[0]
    found = _compiled.find((text, options))
    if found is None:
        budget.spend(COMPILE_STEPS * min(len(text), MAX_PATTERN))
        if "regex" not in sys.modules:  # only an expression that uses one pays for it, and not from its budget
            import regex  # noqa: F401

            budget.restart_clock()
        found = _compile(text, options)
        budget.look()
        _compiled.put((text, options), found, _BYTES_EACH + _BYTES_PER_CHARACTER * (len(text) + len(options)))
    return found


def _compile(text: str, options: str) -> Pattern | Error:
    import regex

    flags = 0
    for letter, flag in (("i", regex.I), ("m", regex.M), ("s", regex.S), ("x", regex.X)):
        if letter in options:
            flags |= flag
    if len(text) > MAX_PATTERN:
        return ERROR
    # Bytes, as PCRE has them in HTCondor: `.` takes half of a two-byte letter there.
    data = re.sub(_ESCAPES, _translate, to_bytes(text), flags=re.DOTALL)
    # Nothing can stop the compiler once it has begun: `(a{999}){999}` is short and would fill the memory.
    if len(data) > 2 * MAX_PATTERN or parts_of(data) > MAX_PARTS:
        return ERROR
    try:
        return Pattern(regex.compile(data, flags | regex.V0, cache_pattern=False), text, options)
    except (regex.error, ValueError, OverflowError, IndexError, KeyError, RecursionError, MemoryError, TypeError):
        return ERROR


_PARTS: Final = re.compile(
    rb"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|(?P<repeat>\{(?P<least>[0-9]+)(?:,[0-9]*)?\})|.", re.DOTALL
)


def parts_of(pattern: bytes) -> int:
    """How large a pattern is when fixed repetitions are written out; not less than it is."""
    # How many parts there were when each group began: at its end, what a repetition behind it repeats.
    open_groups: list[int] = []
    whole = last = 0  # the parts so far, and those of what a repetition would repeat
    for found in _PARTS.finditer(pattern):
        piece = found[0]
        if found["repeat"] is not None:
            whole += last * (min(int(found["least"][:9]), MAX_PARTS) - 1) if found["least"].strip(b"0") else 0
            last *= min(int(found["least"][:9]), MAX_PARTS) or 1
        elif piece == b"(":
            open_groups.append(whole)
            last = 0
        elif piece == b")":
            # A parenthesis too many is refused by the compiler, and not here.
            last = whole - open_groups.pop() + 1 if open_groups else 1
            whole += 1
        else:
            whole, last = whole + 1, 1
        if whole > MAX_PARTS:
            break
    return whole


def substitute(pattern: Pattern, target: str, template: str, budget: Budget, *, whole: bool, everywhere: bool) -> Any:
    """`template` filled in for the first match (or each); with `whole` put into `target` where the match was.

    As in HTCondor: behind an empty match a longer one is looked for in the same place, else one byte is copied, without
    `whole` as well, and the search goes on behind it. An empty match at the end of the text leaves no byte to copy:
    that is an error.
    """
    data, form = to_bytes(target), re.split(rb"\\([0-9])", to_bytes(template))
    budget.spend((len(data) + len(template)) // BYTES_BUILT)
    out = bytearray()
    at, looked_for = 0, pattern
    while len(out) <= MAX_STRING:
        found = looked_for.match(data, at, budget)
        if found is None and looked_for is not pattern:
            if at == len(data):
                return ERROR
            out += data[at : at + 1]
            at, looked_for = at + 1, pattern
            continue
        if found is None:
            break
        if whole:
            out += data[at : found.start()]
        filled = _fill(form, found)
        if filled is None:
            return ERROR
        budget.spend(len(filled) // BYTES_BUILT)
        out += filled
        at = found.end()
        if not everywhere:
            break
        if found.start() == at and looked_for is pattern:
            # As pcre2demo does it (PCRE2_NOTEMPTY_ATSTART): an empty match alone would be found at the same place for
            # ever.
            longer = pattern.not_empty_here(budget)
            if not isinstance(longer, Pattern):
                return ERROR
            looked_for = longer
    else:
        return ERROR
    if whole:
        out += data[at:]
    return out.decode("utf-8", "surrogateescape")


def _fill(form: list[bytes], found: regex.Match[bytes]) -> bytes | None:
    """The template, split at `\\1` and the like, with those replaced; None when there is no such group."""
    last = max((i for i, group in enumerate(found.groups(), 1) if group is not None), default=0)
    out = bytearray()
    for i, part in enumerate(form):
        if i % 2 == 0:
            out += part
        # A group behind the last that took part is none to HTCondor, which counts what pcre2_match returns.
        elif int(part) > last:
            return None
        else:
            out += found.group(int(part)) or b""
    return bytes(out)
