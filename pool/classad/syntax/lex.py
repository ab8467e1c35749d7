"""Text to tokens, in both forms: in the new form a backslash starts an escape, in the long form it stands for itself
unless a quote follows.

Rules: what HTCondor's lexer takes is taken, with its oddities (integers that do not fit are 0, `-017` is decimal);
what is refused is shown at its place. No text costs time out of proportion to its length.
"""

import re
from functools import cache
from re import Match, Pattern
from typing import Final, NamedTuple

from pool.base.errors import ClassAdError, Span
from pool.classad.values.limits import MAX_EXPRESSION, MAX_TEXT
from pool.classad.values.value import ERROR, INT_MAX, INT_MIN, UNDEFINED, Scalar, from_bytes, to_bytes

END: Final = "end"
LITERAL: Final = "literal"
NAME: Final = "name"


class Token(NamedTuple):
    """An operator (`kind` is its long-form spelling), a name, a literal, or the end."""

    kind: str
    value: Scalar
    at: int


# Possessive or reluctant repeats, and no repeat of repeats: what is never closed must cost neither time that doubles
# with each letter after it, nor memory for each letter. (Possessive groups inside repeated ones fail in Python 3.11.2.)
COMMENT: Final = r"/\*(?s:.*?)\*/"
_BLANK: Final = rf"(?P<blank>[ \t\n\v\f\r]++|//[^\n]*+|{COMMENT})"
_NAME: Final = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_NUMBER: Final = (
    r"(?P<number>(?:0[xX][0-9a-fA-F]*|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?))"
)
_NEW_STRING: Final = r"(?P<{0}>{1}(?:[^{1}\\]++|\\.)*+{1}(?:[ \t\n\v\f\r]*{1}(?:[^{1}\\]++|\\.)*+{1})*)"
#: Closed by a quote that has no backslash before it, or the end of the line behind it.
_OLD_STRING: Final = r"(?P<{0}>{1}(?s:.*?){1}(?:(?<!\\{1})|(?=\n|\Z)))"
_OPERATOR: Final = (
    r"(?P<op>=\?=|=!=|==|=|\?[ \t\n\v\f\r]*:|\?|!=|!|&&|&|\|\||\||<=|<<|<|>>>|>>|>=|>|[-+*/%^~.,:;\[\](){}])"
)


@cache
def _tokens(old: bool) -> Pattern[str]:
    """What a token is; most tools read expressions of one form, or of none."""
    string = _OLD_STRING if old else _NEW_STRING
    quoted = [string.format("text", '"'), string.format("quoted", "'")]
    return re.compile("|".join([_BLANK, _NAME, _NUMBER, *quoted, _OPERATOR]), re.DOTALL)


_WORDS: Final[dict[str, tuple[str, Scalar]]] = {
    "true": (LITERAL, True),
    "false": (LITERAL, False),
    "undefined": (LITERAL, UNDEFINED),
    "error": (LITERAL, ERROR),
    "is": ("=?=", UNDEFINED),
    "isnt": ("=!=", UNDEFINED),
}
#: After one of these a minus is an operator; anywhere else a digit after it makes a negative number.
_OPERANDS: Final = frozenset({LITERAL, NAME, "]", ")", "}", "."})

