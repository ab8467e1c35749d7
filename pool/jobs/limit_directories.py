"""LIMIT_DIRECTORY_ACCESS: the directories of the access point that a job's files may be in.

The site's list counts; where the site has none, the job's own (LimitDirectoryAccess) does. The job's spool directory is
always one of them. No list at all means no limit. A `*` in an entry stands for any characters, `/` included.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from pool.base.words import split_list
from pool.classad import ClassAd

ATTRIBUTE: Final = "LimitDirectoryAccess"
EVERYWHERE: Final = ("/dev/null",)


def directories_of(site: Iterable[str], job: ClassAd, spool: str) -> list[str]:
    """Where this job's files may be; empty when they may be anywhere."""
    listed = list(site) or split_list(job.eval_str(ATTRIBUTE))
    return [*listed, spool] if listed else []


def is_within(path: str, directories: Sequence[str]) -> bool:
    """Whether a path, absolute and without links, is in one of these directories, which have no links either."""
    return path in EVERYWHERE or any(_pattern(one).match(posixpath.join(path, "")) for one in directories)


@lru_cache(maxsize=1024)
def _pattern(directory: str) -> re.Pattern[str]:
    # With a slash at the end of both, /home/ann does not let in /home/anna.
    whole = directory if directory.endswith("*") else posixpath.join(directory, "")
    return re.compile(".*".join(map(re.escape, whole.split("*"))), re.DOTALL)
