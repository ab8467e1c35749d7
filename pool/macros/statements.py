"""One line of either language taken apart: an assignment, `use`, `include`, `error`, `warning`, or something else."""

from __future__ import annotations

from pool.base.words import SPACE

_PLUS_SEPARATORS = ",;|&*"
_KEYWORDS = frozenset(("include", "use", "error", "warning"))


class Statement:
    """`kind` is assign, append, here, use, include, error, warning, or other (for the submit language to judge)."""

    __slots__ = ("at", "kind", "name", "operator", "separator", "stray", "value")

    def __init__(
        self,
        kind: str,
        name: str,
        value: str,
        *,
        operator: str = "=",
        separator: str = "",
        stray: str = "",
        at: int = 0,
    ) -> None:
        self.kind = kind
        self.name = name
        self.value = value
        self.at = at  # where the value begins in the line
        self.operator = operator
        self.separator = separator
        self.stray = stray  # words between the name and the operator, which mean nothing in an assignment


class NotAStatement(Exception):
    """The line has no operator where one is needed."""


def statement(line: str, *, submit: bool) -> Statement:
    """Take `line` apart. For submit, a line that is no assignment has the kind `other` and its text as the value."""
    end = _name_end(line)
    if end == len(line):
        if submit:
            return Statement("other", "", line)
        if line.startswith("["):
            return Statement("other", "", "")
        raise NotAStatement
    name = line[:end]
    at = end
    while at < len(line) and line[at] in SPACE:
        at += 1
    words_at = at
    # Words between name and operator are kept: `include ifexist :` needs them, and others get a warning.
    if line[at] not in "=:":
        while at < len(line) and line[at] not in "=:@+":
            at += 1
    between = line[words_at:at].strip(SPACE)
    return _after_name(line, name, between, at, submit)


def _name_end(line: str) -> int:
    for index, char in enumerate(line):
        if char in "=:" or char in SPACE:
            return index
    return len(line)


def _after_name(line: str, name: str, between: str, at: int, submit: bool) -> Statement:
    operator, separator, value_at = _operator(line, at)
    keyword = name.removeprefix("@").lower()
    value = line[value_at:].strip(SPACE)
    value_at = len(line) - len(line[value_at:].lstrip(SPACE))
    if operator == ":" and keyword in _KEYWORDS:
        return Statement(keyword, between, value, at=value_at)
    if submit:
        if between or operator not in ("=", "@", "+") or keyword == "queue":
            return Statement("other", "", line)
    elif not operator:
        raise NotAStatement
    kind = {"@": "here", "+": "append"}.get(operator, "assign")
    return Statement(kind, name, value, operator=operator, separator=separator, stray=between, at=value_at)


def _operator(line: str, at: int) -> tuple[str, str, int]:
    """The operator at `at` as `(one of = : @ + or nothing, the separator of +=, where the value begins)`."""
    if at >= len(line):
        return "", "", at
    char = line[at]
    at += 1
    # `@=` opens a value of several lines; an `@` alone is no operator.
    if char == "@":
        return ("@", "", at + 1) if line[at : at + 1] == "=" else ("", "", at)
    if char == "+":
        separator = ""
        if line[at : at + 1] and line[at] in _PLUS_SEPARATORS:
            separator = line[at]
            at += 1
            if line[at : at + 1] == separator:
                # `+=&&` joins conditions: a single `&` would be the operator for bits.
                separator = f" {separator}{separator} "
                at += 1
        return ("+", separator or " ", at + 1) if line[at : at + 1] == "=" else ("", "", at)
    return char, "", at


class IncludeOptions:
    """What stands between `include` and the colon."""

    __slots__ = ("command", "if_exists", "into")

    def __init__(self, text: str) -> None:
        words = text.split()
        self.if_exists = bool(words) and words[0].lower() in ("ifexist", "ifexists")
        if self.if_exists:
            words = words[1:]
        self.command = bool(words) and words[0].lower() in ("output", "command")
        self.into = ""
        if self.command:
            words = words[1:]
            if words and words[0].lower() == "into":
                if len(words) < 2:
                    raise ValueError("expected filename after keyword 'into'")
                self.into, words = words[1], words[2:]
        if words:
            raise ValueError(f"unexpected keyword(s) '{' '.join(words)}' after include")
