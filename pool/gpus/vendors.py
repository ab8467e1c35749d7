"""Whether this machine seems to have the HIP or the OpenCL library, found out without loading either.

They are large and the vendors' own; a daemon has no such code in its process, and starts another one for it only where
there is something to be asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from pool.gpus.hip import LIBRARIES
from pool.gpus.opencl import LIBRARY

NAMES: Final = (*(name for name, _ in LIBRARIES), LIBRARY)
_CACHE: Final = "/etc/ld.so.cache"
_CACHE_BYTES_MAX: Final = 64 << 20


def may_be_there(environ: Mapping[str, str] = os.environ, cache: str = _CACHE) -> bool:
    """Whether the loader may find one of them: on its path, or by its list of what is installed."""
    places = [place for place in environ.get("LD_LIBRARY_PATH", "").split(":") if place]
    if any(os.path.exists(os.path.join(place, name)) for place in places for name in NAMES):
        return True
    try:
        with open(cache, "rb") as file:
            # Names in the cache end in a null character (ld.so(8)); its tables need not be understood for that.
            listed = file.read(_CACHE_BYTES_MAX)
    except OSError:
        return True  # a system without such a list: only loading them tells
    return any(name.encode() + b"\0" in listed for name in NAMES)
