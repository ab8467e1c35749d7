"""The files of a graph, as the tools that look at graphs find and read them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Final

END_BYTES: Final = 1 << 20


def text_of(file: str) -> str:
    """What the file says. Names in it may be bytes that are no text; they come through as they are."""
    with open(file, encoding="utf-8", errors="surrogateescape") as text:
        return text.read()


def end_of(file: str) -> str:
    """The last megabyte of a log; nothing where there is none."""
    try:
        with open(file, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - END_BYTES))
            return log.read().decode(errors="surrogateescape")
    except OSError:
        return ""


def newest_rescue(files: Sequence[str]) -> str:
    """The rescue file of the highest number, or nothing; those of several DAG files are named _multi."""
    # condor_dagman names them so, by the first file.
    base = files[0] + ("_multi" if len(files) > 1 else "")
    return max(glob.glob(glob.escape(base) + ".rescue[0-9][0-9][0-9]"), default="")
