"""`$$(Attr)`, `$$(Attr:default)` and `$$([expression])` in a job ad, expanded against the ad of the slot it runs on.

What was expanded is kept in the job as MATCH_EXP_<attribute>, so that the same execution can be described again when
the slot's ad is gone.
"""

from __future__ import annotations

import re
from typing import Final

from pool.ads.limits import JOB_BYTES_MAX
from pool.base.errors import ClassAdError, UserError
from pool.classad import UNDEFINED, ClassAd, Error, expr
from pool.classad.eval.budget import Overruns, TooDear

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
EXPANSIONS_MAX: Final = 1000
"""Macros of one attribute that are expanded."""
CHARS_MAX: Final = JOB_BYTES_MAX
"""What all attributes of a job may come to."""
DEAR_MOST: Final = 4
"""Expressions of a job that may take long; one that ends for its cost counts twice."""

SCRATCH_MARK: Final = "#CoNdOrScRaTcHdIr#"
"""What `$$(CondorScratchDir)` becomes at the access point; the starter puts the sandbox in its place."""


class CannotExpand(UserError):
    """A macro names what the slot's ad does not have; the job is put on hold."""


def has_macros(ad: ClassAd) -> bool:
    """Whether any attribute has a macro to expand."""
    return any(_may_have(ad, name) for name in ad)


def expand(job: ClassAd, slot: ClassAd) -> dict[str, object]:
    """The attributes of `job` that differ once expanded, with their MATCH_EXP_ twins; empty when there are none."""
    changed: dict[str, object] = {}
    costs = Overruns(DEAR_MOST)
    room = CHARS_MAX
    for name in job:
        if not _may_have(job, name):
            continue
        text = job.text(name)
        try:
            with costs:
                expanded = _expand_text(text, job, slot, room)
        except TooDear as error:
            raise CannotExpand(f"Cannot expand $$ expression ({name}): {error.message}") from None
        room -= len(expanded)
        if expanded != text:
            try:
                value = expr(expanded, old=True)
            except ClassAdError as error:
                raise CannotExpand(f"Cannot expand $$ expression ({name}): {error.message}") from None
            changed[name] = value
            changed[f"MATCH_EXP_{name}"] = value
    return changed


def _may_have(ad: ClassAd, name: str) -> bool:
    if name[:6].upper() == "MATCH_":
        return False
    value = ad[name]
    if isinstance(value, str):
        return "$$(" in value
    return not isinstance(value, bool | int | float) and "$$(" in ad.text(name)


def _expand_text(text: str, job: ClassAd, slot: ClassAd, room: int) -> str:
    """Expand an attribute in its unparsed form, where a string's quotes and backslashes are escaped."""
    parts: list[str] = []
    at, left = 0, room - len(text)
    for _ in range(EXPANSIONS_MAX):
        start = text.find("$$(", at)
        end = None if start < 0 else _closing(text, start + 3)
        if end is None:
            break
        value = _replacement(text[start + 3 : end], job, slot)
        left -= len(value)
        if left < 0:
            raise CannotExpand(f"Cannot expand $$ expressions: they come to more than {CHARS_MAX} characters.")
        parts += (text[at:start], value)
        at = end + 1
    return "".join([*parts, text[at:]])


def _closing(text: str, start: int) -> int | None:
    """Where the parenthesis that was opened before `start` closes; brackets may hold parentheses of their own."""
    if text[start : start + 1] == "[":
        end = text.find("])", start)
        return None if end < 0 else end + 1
    end = text.find(")", start)
    return None if end < 0 else end


def _replacement(macro: str, job: ClassAd, slot: ClassAd) -> str:
    if macro.startswith("[") and macro.endswith("]"):
        return _evaluated(macro, job, slot)
    name, colon, default = macro.partition(":")
    if name.upper() == "DOLLARDOLLAR":
        return "$$"
    if name.lower() == "condorscratchdir":
        return SCRATCH_MARK
    if not _NAME.match(name):
        raise CannotExpand(f"Cannot expand $$ expression ({macro}).")
    if name in slot:
        value = slot[name]
        if isinstance(value, str):
            return slot.text(name)[1:-1]  # it lands inside a string, escaped as there
        if value is not UNDEFINED:
            return slot.text(name)
    if colon:
        return default
    raise CannotExpand(f"Cannot expand $$ expression ({macro}).")


def _evaluated(macro: str, job: ClassAd, slot: ClassAd) -> str:
    # The macro stands inside a string's text, so its own quotes and backslashes were escaped with that.
    inner = re.sub(r'\\(["\\])', r"\1", macro[1:-1])
    try:
        value = expr(f"string({inner})").eval(job, slot)
    except ClassAdError as error:
        raise CannotExpand(f"Cannot expand $$ expression ({macro}): {error.message}") from None
    if isinstance(value, Error) or not isinstance(value, str):
        raise CannotExpand(f"Cannot expand $$ expression ({macro}).")
    return ClassAd({"x": value}).text("x")[1:-1]
