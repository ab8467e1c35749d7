"""The words and variables of a job ad: Arguments and Environment, or Args and Env in the old syntax.

When an ad has both, the new form counts. In the old syntax a delimiter (`;`) separates variables. Words are those of
`pool/base/argv.py`.
"""

from __future__ import annotations

from pool.base.argv import BLANKS, split_new, split_old
from pool.base.errors import UserError
from pool.classad import ClassAd


def arguments_of(ad: ClassAd) -> list[str]:
    """The program's arguments, without its name."""
    new = ad.eval_str("Arguments")
    if new is not None:
        return split_new(new)
    return split_old(ad.eval_str("Args") or "")


def environment_of(ad: ClassAd) -> dict[str, str]:
    """The variables that the job asked for."""
    new = ad.eval_str("Environment")
    if new is not None:
        return dict(_variable(word) for word in split_new(new))
    old = ad.eval_str("Env") or ""
    delimiter = ad.eval_str("EnvDelim") or ";"
    return dict(_variable(part) for part in old.split(delimiter) if part.strip(BLANKS))


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip(BLANKS):
        raise UserError(f"{text!r} is not an environment assignment", expected="NAME=value")
    return name.strip(BLANKS), value