_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE: Final = r"(?s)\\([0-3][0-7]{1,2}|[0-7]{1,2}|.)"
_GLUE: Final = {q: rf"(?<!\\)((?:\\\\)*){q}[ \t\n\v\f\r]*{q}" for q in "\"'"}
_SUFFIX: Final = r"[bBkKmMgGtT](?![A-Za-z0-9_])"
_SCALE: Final = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def fail(text: str, at: int, message: str, *, expected: str | None = None, file: str = "expression") -> ClassAdError:
    """The error for place `at` of `text`, with line, column and the line itself."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)]
    return ClassAdError(
        message, span=Span(file, text.count("\n", 0, at) + 1, at - start + 1, line[:500]), expected=expected
    )


def tokenize(text: str, *, old: bool, strict: bool, file: str, most: int = MAX_TEXT) -> list[Token]:
    """All tokens of `text` and an end token; ClassAdError for what is none, and for more than `most` characters.

    What is inside strings does not count: it is read as it is, and not evaluated. The end token's value is where the
    `//` comment begins that the text ends in, if it does.
    """
    match = _tokens(old).match
    tokens: list[Token] = []
    at, last, size = 0, "", len(text)
    open_comment: Scalar = UNDEFINED
    while at < size:
        found = match(text, at)
        if found is None:
            # HTCondor's parser reads C strings, which end here.
            if text[at] == "\0":
                break
            raise _bad_character(text, at, file)
        kind, piece, start, at = found.lastgroup, found[0], at, found.end()
        if kind == "blank":
            # Whoever puts a text into a larger one must know: what he writes behind it would be a part of the comment.
            if at == size and piece.startswith("//"):
                open_comment = start
            continue
        if kind == "name":
            last, value = _WORDS.get(piece.lower(), (NAME, piece))
        elif kind == "op":
            last, value = ("?:" if piece[0] == "?" and piece[-1] == ":" else piece), UNDEFINED
            # Not left to the parser, which would see it later: to look for its end takes the rest of the text.
            if piece == "/" and text.startswith("*", at):
                raise _bad_character(text, start, file)
            is_sign = piece == "-" and (not tokens or tokens[-1].kind not in _OPERANDS)
            if is_sign and (number := match(text, at)) is not None and number.lastgroup == "number":
                last = LITERAL
                at, value = _number(text, start, "-" + number[0], number.end(), strict, file)
        elif kind == "number":
            last = LITERAL
            at, value = _number(text, start, piece, at, strict, file)
        else:
            # In double quotes a string, in single ones a name that may hold anything.
            last, most = (LITERAL, most + len(piece)) if kind == "text" else (NAME, most)
            value = _quoted(text, start, piece, file, old=old)
        tokens.append(Token(last, value, start))
        if at > most:
            raise _too_long(text, file)
    tokens.append(Token(END, open_comment, min(at, size)))
    return tokens


def _too_long(text: str, file: str) -> ClassAdError:
    said = f"an expression of {len(text)} characters: {text[:40]}..."
    return ClassAdError(said, span=Span(file, 1, 1), expected=f"at most {MAX_EXPRESSION}")


def _quoted(text: str, start: int, piece: str, file: str, *, old: bool) -> str:
    if "\0" in piece:
        raise fail(text, start, "a string may not contain the character 0", file=file)
    return piece[1:-1].replace("\\" + piece[0], piece[0]) if old else _unescape(text, start, piece, file)


def _bad_character(text: str, at: int, file: str) -> ClassAdError:
    if text[at] in "\"'":
        return fail(text, at, "this quote is never closed", expected=f"a closing {text[at]}", file=file)
    if text.startswith("/*", at):
        return fail(text, at, "this comment is never closed", expected="*/", file=file)
    return fail(text, at, f"{text[at]!r} has no place in an expression", file=file)


def _number(text: str, start: int, piece: str, end: int, strict: bool, file: str) -> tuple[int, Scalar]:
    """The number at `start`, and where it ends. Integers that do not fit are 0, as HTCondor reads them."""
    after = text[end : end + 1]
    digits = piece.lstrip("-")
    hexadecimal = digits[:2].lower() == "0x"
    real = not hexadecimal and not digits.isdigit()
    if after == "." and not real:
        raise fail(text, start, "a number ends in a point", expected="a digit after the point", file=file)
    if not hexadecimal and after in "eE" and after and "e" not in digits.lower():
        raise fail(text, start, "the exponent has no digits", file=file)
    if hexadecimal and len(digits) == 2:
        raise fail(text, start, "a hexadecimal number without digits", file=file)
    if real:
        return end, float(piece)
    # Octal in the strict language only. Elsewhere HTCondor refuses these, but for negative ones, which it reads as
    # decimal.
    if digits[0] == "0" and len(digits) > 1:
        if not hexadecimal and ("8" in digits or "9" in digits):
            raise fail(text, start, "8 and 9 are no octal digits", file=file)
        if strict:
            n = int(digits, 16) if hexadecimal else int(digits, 8)
            return end, _fits(-n if piece[0] == "-" else n)
        if piece[0] != "-":
            raise fail(text, start, "a number may not begin with 0", expected="a decimal number", file=file)
        return end, 0 if hexadecimal else _decimal(piece)
    if strict and (suffix := re.match(_SUFFIX, text[end : end + 2])):
        return end + suffix.end(), _fits(_decimal(piece) * _SCALE[suffix[0].lower()])
    return end, _decimal(piece)


def _decimal(piece: str) -> int:
    digits = piece.lstrip("-").lstrip("0")
    # Longer ones do not fit anyway, and Python refuses to convert very long ones.
    n = int(digits or "0") if len(digits) < 24 else 0
    return _fits(-n if piece[0] == "-" else n)


def _fits(n: int) -> int:
    return n if INT_MIN <= n <= INT_MAX else 0


def _unescape(text: str, start: int, piece: str, file: str) -> str:
    """The value of a new-form string; adjacent strings are one."""
    quote = piece[0]
    raw = piece[1:-1]
    if quote in raw:
        raw = re.sub(_GLUE[quote], r"\1", raw)
    found = unescape(raw)
    if found is None:
        raise fail(text, start, "a string may not contain the character 0", file=file)
    return found


def unescape(raw: str) -> str | None:
    """`raw` with its backslash escapes replaced; None when one of them is the character 0."""
    if "\\" not in raw:
        return raw
    high = zero = False

    def replace(found: Match[str]) -> str:
        nonlocal high, zero
        code = found[1]
        if code[0] not in "01234567":
            return _ESCAPES.get(code, code)
        value = int(code, 8)
        high, zero = high or value > 127, zero or value == 0
        return chr(value) if value < 128 else chr(0xDC00 + value)

    out = re.sub(_ESCAPE, replace, raw)
    if zero:
        return None
    # Escapes above 127 are bytes: together they may make a letter of UTF-8.
    return from_bytes(to_bytes(out)) if high else out
