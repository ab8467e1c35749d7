"""A job that asked for too little gets more and runs again, where it said how (retry_request_memory and its kin).

The submit commands became transforms, TransformBody_<tag>, with requirements about why the job left its slot. The first
that changes a request of the job's cures it: the job waits for a better slot instead of being held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pool.base.errors import PoolError
from pool.base.words import split_list
from pool.classad import ClassAd
from pool.classad.eval.ad import same
from pool.transforms.transform import read_transform

_LINES: Final = "\x1e"
"""What stands between the lines of a transform in an attribute."""


def cure(job: ClassAd, left: Mapping[str, object], fixed: frozenset[str] = frozenset()) -> dict[str, object]:
    """The attributes with which the job may run again; none when nothing cures it. `left`: why it left its slot.

    `fixed`: attributes (lower case) that users do not change in their jobs, by transforms neither.
    """
    for tag in split_list(job.eval_str("TransformOnEvict")):
        body = job.eval_str(f"TransformBody_{tag}")
        if not body:
            continue
        before = job.copy()
        before.update(left)
        after = before.copy()
        try:
            transform = read_transform(tag, body.replace(_LINES, "\n"))
            touched = transform.apply(after) if transform.matches(before) else set()
        except PoolError:
            continue
        changed = {name for name in touched - fixed if name in after and not same(before.get(name), after[name])}
        if any(name.startswith("request") for name in changed):
            return {after.attrs.name_any(name): after[name] for name in sorted(changed)}
    return {}
