"""The words and variables of a job ad, in HTCondor's old (`Args`, `Env`) and new (`Arguments`, `Environment`) form.

In the new form blanks separate; single quotes keep blanks, and a doubled single quote inside quotes is one quote. In
the old form blanks (arguments) or a delimiter (environment, `;`) separate, and nothing is quoted. When an ad has both,
the new form counts.
"""

from __future__ import annotations

from pool.classad import ClassAd
from pool.errors import UserError


def split_new(text: str) -> list[str]:
    """The words of a text in the new form; UserError when a quote is not closed."""
    words: list[str] = []
    word: list[str] | None = None
    at, end = 0, len(text)
    while at < end:
        c = text[at]
        if c == "'":
            word, at = _quoted(text, at, word or [])
            continue
        if c.isspace():
            if word is not None:
                words.append("".join(word))
            word = None
        else:
            word = word or []
            word.append(c)
        at += 1
    if word is not None:
        words.append("".join(word))
    return words


def _quoted(text: str, start: int, word: list[str]) -> tuple[list[str], int]:
    """The word after the quoted part that begins at `start`, and where to go on."""
    at = start + 1
    while at < len(text):
        if text[at] != "'":
            word.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "'":
            word.append("'")
            at += 2
        else:
            return word, at + 1
    raise UserError(f"unbalanced single quote at character {start + 1} of {text!r}")


def join_new(words: list[str]) -> str:
    """The words as one text in the new form."""
    return " ".join("'" + w.replace("'", "''") + "'" if not w or any(c in " \t\n'" for c in w) else w for w in words)


def arguments_of(ad: ClassAd) -> list[str]:
    """The program's arguments, without its name."""
    new = ad.eval_str("Arguments")
    if new is not None:
        return split_new(new)
    return (ad.eval_str("Args") or "").split()


def environment_of(ad: ClassAd) -> dict[str, str]:
    """The variables that the job asked for."""
    new = ad.eval_str("Environment")
    if new is not None:
        return dict(_variable(word) for word in split_new(new))
    old = ad.eval_str("Env") or ""
    delimiter = ad.eval_str("EnvDelim") or ";"
    return dict(_variable(part) for part in old.split(delimiter) if part.strip())


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"{text!r} is not an environment assignment", expected="NAME=value")
    return name.strip(), value
