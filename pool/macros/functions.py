"""The macro functions: `$INT`, `$REAL`, `$STRING`, `$EVAL`, `$CHOICE`, `$RANDOM_*`, `$SUBSTR`, `$F...` and the like."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pool.late_pattern import late_pattern

if TYPE_CHECKING:
    from pool.macros.expand import Expander

_FORMAT = late_pattern(r"[^%]*(?:%%[^%]*)*%[-+ #0]*\d*(?:\.\d+)?(?:ll|l|h)?([a-zA-Z])[^%]*(?:%%[^%]*)*\Z")


def evaluate(expander: Expander, function: str, body: str) -> str:
    """The text that `$function(body)` stands for."""
    special = _TABLE.get(function)
    return special(expander, body) if special else file_part(expander, function, body)


def _argument(expander: Expander, items: list[str], index: int) -> str | None:
    """Argument `index`: the expanded value of the macro of that name, else the text itself, expanded."""
    if index >= len(items):
        return None
    text = items[index].strip()
    value = expander.lookup(text)
    return expander.expand(text if value is None else value, keep_dollar=True)


def evaluated(text: str) -> object:
    """`text` as a ClassAd expression evaluated without an ad; None when it does not parse."""
    from pool.classad import expr  # the language is loaded only when a text needs it
    from pool.errors import ClassAdError

    try:
        return expr(text).eval()
    except ClassAdError:
        return None


def as_int(text: str | None) -> int | None:
    """An integer literal or an expression with a numeric value, cut to an integer; None for anything else."""
    if text is None or not text.strip():
        return None
    try:
        return int(text)
    except ValueError:
        value = evaluated(text)
        return int(value) if isinstance(value, (int, float)) else None


def as_float(text: str | None) -> float | None:
    """The same for a real."""
    if text is None or not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        value = evaluated(text)
        return float(value) if isinstance(value, (int, float)) else None


def _format(expander: Expander, function: str, items: list[str], kinds: str) -> str | None:
    if len(items) < 2:
        return None
    found = _FORMAT.match(items[1])
    if found is None or found[1] not in kinds:
        raise expander.error(f"${function}() macro: '{items[1]}' is not a valid format specifier")
    return re.sub(r"(?:ll|l|h)([a-zA-Z])", r"\1", items[1], count=1)


def _int(expander: Expander, body: str) -> str:
    items = body.split(",")
    shape = _format(expander, "INT", items, "dioxXu")
    text = _argument(expander, items, 0)
    value = as_int(text)
    if value is None:
        raise expander.error(f"$INT() macro: {text} does not evaluate to an integer!")
    return str(value) if shape is None else shape % value


def _real(expander: Expander, body: str) -> str:
    items = body.split(",")
    shape = _format(expander, "REAL", items, "eEfFgGaA")
    text = _argument(expander, items, 0)
    value = as_float(text)
    if value is None:
        raise expander.error(f"$REAL() macro: {text} does not evaluate to a real!")
    if shape is None:
        return f"{value:.16G}"
    said = shape % value
    return said if "." in said else said + ".0"


def _string(expander: Expander, body: str) -> str:
    items = body.split(",")
    shape = _format(expander, "STRING", items, "sS")
    text = _argument(expander, items, 0) or ""
    value = evaluated(text)
    said = value if isinstance(value, str) else text
    return said if shape is None else shape % said


def _eval(expander: Expander, body: str) -> str:
    from pool.classad.expression import node_of
    from pool.classad.unparse import unparse

    value = expander.lookup(body.strip())
    text = expander.expand(body if value is None else value)
    result = evaluated(text)
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    return unparse(node_of(result))


def _choice(expander: Expander, body: str) -> str:
    items = body.split(",")
    if len(items) < 2:
        raise expander.error("$CHOICE() macro: no list")
    text = _argument(expander, items, 0)
    index = as_int(text)
    if index is None or index < 0:
        raise expander.error(f"$CHOICE() macro: '{text}' is invalid index")
    choices = items[1:]
    if len(choices) == 1:
        name = choices[0].strip()
        value = expander.lookup(name) if name else None
        if value is None:
            raise expander.error(f"$CHOICE() macro: no list named {name}" if name else "$CHOICE() macro: no list")
        choices = expander.expand(value, keep_dollar=True).split(",")
    if index >= len(choices):
        raise expander.error(f"$CHOICE() macro: index {index} is out of range")
    return choices[index].strip()


def _random_choice(expander: Expander, body: str) -> str:
    items = body
    if "," not in items:
        if not items:
            raise expander.error("$RANDOM_CHOICE() macro: no list")
        items = _argument(expander, [items], 0) or ""
    choices = items.split(",")
    return choices[expander.chance.randrange(len(choices)) if expander.chance else 0].strip()


def _random_integer(expander: Expander, body: str) -> str:
    items = [item.strip() for item in body.split(",")]
    numbers = []
    for place, what in enumerate(("min", "max", "step")):
        if place == 2 and len(items) < 3:
            numbers.append(1)
            continue
        try:
            numbers.append(int(items[place]))
        except (IndexError, ValueError):
            raise expander.error(f"$RANDOM_INTEGER() macro: invalid {what}") from None
    low, high, step = numbers
    if step < 1:
        raise expander.error("$RANDOM_INTEGER() macro: invalid step")
    if low > high:
        raise expander.error("$RANDOM_INTEGER() macro: min > max")
    count = (step + high - low) // step
    return str(low + (expander.chance.randrange(count) if expander.chance else 0) * step)


def _substr(expander: Expander, body: str) -> str:
    items = body.split(",")
    text = _argument(expander, items, 0)
    if not text:
        return ""
    said = _argument(expander, items, 1)
    start = as_int(said)
    if start is None:
        raise expander.error(f"$SUBSTR() macro: {said or ''} is invalid start index!")
    rest = text[max(0, len(text) + start) if start < 0 else start :]
    if len(items) < 3:
        return rest
    said = _argument(expander, items, 2)
    length = as_int(said)
    if length is None:
        raise expander.error(f"$SUBSTR() macro: {said or ''} is invalid length!")
    return rest[: max(0, len(rest) + length if length < 0 else length)]


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def file_part(expander: Expander, function: str, body: str) -> str:
    """The parts of a file name that the letters after `$F` select."""
    value = expander.lookup(body)
    if value is None:
        return ""
    path = _unquote(expander.expand(value, keep_dollar=True))
    letters = {"BASENAME": "nx", "DIRNAME": "p"}.get(function, function[1:].lower())
    if not path and "f" not in letters:
        return ""
    if "f" in letters and not path.startswith("/") and expander.cwd:
        short = path[2:] if len(path) > 2 and path.startswith("./") else path
        path = expander.cwd.rstrip("/") + "/" + short
    if "w" in letters:
        path = path.replace("/", "\\")
    elif "u" in letters:
        path = path.replace("\\", "/")
    chosen = _select(path, letters, "\\" if "w" in letters else "/")
    if "q" in letters:
        mark = "'" if "a" in letters else '"'
        return mark + chosen + mark
    return chosen


def _select(path: str, letters: str, separator: str) -> str:
    name_at = path.rfind(separator) + 1
    dot = path.rfind(".", name_at)
    extension_at = dot if dot >= 0 else len(path)
    wants_extension, wants_name, wants_path = "x" in letters, "n" in letters, "p" in letters
    parents = letters.count("d")
    bare = "b" in letters
    if not name_at and (wants_extension or wants_name):
        wants_path, parents = False, 0
    if parents:
        return _parents(path, letters, separator, name_at, extension_at)
    if wants_path:
        if wants_name and not wants_extension:
            return path[:extension_at]
        if wants_extension:
            return path
        return path[: name_at - 1] if bare and name_at else path[:name_at]
    if wants_name:
        return path[name_at:] if wants_extension else path[name_at:extension_at]
    if wants_extension:
        return path[extension_at + 1 if bare and extension_at < len(path) else extension_at :]
    return path


def _parents(path: str, letters: str, separator: str, name_at: int, extension_at: int) -> str:
    """With `d`: as many directories above the file as there are d's, then what `n` and `x` ask for."""
    if not name_at:
        return ""
    start = name_at
    for _ in range(letters.count("d")):
        if start > 0:
            start = path.rfind(separator, 0, start - 1) + 1
    has_name, has_extension = "n" in letters, "x" in letters
    if has_name and not has_extension:
        return path[start:extension_at]
    if has_extension:
        return path[start:]
    return path[start : name_at - 1] if "b" in letters else path[start:name_at]


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
