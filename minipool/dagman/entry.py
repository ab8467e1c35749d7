"""The program condor_dagman."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn


def program() -> NoReturn:
    """The entry of condor_dagman."""
    # A large graph is many objects that stay, and a search among them for garbage, again and again, a tenth of the run.
    # So are the modules, whose import is most of a small graph's run.
    gc.set_threshold(200_000, 10, 10)
    from minipool.dagman.main import main

    sys.exit(main(sys.argv[1:]))
