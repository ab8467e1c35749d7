"""The macro functions: `$INT`, `$REAL`, `$STRING`, `$EVAL`, `$CHOICE`, `$RANDOM_*`, `$SUBSTR`, `$F...` and the like.

Both languages have them (HTCondor's manual pages introduction-to-configuration and condor_submit). An argument that
names a macro stands for that macro's value, anything else for itself. A function with arguments that it cannot take is
an error at the place of the line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pool.base.words import SPACE

if TYPE_CHECKING:
    from pool.macros.expand import Expander

# No more digits than int() takes; a literal beyond that is left to the language of expressions, which says what it is.
_INTEGER = r"\s*[-+]?[0-9]{1,4300}\s*\Z"
# A width of a billion would take a gigabyte of whoever expands what somebody else has written, such as the schedd.
_FORMAT = r"[^%]*(?:%%[^%]*)*%[-+ #0]*[0-9]{0,4}(?:\.[0-9]{1,4})?(?:ll|l|h)?([a-zA-Z])[^%]*(?:%%[^%]*)*\Z"


def evaluate(expander: Expander, function: str, body: str) -> str:
    """The text that `$function(body)` stands for."""
    special = _TABLE.get(function)
    return special(expander, body) if special else file_part(expander, function, body)


def _argument(expander: Expander, items: list[str], index: int) -> str | None:
    """Argument `index`: the expanded value of the macro of that name, else the text itself, expanded."""
    if index >= len(items):
        return None
    text = items[index].strip(SPACE)
    value = expander.lookup(text)
    return expander.expand(text if value is None else value, keep_dollar=True)


def evaluated(text: str) -> object:
    """`text` as a ClassAd expression evaluated without an ad; None when it does not parse."""
    from pool.base.errors import ClassAdError
    from pool.classad import expr  # the language is loaded only when a text needs it

    try:
        return expr(text).eval()
    except ClassAdError:
        return None


def as_int(text: str | None) -> int | None:
    """An integer literal or an expression with a numeric value, cut to an integer; None for anything else."""
    if text is None or not text.strip(SPACE):
        return None
    if re.match(_INTEGER, text):
        return int(text)
    value = evaluated(text)
    # What C's conversion of such a real to an integer gives on this architecture.
    if isinstance(value, float) and not math.isfinite(value):
        return -(2**63)
    return int(value) if isinstance(value, (int, float)) else None


def as_float(text: str | None) -> float | None:
    """The same for a real."""
    if text is None or not text.strip(SPACE):
        return None
    if "_" not in text:
        try:
            return float(text)
        except ValueError:
            pass
    value = evaluated(text)
    return float(value) if isinstance(value, (int, float)) else None


def _format(expander: Expander, function: str, shape: str, kinds: str) -> bool:
    """Whether `shape` formats one value of these kinds; a wrong one is told, and then stands for itself."""
    found = re.match(_FORMAT, shape)
    if found is not None and found[1] in kinds:
        return True
    expander.fail(f"${function}() macro: '{shape}' is not a valid format specifier")
    return False


def _named(expander: Expander, text: str) -> str:
    """The expanded value of the macro `text`, else the text itself, expanded. Blanks belong to the name."""
    value = expander.lookup(text)
    return expander.expand(text if value is None else value, keep_dollar=True)


def _int(expander: Expander, body: str) -> str:
    name, comma, shape = body.partition(",")
    if comma and not _format(expander, "INT", shape, "dioxXuc"):
        return shape
    text = _named(expander, name)
    value = as_int(text)
    if value is None:
        expander.fail(f"$INT() macro: {text} does not evaluate to an integer!")
        return ""
    if not comma:
        return str(value)
    plain = re.sub(r"(?:ll|l|h)([a-zA-Z])", r"\1", shape, count=1)
    if re.search(r"%[^a-zA-Z%]*c", plain):  # C writes one byte, Python any character that there is
        value &= 0xFF
    # Without `l` or `ll` the value goes through C's int before it is written.
    if plain == shape:  # C's int has 32 bits
        value = (value + 2**31) % 2**32 - 2**31
    if value < 0 and re.search(r"%[^a-zA-Z]*[oxXu]", plain):
        value += 2**32 if plain == shape else 2**64
    return plain % value


def _real(expander: Expander, body: str) -> str:
    name, comma, shape = body.partition(",")
    if comma and not _format(expander, "REAL", shape, "eEfFgGaA"):
        return shape
    text = _named(expander, name)
    value = as_float(text)
    if value is None:
        expander.fail(f"$REAL() macro: {text} does not evaluate to a real!")
        return ""
    if not comma:
        return f"{value:.16G}"
    # Python's %a is another thing, and it has no %A.
    if (hexadecimal := re.search(r"%[^a-zA-Z%]*[aA]", shape)) is not None:
        written = value.hex()
        return shape.replace(hexadecimal[0], "%s") % (written.upper() if hexadecimal[0][-1] == "A" else written)
    said = shape % value
    return said if "." in said else said + ".0"


def _string(expander: Expander, body: str) -> str:
    name, comma, shape = body.partition(",")
    if comma and not _format(expander, "STRING", shape, "sS"):
        return shape
    text = _named(expander, name)
    value = evaluated(text)
    said = value if isinstance(value, str) else text
    return re.sub(r"(%[^a-zA-Z%]*)S", r"\1s", shape) % said if comma else said  # Python has no %S


def _eval(expander: Expander, body: str) -> str:
    from pool.classad.eval.expression import node_of
    from pool.classad.syntax.unparse import unparse

    value = expander.lookup(body)
    raw = body if value is None else value
    text = expander.expand(raw)
    result = evaluated(text)
    if result is None:
        return text if "$" in raw else ""
    return result if isinstance(result, str) else unparse(node_of(result))


def _choice(expander: Expander, body: str) -> str:
    items = body.split(",")
    text = _argument(expander, items, 0)
    index = as_int(text)
    if index is None or index < 0:
        expander.fail(f"$CHOICE() macro: '{text}' is invalid index")
        index = 0
    choices = items[1:]
    if not choices:
        expander.fail("$CHOICE() macro: no list")
        return ""
    if len(choices) == 1:
        name = choices[0].strip(SPACE)
        value = expander.lookup(name)
        if value is None:
            expander.fail(f'$CHOICE() macro: no list named "{name}"!')
            return ""
        # `$(DOLLAR)` stays to the last: made a dollar now it would begin a reference.
        choices = expander.expand(value, keep_dollar=True).split(",")
    if index >= len(choices):
        expander.fail(f"$CHOICE() macro: index {index} is out of range")
        return ""
    return choices[index].strip(SPACE)


def _random_choice(expander: Expander, body: str) -> str:
    choices = _words(body)
    # HTCondor's manual gives both forms, the list in place and the name of one.
    if len(choices) == 1:  # one word is a list's name, where there is such a list
        value = expander.lookup(choices[0])
        if value is not None:
            choices = _words(expander.expand(value, keep_dollar=True).replace(" ", ","))
    if not choices:
        expander.fail("$RANDOM_CHOICE() macro is empty!")
        return ""
    return choices[expander.chance.randrange(len(choices)) if expander.chance else 0]


def _words(text: str) -> list[str]:
    return [word for word in (part.strip(SPACE) for part in text.split(",")) if word]


def _random_integer(expander: Expander, body: str) -> str:
    items = _words(body)
    low = _bound(expander, items, 0, "min", 0)
    high = _bound(expander, items, 1, "max", low)
    step = _bound(expander, items, 2, "step", 1) if len(items) > 2 else 1
    if step < 1:
        expander.fail("$RANDOM_INTEGER() macro: invalid step!")
        step = 1
    if low > high:
        expander.fail("$RANDOM_INTEGER() macro: min > max!")
        low = high
    count = (step + high - low) // step
    return str(low + (expander.chance.randrange(count) if expander.chance else 0) * step)


def _bound(expander: Expander, items: list[str], place: int, what: str, instead: int) -> int:
    # Not what int() alone takes: `1_000`, digits of other scripts.
    if place < len(items) and re.match(_INTEGER, items[place]):
        return int(items[place])
    expander.fail(f"$RANDOM_INTEGER() macro: invalid {what}!")
    return instead


def _substr(expander: Expander, body: str) -> str:
    name, comma, rest = body.partition(",")
    if not comma:
        expander.fail("$SUBSTR() macro: no length specified!")
        return ""
    start_text, has_length, length_text = rest.partition(",")
    said = _named(expander, start_text)
    start = as_int(said)
    if start is None:
        expander.fail(f"$SUBSTR() macro: {said} is invalid start index!")
        return ""
    length: int | None = None
    if has_length:
        said = _named(expander, length_text)
        length = as_int(said)
        if length is None:
            expander.fail(f"$SUBSTR() macro: {said} is invalid length!")
            return ""
    value = expander.lookup(name)
    if value is None:
        return ""
    text = expander.expand(value, keep_dollar=True)
    rest = text[max(0, len(text) + start) if start < 0 else start :]
    if length is None:
        return rest
    return rest[: max(0, len(rest) + length if length < 0 else length)]


def _unquote(text: str, *marks: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in marks else text


def _requote(text: str, mark: str) -> str:
    """`text` in `mark`s, without the double quotes (or marks) around it, which need not come in pairs."""
    # A mark at one end only goes away as well: HTCondor writes its own over both ends, and never looks whether they
    # match.
    first = text[:1]
    if first and first in ('"', mark):
        text = text[1:].removesuffix(first)
    return mark + text + mark


def file_part(expander: Expander, function: str, body: str) -> str:
    """The parts of a file name that the letters after `$F` select. `body` names a macro, or is the file name."""
    suffix = ""
    if function == "BASENAME" and "," in body:
        name, _, suffix = body.rpartition(",")
        suffix = suffix.lstrip(SPACE)
    else:
        name = body
    value = expander.lookup(name)
    path = _unquote(expander.expand(name if value is None else value, keep_dollar=True), '"', "'")
    letters = {"BASENAME": "nx", "DIRNAME": "p"}.get(function, function[1:].lower())
    mark = ("'" if "a" in letters else '"') if "q" in letters else ""
    separator = "\\" if "w" in letters else "/"
    if "f" in letters and not path.startswith("/") and expander.cwd:
        short = path[2:] if len(path) > 2 and path.startswith(("./", "." + separator)) else path
        path = expander.cwd.rstrip("/") + separator + _requote(short, mark).strip(mark or None)
        path = mark + path + mark
    else:
        path = _requote(path, mark)
    if "w" in letters:
        path = path.replace("/", "\\")
    elif "u" in letters:
        path = path.replace("\\", "/")
    return _select(path, letters, mark, suffix)


def _select(path: str, letters: str, mark: str, suffix: str) -> str:
    """What the letters ask for of a path that may stand in quotation marks: the marks go along."""
    name_at = path.rfind("/") + 1
    dot = path.rfind(".", name_at)
    extension_at = dot if dot >= 0 else len(path)
    wants_extension, wants_name, wants_path = "x" in letters, "n" in letters, "p" in letters
    parents = letters.count("d")
    if suffix and path[name_at:].lower().endswith(suffix.lower()):
        extension_at, wants_extension = len(path) - len(suffix), False
    # A bare file name has no directory to leave out.
    if not name_at and (wants_extension or wants_name):
        wants_path, parents = False, 0
    bare = "b" in letters
    start, end = 0, len(path)
    if parents and not name_at:
        start = end = 1
    elif parents:
        start = _above(path, name_at, parents)
        if not wants_extension:
            end = extension_at if wants_name else name_at - 1 if bare else name_at
    elif wants_path and not wants_extension:
        end = extension_at if wants_name else name_at - 1 if bare and name_at else name_at
    elif wants_name and not wants_path:
        start, end = name_at, len(path) if wants_extension else extension_at
    elif wants_extension and not wants_path:
        start = extension_at + 1 if bare and extension_at < len(path) else extension_at
    return _in_marks(path, start, end, mark) if mark else path[start:end]


def _above(path: str, name_at: int, levels: int) -> int:
    """Where the part of the path begins that has so many directories."""
    starts = [place + 1 for place, char in enumerate(path) if char in "/\\"]
    return starts[-1 - levels] if len(starts) > levels else 0


def _in_marks(path: str, start: int, end: int, mark: str) -> str:
    """`path[start:end]` in quotation marks, written over what surrounds it: nothing leaves a single mark."""
    chars = [*path, "", ""]
    if chars[start] != mark:
        start -= 1
        chars[start] = mark
    if end > 1 and chars[end - 1] == mark:
        end -= 1
    chars[end] = mark
    return "".join(chars[start : end + 1])


_TABLE: dict[str, Callable[[Expander, str], str]] = {
    "INT": _int,
    "REAL": _real,
    "STRING": _string,
    "EVAL": _eval,
    "CHOICE": _choice,
    "RANDOM_CHOICE": _random_choice,
    "RANDOM_INTEGER": _random_integer,
    "SUBSTR": _substr,
}
