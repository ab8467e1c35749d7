"""printf formats as HTCondor's tools read them: C's conversions, and their own %v, %V, %r, %T and %Y."""

import math
from typing import Final, NamedTuple

from pool.base.ids import is_number

INT: Final = "int"
FLOAT: Final = "float"
CHAR: Final = "char"
STRING: Final = "string"
VALUE: Final = "value"
RAW: Final = "raw"
TIME: Final = "time"
DATE: Final = "date"

_NO_INT: Final = -(2**63)
"""What C makes a whole number of a real one that has none."""
_KINDS: Final = {
    **dict.fromkeys("diouxXp", INT), **dict.fromkeys("eEfFgGaA", FLOAT), **dict.fromkeys("cC", CHAR),
    **dict.fromkeys("sS", STRING), **dict.fromkeys("vV", VALUE), **dict.fromkeys("rR", RAW), "T": TIME, "Y": DATE,
}  # fmt: skip


class Conversion(NamedTuple):
    """A format with its first conversion: the text around it, C's flags, width and precision (-1: none), the letter."""

    before: str
    flags: str
    width: int
    precision: int
    long: bool
    letter: str
    after: str

    @property
    def kind(self) -> str:
        """Which kind of value it prints: INT, STRING, VALUE and so on."""
        return _KINDS[self.letter]

    @property
    def is_left(self) -> bool:
        """Whether it puts the value to the left of its field."""
        return "-" in self.flags

    def number(self, value: float) -> str:
        """A number in this format."""
        return f"{self.before}{self._number(value)}{self.after}"

    def string(self, text: str) -> str:
        """A text in this format, as if its letter were `s`."""
        width = f"{'-' if self.is_left else ''}{self.width or ''}"
        cut = f".{self.precision}" if self.precision >= 0 else ""
        return f"{self.before}{f'%{width}{cut}s' % text}{self.after}"

    def _number(self, value: float) -> str:
        if self.kind == FLOAT:
            return self._float(float(value))
        amount = int(value) if math.isfinite(value) else _NO_INT
        if self.kind == CHAR:
            return self._field(chr(amount & 0xFF))
        if self.letter == "p":
            return self._field(hex(amount & 0xFFFFFFFFFFFFFFFF))
        # C prints the bits of a negative number, 32 of them unless `l` asks for 64.
        if self.letter in "ouxX" and amount < 0:
            amount &= 0xFFFFFFFFFFFFFFFF if self.long else 0xFFFFFFFF
        cut = f".{self.precision}" if self.precision >= 0 else ""
        letter = "d" if self.letter in "iu" else self.letter
        flags = self.flags
        # Python's %#o writes 0o17 where C writes 017.
        if letter == "o" and "#" in flags:
            flags, cut = flags.replace("#", ""), cut or f".{len(oct(amount)) - 1}"
        return f"%{flags}{self.width or ''}{cut}{letter}" % amount

    def _float(self, value: float) -> str:
        if self.letter in "aA":
            mantissa, _, exponent = value.hex().partition("p")
            text = f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"
            return self._field(text.upper() if self.letter == "A" else text)
        cut = f".{self.precision}" if self.precision >= 0 else ""
        return f"%{self.flags}{self.width or ''}{cut}{self.letter}" % value

    def _field(self, text: str) -> str:
        return f"%{'-' if self.is_left else ''}{self.width or ''}s" % text


def read(text: str) -> Conversion | None:
    """The first conversion of a format; None when it has none that can be filled in, so that it prints as it is."""
    at = text.find("%")
    while at >= 0:
        found = _conversion(text, at)
        if found is None or found.letter != "%":
            return found if found is not None and found.letter in _KINDS else None
        at = text.find("%", len(text) - len(found.after))
    return None


def _conversion(text: str, start: int) -> Conversion | None:
    end = at = start + 1
    # The ' of POSIX (thousands) is taken and has no effect: it follows the locale, which tools leave alone.
    while text[at : at + 1] and text[at] in "#0- +'":
        at += 1
    flags, end = text[end:at].replace("'", ""), at
    while is_number(text[at : at + 1]):
        at += 1
    width, precision = int(text[end:at] or 0), -1
    if text[at : at + 1] == ".":
        end = at = at + 1
        while is_number(text[at : at + 1]):
            at += 1
        precision = int(text[end:at] or 0) if at > end else -1
    long = text[at : at + 1] in ("l", "q", "j", "z", "t")
    while text[at : at + 1] and text[at] in "hlLqjzt":
        at += 1
    letter, after = text[at : at + 1], text[at + 1 :]
    if not letter:
        return None
    # HTCondor fills in the first conversion alone; `%%` around it is a percent sign.
    if letter != "%":
        after = after.replace("%%", "%")
    return Conversion(text[:start].replace("%%", "%"), flags, width, precision, long, letter, after)


_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def unescape(text: str) -> str:
    """A format with its `\\n`, `\\t`, `\\101` as the characters that they mean; other backslashes stay."""
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        letter, following = text[at], text[at + 1 : at + 2]
        at += 1
        if letter != "\\" or not following:
            out.append(letter)
            continue
        at += 1
        digits = ""
        if following in _ESCAPES:
            out.append(_ESCAPES[following])
        elif following in "\\'\"?":
            out.append(following)
        elif following in "xX":
            while text[at : at + 1] and text[at] in "0123456789abcdefABCDEF":
                digits, at = digits + text[at], at + 1
            # As a C string: one byte, and \x without digits is NUL.
            out.append(chr(int(digits or "0", 16) & 0xFF))
        elif following in "01234567":
            digits = following
            while text[at : at + 1] and text[at] in "01234567" and len(digits) < 3:
                digits, at = digits + text[at], at + 1
            out.append(chr(int(digits, 8) & 0xFF))
        else:
            out.append(letter + following)
    return "".join(out)
