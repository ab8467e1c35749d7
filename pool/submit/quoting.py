"""Arguments and environments as users write them; what words are in job ads is `pool/base/argv.py`.

Old style: arguments split at blanks, `\\"` for a quotation mark; `A=1;B=2`. New style: all of it in double quotes,
where `""` is one double quote, single quotes group, and `''` inside a group is one single quote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pool.base.argv import BLANKS, BadQuoting, join_new, split_new, split_old
from pool.base.words import SPACE

# The value of an entry that is nothing but a `$$(...)` to be filled in at the machine.
NO_VALUE = "\x01no value\x01"


# What may stand at the beginning of an old-style environment to separate its variables.
_SEPARATORS = "!#$%&*+,-/:;<>?@^`|~\x1f"


def is_new_style(text: str) -> bool:
    """Whether the text is in double quotes as a whole."""
    return text.lstrip(SPACE).startswith('"')


def unquote_new_style(text: str) -> str:
    """The raw text inside the double quotes, each doubled one made single."""
    text = text.strip(SPACE)
    assert text.startswith('"')
    out: list[str] = []
    at = 1
    while at < len(text):
        if text[at] != '"':
            out.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == '"':
            out.append('"')
            at += 2
        else:
            rest = text[at + 1 :].strip(SPACE)
            if rest:
                raise BadQuoting(
                    "Unexpected characters following double-quote.  "
                    "Did you forget to escape the double-quote by repeating it?  "
                    f"Here is the quote and trailing characters: {text[at:]}"
                )
            return "".join(out)
    raise BadQuoting("Unterminated double-quote.")


def arguments_old_style(text: str) -> str:
    """The text that Args holds: `\\"` made `"`, single blanks between arguments; a bare double quote is an error."""
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] == '"':
            out.append('"')
            at += 2
        elif text[at] == '"':
            raise BadQuoting(f"Found illegal unescaped double-quote: {text[at:]}")
        else:
            out.append(text[at])
            at += 1
    return " ".join(split_old("".join(out)))


def parse_environment(text: str) -> dict[str, str]:
    """An environment in either style."""
    if is_new_style(text):
        return _assignments(split_new(unquote_new_style(text)))
    return parse_environment_old_style(text)


def parse_environment_old_style(text: str, delimiter: str = ";") -> dict[str, str]:
    """`A=1;B=two words`, as Env holds it. A text that begins with another separator, `|A=1|B=2`, uses that one."""
    if text[:1] and text[0] in _SEPARATORS:
        delimiter, text = text[0], text[1:]
    items = (item.lstrip(BLANKS) for item in text.replace("\n", delimiter).split(delimiter))
    return _assignments([item for item in items if item])


def _assignments(items: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            if "$$" not in item:
                raise BadQuoting(f"ERROR: Missing '=' after environment variable '{item}'.")
            found[item] = NO_VALUE
        elif not name:
            raise BadQuoting(f"ERROR: missing variable in '{item}'.")
        else:
            found[name] = value
    return found


def join_environment(variables: Mapping[str, str]) -> str:
    """The raw new-style text that Environment holds, in order of names."""
    return join_new(name if variables[name] is NO_VALUE else f"{name}={variables[name]}" for name in sorted(variables))


def join_environment_old_style(variables: Mapping[str, str], delimiter: str = ";") -> str:
    """The text that Env holds; BadQuoting when a value cannot be written that way."""
    words = []
    for name in sorted(variables):
        value = variables[name]
        if any(bad in name + value for bad in (delimiter, "\n")):
            raise BadQuoting(f"Environment entry is not compatible with V1 syntax: {name}={value}")
        words.append(name if value is NO_VALUE else f"{name}={value}")
    return delimiter.join(words)


class EnvironmentFilter:
    """What `getenv = A, B*, !C` lets through: listed names, with `*`; names after `!` never."""

    def __init__(self, patterns: str = "") -> None:
        self._wanted: list[re.Pattern[str]] = []
        self._unwanted: list[re.Pattern[str]] = []
        for item in re.split(r"[,;\s]+", patterns.strip(SPACE)):
            if item:
                unwanted = item.startswith("!")
                pattern = re.compile(re.escape(item.lstrip("!")).replace(r"\*", ".*") + r"\Z", re.IGNORECASE)
                (self._unwanted if unwanted else self._wanted).append(pattern)

    def passes(self, name: str, value: str) -> bool:
        """Whether the variable goes along. Functions that a shell exported never do."""
        # A function that bash exported is code, and would run in whatever shell the job starts.
        if "(" in name or value.startswith("() {") or "\n" in value:
            return False
        if any(pattern.match(name) for pattern in self._unwanted):
            return False
        return not self._wanted or any(pattern.match(name) for pattern in self._wanted)
